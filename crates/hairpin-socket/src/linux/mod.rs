//! Sets and reads the settings on Linux.

mod socket;
mod system;
mod thread;

pub(crate) use socket::apply_to_socket;
pub(crate) use thread::apply_to_thread;

/// On Linux, what lends its file descriptor: sockets of `std`, `socket2`, `tokio` and others.
pub trait Socket: std::os::fd::AsFd {}

impl<T: std::os::fd::AsFd + ?Sized> Socket for T {}
