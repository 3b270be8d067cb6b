//! Connections at the port of the server whose client is not known yet: each has 5 s and 16 KiB, and of too many the oldest is
//! closed. Nothing here waits, so none of them delays another.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_engine::control::frames::Frames;
use hairpin_transports::{Cookie, HELLO_BYTES, Said, said};
use rustls::{ServerConfig, ServerConnection};

use crate::linux::wait::Wants;
use crate::protocol::{Greeting, MOST_BYTES_OF_A_STRANGER};
use crate::tls::Tls;

/// How long a client has to become known.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that it may send until then.
const MOST_BYTES: u64 = 16 << 10;
/// So many are heard at once, where there are descriptors for them.
pub(super) const MOST: usize = 2000;
/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1); hellos begin with others (RFC 9443).
const HANDSHAKE: u8 = 22;
/// The first byte of a hello.
const HELLO: u8 = 4;
/// When a hello that has come in part is looked at again.
const LOOK: Duration = Duration::from_millis(20);

/// A connection that has said what it is.
pub(super) enum Heard {
    /// One of data, which begins with the hello of that cookie; none of it was read.
    Data(TcpStream, Cookie),
    /// One of control, with the greeting of its client.
    Control(Box<Frames<Tls>>, Box<Greeting>),
}

enum Stage {
    /// Nothing was read yet.
    New(TcpStream),
    /// A part of a hello has come. It stays in the socket, which is therefore not watched but looked at again.
    Part(TcpStream),
    /// It speaks TLS.
    Shaking(Tls),
    /// It has to say who it is.
    Silent(Frames<Tls>),
}

struct Stranger {
    /// None while it is looked at.
    stage: Option<Stage>,
    from: SocketAddr,
    until: Instant,
}

/// What became of strangers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They said what they are.
    pub heard: u64,
    /// They said something else, or left.
    pub dropped: u64,
    /// They said nothing whole in time, or too much.
    pub overdue: u64,
}

/// All of them, the oldest first.
pub(super) struct Strangers {
    all: Vec<Stranger>,
    most: usize,
    config: Arc<ServerConfig>,
    /// What became of them so far.
    pub(super) counts: Counts,
}

impl Strangers {
    /// None yet, and so many at once.
    #[must_use]
    pub(super) fn new(config: Arc<ServerConfig>, most: usize) -> Self {
        Self { all: Vec::new(), most, config, counts: Counts::default() }
    }

    /// Takes in a connection that was just accepted.
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

    /// Closes the oldest; whether there was one.
    pub(super) fn close_oldest(&mut self) -> bool {
        if self.all.is_empty() {
            return false;
        }
        self.all.remove(0);
        self.counts.overdue += 1;
        true
    }

    /// What to watch, in the order of [`Strangers::hear`], and whether for input.
    pub(super) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Wants)> {
        self.all.iter().map(|stranger| match stranger.stage.as_ref().expect("it is not looked at now") {
            Stage::New(socket) => (socket.as_fd(), Wants::Input),
            Stage::Part(socket) => (socket.as_fd(), Wants::Nothing),
            Stage::Shaking(tls) => (tls.socket().as_fd(), Wants::Input),
            Stage::Silent(frames) => (frames.carrier().socket().as_fd(), Wants::Input),
        })
    }

    /// When to look at them next though nothing has come.
    #[must_use]
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let has_part = self.all.iter().any(|stranger| matches!(stranger.stage, Some(Stage::Part(_))));
        let overdue = self.all.first().map(|stranger| stranger.until);
        if has_part { Some(now + LOOK) } else { overdue }
    }

    /// Hears those that are `ready`, by their places, and closes those that are overdue; answers who said what it is.
    pub(super) fn hear(&mut self, ready: &[bool], now: Instant) -> Vec<(Heard, SocketAddr)> {
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
                Step::Stays(stage) => stranger.stage = Some(*stage),
                Step::Heard(what) => {
                    counts.heard += 1;
                    heard.push((what, stranger.from));
                }
                Step::Dropped => counts.dropped += 1,
                Step::TooMuch => counts.overdue += 1,
            }
            stranger.stage.is_some()
        });
        heard
    }
}

enum Step {
    Stays(Box<Stage>),
    Heard(Heard),
    Dropped,
    TooMuch,
}

/// Goes on with what a connection says, as far as that has come.
fn step(stage: Stage, config: &Arc<ServerConfig>) -> Step {
    match stage {
        Stage::New(socket) | Stage::Part(socket) => begun(socket, config),
        Stage::Shaking(tls) => shaken(tls),
        Stage::Silent(frames) => greeted(frames),
    }
}

/// Looks at the first bytes, and takes none of them.
fn begun(socket: TcpStream, config: &Arc<ServerConfig>) -> Step {
    let mut start = [0; HELLO_BYTES];
    let bytes = match socket.peek(&mut start) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Stays(Box::new(Stage::New(socket))),
        Err(_) => return Step::Dropped,
    };
    match (start[..bytes].first(), said(&start[..bytes])) {
        (_, Some(Said::Hello(cookie))) => Step::Heard(Heard::Data(socket, cookie)),
        (Some(&HANDSHAKE), _) => {
            let connection = ServerConnection::new(Arc::clone(config));
            let tls = connection.map_err(io::Error::other).and_then(|connection| Tls::over(socket, connection));
            tls.map_or(Step::Dropped, shaken)
        }
        (Some(first), None) if *first == HELLO && bytes < HELLO_BYTES => Step::Stays(Box::new(Stage::Part(socket))),
        _ => Step::Dropped,
    }
}

fn shaken(mut tls: Tls) -> Step {
    match tls.shake_hands() {
        Ok(true) => greeted(Frames::over(tls, MOST_BYTES_OF_A_STRANGER)),
        Ok(false) if tls.taken_bytes() > MOST_BYTES => Step::TooMuch,
        Ok(false) => Step::Stays(Box::new(Stage::Shaking(tls))),
        Err(_) => Step::Dropped,
    }
}

fn greeted(mut frames: Frames<Tls>) -> Step {
    match frames.receive_any::<Greeting>(Duration::ZERO) {
        Ok(greeting) => Step::Heard(Heard::Control(Box::new(frames), Box::new(greeting))),
        Err(ControlError::TimedOut(_)) if frames.carrier().taken_bytes() <= MOST_BYTES => {
            Step::Stays(Box::new(Stage::Silent(frames)))
        }
        Err(ControlError::TimedOut(_) | ControlError::TooLarge { .. }) => Step::TooMuch,
        Err(_) => Step::Dropped,
    }
}
