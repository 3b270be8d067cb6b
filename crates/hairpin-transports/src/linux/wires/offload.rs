//! UDP segmentation offload: the kernel handles datagrams of equal size as one packet (udp(7)).

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::options::Family;
use crate::system::messages::{receive_joined, send_segmented};
use crate::system::socket;

pub(super) struct Offload {
    /// Maximum datagrams per packet; reduced if the kernel refuses the number.
    max_datagrams: usize,
    /// Maximum bytes per packet.
    max_bytes: usize,
    /// Buffer for a packet whose messages are requested one at a time.
    packet: Box<[u8]>,
    /// The part of `packet` that has not been requested yet.
    left: Range<usize>,
    size: usize,
}

/// `UDP_MAX_SEGMENTS` (linux/udp.h).
const MAX_DATAGRAMS: usize = 128;
/// `UDP_MAX_SEGMENTS` before Linux 6.9.
const MAX_DATAGRAMS_BEFORE_6_9: usize = 64;

impl Offload {
    pub(super) fn new(family: Family) -> Self {
        // A packet has at most 65535 bytes including headers.
        let max_bytes = if family == Family::V6 { 65_487 } else { 65_507 };
        let packet = vec![0; 64 * 1024].into();
        Self { max_datagrams: MAX_DATAGRAMS, max_bytes, packet, left: 0..0, size: 1 }
    }

    /// Sends messages in as few calls as possible. Returns the number of bytes sent and the number of calls.
    pub(super) fn send(
        &mut self,
        to: BorrowedFd<'_>,
        messages: &[u8],
        size: usize,
        may_block: bool,
    ) -> (io::Result<usize>, u64) {
        let (mut sent, mut calls) = (0, 0);
        while sent < messages.len() {
            let most = (self.max_bytes / size).clamp(1, self.max_datagrams);
            let part = &messages[sent..];
            let part = &part[..part.len().min(most * size)];
            calls += 1;
            let answer = match u16::try_from(size) {
                Ok(size) if part.len() > usize::from(size) => send_segmented(to, part, size, may_block),
                _ => socket::send(to, part, may_block),
            };
            match answer {
                Ok(bytes) => sent += bytes,
                Err(error)
                    if error.raw_os_error() == Some(libc::EINVAL)
                        && self.max_datagrams > MAX_DATAGRAMS_BEFORE_6_9
                        && part.len() > MAX_DATAGRAMS_BEFORE_6_9 * size =>
                {
                    self.max_datagrams = MAX_DATAGRAMS_BEFORE_6_9;
                }
                Err(error) if sent == 0 => return (Err(error), calls),
                Err(_) => break,
            }
        }
        (Ok(sent), calls)
    }

    /// Receives one message, and stores the other messages of the packet. Returns the message's full length.
    pub(super) fn receive(&mut self, from: BorrowedFd<'_>, into: &mut [u8], may_block: bool) -> io::Result<usize> {
        let (bytes, size) = receive_joined(from, &mut self.packet, may_block)?;
        (self.left, self.size) = (0..bytes, size);
        Ok(self.next(into).unwrap_or(0))
    }

    /// Returns the next stored message, as [`Offload::receive`] does; `None` if no message is stored.
    pub(super) fn next(&mut self, into: &mut [u8]) -> Option<usize> {
        if !self.has_stored() {
            return None;
        }
        let length = self.left.len().min(self.size);
        let fitted = length.min(into.len());
        into[..fitted].copy_from_slice(&self.packet[self.left.start..][..fitted]);
        self.left.start += length;
        Some(length)
    }

    pub(super) fn has_stored(&self) -> bool {
        !self.left.is_empty()
    }
}
