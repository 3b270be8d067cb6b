//! Connections of clients that are not authenticated yet. Each connection may take 5 s and send 16 KiB; above the
//! maximum number, the oldest connection is closed. Nothing here blocks, so that no connection delays another.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_engine::control::frames::Frames;
use hairpin_transports::{Cookie, HELLO_BYTES, HelloKind, parse_hello};
use rustix::event::PollFlags;
use rustls::{ServerConfig, ServerConnection};
use serde::Deserialize;

use crate::protocol::{AnyGreeting, Greeting, MAX_STRANGER_BYTES, VERSION};
use crate::tls::{TOO_MUCH, Tls};

const AUTH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum bytes that a client may send before it is authenticated.
const MAX_TOTAL_BYTES: u64 = 16 << 10;
/// Maximum connections at the same time, if there are enough descriptors.
pub(super) const MAX_STRANGERS: usize = 2000;
/// First byte of a TLS record with a handshake (RFC 8446, section 5.1); hellos begin with other bytes (RFC 9443).
const HANDSHAKE: u8 = 22;
/// First byte of a hello.
const HELLO: u8 = 4;
const HELLO_POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) enum Caller {
    /// A data flow that begins with the hello of that cookie. The hello is still in the socket.
    Data(TcpStream, Cookie),
    Control(Box<Frames<Tls>>, Box<Greeting>),
    /// A control connection whose client has another version.
    OtherVersion(Box<Frames<Tls>>, AnyGreeting),
}

enum Stage {
    /// Nothing was read yet.
    New(TcpStream),
    /// Part of a hello has arrived. It stays in the socket, so poll(2) would return at once; a timer is used instead.
    Partial(TcpStream),
    Handshake(Tls),
    /// The TLS handshake is complete; the greeting has not arrived.
    NoGreeting(Frames<Tls>),
}

struct Stranger {
    /// `None` while `poll` processes the connection.
    stage: Option<Stage>,
    from: SocketAddr,
    until: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Connections that completed a hello or greeting.
    pub(super) identified: u64,
    /// Connections that sent something else, or closed.
    pub(super) dropped: u64,
    /// Connections that completed no message in time, sent too much, or were closed to make room.
    pub(super) overdue: u64,
    /// Connections from addresses that are not allowed.
    pub(super) not_allowed: u64,
    /// Data flows of a round that already had all its flows.
    pub(super) refused: u64,
}

/// The unauthenticated connections.
pub(super) struct Strangers {
    /// Oldest first.
    pending: Vec<Stranger>,
    max: usize,
    config: Arc<ServerConfig>,
    pub(super) counts: Counts,
}

impl Strangers {
    /// Allows up to `max` connections at the same time.
    pub(super) fn new(config: Arc<ServerConfig>, max: usize) -> Self {
        Self { pending: Vec::new(), max, config, counts: Counts::default() }
    }

    /// Adds a connection that was just accepted.
    pub(super) fn add(&mut self, socket: TcpStream, from: SocketAddr, now: Instant) {
        if socket.set_nonblocking(true).is_err() {
            self.counts.dropped += 1;
            return;
        }
        if self.pending.len() >= self.max {
            self.close_oldest();
        }
        self.pending.push(Stranger { stage: Some(Stage::New(socket)), from, until: now + AUTH_TIMEOUT });
    }

