//! What polls the futures of a library.

use std::future::Future;

use clap::ValueEnum;

use super::{Outcome, own_loop};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Runtime {
    /// tokio's current-thread runtime
    Tokio,
    /// A minimal loop on this thread
    Loop,
    /// No futures: the library blocks
    None,
    /// No futures: io_uring
    Uring,
}

impl Runtime {
    /// Runs a future, whose only socket is `socket`, to its end.
    pub(super) fn block_on<T>(self, socket: i32, future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        match self {
            Self::Tokio => tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future),
            Self::Loop | Self::None | Self::Uring => own_loop::block_on(socket, future),
        }
    }
}

/// Adds futures to a runtime.
#[derive(Clone, Copy)]
pub(super) struct Spawn(pub(super) Runtime);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, future: F) {
        match self.0 {
            Runtime::Tokio => drop(tokio::spawn(future)),
            Runtime::Loop | Runtime::None | Runtime::Uring => own_loop::spawn(async { drop(future.await) }),
        }
    }
}
