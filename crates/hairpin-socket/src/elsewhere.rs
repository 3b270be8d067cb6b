//! Systems other than Linux: no setting is available.

use crate::profile::Profile;
use crate::report::{Outcome, Status, Undo, because};

/// On Linux, what lends its file descriptor: sockets of `std`, `socket2`, `tokio` and others.
pub trait Socket {}

impl<T: ?Sized> Socket for T {}

pub(crate) fn apply_to_socket(profile: &Profile, _: &(impl Socket + ?Sized)) -> Vec<Outcome> {
    outcomes(profile, false)
}

pub(crate) fn apply_to_thread(profile: &Profile) -> (Vec<Outcome>, Vec<Undo>) {
    (outcomes(profile, true), Vec::new())
}

fn outcomes(profile: &Profile, of_thread: bool) -> Vec<Outcome> {
    let ended = || (Status::NotRequested, because("not available here (hint: only Linux has it)"));
    profile.requests(of_thread).map(|(setting, value)| Outcome::new(setting, value, None, ended())).collect()
}
