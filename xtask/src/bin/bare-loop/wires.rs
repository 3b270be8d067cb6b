//! Both ends of each transport: sockets, pipes and a shared page. One process opens both ends before it forks.

use std::fs::File;
use std::io::{self, Error};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use libc::{c_int, c_void};

use crate::system::{bind, checked, connect_tcp, pipe, shared_page, socket, udp_pair, unix_pair};

/// One end, which sends and receives messages of four bytes. The loops are monomorphised to inline these calls.
pub(crate) trait End {
    fn send(&mut self, message: u32);
    fn receive(&mut self) -> u32;
}

/// A socket. `flags` is 0 to block in the receive call, or MSG_DONTWAIT to spin.
pub(crate) struct Socket {
    descriptor: c_int,
    flags: c_int,
}

impl End for Socket {
    #[inline(always)]
    fn send(&mut self, message: u32) {
        // SAFETY: the pointer and the length describe a live u32.
        let sent = unsafe { libc::send(self.descriptor, (&raw const message).cast(), 4, libc::MSG_NOSIGNAL) };
        finish_unless(sent == 4, "send");
    }

    #[inline(always)]
    fn receive(&mut self) -> u32 {
        let mut message = 0_u32;
        loop {
            // SAFETY: the pointer and the length describe a live u32.
            let taken = unsafe { libc::recv(self.descriptor, (&raw mut message).cast(), 4, self.flags) };
            if taken == 4 {
                return message;
            }
            finish_unless(taken < 0 && would_block(), "recv");
        }
    }
}

/// One pipe per direction. A spinning end has O_NONBLOCK on its read end.
pub(crate) struct Pipe {
    read: c_int,
    write: c_int,
}

impl End for Pipe {
    #[inline(always)]
    fn send(&mut self, message: u32) {
        // SAFETY: the pointer and the length describe a live u32.
        let sent = unsafe { libc::write(self.write, (&raw const message).cast(), 4) };
        finish_unless(sent == 4, "write");
    }

    #[inline(always)]
    fn receive(&mut self) -> u32 {
        let mut message = 0_u32;
        loop {
            // SAFETY: the pointer and the length describe a live u32.
            let taken = unsafe { libc::read(self.read, (&raw mut message).cast(), 4) };
            if taken == 4 {
                return message;
            }
            finish_unless(taken < 0 && would_block(), "read");
        }
    }
}

/// A cache line in shared memory with one writer: a sequence number and the message.
#[repr(C, align(64))]
pub(crate) struct CacheLine {
    sequence: AtomicU32,
    message: AtomicU32,
    /// Whether the reader sleeps or is about to sleep. Like Hairpin, the writer makes a wake-up call only then.
    asleep: AtomicU32,
}

/// An end that writes one cache line and watches the other.
pub(crate) struct SharedLines {
    mine: &'static CacheLine,
    theirs: &'static CacheLine,
    sent: u32,
    taken: u32,
    spin: bool,
}

impl End for SharedLines {
    #[inline(always)]
    fn send(&mut self, message: u32) {
        self.sent = self.sent.wrapping_add(1);
        self.mine.message.store(message, Ordering::Relaxed);
        self.mine.sequence.store(self.sent, Ordering::Release);
        if !self.spin {
            fence(Ordering::SeqCst);
            if self.mine.asleep.load(Ordering::Relaxed) != 0 {
                self.mine.asleep.store(0, Ordering::Relaxed);
                futex(&self.mine.asleep, libc::FUTEX_WAKE, 1);
            }
        }
    }

    #[inline(always)]
    fn receive(&mut self) -> u32 {
        while self.theirs.sequence.load(Ordering::Acquire) == self.taken {
            if !self.spin {
                self.theirs.asleep.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if self.theirs.sequence.load(Ordering::Acquire) == self.taken {
                    futex(&self.theirs.asleep, libc::FUTEX_WAIT, 1);
                }
                self.theirs.asleep.store(0, Ordering::Relaxed);
            }
        }
        self.taken = self.taken.wrapping_add(1);
        self.theirs.message.load(Ordering::Relaxed)
    }
}

/// FUTEX_WAIT while the word is `value`, or FUTEX_WAKE of `value` waiters, without the PRIVATE flag.
fn futex(word: &AtomicU32, operation: c_int, value: u32) {
    // SAFETY: the word lives in a mapping that is never unmapped; no time-out is given.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, null_mut::<c_void>()) };
}

/// IP address and network namespace of the echo's sockets.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct ServerHost {
    #[arg(long = "server-address", default_value = "127.0.0.1")]
    pub(crate) address: Ipv4Addr,
    /// File of the echo's network namespace (default: the client's namespace)
    #[arg(long = "server-namespace")]
    pub(crate) namespace: Option<PathBuf>,
}

impl Default for ServerHost {
    fn default() -> Self {
        Self { address: Ipv4Addr::LOCALHOST, namespace: None }
    }
}

impl ServerHost {
    /// Opens a socket on a free port in the echo's namespace. Returns the socket and its address.
    fn bind(&self, kind: c_int) -> io::Result<(c_int, libc::sockaddr_in)> {
        let Some(namespace) = &self.namespace else { return bind(kind, self.address) };
        let [own, theirs] = [File::open("/proc/self/ns/net")?, File::open(namespace)?];
        enter(&theirs)?;
        let opened = bind(kind, self.address);
        enter(&own)?;
        opened
    }
}

fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: plain integers; the descriptor belongs to a live file.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Opens a connected pair of sockets for tcp, udp or unix-stream. Returns the client's end first.
pub(crate) fn sockets(transport: &str, spin: bool, server: &ServerHost) -> io::Result<(Socket, Socket)> {
    let (client, echo) = match transport {
        "tcp" => {
            let client = socket(libc::SOCK_STREAM)?;
            (client, connect_tcp(client, server.bind(libc::SOCK_STREAM)?)?)
        }
        "udp" => udp_pair(server.bind(libc::SOCK_DGRAM)?)?,
        _ => unix_pair()?,
    };
    let flags = if spin { libc::MSG_DONTWAIT } else { 0 };
    Ok((Socket { descriptor: client, flags }, Socket { descriptor: echo, flags }))
}

/// Opens one pipe per direction. Returns the client's end first.
pub(crate) fn pipes(spin: bool) -> io::Result<(Pipe, Pipe)> {
    let (there, back) = (pipe()?, pipe()?);
    if spin {
        for descriptor in [there.0, back.0] {
            // SAFETY: plain integers.
            checked(unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) })?;
        }
    }
    Ok((Pipe { read: back.0, write: there.1 }, Pipe { read: there.0, write: back.1 }))
}

/// Maps two cache lines that are shared with forked processes. Returns the client's end first.
pub(crate) fn shared_lines(spin: bool) -> io::Result<(SharedLines, SharedLines)> {
    let page = shared_page()?;
    // Leaves unused lines between the two, since the prefetcher fetches lines in pairs. SAFETY: the page is zeroed (a
    // valid CacheLine), aligned, larger than 4 lines, and never unmapped.
    let (there, back) = unsafe { (&*page.cast::<CacheLine>(), &*page.cast::<CacheLine>().add(4)) };
    let end = |mine, theirs| SharedLines { mine, theirs, sent: 0, taken: 0, spin };
    Ok((end(there, back), end(back, there)))
}

fn would_block() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}

/// Panics if a call failed, for instance because the other end has ended.
#[inline(always)]
fn finish_unless(fine: bool, call: &str) {
    if !fine {
        failed(call);
    }
}

#[cold]
fn failed(call: &str) -> ! {
    panic!("{call} failed: {}", Error::last_os_error());
}
