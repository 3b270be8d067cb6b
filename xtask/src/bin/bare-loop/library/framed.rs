//! Frames over TCP: 8 bytes with the number of a stream and the length of the payload, and the payload.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;

use hyper::rt::{Read, ReadBuf, Write};

use super::load::Load;
use super::{End, Outcome};

const HEADER_BYTES: usize = 8;
const READ_BYTES: usize = 64 << 10;

struct Frames<I> {
    io: I,
    buffer: Vec<u8>,
    came: Range<usize>,
    /// Missing bytes of the current payload.
    missing: usize,
}

impl<I: Read + Write + Unpin> Frames<I> {
    async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        let header = (payload.len() as u64).to_be_bytes();
        let mut sent = 0;
        while sent < HEADER_BYTES + payload.len() {
            let (of_header, of_payload) = (sent.min(HEADER_BYTES), sent.saturating_sub(HEADER_BYTES));
            let parts = [IoSlice::new(&header[of_header..]), IoSlice::new(&payload[of_payload..])];
            sent += poll_fn(|context| Pin::new(&mut self.io).poll_write_vectored(context, &parts)).await?;
        }
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<&[u8]> {
        while self.missing == 0 || self.came.is_empty() {
            if self.missing == 0 && self.came.len() >= HEADER_BYTES {
                let header = self.buffer[self.came.start..].first_chunk().copied().unwrap_or_default();
                self.missing = u64::from_be_bytes(header) as usize & (u32::MAX as usize);
                self.came.start += HEADER_BYTES;
                continue;
            }
            self.buffer.copy_within(self.came.clone(), 0);
            self.came = 0..self.came.len();
            let mut into = ReadBuf::new(&mut self.buffer[self.came.end..]);
            poll_fn(|context| Pin::new(&mut self.io).poll_read(context, into.unfilled())).await?;
            match into.filled().len() {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => self.came.end += bytes,
            }
        }
        let bytes = self.missing.min(self.came.len());
        let part = self.came.start..self.came.start + bytes;
        (self.missing, self.came.start) = (self.missing - bytes, part.end);
        Ok(&self.buffer[part])
    }
}

pub(super) async fn run<I: Read + Write + Unpin>(end: End, io: I, load: Load) -> Outcome<Vec<u64>> {
    let mut frames = Frames { io, buffer: vec![0; READ_BYTES], came: 0..0, missing: 0 };
    match end {
        End::Client if load.is_one_way() => load.one_way(async |message| Ok(frames.send(message).await?)).await,
        End::Client => {
            let round_trips = load.round_trips(async |message| {
                frames.send(&message).await?;
                Ok(frames.receive().await?.try_into()?)
            });
            round_trips.await
        }
        End::Server => loop {
            let part = frames.receive().await?;
            if load.is_one_way() {
                load.count(part.len());
            } else {
                let message: [u8; 4] = part.try_into()?;
                frames.send(&message).await?;
            }
        },
    }
}