    /// Closes the oldest connection. Returns whether there was one.
    pub(super) fn close_oldest(&mut self) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        self.pending.remove(0);
        self.counts.overdue += 1;
        true
    }

    /// Returns the sockets to poll and the events to wait for, in the order of `ready` in [`Strangers::poll`].
    pub(super) fn poll_set(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.pending.iter().map(|stranger| match stranger.stage.as_ref().expect("`poll` does not process it now") {
            Stage::New(socket) => (socket.as_fd(), PollFlags::IN),
            Stage::Partial(socket) => (socket.as_fd(), PollFlags::empty()),
            Stage::Handshake(tls) => (tls.socket().as_fd(), PollFlags::IN),
            Stage::NoGreeting(frames) => (frames.carrier().socket().as_fd(), PollFlags::IN),
        })
    }

    /// Returns when to call [`Strangers::poll`] if nothing arrives; `None` without connections.
    pub(super) fn next_poll(&self, now: Instant) -> Option<Instant> {
        let has_part = self.pending.iter().any(|stranger| matches!(stranger.stage, Some(Stage::Partial(_))));
        let overdue = self.pending.first().map(|stranger| stranger.until);
        if has_part { Some(now + HELLO_POLL_INTERVAL) } else { overdue }
    }

    /// Reads from connections whose flag in `ready` is set, and closes overdue ones. Returns the identified callers.
    pub(super) fn poll(&mut self, ready: &[bool], now: Instant) -> Vec<(Caller, SocketAddr)> {
        let mut heard = Vec::new();
        let mut index = 0;
        let config = Arc::clone(&self.config);
        let counts = &mut self.counts;
        self.pending.retain_mut(|stranger| {
            let is_part = matches!(stranger.stage, Some(Stage::Partial(_)));
            let is_ready = is_part || ready.get(index).copied().unwrap_or(false);
            index += 1;
            if now >= stranger.until {
                counts.overdue += 1;
                return false;
            }
            if !is_ready {
                return true;
            }
            let stage = stranger.stage.take().expect("`poll` does not process it now");
            match step(stage, &config) {
                Progress::Stays(stage) => stranger.stage = Some(*stage),
                Progress::Identified(what) => {
                    counts.identified += 1;
                    heard.push((what, stranger.from));
                }
                Progress::Dropped => counts.dropped += 1,
                Progress::TooMuch => counts.overdue += 1,
            }
            stranger.stage.is_some()
        });
        heard
    }
}

enum Progress {
    Stays(Box<Stage>),
    Identified(Caller),
    Dropped,
    TooMuch,
}

/// Processes the data that a connection has sent so far.
fn step(stage: Stage, config: &Arc<ServerConfig>) -> Progress {
    match stage {
        Stage::New(socket) | Stage::Partial(socket) => on_first_bytes(socket, config),
        Stage::Handshake(tls) => on_handshake(tls),
        Stage::NoGreeting(frames) => on_greeting(frames),
    }
}

/// Parses the first bytes without removing them from the socket.
fn on_first_bytes(socket: TcpStream, config: &Arc<ServerConfig>) -> Progress {
    let mut start = [0; HELLO_BYTES];
    let bytes = match socket.peek(&mut start) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Progress::Stays(Box::new(Stage::New(socket)));
        }
        Err(_) => return Progress::Dropped,
    };
    match (start[..bytes].first(), parse_hello(&start[..bytes])) {
        (_, Some((HelloKind::Hello, cookie, _))) => Progress::Identified(Caller::Data(socket, cookie)),
        (Some(&HANDSHAKE), _) => {
            let connection = ServerConnection::new(Arc::clone(config));
            let tls = connection.map_err(io::Error::other).and_then(|connection| Tls::over(socket, connection));
            let tls = tls.map(|mut tls| {
                tls.limit_received(MAX_TOTAL_BYTES);
                tls
            });
            tls.map_or(Progress::Dropped, on_handshake)
        }
        (Some(first), None) if *first == HELLO && bytes < HELLO_BYTES => {
            Progress::Stays(Box::new(Stage::Partial(socket)))
        }
        _ => Progress::Dropped,
    }
}

fn on_handshake(mut tls: Tls) -> Progress {
    match tls.handshake() {
        Ok(true) => on_greeting(Frames::over(tls, MAX_STRANGER_BYTES)),
        Ok(false) => Progress::Stays(Box::new(Stage::Handshake(tls))),
        Err(error) if error.kind() == TOO_MUCH => Progress::TooMuch,
        Err(_) => Progress::Dropped,
    }
}

