//! Exit codes, and what makes a command stop.

use std::fmt;
use std::process::ExitCode;

use hairpin_hosts::dial::NotKnown;
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
        Self::from(exit.code())
    }
}

impl Exit {
    /// Its number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::CheckFailed => 1,
            Self::Usage => 2,
            Self::RoundsFailed => 3,
            Self::Interrupted => crate::interrupt::EXIT_CODE,
            Self::Of(code) => code,
        }
    }
}

/// Why a command stopped before it had an answer.
#[derive(Debug)]
pub struct Stopped {
    /// The exit code.
    pub exit: Exit,
    message: String,
    /// What `--json` tells of it.
    pub told: Option<NotKnown>,
}

impl Stopped {
    /// Bad usage or input.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::with(Exit::Usage, error.to_string())
    }

    /// With that exit code.
    pub fn with(exit: Exit, message: String) -> Self {
        Self { exit, message, told: None }
    }

    /// Something outside this program failed before anything was measured.
    pub fn failed(failure: &Failure) -> Self {
        Self::not_known(failure.clone().into())
    }

    /// The server of another host does not know this client.
    pub fn not_known(why: NotKnown) -> Self {
        let message = match &why {
            NotKnown::Refused(refused) => refused.to_string(),
            NotKnown::Failed(failure) => failure.to_string(),
        };
        Self { exit: Exit::RoundsFailed, message, told: Some(why) }
    }

    /// The same, of what stands there.
    pub fn of(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// The link failed.
    pub fn link(failure: &Failure) -> Self {
        Self::with(Exit::Of(LINK_FAILED), failure.to_string())
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
