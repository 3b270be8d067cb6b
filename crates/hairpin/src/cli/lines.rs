//! Lists for the terminal: headings, and names with descriptions, wrapped to the terminal's width.

use std::fmt::Write;

use hairpin_report::terminal::{self, Look};

use super::output;

const NAME_COLUMNS: usize = 18;

pub(super) struct Lines {
    pub(super) text: String,
    look: Look,
}

impl Lines {
    pub(super) fn new() -> Self {
        Self { text: String::new(), look: output::look() }
    }

    pub(super) fn heading(&mut self, title: &str) {
        let before = if self.text.is_empty() { "" } else { "\n" };
        writeln!(self.text, "{before}{title}").expect("a String takes any text");
    }

    /// Adds a name and its description; a name wider than its column gets its own line.
    pub(super) fn item(&mut self, name: &str, what: &str) {
        if name.chars().count() > NAME_COLUMNS {
            writeln!(self.text, "  {name}").expect("a String takes any text");
            return self.item("", what);
        }
        self.text.push_str(&terminal::render_item(&format!("  {name:<NAME_COLUMNS$} "), what, &self.look));
    }

    pub(super) fn whole(&mut self, what: &str) {
        self.text.push_str(&terminal::render_item("  ", what, &self.look));
    }
}
