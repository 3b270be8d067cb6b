//! The appearance of terminal text.

/// Settings that the binary derives from the terminal and from `NO_COLOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Width in columns, at least 40.
    pub width: usize,
    /// Use ANSI styles.
    pub colour: bool,
}

impl Default for Look {
    /// 100 columns without colour.
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}
