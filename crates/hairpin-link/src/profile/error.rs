//! Errors in the text of a profile.

use std::ops::Range;

use hairpin_model::Hint;

/// An error in a profile, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link profile at `{}`: {problem}{}", .text.get(.range.clone()).unwrap_or_default(), Hint(.hint))]
pub struct ProfileError {
    pub text: String,
    /// Bytes of the line at fault. They begin and end between characters.
    pub range: Range<usize>,
    pub problem: String,
    pub hint: String,
}

impl ProfileError {
    /// The line with the location underlined: two lines, without a line end after the second.
    ///
    /// Control characters are shown as spaces. A character counts as one column.
    pub fn pointed(&self) -> String {
        let plain = |text: &str| -> String { text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
        let columns = |range: Range<usize>| self.text.get(range).unwrap_or_default().chars().count();
        let before = " ".repeat(columns(0..self.range.start));
        let marks = "^".repeat(columns(self.range.clone()).max(1));
        format!("{}\n{before}{marks}", plain(&self.text))
    }
}
