//! A connection that carries one wire.

use crate::wire::{Connection, TransportError, Wire};
use crate::wires::second_wire;

/// A connection whose only wire is the connection itself.
pub(crate) struct OneWire {
    transport: &'static str,
    wire: Option<Box<dyn Wire>>,
}

impl OneWire {
    pub(crate) fn connection(transport: &'static str, wire: impl Wire + 'static) -> Box<dyn Connection> {
        Self::boxed(transport, Box::new(wire))
    }

    /// Like [`Self::connection`].
    pub(crate) fn boxed(transport: &'static str, wire: Box<dyn Wire>) -> Box<dyn Connection> {
        Box::new(Self { transport, wire: Some(wire) })
    }
}

impl Connection for OneWire {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.wire.take().ok_or_else(|| second_wire(self.transport))
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.open()
    }
}
