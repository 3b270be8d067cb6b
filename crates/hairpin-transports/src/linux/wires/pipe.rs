//! Wires over two one-way descriptors, for `pipe` and `fifo`, which differ only in how the pipes are created.
//!
//! Writing to a pipe without readers raises SIGPIPE. Rust's runtime ignores this signal, so the write returns `EPIPE`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hairpin_model::{Fact, Waiting, fact_names};

use super::descriptor::DescriptorWire;
use super::port::{Miss, Port};
use crate::system::descriptor::{READABLE, poll, read, send_file, set_nonblocking, write, write_vectored};
use crate::system::pipe::{Access, Ends, capacity_bytes, open_of_process};
use crate::wire::{Connection, Listener, Setup, TransportError};
use crate::wires::one_wire::OneWire;
use crate::wires::{Deadline, bad_address, failed, left_to_accept, second_connection};

/// The client's first byte. The server then closes its copies of the client's descriptors.
const HELLO: u8 = 0x68;

/// The server. It keeps both ends of both pipes open until the client has opened the client's ends.
pub(crate) struct PipeListener {
    transport: &'static str,
    setup: Setup,
    address: String,
    /// `None` once the client has connected.
    pipes: Option<Pipes>,
}

struct Pipes {
    from_client: OwnedFd,
    to_client: OwnedFd,
    /// The client's write end and read end, which the client opens through `/proc`.
    _spare: (OwnedFd, OwnedFd),
}

impl PipeListener {
    pub(crate) fn new(transport: &'static str, [to_server, to_client]: [Ends; 2], setup: &Setup) -> Self {
        let (from_client, client_writes) = to_server;
        let (client_reads, to_client) = to_client;
        let address = format!("{}:{}:{}", std::process::id(), client_writes.as_raw_fd(), client_reads.as_raw_fd());
        let pipes = Pipes { from_client, to_client, _spare: (client_writes, client_reads) };
        Self { transport, setup: setup.clone(), address, pipes: Some(pipes) }
    }
}

impl Pipes {
    /// Waits for the client's hello.
    fn accept_hello(
        &self,
        setup: &Setup,
        address: &str,
        is_abandoned: &mut dyn FnMut() -> bool,
    ) -> Result<(), TransportError> {
        let mut deadline = Deadline::new(setup.timeout);
        while let Some(left) = left_to_accept(&mut deadline, is_abandoned)? {
            if self.receive_hello(left).map_err(|source| failed("accept at", address, source, ""))? {
                return Ok(());
            }
        }
        Err(TransportError::TimedOut { what: "connected", after: setup.timeout })
    }

    /// Waits up to `at_most` for the client's hello. Returns whether the hello arrived.
    fn receive_hello(&self, at_most: Duration) -> io::Result<bool> {
        match poll(self.from_client.as_fd(), READABLE, at_most) {
            Ok(true) => {
                let mut hello = [0];
                read(self.from_client.as_fd(), &mut hello)?;
                let garbage = || io::Error::new(io::ErrorKind::InvalidData, "the other end did not send a hello");
                if hello == [HELLO] { Ok(true) } else { Err(garbage()) }
            }
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(false),
        }
    }
}

impl Listener for PipeListener {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let Self { transport, setup, address, pipes } = self;
        let none_left = || second_connection(transport);
        pipes.as_ref().ok_or_else(none_left)?.accept_hello(setup, address, is_abandoned)?;
        // Closes the spare descriptors: with them open, this end would not notice that the client has ended.
        let Pipes { from_client, to_client, .. } = pipes.take().ok_or_else(none_left)?;
        connection(transport, from_client, to_client, setup)
    }
}

/// Connects the client to the address of a [`PipeListener`].
pub(crate) fn connect(
    transport: &'static str,
    address: &str,
    setup: &Setup,
) -> Result<Box<dyn Connection>, TransportError> {
    let (pid, writes, reads) = parse(address).ok_or_else(|| bad_address(address, "PID:fd:fd"))?;
    let open = |number, access| {
        open_of_process(pid, number, access)
            .map_err(|source| failed("connect to", address, source, "is the server running, and as the same user?"))
    };
    let to_server = open(writes, Access::Write)?;
    let from_server = open(reads, Access::Read)?;
    write(to_server.as_fd(), &[HELLO]).map_err(|source| failed("send a hello to", address, source, ""))?;
    connection(transport, from_server, to_server, setup)
}

