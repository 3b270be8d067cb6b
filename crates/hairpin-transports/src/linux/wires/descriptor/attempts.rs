//! Single attempts to receive, for wires that wait in another way.

use std::io;
use std::time::Duration;

use super::DescriptorWire;
use crate::linux::wires::port::{Miss, Port};
use crate::linux::wires::socket_port::SocketPort;
use crate::wire::WireError;

impl<P: Port> DescriptorWire<P> {
    /// Receives available data with one call that does not wait; `None` without a message.
    #[inline(always)]
    pub(crate) fn attempt(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        if let Some(bytes) = self.port.next_stored(into) {
            return Ok(Some(bytes));
        }
        if self.peer_gone {
            return self.drain(into).map(Some);
        }
        let received = self.receive_once(into, false);
        self.taken(received, into)
    }

    /// Whether an attempt returns without waiting for the descriptor.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.peer_gone || self.port.has_stored()
    }

    pub(crate) fn is_peer_gone(&self) -> bool {
        self.peer_gone
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    #[inline(always)]
    fn taken(&mut self, received: Result<usize, Miss>, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        match received {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Miss::Nothing | Miss::Again) => Ok(None),
            Err(miss) => self.on_closed(miss, into).map(Some),
        }
    }
}

impl DescriptorWire<SocketPort> {
    /// Examines what another call has received into `start`, of `received` bytes; `None` if it is no message.
    #[inline(always)]
    pub(crate) fn examined(
        &mut self,
        received: io::Result<usize>,
        start: &mut [u8],
    ) -> Result<Option<usize>, WireError> {
        let received = received.map_err(Miss::from).and_then(|bytes| self.port.examined(start, bytes));
        self.taken(received, start)
    }

    /// Handles the result of a send by another call: the bytes sent, 0 without room.
    pub(crate) fn sent(&mut self, sent: io::Result<usize>) -> Result<usize, WireError> {
        self.send_result(sent.map_err(Miss::from))
    }

    pub(crate) fn is_byte_stream(&self) -> bool {
        self.port.is_stream()
    }
}
