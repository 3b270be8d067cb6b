//! Exit codes, and what makes a command stop.

use std::fmt;
use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Fine,
    /// A budget or a check failed.
    CheckFailed,
    /// Bad usage or bad input.
    Usage,
    /// Some rounds failed; the rest was reported.
    RoundsFailed,
    /// The user ended it; what there was has been reported.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::CheckFailed => 1,
            Exit::Usage => 2,
            Exit::RoundsFailed => 3,
            Exit::Interrupted => crate::interrupt::EXIT_CODE,
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
}

impl fmt::Display for Stopped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