fn on_greeting(mut frames: Frames<Tls>) -> Progress {
    match frames.receive_any::<serde_json::Value>(Duration::ZERO) {
        Ok(greeting) => match (AnyGreeting::deserialize(&greeting), Greeting::deserialize(&greeting)) {
            (Ok(AnyGreeting { version: VERSION, .. }), Ok(greeting)) => {
                Progress::Identified(Caller::Control(Box::new(frames), Box::new(greeting)))
            }
            (Ok(spoken), _) if spoken.version != VERSION => {
                Progress::Identified(Caller::OtherVersion(Box::new(frames), spoken))
            }
            _ => Progress::Dropped,
        },
        Err(ControlError::TimedOut(_)) => Progress::Stays(Box::new(Stage::NoGreeting(frames))),
        Err(ControlError::TooLarge { .. }) => Progress::TooMuch,
        Err(ControlError::System(error)) if error.kind() == TOO_MUCH => Progress::TooMuch,
        Err(_) => Progress::Dropped,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use hairpin_transports::encode_hello;
    use proptest::prelude::*;

    use super::*;
    use crate::identity::Identity;

    const PATIENT: Duration = Duration::from_secs(20);

    /// A server's strangers, its certificate's fingerprint, and its listener.
    fn server() -> (Strangers, [u8; 32], TcpListener) {
        let identity = Identity::make().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (Strangers::new(identity.server_config().unwrap(), 10), identity.fingerprint(), listener)
    }

    /// Opens a connection and adds it to `strangers`. Returns the client's socket.
    fn connected(strangers: &mut Strangers, listener: &TcpListener) -> TcpStream {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, from) = listener.accept().unwrap();
        strangers.add(socket, from, Instant::now());
        client
    }

    /// Polls as if at the time `at` until no connection is left. Returns the identified callers.
    fn callers_until(strangers: &mut Strangers, at: Instant) -> Vec<Caller> {
        let mut heard = Vec::new();
        let deadline = Instant::now() + PATIENT;
        while !strangers.pending.is_empty() && Instant::now() < deadline {
            let ready = vec![true; strangers.pending.len()];
            heard.extend(strangers.poll(&ready, at).into_iter().map(|(heard, _)| heard));
        }
        heard
    }

    /// Result of a client that sends `bytes` within TLS and then closes.
    fn after_tls(bytes: &[u8]) -> (usize, Counts) {
        let (mut strangers, fingerprint, listener) = server();
        let client = connected(&mut strangers, &listener);
        let bytes = bytes.to_vec();
        let sender = std::thread::spawn(move || {
            let mut tls = Tls::to_server(client, fingerprint).unwrap();
            tls.handshake_until(Instant::now() + PATIENT).unwrap();
            drop(tls.write_all(&bytes).and_then(|()| tls.flush()));
            tls.close(Duration::ZERO);
        });
        let heard = callers_until(&mut strangers, Instant::now());
        sender.join().unwrap();
        (heard.len(), strangers.counts)
    }

    #[test]
    fn a_frame_of_a_gigabyte_and_a_partial_frame_are_dropped() {
        let (heard, counts) = after_tls(&(1_u32 << 30).to_le_bytes());
        assert_eq!((heard, counts.overdue + counts.dropped), (0, 1), "{counts:?}");
        let (heard, counts) = after_tls(&[20, 0, 0, 0, b'{']);
        assert_eq!((heard, counts), (0, Counts { dropped: 1, ..Counts::default() }));
        let (heard, counts) = after_tls(&[2, 0, 0, 0, b'{', b'}']);
        assert_eq!((heard, counts), (0, Counts { dropped: 1, ..Counts::default() }), "the greeting has no version");
    }

    #[test]
    fn slow_connections_time_out_and_the_oldest_of_too_many_is_closed() {
        let (mut strangers, _, listener) = server();
        let mut slow: Vec<TcpStream> = (0..12).map(|_| connected(&mut strangers, &listener)).collect();
        assert_eq!((strangers.pending.len(), strangers.counts.overdue), (10, 2));
        for client in &mut slow[2..] {
            client.write_all(&[HANDSHAKE]).unwrap();
        }
        let on_first_bytes = vec![true; 10];
        assert!(strangers.poll(&on_first_bytes, Instant::now()).is_empty());
        assert_eq!(strangers.pending.len(), 10, "one byte of TLS is not a handshake");
        assert!(callers_until(&mut strangers, Instant::now() + AUTH_TIMEOUT).is_empty());
        assert_eq!((strangers.pending.len(), strangers.counts.overdue), (0, 12));
        slow[5].set_read_timeout(Some(PATIENT)).unwrap();
        let mut received = Vec::new();
        drop(slow[5].read_to_end(&mut received));
        // Content type 21 is an alert (RFC 8446, section 5.1).
        assert!(received.is_empty() || received[0] == 21 && received.len() == 7, "{received:?}");
    }

    #[test]
    fn a_hello_in_parts_is_one_hello_and_stays_in_the_socket() {
        let (mut strangers, _, listener) = server();
        let mut client = connected(&mut strangers, &listener);
        let hello = encode_hello(HelloKind::Hello, &Cookie([3; 16]), &[0; 16]);
        client.write_all(&hello[..7]).unwrap();
        let on_first_bytes = Instant::now();
        while !matches!(strangers.pending[0].stage, Some(Stage::Partial(_))) && on_first_bytes.elapsed() < PATIENT {
            assert!(strangers.poll(&[true], Instant::now()).is_empty());
        }
        client.write_all(&hello[7..]).unwrap();
        let heard = callers_until(&mut strangers, Instant::now());
        let [Caller::Data(socket, Cookie(cookie))] = heard.as_slice() else { panic!("not a data flow") };
        assert_eq!(*cookie, [3; 16]);
        let mut first = [0; HELLO_BYTES];
        assert_eq!(socket.peek(&mut first).unwrap(), HELLO_BYTES);
    }

    proptest! {
        #[test]
        fn random_bytes_neither_panic_nor_identify_a_client(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut strangers, _, listener) = server();
            let mut client = connected(&mut strangers, &listener);
            client.write_all(&bytes).unwrap();
            drop(client);
            // The server waits for the rest of a hello.
            let is_part = bytes.first() == Some(&HELLO) && bytes.len() < HELLO_BYTES;
            let at = if is_part { Instant::now() + AUTH_TIMEOUT } else { Instant::now() };
            let heard = callers_until(&mut strangers, at);
            prop_assert_eq!(heard.len(), 0);
            let Counts { dropped, overdue, .. } = strangers.counts;
            prop_assert_eq!((dropped, overdue), if is_part { (0, 1) } else { (1, 0) });
        }
    }

    proptest! {
        // Fewer cases: each needs a TLS handshake.
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]
        #[test]
        fn random_bytes_within_tls_neither_panic_nor_identify_a_client(
            length in prop_oneof![0..100_u32, any::<u32>()],
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let (heard, counts) = after_tls(&[&length.to_le_bytes()[..], &bytes].concat());
            prop_assert_eq!((heard, counts.identified, counts.dropped + counts.overdue), (0, 0, 1));
        }

        #[test]
        fn parsing_an_invalid_greeting_does_not_panic(version in any::<i64>(), text in ".{0,300}") {
            let greeting = serde_json::json!({ "version": version, "tool": text, "ticket": text, "proof": text, "purpose": text });
            let bytes = serde_json::to_vec(&greeting).unwrap();
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let (_, counts) = after_tls(&[&length[..], &bytes].concat());
            prop_assert_eq!(counts.identified + counts.dropped + counts.overdue, 1);
        }
    }
}
