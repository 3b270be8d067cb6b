//! Connections to the server's port whose client is not known yet: each has 5 s and 16 KiB, and the oldest is closed if
//! there are too many. Nothing here waits, so none of them delays another.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_engine::control::frames::Frames;
use hairpin_transports::{Cookie, HELLO_BYTES, HelloMessage, parse_hello};
use rustls::{ServerConfig, ServerConnection};
use serde::Deserialize;

use crate::linux::wait::WaitFor;
use crate::protocol::{AnyGreeting, Greeting, MAX_STRANGER_BYTES, VERSION};
use crate::tls::{TOO_MUCH, Tls};

/// Time for a client to authenticate.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum bytes that it may send until then.
const MAX_BYTES: u64 = 16 << 10;
/// Maximum connections at the same time, if there are enough descriptors.
pub(super) const MAX_STRANGERS: usize = 2000;
/// First byte of a TLS record with a handshake (RFC 8446, section 5.1); hellos begin with others (RFC 9443).
const HANDSHAKE: u8 = 22;
/// First byte of a hello.
const HELLO: u8 = 4;
/// Interval between looks at an incomplete hello.
const LOOK: Duration = Duration::from_millis(20);

pub(super) enum Caller {
    /// A data flow that begins with the hello of that cookie; nothing of it was read.
    Data(TcpStream, Cookie),
    Control(Box<Frames<Tls>>, Box<Greeting>),
    /// A control connection whose client has another version.
    OtherVersion(Box<Frames<Tls>>, AnyGreeting),
}

enum Stage {
    /// Nothing was read yet.
    New(TcpStream),
    /// Part of a hello has arrived. It stays in the socket, which is therefore not polled but looked at again.
    Part(TcpStream),
    Shaking(Tls),
    /// Its greeting is missing.
    Silent(Frames<Tls>),
}

struct Stranger {
    /// `None` while it is processed.
    stage: Option<Stage>,
    from: SocketAddr,
    until: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Completed their hello or greeting.
    pub(super) heard: u64,
    /// Sent something else, or closed.
    pub(super) dropped: u64,
    /// Completed no message in time, or sent too much.
    pub(super) overdue: u64,
    /// Had the cookie of a round that has all its flows.
    pub(super) refused: u64,
}

/// All of them, oldest first.
pub(super) struct Strangers {
    all: Vec<Stranger>,
    most: usize,
    config: Arc<ServerConfig>,
    pub(super) counts: Counts,
}

impl Strangers {
    /// None yet, and at most `most` at the same time.
    pub(super) fn new(config: Arc<ServerConfig>, most: usize) -> Self {
        Self { all: Vec::new(), most, config, counts: Counts::default() }
    }

    /// Adds a connection that was just accepted.
    pub(super) fn take_in(&mut self, socket: TcpStream, from: SocketAddr, now: Instant) {
        if socket.set_nonblocking(true).is_err() {
            self.counts.dropped += 1;
            return;
        }
        if self.all.len() >= self.most {
            self.close_oldest();
        }
        self.all.push(Stranger { stage: Some(Stage::New(socket)), from, until: now + PATIENCE });
    }

    /// Closes the oldest. Returns whether there was one.
    pub(super) fn close_oldest(&mut self) -> bool {
        if self.all.is_empty() {
            return false;
        }
        self.all.remove(0);
        self.counts.overdue += 1;
        true
    }

