//! The frames of `tcp-streams`, which a peer may forge.
//!
//! A frame has 8 bytes: the number of its stream and the length of its payload (both 4 bytes, big-endian), and then the payload. A
//! length of 0 ends the stream, and [`OPEN`] opens it.

use std::io;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

pub(crate) const HEADER_BYTES: usize = 8;
/// The length in a frame that opens a stream and has no payload.
const OPEN: u32 = u32::MAX;
/// Numbers of streams are below this.
pub(crate) const MAX_STREAMS: u32 = 10_000;

/// A frame, or a part of the payload of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<P> {
    Open,
    /// Not empty.
    Payload(P),
    End,
}

/// A part that has arrived, with the number of its stream.
type Arrived<'b> = (u32, Part<&'b [u8]>);

pub(crate) fn header(stream: u32, frame: &Part<impl AsRef<[u8]>>) -> [u8; HEADER_BYTES] {
    let length = match frame {
        Part::Open => OPEN,
        // Longer sends are split.
        Part::Payload(payload) => payload.as_ref().len() as u32,
        Part::End => 0,
    };
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&stream.to_be_bytes());
    header[4..].copy_from_slice(&length.to_be_bytes());
    header
}

/// Parses frames that arrive in any parts.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header that have arrived.
    filled: usize,
    /// Bytes of the payload that have not arrived.
    missing: usize,
}

impl Frames {
    /// Takes the next part from `came`; `None` once all bytes are taken.
    ///
    /// # Errors
    /// The number of a stream is too large.
    pub(crate) fn next<'b>(&mut self, came: &mut &'b [u8]) -> io::Result<Option<Arrived<'b>>> {
        while !came.is_empty() {
            if self.missing > 0 {
                let (payload, rest) = came.split_at(self.missing.min(came.len()));
                *came = rest;
                self.missing -= payload.len();
                return Ok(Some((self.word(0), Part::Payload(payload))));
            }
            let (part, rest) = came.split_at((HEADER_BYTES - self.filled).min(came.len()));
            self.header[self.filled..][..part.len()].copy_from_slice(part);
            self.filled += part.len();
            *came = rest;
            if self.filled < HEADER_BYTES {
                continue;
            }
            self.filled = 0;
            let (stream, length) = (self.word(0), self.word(4));
            if stream >= MAX_STREAMS {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame has an invalid stream"));
            }
            match length {
                OPEN => return Ok(Some((stream, Part::Open))),
                0 => return Ok(Some((stream, Part::End))),
                length => self.missing = length as usize,
            }
        }
        Ok(None)
    }

    fn word(&self, from: usize) -> u32 {
        self.header[from..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}
