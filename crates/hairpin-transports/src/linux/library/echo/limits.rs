//! The limits of echo servers, and their listener.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::library::runtime::Runtime;

pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Concurrent connections of a listener.
pub(super) const MAX_CONNECTIONS: usize = 100;
/// A connection without a complete message for this time is closed.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages of a connection in a second. A message counts once more for each 16 KiB.
pub(super) const MAX_MESSAGES_PER_S: u64 = 20_000;
const MESSAGE_UNIT_BYTES: usize = 16 << 10;
/// Interval between checks whether the server ends.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub struct EchoServer {
    pub at: SocketAddr,
    /// Its certificate in PEM, with which clients verify it; `None` without encryption.
    pub certificate: Option<String>,
}

/// Who may connect, and when the server ends.
#[derive(Clone)]
pub struct Rules {
    pub is_allowed: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    pub stop: Arc<AtomicBool>,
}

impl Rules {
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Accepts connections, each in a thread of its own.
pub(super) fn listen(at: SocketAddr, rules: Rules, serve: fn(TcpStream, &Connection)) -> io::Result<EchoServer> {
    let listener = TcpListener::bind(at)?;
    let address = listener.local_addr()?;
    let open = Arc::new(AtomicUsize::new(0));
    std::thread::Builder::new().name("echo listener".to_owned()).spawn(move || {
        while !rules.is_over() {
            let Ok((stream, from)) = listener.accept() else {
                // Out of descriptors, for instance.
                std::thread::sleep(POLL_INTERVAL);
                continue;
            };
            let is_allowed = (rules.is_allowed)(from.ip().to_canonical());
            if !is_allowed || open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
                if is_allowed {
                    open.fetch_sub(1, Ordering::AcqRel);
                }
                continue;
            }
            let connection = Connection::new(rules.clone(), Some(Arc::clone(&open)));
            // A thread that cannot start drops the connection and its count.
            let thread = std::thread::Builder::new().name("echo".to_owned());
            drop(thread.spawn(move || serve(stream, &connection)));
        }
    })?;
    Ok(EchoServer { at: address, certificate: None })
}

/// The limits of a connection. Its clones are the same connection.
#[derive(Clone)]
pub(super) struct Connection(Arc<Limited>);

struct Limited {
    rules: Rules,
    /// Number of open connections, which this one is part of.
    open: Option<Arc<AtomicUsize>>,
    state: Mutex<Used>,
}

struct Used {
    /// When the last message was complete.
    at: Instant,
    /// Start of the current second, and the messages in it.
    second: Instant,
    messages: u64,
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Connection {
    pub(super) fn new(rules: Rules, open: Option<Arc<AtomicUsize>>) -> Self {
        let now = Instant::now();
        let state = Mutex::new(Used { at: now, second: now, messages: 0 });
        Self(Arc::new(Limited { rules, open, state }))
    }

    /// Counts a message. Returns how long to wait before the next: the rest of the second if there were too many.
    pub(super) fn count(&self, bytes: usize) -> Duration {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.at = Instant::now();
        if state.second.elapsed() >= Duration::from_secs(1) {
            (state.second, state.messages) = (state.at, 0);
        }
        state.messages += 1 + (bytes / MESSAGE_UNIT_BYTES) as u64;
        let is_over = state.messages > MAX_MESSAGES_PER_S;
        if is_over { Duration::from_secs(1).saturating_sub(state.second.elapsed()) } else { Duration::ZERO }
    }

    /// Counts a message of a connection with a thread of its own, which sleeps if there were too many.
    pub(super) fn count_and_sleep(&self, bytes: usize) {
        match self.count(bytes) {
            Duration::ZERO => {}
            left => std::thread::sleep(left),
        }
    }

    /// Whether the connection must end.
    pub(super) fn is_over(&self) -> bool {
        let at = self.0.state.lock().unwrap_or_else(PoisonError::into_inner).at;
        at.elapsed() > IDLE_TIMEOUT || self.0.rules.is_over()
    }
}

/// Drives futures until there is an end.
pub(super) fn drive(mut runtime: Runtime, is_over: impl Fn() -> bool) {
    runtime.drive(true, true);
    while !is_over() {
        match runtime.park(POLL_INTERVAL) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            _ => {}
        }
    }
    // Sends what is left, such as a reason.
    runtime.drive(true, true);
}
