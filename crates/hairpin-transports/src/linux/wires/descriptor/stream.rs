//! Small writes to a byte stream over descriptors.

use std::cell::Cell;
use std::io::IoSlice;

use hairpin_model::options::OptionName;
use hairpin_model::{SenderState, ValueKind};

use super::super::parts::{MAX_PARTS, rest_of};
use super::super::port::{Port, unsupported};
use super::DescriptorWire;
use crate::wire::{Segments, Stream, WireError};

impl<P: Port> Stream for DescriptorWire<P> {
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if !P::IS_SOCKET {
            return Err(WireError::System { operation: "send with MSG_MORE", source: unsupported() });
        }
        self.send_by(bytes.len(), |port, sent, may_block| port.send_more(&bytes[sent..], may_block))
    }

    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        let total = parts.iter().map(|part| part.len()).sum();
        if total == 0 {
            return Ok(());
        }
        // Index of the first part that is not completely sent, and the number of bytes before this part.
        let reached = Cell::new((0, 0));
        self.send_by(total, |port, sent, may_block| {
            let (index, before) = reached.get();
            let (rest, within) = rest_of(&parts[index..], sent - before);
            reached.set((parts.len() - rest.len(), sent - within));
            match within {
                0 => port.send_vectored(&rest[..rest.len().min(MAX_PARTS)], may_block),
                // The kernel accepted only a part's beginning. Sending the rest alone avoids a copy of the list.
                _ => port.send(&rest[0][within..], may_block),
            }
        })
    }

    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError> {
        let operation = match option {
            OptionName::Nodelay => "set nodelay",
            OptionName::Cork => "set cork",
            OptionName::Quickack => "set quickack",
            _ => "set an option that is not a switch",
        };
        let failed = |source| WireError::System { operation, source };
        if !P::IS_SOCKET || option.values() != ValueKind::Switch {
            return Err(failed(unsupported()));
        }
        self.system_calls += 1;
        self.port.set(option, on).map_err(failed)
    }

    fn segments(&self) -> Option<Segments> {
        self.port.segments()
    }

    fn sender_state(&self) -> Option<SenderState> {
        self.port.sender_state()
    }
}
