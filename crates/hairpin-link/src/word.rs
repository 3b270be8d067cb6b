//! A word of the profile language.

use crate::figures::PathProfile;
use hairpin_model::refused::Refused;

/// A word that a profile may hold, `NAME=VALUE`, and how it is read into and shown of a direction's figures.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// Its name.
    pub name: &'static str,
    /// An example with its value.
    pub example: &'static str,
    /// What it says, in one line, with units.
    pub says: &'static str,
    /// Reads a value into the figures.
    pub read: fn(&mut PathProfile, &str) -> Result<(), Refused>,
    /// The value as a profile shows it; null where the figures are as if the word were not there.
    pub shown: fn(&PathProfile) -> Option<String>,
    /// What the word speaks about, where it says nothing by itself.
    pub about: Option<About>,
}

/// A word that needs another one, as a queue needs a rate.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// What is needed, for the hint: `a rate`.
    pub needs: &'static str,
    /// An example of it.
    pub example: &'static str,
    /// Whether it is there.
    pub there: fn(&PathProfile) -> bool,
    /// Makes the figures as if the word were not there.
    pub clear: fn(&mut PathProfile),
}