fn parse(address: &str) -> Option<(u32, i32, i32)> {
    let mut parts = address.split(':');
    let parsed = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(parsed)
}

fn connection(
    transport: &'static str,
    from: OwnedFd,
    to: OwnedFd,
    setup: &Setup,
) -> Result<Box<dyn Connection>, TransportError> {
    let error = |source| failed("set up", "the pipe", source, "");
    let blocks = setup.waiting.basic() == Waiting::Block;
    for end in [&from, &to] {
        set_nonblocking(end.as_fd(), !blocks).map_err(error)?;
    }
    let port = PipePort { from, to, blocks, nonblocking: (None, None) };
    Ok(OneWire::connection(transport, DescriptorWire::new(port, setup.waiting, setup.timeout).map_err(error)?))
}

pub(crate) type PipeWire = DescriptorWire<PipePort>;

pub(crate) struct PipePort {
    from: OwnedFd,
    to: OwnedFd,
    /// Whether calls on both descriptors block.
    blocks: bool,
    /// The same ends opened once more, for non-blocking calls if `from` and `to` block: pipes have no per-call flag.
    nonblocking: (Option<OwnedFd>, Option<OwnedFd>),
}

/// Returns `end` if its calls do not block; otherwise opens the same end once more, on first use.
fn nonblocking<'p>(
    end: &'p OwnedFd,
    blocks: bool,
    again: &'p mut Option<OwnedFd>,
    access: Access,
) -> Result<BorrowedFd<'p>, Miss> {
    if !blocks {
        return Ok(end.as_fd());
    }
    let opened = match again.take() {
        Some(opened) => opened,
        None => {
            let opened = open_of_process(std::process::id(), end.as_raw_fd(), access);
            let opened = opened.map_err(|error| match error.raw_os_error() {
                // A named pipe without readers (fifo(7)).
                Some(libc::ENXIO) => Miss::Gone,
                _ => error.into(),
            })?;
            set_nonblocking(opened.as_fd(), true)?;
            opened
        }
    };
    let opened: &OwnedFd = again.insert(opened);
    Ok(opened.as_fd())
}

impl Port for PipePort {
    const IS_SOCKET: bool = false;

    // Part of the spinning loop, so its duration delays the next attempt.
    #[inline(always)]
    fn receive(&mut self, into: &mut [u8], _may_block: bool) -> Result<usize, Miss> {
        let bytes = read(self.from.as_fd(), into)?;
        if bytes == 0 { Err(Miss::Ended) } else { Ok(bytes) }
    }

    #[inline]
    fn send(&mut self, bytes: &[u8], _may_block: bool) -> Result<usize, Miss> {
        Ok(write(self.to.as_fd(), bytes)?)
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, Miss> {
        Ok(write(nonblocking(&self.to, self.blocks, &mut self.nonblocking.1, Access::Write)?, bytes)?)
    }

    fn send_file(&mut self, file: BorrowedFd<'_>, from: usize, bytes: usize, may_block: bool) -> Result<usize, Miss> {
        let blocks = self.blocks && !may_block;
        let to = nonblocking(&self.to, blocks, &mut self.nonblocking.1, Access::Write)?;
        Ok(send_file(to, file, from, bytes)?)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<usize, Miss> {
        let bytes = read(nonblocking(&self.from, self.blocks, &mut self.nonblocking.0, Access::Read)?, into)?;
        if bytes == 0 { Err(Miss::Ended) } else { Ok(bytes) }
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    fn writable(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    fn facts(&self) -> Vec<Fact> {
        capacity_bytes(&self.to)
            .map(|bytes| Fact::number(fact_names::PIPE_CAPACITY_BYTES, bytes as f64))
            .into_iter()
            .collect()
    }

    fn is_stream(&self) -> bool {
        true
    }

    #[inline]
    fn send_vectored(&mut self, parts: &[IoSlice<'_>], _may_block: bool) -> Result<usize, Miss> {
        Ok(write_vectored(self.to.as_fd(), parts)?)
    }
}
