//! What is wrong with a line of text that should be a profile.

use std::ops::Range;

use hairpin_model::hint::Hint;

/// A fault in a profile, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link profile at `{}`: {problem}{}", .text.get(.range.clone()).unwrap_or_default(), Hint(.hint))]
pub struct ProfileError {
    /// The whole line.
    pub text: String,
    /// The bytes of the line that are at fault. They begin and end between characters.
    pub range: Range<usize>,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub hint: String,
}

impl ProfileError {
    /// The line with the place underlined: two lines, without a line end after the second.
    ///
    /// Control characters are shown as spaces. A character counts as one column.
    #[must_use]
    pub fn pointed(&self) -> String {
        let plain = |text: &str| -> String { text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() };
        let columns = |range: Range<usize>| self.text.get(range).unwrap_or_default().chars().count();
        let before = " ".repeat(columns(0..self.range.start));
        let marks = "^".repeat(columns(self.range.clone()).max(1));
        format!("{}\n{before}{marks}", plain(&self.text))
    }
}