    /// Sockets to poll, in the order of [`Strangers::hear`], and whether for input.
    pub(super) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, WaitFor)> {
        self.all.iter().map(|stranger| match stranger.stage.as_ref().expect("it is not looked at now") {
            Stage::New(socket) => (socket.as_fd(), WaitFor::Input),
            Stage::Part(socket) => (socket.as_fd(), WaitFor::Nothing),
            Stage::Shaking(tls) => (tls.socket().as_fd(), WaitFor::Input),
            Stage::Silent(frames) => (frames.carrier().socket().as_fd(), WaitFor::Input),
        })
    }

    /// When to look at them next if nothing arrives.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let has_part = self.all.iter().any(|stranger| matches!(stranger.stage, Some(Stage::Part(_))));
        let overdue = self.all.first().map(|stranger| stranger.until);
        if has_part { Some(now + LOOK) } else { overdue }
    }

    /// Reads from those that are `ready`, by position, and closes overdue ones. Returns those that are now known.
    pub(super) fn poll(&mut self, ready: &[bool], now: Instant) -> Vec<(Caller, SocketAddr)> {
        let mut heard = Vec::new();
        let mut place = 0;
        let config = Arc::clone(&self.config);
        let counts = &mut self.counts;
        self.all.retain_mut(|stranger| {
            let is_part = matches!(stranger.stage, Some(Stage::Part(_)));
            let is_ready = is_part || ready.get(place).copied().unwrap_or(false);
            place += 1;
            if now >= stranger.until {
                counts.overdue += 1;
                return false;
            }
            if !is_ready {
                return true;
            }
            let stage = stranger.stage.take().expect("it is not looked at now");
            match step(stage, &config) {
                Progress::Stays(stage) => stranger.stage = Some(*stage),
                Progress::Identified(what) => {
                    counts.heard += 1;
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

/// Processes what a connection has sent so far.
fn step(stage: Stage, config: &Arc<ServerConfig>) -> Progress {
    match stage {
        Stage::New(socket) | Stage::Part(socket) => on_first_bytes(socket, config),
        Stage::Shaking(tls) => on_handshake(tls),
        Stage::Silent(frames) => on_greeting(frames),
    }
}

/// Looks at the first bytes without consuming them.
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
        (_, Some(HelloMessage::Hello(cookie))) => Progress::Identified(Caller::Data(socket, cookie)),
        (Some(&HANDSHAKE), _) => {
            let connection = ServerConnection::new(Arc::clone(config));
            let tls = connection.map_err(io::Error::other).and_then(|connection| Tls::over(socket, connection));
            let tls = tls.map(|mut tls| {
                tls.take_up_to(MAX_BYTES);
                tls
            });
            tls.map_or(Progress::Dropped, on_handshake)
        }
        (Some(first), None) if *first == HELLO && bytes < HELLO_BYTES => {
            Progress::Stays(Box::new(Stage::Part(socket)))
        }
        _ => Progress::Dropped,
    }
}

fn on_handshake(mut tls: Tls) -> Progress {
    match tls.shake_hands() {
        Ok(true) => on_greeting(Frames::over(tls, MAX_STRANGER_BYTES)),
        Ok(false) => Progress::Stays(Box::new(Stage::Shaking(tls))),
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
        Err(ControlError::TimedOut(_)) => Progress::Stays(Box::new(Stage::Silent(frames))),
        Err(ControlError::TooLarge { .. }) => Progress::TooMuch,
        Err(ControlError::System(error)) if error.kind() == TOO_MUCH => Progress::TooMuch,
        Err(_) => Progress::Dropped,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use hairpin_transports::hello_of;
    use proptest::prelude::*;
    use rustls::ClientConnection;

    use super::*;
    use crate::identity::{self, Identity};

    const PATIENT: Duration = Duration::from_secs(20);

    /// A server's strangers, its certificate's fingerprint, and its listener.
    fn server() -> (Strangers, [u8; 32], TcpListener) {
        let identity = Identity::make().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        (Strangers::new(identity.server_config().unwrap(), 10), identity.fingerprint(), listener)
    }

    /// A connection that the server has added.
    fn connected(strangers: &mut Strangers, listener: &TcpListener) -> TcpStream {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, from) = listener.accept().unwrap();
        strangers.take_in(socket, from, Instant::now());
        client
    }

    /// Hears strangers, at the time `at`, until none is left. Returns those whose purpose became known.
    fn callers_until(strangers: &mut Strangers, at: Instant) -> Vec<Caller> {
        let mut heard = Vec::new();
        let deadline = Instant::now() + PATIENT;
        while !strangers.all.is_empty() && Instant::now() < deadline {
            let ready = vec![true; strangers.all.len()];
            heard.extend(strangers.poll(&ready, at).into_iter().map(|(heard, _)| heard));
        }
        heard
    }

    fn over_tls(fingerprint: [u8; 32], socket: TcpStream) -> Tls {
        let config = identity::client_config(fingerprint).unwrap();
        Tls::over(socket, ClientConnection::new(config, identity::name()).unwrap()).unwrap()
    }

    /// Result of a client that sends `bytes` within TLS and then closes.
    fn after_tls(bytes: &[u8]) -> (usize, Counts) {
        let (mut strangers, fingerprint, listener) = server();
        let client = connected(&mut strangers, &listener);
        let bytes = bytes.to_vec();
        let speaks = std::thread::spawn(move || {
            let mut tls = over_tls(fingerprint, client);
            tls.shake_hands_until(Instant::now() + PATIENT).unwrap();
            drop(tls.write_all(&bytes).and_then(|()| tls.flush()));
            tls.close(Duration::ZERO);
        });
        let heard = callers_until(&mut strangers, Instant::now());
        speaks.join().unwrap();
        (heard.len(), strangers.counts)
    }

    #[test]
    fn a_frame_of_a_gigabyte_is_not_waited_for_and_a_part_of_one_is_nothing() {
        let (heard, counts) = after_tls(&(1_u32 << 30).to_le_bytes());
        assert_eq!((heard, counts.overdue + counts.dropped), (0, 1), "{counts:?}");
        let (heard, counts) = after_tls(&[20, 0, 0, 0, b'{']);
        assert_eq!((heard, counts), (0, Counts { dropped: 1, ..Counts::default() }));
        let (heard, counts) = after_tls(&[2, 0, 0, 0, b'{', b'}']);
        assert_eq!((heard, counts), (0, Counts { dropped: 1, ..Counts::default() }), "it does not say who it is");
    }

    #[test]
    fn one_that_is_slow_is_closed_in_the_end_and_of_too_many_the_oldest() {
        let (mut strangers, _, listener) = server();
        let mut slow: Vec<TcpStream> = (0..12).map(|_| connected(&mut strangers, &listener)).collect();
        assert_eq!((strangers.all.len(), strangers.counts.overdue), (10, 2));
        for client in &mut slow[2..] {
            client.write_all(&[HANDSHAKE]).unwrap();
        }
        let on_first_bytes = vec![true; 10];
        assert!(strangers.poll(&on_first_bytes, Instant::now()).is_empty());
        assert_eq!(strangers.all.len(), 10, "one byte of TLS is not enough to tell");
        assert!(callers_until(&mut strangers, Instant::now() + PATIENCE).is_empty());
        assert_eq!((strangers.all.len(), strangers.counts.overdue), (0, 12));
        slow[5].set_read_timeout(Some(PATIENT)).unwrap();
        let mut told = Vec::new();
        drop(slow[5].read_to_end(&mut told));
        // Content type 21 is an alert (RFC 8446, section 5.1): TLS has ended.
        assert!(told.is_empty() || told[0] == 21 && told.len() == 7, "{told:?}");
    }

    #[test]
    fn a_hello_in_parts_is_one_hello_and_stays_in_the_socket() {
        let (mut strangers, _, listener) = server();
        let mut client = connected(&mut strangers, &listener);
        let hello = hello_of(&Cookie([3; 16]));
        client.write_all(&hello[..7]).unwrap();
        let on_first_bytes = Instant::now();
        while !matches!(strangers.all[0].stage, Some(Stage::Part(_))) && on_first_bytes.elapsed() < PATIENT {
            assert!(strangers.poll(&[true], Instant::now()).is_empty());
        }
        client.write_all(&hello[7..]).unwrap();
        let heard = callers_until(&mut strangers, Instant::now());
        let [Caller::Data(socket, Cookie(cookie))] = heard.as_slice() else { panic!("it is a flow of data") };
        assert_eq!(*cookie, [3; 16]);
        let mut first = [0; HELLO_BYTES];
        assert_eq!(socket.peek(&mut first).unwrap(), HELLO_BYTES);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_make_a_client(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut strangers, _, listener) = server();
            let mut client = connected(&mut strangers, &listener);
            client.write_all(&bytes).unwrap();
            drop(client);
            // The server waits for the rest of a hello.
            let is_part = bytes.first() == Some(&HELLO) && bytes.len() < HELLO_BYTES;
            let at = if is_part { Instant::now() + PATIENCE } else { Instant::now() };
            let heard = callers_until(&mut strangers, at);
            prop_assert_eq!(heard.len(), 0);
            let Counts { dropped, overdue, .. } = strangers.counts;
            prop_assert_eq!((dropped, overdue), if is_part { (0, 1) } else { (1, 0) });
        }
    }

    proptest! {
        // Each case has a TLS handshake.
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]
        #[test]
        fn no_bytes_within_tls_panic_or_make_a_client(
            length in prop_oneof![0..100_u32, any::<u32>()],
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let (heard, counts) = after_tls(&[&length.to_le_bytes()[..], &bytes].concat());
            prop_assert_eq!((heard, counts.heard, counts.dropped + counts.overdue), (0, 0, 1));
        }

        #[test]
        fn no_greeting_like_one_panics(version in any::<i64>(), text in ".{0,300}") {
            let greeting = serde_json::json!({ "version": version, "tool": text, "ticket": text, "proof": text, "purpose": text });
            let bytes = serde_json::to_vec(&greeting).unwrap();
            let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let (_, counts) = after_tls(&[&length[..], &bytes].concat());
            prop_assert_eq!(counts.heard + counts.dropped + counts.overdue, 1);
        }
    }
}
