//! Wires whose loops run in a runtime.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::wire::{AwaitedWire, Method, Sockets};
use crate::wire::{InRuntime, Runtime, Wire, WireError};
use crate::wires::Deadline;

/// Checks of the deadline per time-out: there is no timer for each message.
pub(super) const TICKS_PER_TIMEOUT: u32 = 4;

pub(super) type Received = Result<usize, WireError>;

/// A way to wait whose loops run in a runtime.
pub(super) trait Driven: Method {
    fn runtime(&self) -> Arc<dyn Runtime>;

    fn poll_ready(&mut self, of: &mut Sockets, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Received>;

    /// Whether the task runs to check its deadline. If not, it will be woken for that.
    fn has_ticked(&mut self, context: &mut Context<'_>) -> bool;

    /// Set while the task waits.
    fn deadline(&mut self) -> &mut Option<Deadline>;
}

impl<M: Driven> InRuntime for AwaitedWire<M> {
    fn runtime(&self) -> Arc<dyn Runtime> {
        self.method.runtime()
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        Wire::send(self, message)
    }

    #[inline]
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<Received> {
        let Self { of, method } = self;
        if let Poll::Ready(received) = method.poll_ready(of, context, into) {
            *method.deadline() = None;
            return Poll::Ready(received);
        }
        if method.has_ticked(context)
            && method.deadline().get_or_insert_with(|| Deadline::new(of.timeout)).left().is_none()
        {
            *method.deadline() = None;
            return Poll::Ready(Err(Deadline::timed_out("receive", of.timeout)));
        }
        Poll::Pending
    }

    fn system_calls(&self) -> Option<u64> {
        Wire::system_calls(self)
    }
}
