//! Messages that a link damaged without failing the checksum.
//!
//! The checksum of UDP and ICMP is a 16-bit sum (RFC 1071). Two flipped bits in a fragmented datagram cancel if they
//! are at the same position of a 16-bit word and one was 1, the other 0. The link counts such a message as lost, so
//! both ends drop it, as the kernel would with a better checksum. The client drops an answer that differs from its
//! message; the server uses a wire that returns only undamaged messages.

use std::time::Duration;

use hairpin_link::profile::Profile;
use hairpin_model::{Case, Fact};
use hairpin_transports::{Wire, WireError};

use super::message::{Message, sizes};

/// Whether the link of the case may flip bits.
pub fn may_be_damaged(case: &Case) -> bool {
    case.is_emulated() && case.path.link.parse().is_ok_and(|profile: Profile| profile.may_corrupt())
}

/// Returns a function that checks whether a message of the case is undamaged.
pub fn is_whole(case: &Case) -> impl FnMut(&[u8]) -> bool + Send {
    let [size, _] = sizes(case);
    let message = Message::new(size, size);
    move |received| message.difference(received).is_none()
}

/// A wire with boundaries that returns only messages accepted by `takes`.
pub struct Filtered<'w, F> {
    wire: &'w mut dyn Wire,
    takes: F,
}

impl<'w, F: FnMut(&[u8]) -> bool> Filtered<'w, F> {
    /// `takes` is called with every received message.
    pub fn new(wire: &'w mut dyn Wire, takes: F) -> Self {
        Self { wire, takes }
    }
}

impl<F: FnMut(&[u8]) -> bool + Send> Wire for Filtered<'_, F> {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.wire.send(message)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        loop {
            let len = self.wire.receive(into)?;
            if (self.takes)(&into[..len]) {
                return Ok(len);
            }
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        loop {
            match self.wire.try_receive(into)? {
                Some(len) if !(self.takes)(&into[..len]) => {}
                other => return Ok(other),
            }
        }
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        self.wire.wait(at_most)
    }

    fn effective(&self) -> Vec<Fact> {
        self.wire.effective()
    }

    fn system_calls(&self) -> Option<u64> {
        self.wire.system_calls()
    }
}
