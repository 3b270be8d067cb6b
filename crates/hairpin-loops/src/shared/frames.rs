//! Frames of a shared connection. A frame has a header of eight bytes (its kind, three zero bytes, the length of the
//! rest, little endian), then the rest.

use std::collections::VecDeque;

use hairpin_transports::{Wire, WireError};

use crate::message::patterned;

pub const HEAD_BYTES: usize = 8;
/// Maximum bytes of a frame after its header, except for bulk data.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
const MAX_BULK_BYTES: usize = 16 << 20;
/// Maximum bytes per receive.
const READ_BYTES: usize = 256 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Message = 1,
    Answer = 2,
    RampData = 3,
    /// Measured bulk data.
    Data = 4,
    /// From the client: the server must begin its load.
    Begin = 5,
    /// From the sender of the load: the load has ended.
    End = 6,
}

impl FrameKind {
    const ALL: [Self; 6] = [Self::Message, Self::Answer, Self::RampData, Self::Data, Self::Begin, Self::End];

    pub fn is_bulk(self) -> bool {
        matches!(self, Self::RampData | Self::Data)
    }
}

pub fn frame(kind: FrameKind, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("frames are at most 16 MiB");
    let mut frame = vec![kind as u8, 0, 0, 0];
    frame.extend(length.to_le_bytes());
    frame.extend(bytes);
    frame
}

#[derive(Debug, thiserror::Error)]
#[error("bytes that are not a frame of this version: {0}")]
pub struct NoFrame(&'static str);

/// The frames to write, one at a time.
pub struct Outgoing {
    messages: VecDeque<(Vec<u8>, Option<u64>)>,
    bulk: [Vec<u8>; 2],
    /// The partly written frame (0 or 1 as in `bulk`; `None`: the first message), and how many bytes were written.
    begun: Option<(Option<usize>, usize)>,
}

/// The result of one pass of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of completely written frames of bulk data, of the ramp (0) and of the measurement (1).
    pub bulk_frames: [u64; 2],
    /// The numbers of messages whose first byte was accepted.
    pub begun: Vec<u64>,
    /// Whether the connection had no room for the rest.
    pub has_no_room: bool,
}

/// Maximum frames of bulk data per pass, so that messages are handled in between.
const MAX_BULK_FRAMES: u64 = 16;

impl Outgoing {
    /// Creates an empty queue; a frame of bulk data has `write_size_bytes` bytes after its header.
    pub fn new(write_size_bytes: usize) -> Self {
        let bytes = patterned(write_size_bytes);
        Self {
            messages: VecDeque::with_capacity(1024),
            bulk: [FrameKind::RampData, FrameKind::Data].map(|kind| frame(kind, &bytes)),
            begun: None,
        }
    }

    /// Queues a frame. `number` is the sequence number of the message in the frame, if any.
    pub fn push(&mut self, kind: FrameKind, bytes: &[u8], number: Option<u64>) {
        self.messages.push_back((frame(kind, bytes), number));
    }

    /// Number of queued frames, excluding bulk data.
    pub fn queued(&self) -> usize {
        self.messages.len()
    }

    /// Whether everything was written.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.begun.is_none()
    }

    /// Writes as much as there is room for: queued frames, then bulk data of the ramp (0) or of the measurement (1).
    pub fn write(&mut self, wire: &mut dyn Wire, bulk: Option<usize>) -> Result<Written, WireError> {
        let mut written = Written::default();
        loop {
            let (which, from) = match self.begun {
                Some(begun) => begun,
                None if !self.messages.is_empty() => (None, 0),
                None if written.bulk_frames.iter().sum::<u64>() >= MAX_BULK_FRAMES => return Ok(written),
                None => match bulk {
                    Some(phase) => (Some(phase), 0),
                    None => return Ok(written),
                },
            };
            let bytes = which.map_or_else(|| &self.messages[0].0, |phase| &self.bulk[phase]);
            let taken = wire.try_send(&bytes[from..])?;
            if taken == 0 {
                written.has_no_room = true;
                return Ok(written);
            }
            if from == 0 && which.is_none() {
                written.begun.extend(self.messages[0].1);
            }
            let is_whole = from + taken == bytes.len();
            self.begun = (!is_whole).then_some((which, from + taken));
            match which {
                Some(phase) if is_whole => written.bulk_frames[phase] += 1,
                None if is_whole => drop(self.messages.pop_front()),
                _ => {}
            }
        }
    }
}

#[derive(Debug)]
pub enum ReceivedFrame<'b> {
    /// Bytes of bulk data, either of the ramp or measured.
    Bulk {
        measured: bool,
        /// Number of bytes, without frame headers.
        bytes: u64,
    },
    Whole(FrameKind, &'b [u8]),
}

/// The frame being read.
pub struct Incoming {
    buffer: Vec<u8>,
    head: Vec<u8>,
    /// The kind of the frame whose header has arrived, and the number of bytes still missing.
    open: Option<(FrameKind, usize)>,
    body: Vec<u8>,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { buffer: vec![0; READ_BYTES], head: Vec::with_capacity(HEAD_BYTES), open: None, body: Vec::new() }
    }
}

/// Why nothing more can be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    NoFrame(#[from] NoFrame),
}

impl Incoming {
    /// Makes one read call. Returns false if nothing was available.
    pub fn read(&mut self, wire: &mut dyn Wire, each: &mut dyn FnMut(ReceivedFrame<'_>)) -> Result<bool, ReadError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let answer = match wire.try_receive(&mut buffer) {
            Ok(Some(length)) => self.take(&buffer[..length], each).map(|()| true).map_err(ReadError::from),
            Ok(None) => Ok(false),
            Err(error) => Err(error.into()),
        };
        self.buffer = buffer;
        answer
    }

    pub fn take(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(ReceivedFrame<'_>)) -> Result<(), NoFrame> {
        while !bytes.is_empty() {
            let Some((kind, left)) = self.open else {
                let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head.len()));
                self.head.extend_from_slice(head);
                bytes = rest;
                if self.head.len() == HEAD_BYTES {
                    self.open = Some(parse_header(&self.head)?);
                    self.head.clear();
                    self.close_if_whole(each);
                }
                continue;
            };
            let (own, rest) = bytes.split_at(bytes.len().min(left));
            bytes = rest;
            self.open = Some((kind, left - own.len()));
            if kind.is_bulk() {
                each(ReceivedFrame::Bulk { measured: kind == FrameKind::Data, bytes: own.len() as u64 });
            } else {
                self.body.extend_from_slice(own);
            }
            self.close_if_whole(each);
        }
        Ok(())
    }

    fn close_if_whole(&mut self, each: &mut dyn FnMut(ReceivedFrame<'_>)) {
        let Some((kind, 0)) = self.open else { return };
        if !kind.is_bulk() {
            each(ReceivedFrame::Whole(kind, &self.body));
        }
        self.body.clear();
        self.open = None;
    }
}

fn parse_header(head: &[u8]) -> Result<(FrameKind, usize), NoFrame> {
    let kind = FrameKind::ALL.into_iter().find(|kind| *kind as u8 == head[0]).ok_or(NoFrame("an unknown kind"))?;
    if head[1..4] != [0, 0, 0] {
        return Err(NoFrame("a header whose reserved bytes are not zero"));
    }
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let most_bytes = if kind.is_bulk() { MAX_BULK_BYTES } else { MAX_MESSAGE_BYTES };
    let length = usize::try_from(length).ok().filter(|length| *length <= most_bytes);
    Ok((kind, length.ok_or(NoFrame("a frame that is too long"))?))
}
