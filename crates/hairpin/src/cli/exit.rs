//! Exit codes, and what makes a command stop.

use std::fmt;
use std::process::ExitCode;

use hairpin_model::round::Failure;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Fine,
    /// A budget or a check failed.
    CheckFailed,
    /// Bad usage or bad input.
    Usage,
    /// Some rounds failed, or not all of the report could be written; the rest was reported.
    RoundsFailed,
    /// The user ended it; what there was has been reported.
    Interrupted,
    /// What the program that was run across a link ended with, or [`LINK_FAILED`].
    Of(u8),
}

/// The exit code of `hairpin link run` when the link fails, as of env(1) and timeout(1) when they do.
pub const LINK_FAILED: u8 = 125;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::CheckFailed => 1,
            Exit::Usage => 2,
            Exit::RoundsFailed => 3,
            Exit::Interrupted => crate::interrupt::EXIT_CODE,
            Exit::Of(code) => code,
        })
    }
}

/// Why a command stopped before it had an answer.
#[derive(Debug)]
pub struct Stopped {
    /// The exit code.
    pub exit: Exit,
    message: String,
}

impl Stopped {
    /// Bad usage or input.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, message: error.to_string() }
    }

    /// With that exit code.
    pub fn with(exit: Exit, message: String) -> Self {
        Self { exit, message }
    }

    /// Something outside this program failed before anything was measured.
    pub fn failed(failure: &Failure) -> Self {
        Self { exit: Exit::RoundsFailed, message: failure.to_string() }
    }

    /// The link failed.
    pub fn link(failure: &Failure) -> Self {
        Self { exit: Exit::Of(LINK_FAILED), message: failure.to_string() }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
