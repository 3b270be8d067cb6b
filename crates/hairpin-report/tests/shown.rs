//! Helpers for tests of texts and pages.

use hairpin_model::Run;
use hairpin_report::terminal::{Look, render, render_brief, render_more};

pub(crate) fn plain(width: usize) -> Look {
    Look { width, colour: false }
}

/// The words of a text, regardless of line breaks.
pub(crate) fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn count(page: &str, text: &str) -> usize {
    page.matches(text).count()
}

/// Asserts that no line exceeds the width and that the first screen has at most 45 lines.
pub(crate) fn assert_fits(run: &Run) {
    for width in [60, 72, 80, 100, 120] {
        let texts = [render_brief, render_more, render].map(|render| render(run, &plain(width)));
        for text in &texts {
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
            assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
        }
        assert!(width < 80 || texts[0].lines().count() <= 45, "at {width} columns: {}", texts[0]);
    }
}
