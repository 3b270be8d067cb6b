//! The kernel's time stamps of a wire over descriptors.

use super::super::port::{Port, unsupported};
use super::{DescriptorWire, stamps_error};
use crate::wire::{KernelStamps, RawStamp, Wire, WireError};

impl<P: Port> KernelStamps for DescriptorWire<P> {
    fn begin(&mut self, acknowledged: bool) -> Result<(), WireError> {
        let stamping = self.port.stamping().ok_or_else(unsupported);
        let begun = stamping.and_then(|(stamping, socket)| stamping.begin(socket, acknowledged));
        begun.map_err(|source| WireError::System { operation: "request time stamps", source })
    }

    fn begin_for_messages(&mut self) -> Result<(), WireError> {
        let stamping = self.port.stamping().ok_or_else(unsupported);
        let begun = stamping.and_then(|(stamping, socket)| stamping.begin_for_messages(socket));
        begun.map_err(|source| WireError::System { operation: "request time stamps", source })
    }

    fn send_stamped(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.send_by(message.len(), |port, sent, may_block| port.send_stamped(&message[sent..], may_block))
    }

    fn take(&mut self, into: &mut Vec<RawStamp>) -> Result<(), WireError> {
        let (stamping, socket) = self.port.stamping().ok_or_else(unsupported).map_err(stamps_error)?;
        stamping.take(socket, into).map_err(stamps_error)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<(usize, Option<u64>), WireError> {
        if self.port.stamping().is_none_or(|(stamping, _)| !stamping.is_by_message) {
            self.clear_stamps()?;
        }
        self.read_received(true);
        let received = Wire::receive(self, into);
        let received_ns = self.read_received(false);
        Ok((received?, received_ns))
    }
}

impl<P: Port> DescriptorWire<P> {
    /// Sets whether receive calls read the stamps of received data; without stamps for single messages, all do. Returns
    /// the last stamp.
    fn read_received(&mut self, reads: bool) -> Option<u64> {
        let (stamping, _) = self.port.stamping()?;
        stamping.reads_received = reads || !stamping.is_by_message;
        stamping.received_ns()
    }
}
