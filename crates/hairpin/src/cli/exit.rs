//! Exit codes, and errors that stop a command.

use std::fmt;
use std::process::ExitCode;

use hairpin_hosts::dial::NotKnown;
use hairpin_model::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Fine,
    CheckFailed,
    Usage,
    /// Some rounds failed, or some output could not be written; the rest was reported.
    RoundsFailed,
    /// The comparison is undecided: more rounds may decide it.
    Undecided,
    /// No figure of the run can be used, or too many rounds were disturbed.
    Unusable,
    /// The user interrupted the command; the results so far were reported.
    Interrupted,
    /// Exit code of the program that ran over a link, or [`LINK_FAILED`].
    Of(u8),
}

/// Exit code of `hairpin link run` if the link fails; env(1) and timeout(1) use it for their own failures.
pub const LINK_FAILED: u8 = 125;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::CheckFailed => 1,
            Self::Usage => 2,
            Self::RoundsFailed => 3,
            Self::Undecided => 4,
            Self::Unusable => 5,
            Self::Interrupted => crate::interrupt::EXIT_CODE,
            Self::Of(code) => code,
        }
    }
}

#[derive(Debug)]
pub struct Stopped {
    pub exit: Exit,
    message: String,
    /// Why no server was connected, for `--json`.
    pub connection_error: Option<NotKnown>,
}

impl Stopped {
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::with(Exit::Usage, error.to_string())
    }

    pub fn with(exit: Exit, message: String) -> Self {
        Self { exit, message, connection_error: None }
    }

    /// A failure outside this program, before anything was measured.
    pub fn failed(failure: &Failure) -> Self {
        Self::not_known(failure.clone().into())
    }

    /// No authenticated connection to the server on another host.
    pub fn not_known(why: NotKnown) -> Self {
        let message = match &why {
            NotKnown::Refused(refused) => refused.to_string(),
            NotKnown::Failed(failure) => failure.to_string(),
        };
        Self { exit: Exit::RoundsFailed, message, connection_error: Some(why) }
    }

    /// Prefixes the message with `place`.
    pub fn of(self, place: &str) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    pub fn link(failure: &Failure) -> Self {
        Self::with(Exit::Of(LINK_FAILED), failure.to_string())
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}
