//! Options of TCP sockets that other programs opened.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_model::Options;
use hairpin_model::options::OptionName;

use super::options;
use crate::options::Family;

/// Sets the options on a socket, in the order of [`OptionName::ALL`].
///
/// # Errors
/// The first option that the kernel refuses.
pub fn set(on: BorrowedFd<'_>, options: &Options) -> io::Result<()> {
    options.iter().try_for_each(|(name, asked)| options::set(on, Family::V4, name, asked))
}

/// The kernel's value, as text for [`Options::parse`].
///
/// # Errors
/// If the socket has no such option.
pub fn get(on: BorrowedFd<'_>, name: OptionName) -> io::Result<String> {
    options::get(on, Family::V4, name)
}

/// Level and number of the option in setsockopt(2).
pub fn number(name: OptionName) -> (i32, i32) {
    options::option_of(Family::V4, name).numbers()
}
