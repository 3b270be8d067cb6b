//! Describes the words of the profile language.

use crate::figures::PathProfile;
use hairpin_model::Refused;

/// A word of a profile, `NAME=VALUE`: how to read it into the figures of a direction, and how to display them.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    pub name: &'static str,
    pub example: &'static str,
    /// The meaning of the word in one line, with units.
    pub says: &'static str,
    /// Parses a value into the figures.
    pub read: fn(&mut PathProfile, &str) -> Result<(), Refused>,
    /// The value as a profile shows it; `None` if the figures are the same as without the word.
    pub shown: fn(&PathProfile) -> Option<String>,
    /// What the word needs to have an effect, if anything.
    pub about: Option<Requirement>,
}

/// What a word needs to have an effect; a queue, for instance, needs a rate.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// What is needed, for the hint: `a rate`.
    pub needs: &'static str,
    /// Example of a word that provides what is needed.
    pub example: &'static str,
    pub there: fn(&PathProfile) -> bool,
    /// Resets the figures to their values without the word.
    pub clear: fn(&mut PathProfile),
}
