//! Helpers for tests of texts and pages.

use hairpin_model::Run;
use hairpin_report::csv_table;
use hairpin_report::terminal::{Look, render, render_brief, render_more};

pub(crate) fn plain(width: usize) -> Look {
    Look { width, colour: false }
}

/// Replaces all white space, including line breaks, by single spaces.
pub(crate) fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn count(page: &str, text: &str) -> usize {
    page.matches(text).count()
}

pub(crate) fn assert_says(text: &str, all: &[&str]) {
    all.iter().for_each(|said| assert!(text.contains(said), "{said}"));
}

/// Asserts that no line exceeds the width or ends in a space, and that the first screen has at most 45 lines.
pub(crate) fn assert_fits(run: &Run) {
    for width in [60, 72, 80, 90, 100, 120, 140, 200] {
        let texts = [render_brief, render_more, render].map(|render| render(run, &plain(width)));
        for text in &texts {
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
            assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
            assert!(
                text.lines().all(|line| line == line.trim_end()),
                "spaces at the end of a line at {width}: {text}"
            );
        }
        assert!(width < 80 || texts[0].lines().count() <= 45, "at {width} columns: {}", texts[0]);
    }
}

/// The CSV table of a run.
pub(crate) struct Table {
    pub(crate) header: csv::StringRecord,
    pub(crate) rows: Vec<csv::StringRecord>,
}

impl Table {
    pub(crate) fn of(run: &Run) -> Self {
        let text = csv_table::summary(run);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().expect("a header row").clone();
        Self { header, rows: reader.records().map(|row| row.expect("rows of one length")).collect() }
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.header.iter().any(|known| known == column)
    }

    pub(crate) fn column(&self, name: &str) -> usize {
        self.header.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The cells of a row in these columns.
    pub(crate) fn cells<const N: usize>(&self, row: usize, names: [&str; N]) -> [&str; N] {
        names.map(|name| &self.rows[row][self.column(name)])
    }

    /// The index of the first row that has this cell in the column.
    pub(crate) fn row(&self, column: &str, cell: &str) -> usize {
        let column = self.column(column);
        self.rows.iter().position(|row| &row[column] == cell).unwrap_or_else(|| panic!("no {cell}"))
    }
}
