//! Wires over two one-way descriptors, used by `pipe` and `fifo`: they differ only in how the pipes are made.
//!
//! Writing to a pipe that nobody reads any more raises SIGPIPE. Rust's runtime has that signal ignored in every
//! program that it starts, and the write then answers `EPIPE`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hairpin_model::case::Waiting;
use hairpin_model::fact::Fact;
use hairpin_model::fact_names;

use super::descriptor::{DescriptorWire, Miss, Port};
use super::{Deadline, bad_address, failed};
use crate::system::descriptor::{READABLE, poll, read, set_nonblocking, write, write_vectored};
use crate::system::pipe::{Access, capacity_bytes, open_of_process};
use crate::wire::{Accept, Setup, TransportError, Wire};

/// What the client writes first, so that the server knows that its spare descriptors are no longer needed.
const HELLO: u8 = 0x68;

/// The server, holding both ends of both pipes until the client has opened its own.
pub(crate) struct PipeListener {
    setup: Setup,
    from_client: OwnedFd,
    to_client: OwnedFd,
    /// The client's descriptors, which it opens through `/proc`: its write end and its read end.
    spare: (OwnedFd, OwnedFd),
}

impl PipeListener {
    /// The server over two new pipes, each a read end and a write end.
    pub(crate) fn new([to_server, to_client]: [(OwnedFd, OwnedFd); 2], setup: &Setup) -> Self {
        let (from_client, client_writes) = to_server;
        let (client_reads, to_client) = to_client;
        Self { setup: setup.clone(), from_client, to_client, spare: (client_writes, client_reads) }
    }

    fn hello(&self) -> Result<bool, io::Error> {
        let mut deadline = Deadline::new(self.setup.timeout);
        while let Some(left) = deadline.left() {
            match poll(self.from_client.as_fd(), READABLE, left) {
                Ok(true) => {
                    let mut hello = [0];
                    read(self.from_client.as_fd(), &mut hello)?;
                    let garbage = || io::Error::new(io::ErrorKind::InvalidData, "the other end did not say hello");
                    return if hello == [HELLO] { Ok(true) } else { Err(garbage()) };
                }
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl Accept for PipeListener {
    fn address(&self) -> String {
        format!("{}:{}:{}", std::process::id(), self.spare.0.as_raw_fd(), self.spare.1.as_raw_fd())
    }

    fn accept(self: Box<Self>) -> Result<Box<dyn Wire>, TransportError> {
        let heard = self.hello().map_err(|source| failed("accept at", &self.address(), source, ""))?;
        if !heard {
            return Err(TransportError::TimedOut { what: "connected", after: self.setup.timeout });
        }
        // As long as a spare is open here, the end of the other process would not be seen: so they go now.
        drop(self.spare);
        wire(self.from_client, self.to_client, &self.setup)
    }
}

/// The client, to an address that [`PipeListener`] gave.
pub(crate) fn connect(address: &str, setup: &Setup) -> Result<Box<dyn Wire>, TransportError> {
    let (pid, writes, reads) = parse(address).ok_or_else(|| bad_address(address, "PID:fd:fd"))?;
    let open = |number, access| {
        open_of_process(pid, number, access)
            .map_err(|source| failed("connect to", address, source, "is the server running, and as the same user?"))
    };
    let to_server = open(writes, Access::Write)?;
    let from_server = open(reads, Access::Read)?;
    write(to_server.as_fd(), &[HELLO]).map_err(|source| failed("say hello to", address, source, ""))?;
    wire(from_server, to_server, setup)
}

fn parse(address: &str) -> Option<(u32, i32, i32)> {
    let mut parts = address.split(':');
    let parsed = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(parsed)
}

fn wire(from: OwnedFd, to: OwnedFd, setup: &Setup) -> Result<Box<dyn Wire>, TransportError> {
    let error = |source| failed("set up", "the pipe", source, "");
    let blocks = setup.waiting == Waiting::Block;
    for end in [&from, &to] {
        set_nonblocking(end.as_fd(), !blocks).map_err(error)?;
    }
    let wire = DescriptorWire::new(PipePort { from, to }, setup.waiting, setup.timeout);
    Ok(Box::new(wire.map_err(error)?))
}

struct PipePort {
    from: OwnedFd,
    to: OwnedFd,
}

impl Port for PipePort {
    const IS_SOCKET: bool = false;

    // Part of the spinning loop: what it takes longer to come round is found later.
    #[inline(always)]
    fn take(&mut self, into: &mut [u8], _may_block: bool) -> Result<usize, Miss> {
        let bytes = read(self.from.as_fd(), into)?;
        if bytes == 0 { Err(Miss::Ended) } else { Ok(bytes) }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Ok(write(self.to.as_fd(), bytes)?)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        capacity_bytes(self.to.as_fd())
            .map(|bytes| Fact::number(fact_names::PIPE_CAPACITY_BYTES, bytes as f64))
            .into_iter()
            .collect()
    }

    fn is_stream(&self) -> bool {
        true
    }

    #[inline]
    fn put_vectored(&mut self, parts: &[IoSlice<'_>], _may_block: bool) -> Result<usize, Miss> {
        Ok(write_vectored(self.to.as_fd(), parts)?)
    }
}
