//! Errors in the text of a profile.

use std::ops::Range;

use hairpin_model::Hint;

/// An error in a profile and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link profile at `{}`: {problem}{}", .text.get(.range.clone()).unwrap_or_default(), Hint(.hint))]
pub struct ProfileError {
    pub text: String,
    /// The byte range of the error in the line. Both ends are at character boundaries.
    pub range: Range<usize>,
    pub problem: String,
    pub hint: String,
}

impl ProfileError {
    /// Returns two lines: the profile's line, and marks under the position of the error. Ends without a newline.
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
