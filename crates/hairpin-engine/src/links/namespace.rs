//! Network namespaces: who may make them, and how a thread enters one and comes back.

use std::path::Path;

use hairpin_model::card::WhyNot;
use hairpin_model::round::Failure;

/// Makes this process able to make and enter network namespaces. As root it already is. Else it moves into a user
/// namespace of its own, once and for good, in which it acts as root over what it makes there; it must have one thread.
///
/// # Errors
/// Neither is allowed here, with the sysctl or permission that would help.
pub fn prepare() -> Result<(), WhyNot> {
    Err(WhyNot { reason: "emulated links are not in this build".to_owned(), hint: String::new() })
}

/// Whether [`prepare`] would succeed, tried in a process of its own.
///
/// # Errors
/// As [`prepare`].
pub fn may_prepare() -> Result<(), WhyNot> {
    prepare()
}

/// Moves the calling thread into the network namespace of that file (setns(2)).
///
/// # Errors
/// The file is gone, or the kernel refuses.
pub fn enter(namespace: &Path) -> Result<(), Failure> {
    Err(Failure {
        cause: format!("cannot enter the network namespace {}: not built", namespace.display()),
        hint: String::new(),
    })
}
