//! Every format that a saved run can be shown in: the one list that the command line offers.

use hairpin_model::run::Run;

use crate::terminal::{self, Look};
use crate::{csv_table, html, json};

/// A format.
pub struct Format {
    /// The word for it on the command line.
    pub name: &'static str,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// The file name that suits it, or null where it belongs on the terminal.
    pub file_name: Option<&'static str>,
    /// The run in this format. Only the terminal heeds the look.
    pub render: fn(&Run, &Look) -> String,
}

/// All formats.
pub const ALL: &[Format] = &[
    Format {
        name: "terminal",
        summary: "text for a terminal: the answer, the tables, the findings",
        file_name: None,
        render: terminal::render,
    },
    Format {
        name: "html",
        summary: "one self-contained page with charts",
        file_name: Some("report.html"),
        render: |run, _| html::render(run),
    },
    Format {
        name: "json",
        summary: "one JSON object, for scripts",
        file_name: Some("run.json"),
        render: |run, _| json::render(run),
    },
    Format {
        name: "csv",
        summary: "the summaries as a flat table, one row per case",
        file_name: Some("summary.csv"),
        render: |run, _| csv_table::summary(run),
    },
];

/// The format of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Format> {
    ALL.iter().find(|format| format.name == name)
}
