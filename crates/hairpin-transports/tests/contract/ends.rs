//! Two ends of a transport, and the result of a check.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hairpin_model::{AnsweredBy, Card, Reach, Waiting};
use hairpin_transports::{Batch, Cookie, Listener, Setup, Transport, TransportError, Wire, WireError};

/// The cookie of every pair.
pub(crate) const COOKIE: Cookie = Cookie([7; 16]);

/// The result of a check; `Err` is the reason for a failure.
pub(crate) type Checked = Result<(), String>;

/// Fails a check unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

/// Longer than any wait, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// For checks that expect a time-out.
pub(crate) const SHORT: Duration = Duration::from_millis(30);

/// Size of the messages that fill a wire.
pub(crate) const FILLING: usize = 4096;

pub(crate) struct Subject {
    pub(crate) transport: &'static dyn Transport,
    pub(crate) card: Card,
    pub(crate) waiting: Waiting,
}

/// The client and the server.
pub(crate) type Pair = (Box<dyn Wire>, Box<dyn Wire>);

/// The client, and the server unless the kernel answers.
pub(crate) type NearAndMaybeFar = (Box<dyn Wire>, Option<Box<dyn Wire>>);

impl Subject {
    /// Whether Hairpin's server answers, and not the kernel.
    pub(crate) fn has_server(&self) -> bool {
        self.card.answered_by == AnsweredBy::Server
    }

    /// Whether the transport has a server and loses no messages.
    pub(crate) fn is_reliable(&self) -> bool {
        self.has_server() && self.card.reliable
    }

    /// Whether Hairpin makes the system calls itself, and its own server answers.
    pub(crate) fn is_plain(&self) -> bool {
        self.has_server() && self.card.library.is_none()
    }

    /// Whether Hairpin itself writes to a byte stream.
    pub(crate) fn is_plain_stream(&self) -> bool {
        self.is_plain() && self.is_stream()
    }

    /// Whether the transport is a byte stream.
    pub(crate) fn is_stream(&self) -> bool {
        !self.card.boundaries
    }

    /// Whether the server can be on another host.
    pub(crate) fn is_network(&self) -> bool {
        self.has_server() && self.card.reach == Reach::Network
    }

    /// Whether a listener accepts several clients.
    pub(crate) fn has_several_connections(&self) -> bool {
        self.card.many_connections
            || matches!(self.card.name, "unix-seqpacket" | "several-streams")
            || self.has_datagram_flows()
    }

    /// Whether connections are datagram flows: the listener must know their number in advance.
    pub(crate) fn has_datagram_flows(&self) -> bool {
        matches!(self.card.name, "udp" | "udp6")
    }

    /// Whether a connection carries several wires.
    pub(crate) fn has_several_wires(&self) -> bool {
        self.card.many_streams
    }

    /// Returns a minimal setup for messages of up to `largest` bytes.
    pub(crate) fn setup(&self, largest: usize, timeout: Duration) -> Setup {
        Setup { cookie: COOKIE, ..Setup::new(self.waiting, timeout, largest) }
    }

    /// Connects a client, and returns its first wire.
    pub(crate) fn connect(&self, address: &str, setup: &Setup) -> Result<Box<dyn Wire>, TransportError> {
        self.transport.connect(address, setup)?.open()
    }

    /// Connects two ends with the same setup.
    pub(crate) fn pair(&self, setup: &Setup) -> Result<Pair, String> {
        self.unlike_pair(setup, setup)
    }

    /// Connects two ends, each with its own setup.
    pub(crate) fn unlike_pair(&self, client: &Setup, server: &Setup) -> Result<Pair, String> {
        // A short time-out is meant for the wires; a busy machine may need longer to open them.
        let is_short = client.timeout == SHORT || server.timeout == SHORT;
        for _ in 0..100 {
            match self.one_pair(client, server) {
                Err(TransportError::TimedOut { .. } | TransportError::Unwelcome { .. }) if is_short => {}
                answer => return answer.map_err(text),
            }
        }
        Err("the two ends never connected".to_owned())
    }

    fn one_pair(&self, client: &Setup, server: &Setup) -> Result<Pair, TransportError> {
        let listener = self.transport.listen(server)?;
        let address = listener.address();
        std::thread::scope(|scope| {
            let accepted = scope.spawn(move || accept(listener));
            let connected = self.connect(&address, client);
            let accepted = accepted.join().expect("accept does not panic");
            match (connected, accepted) {
                // If accept times out, the client's error does not show the cause.
                (_, Err(error @ TransportError::TimedOut { .. })) => Err(error),
                (connected, accepted) => Ok((connected?, accepted?)),
            }
        })
    }

    /// Returns a connected client, and the server unless the kernel answers.
    pub(crate) fn client(&self, setup: &Setup) -> Result<NearAndMaybeFar, String> {
        if !self.has_server() {
            return self.connect("127.0.0.1", setup).map(|wire| (wire, None)).map_err(text);
        }
        self.pair(setup).map(|(client, server)| (client, Some(server)))
    }

    /// Receives one message of a known size, in any number of pieces.
    pub(crate) fn receive_whole(&self, wire: &mut dyn Wire, size: usize) -> Result<Vec<u8>, String> {
        let mut message = vec![0; size];
        let mut filled = 0;
        while filled < size {
            let bytes = wire.receive(&mut message[filled..]).map_err(text)?;
            ensure!(bytes > 0, "received 0 bytes");
            filled += bytes;
            ensure!(!self.card.boundaries || filled == size, "{filled} bytes of a message of {size} bytes arrived");
        }
        Ok(message)
    }

