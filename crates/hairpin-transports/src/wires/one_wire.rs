//! A connection that carries one wire.

use crate::wire::{Connection, TransportError, Unsupported, Wire};

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
        let what = Unsupported::SecondWire;
        self.wire.take().ok_or(TransportError::Unsupported { transport: self.transport, what })
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.open()
    }
}
