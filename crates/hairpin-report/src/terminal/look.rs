//! How text for a terminal should look.

/// How the text should look: the binary decides from the terminal and from `NO_COLOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Columns; from 40 on.
    pub width: usize,
    /// Whether ANSI styles are used.
    pub colour: bool,
}

impl Default for Look {
    /// 100 columns without colour.
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}