    /// Returns room for many messages of this size.
    pub(crate) fn room(&self, size: usize) -> Batch {
        if self.card.boundaries { Batch::new(Batch::MAX_MESSAGES, size) } else { Batch::new(1, 64 * size) }
    }

    /// Receives pieces of `bytes` bytes in total. Fails if more data arrive.
    pub(crate) fn pieces_of(&self, wire: &mut dyn Wire, bytes: usize, size: usize) -> Result<Vec<Vec<u8>>, String> {
        let (mut pieces, mut batch) = (Vec::new(), self.room(size));
        let mut missing = bytes;
        while missing > 0 {
            ensure!(wire.wait(LONG).map_err(text)?, "{missing} bytes never arrived");
            let count = wire.receive_batch(&mut batch).map_err(text)?;
            ensure!(count == batch.pieces().count(), "{count} pieces, but {} in the batch", batch.pieces().count());
            for piece in batch.pieces() {
                ensure!(piece.len() <= missing, "more was received than sent");
                missing -= piece.len();
                pieces.push(piece.to_vec());
            }
        }
        ensure!(wire.receive_batch(&mut batch).map_err(text)? == 0, "unexpected data are left");
        ensure!(batch.pieces().count() == 0, "the batch still has pieces of the previous call");
        Ok(pieces)
    }

    /// Sends different messages of [`FILLING`] bytes until a send times out. All accepted messages must arrive. Returns
    /// their number.
    pub(crate) fn fill_and_empty(
        &self,
        (client, server): (&mut dyn Wire, &mut dyn Wire),
        mut send: impl FnMut(&mut dyn Wire, &[u8]) -> Result<(), WireError>,
    ) -> Result<u64, String> {
        let mut accepted = 0_u64;
        let refusal = loop {
            match send(client, &random_bytes(accepted, FILLING)) {
                Ok(()) => accepted += 1,
                refusal => break refusal,
            }
            ensure!(accepted < 100_000, "400 MB are accepted without a reader");
        };
        ensure!(is_timed_out(&refusal), "a full wire answers {}", shown(&refusal));
        ensure!(accepted > 0, "no message is accepted");
        while_driven(client, || {
            for seed in 0..accepted {
                let message = self.receive_whole(server, FILLING)?;
                ensure!(message == random_bytes(seed, FILLING), "message {seed} of {accepted} changed");
            }
            Ok(accepted)
        })
    }

    /// Sends one message and receives it back.
    pub(crate) fn exchange(
        &self,
        client: &mut dyn Wire,
        server: Option<&mut (dyn Wire + '_)>,
        message: &[u8],
    ) -> Checked {
        client.send(message).map_err(text)?;
        if let Some(server) = server {
            let arrived = while_driven(client, || {
                ensure!(server.wait(LONG).map_err(text)?, "{} bytes never arrived", message.len());
                self.receive_whole(server, message.len())
            })?;
            ensure!(arrived == message, "{} bytes arrived changed", message.len());
            server.send(&arrived).map_err(text)?;
            return while_driven(server, || self.receive_back(client, message));
        }
        self.receive_back(client, message)
    }

    fn receive_back(&self, client: &mut dyn Wire, message: &[u8]) -> Checked {
        ensure!(client.wait(LONG).map_err(text)?, "{} bytes never came back", message.len());
        let answer = self.receive_whole(client, message.len())?;
        ensure!(answer == message, "{} bytes came back changed", message.len());
        Ok(())
    }
}

/// Accepts a client, and returns the server's first wire. Drops the listener.
pub(crate) fn accept(mut listener: Box<dyn Listener>) -> Result<Box<dyn Wire>, TransportError> {
    listener.accept(&mut || false)?.accept_wire()
}

/// Runs a task while a library passes on what it holds for this wire.
pub(crate) fn while_driven<T>(wire: &mut dyn Wire, task: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(due_in) = wire.drive().filter(|_| !is_done.load(Ordering::Relaxed)) {
                std::thread::sleep(due_in);
            }
        });
        let answer = task();
        is_done.store(true, Ordering::Relaxed);
        answer
    })
}

/// Calls `send`, with the number of bytes sent so far, until it sends no bytes `max_misses` times in a row. Returns
/// the number of bytes sent.
pub(crate) fn fill(max_misses: u32, mut send: impl FnMut(usize) -> Result<usize, String>) -> Result<usize, String> {
    let (mut sent, mut misses) = (0, 0);
    while misses < max_misses {
        let taken = send(sent)?;
        misses = if taken == 0 { misses + 1 } else { 0 };
        sent += taken;
        ensure!(sent < 400_000_000, "400 MB are accepted without a reader");
    }
    Ok(sent)
}

pub(crate) fn calls(wire: &dyn Wire) -> u64 {
    wire.system_calls().unwrap_or_default()
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns pseudo-random bytes that depend on the seed (xorshift64*, Vigna 2016).
pub(crate) fn random_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn is_closed<T>(answer: &Result<T, WireError>) -> bool {
    matches!(answer, Err(WireError::Closed))
}

pub(crate) fn is_timed_out<T>(answer: &Result<T, WireError>) -> bool {
    matches!(answer, Err(WireError::TimedOut { .. }))
}

/// Formats an answer for the message of a failed check.
pub(crate) fn shown<T: std::fmt::Debug, E: std::fmt::Debug>(answer: &Result<T, E>) -> String {
    format!("{answer:?}")
}
