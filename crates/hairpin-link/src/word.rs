//! A word of the profile language.

use crate::quantity::BadValue;

/// A word that a profile may hold, `NAME=VALUE`, and how it is read into and shown of a stage's figures `F`.
#[derive(Debug)]
pub struct Word<F> {
    /// Its name.
    pub name: &'static str,
    /// An example with its value.
    pub example: &'static str,
    /// What it says, in one line, with units.
    pub says: &'static str,
    /// Reads a value into the figures.
    pub read: fn(&mut F, &str) -> Result<(), BadValue>,
    /// The value as a profile shows it; null where the figures are as if the word were not there.
    pub shown: fn(&F) -> Option<String>,
    /// What the word speaks about, where it says nothing by itself.
    pub about: Option<About<F>>,
}

/// A word that needs another one, as a queue needs a rate.
#[derive(Debug)]
pub struct About<F> {
    /// What is needed, for the hint: `a rate`.
    pub needs: &'static str,
    /// An example of it.
    pub example: &'static str,
    /// Whether it is there.
    pub there: fn(&F) -> bool,
    /// Makes the figures as if the word were not there.
    pub clear: fn(&mut F),
}
