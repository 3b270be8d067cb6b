//! `hairpin serve`: the server for clients on other hosts, on one port of TCP and UDP.
//!
//! One thread accepts connections, reads their first messages and answers datagram hellos; it never blocks on a client.
//! An authenticated client gets a thread, and each of its rounds a process, which receives the data flows' sockets.

mod allowance;
mod bind;
mod client;
mod datagrams;
mod lease;
mod metrics;
mod refusals;
mod registry;
mod round;
mod sessions;
mod shared;
mod strangers;

use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hairpin_engine::wait::wait_any;
use hairpin_model::RefusalReason::Version;
use hairpin_model::served::Event;
use hairpin_model::{Ending, StrangerCounts};
use hairpin_transports::{multipath, received};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use socket2::Type;

use self::bind::bind_socket;
use self::client::version_mismatch;
use self::datagrams::Datagrams;
use self::lease::Lease;
use self::refusals::Refusals;
use self::registry::{NotAccepted, Registry};
pub use self::sessions::Account;
use self::sessions::Sessions;
use self::shared::Shared;
pub use self::shared::{AcceptedTicket, Service, Tickets};
use self::strangers::{Caller, Strangers};
use crate::identity::Identity;

/// Maximum connections to accept in one call, so that a flood leaves time for other work.
const MAX_ACCEPTS: usize = 64;
const BACKLOG: i32 = 4096;
/// Pause before the next accept if descriptors or memory are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Interval between reports of the counts of unauthenticated clients, if they changed.
const COUNTS_REPORT_INTERVAL: Duration = Duration::from_mins(1);
/// Longest wait for input. A signal that arrives just before the wait does not interrupt the wait.
const MAX_WAIT: Duration = Duration::from_secs(1);

pub struct Server {
    /// One for each IP version, and one for Multipath TCP.
    listeners: Vec<TcpListener>,
    datagrams: Datagrams,
    strangers: Strangers,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    woken: UnixStream,
    refusals: Refusals,
    reported: StrangerCounts,
    reported_at: Instant,
}

impl Server {
    /// Binds the port; `::` binds all addresses of both IP versions.
    ///
    /// # Errors
    /// The address or the port is unavailable, or the identity is invalid.
    pub fn bind(at: SocketAddr, identity: &Identity, service: Service) -> io::Result<Self> {
        // Other processes of this user must not read the key and the tickets from its memory (PR_SET_DUMPABLE).
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let config = identity.server_config().map_err(io::Error::other)?;
        let (mut listeners, datagrams) = open_ports(at)?;
        let at = listeners[0].local_addr()?;
        // Without this listener, clients that ask for Multipath TCP get TCP, as RFC 8684 requires; the record says so.
        let over_ipv4 = listeners.iter().find(|one| one.local_addr().is_ok_and(|at| at.is_ipv4()));
        let multipath = over_ipv4.and_then(|tcp| multipath::beside(tcp, BACKLOG).ok());
        listeners.extend(multipath);
        let (sender, events) = channel();
        let (wake, woken) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let shared = Shared {
            registry: Registry::default(),
            sessions: Sessions::default(),
            lease: Lease::default(),
            service,
            at,
            events: sender,
            wake,
            refusing: AtomicU32::new(0),
            refused_silently: AtomicU64::new(0),
            refused: Default::default(),
        };
        Ok(Self {
            listeners,
            datagrams,
            strangers: Strangers::new(config, raise_descriptor_limit()?),
            shared: Arc::new(shared),
            events,
            woken,
            refusals: Refusals::default(),
            reported: StrangerCounts::default(),
            reported_at: Instant::now(),
        })
    }

    /// Whether it runs with all privileges, of which it needs none.
    pub fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    pub fn address(&self) -> SocketAddr {
        self.shared.at
    }

    /// Serves counters in the format of OpenMetrics over HTTP. Returns the address.
    pub fn serve_metrics(&self, at: SocketAddr) -> io::Result<SocketAddr> {
        metrics::start(at, Arc::clone(&self.shared))
    }

    pub fn restore(&self, book: Account) {
        self.shared.sessions.restore(book);
    }

    /// Returns the account if it changed since the last call.
    pub fn changed(&self) -> Option<Account> {
        self.shared.sessions.take_changed()
    }

    /// Ends all sessions. Returns the number of sessions since the start, and their payload bytes.
    pub fn end(&self, why: Ending) -> Event {
        let (sessions, bytes) = self.shared.sessions.end_all();
        Event::Stopped { why, sessions, bytes }
    }

    /// Returns what was counted since the last report: refusals, and unauthenticated clients.
    pub fn counted(&mut self) -> Vec<Event> {
        let mut events = self.refusals.take();
        events.extend(self.strangers());
        events
    }

    fn strangers(&mut self) -> Option<Event> {
        self.reported_at = Instant::now();
        let refused_silently = self.shared.refused_silently.load(Ordering::Relaxed);
        let (connections, datagrams) = (self.strangers.counts, self.datagrams.counts);
        let counts = StrangerCounts {
            connections_dropped: connections.dropped,
            connections_overdue: connections.overdue,
            connections_not_allowed: connections.not_allowed,
            datagrams_ignored: datagrams.ignored,
            flows_refused: connections.refused + datagrams.refused,
            clients_untold: refused_silently,
        };
        let is_new = counts != std::mem::replace(&mut self.reported, counts);
        is_new.then_some(Event::Strangers(counts))
    }

    /// Serves for about `at_most` or until there are events. Returns the events.
    ///
    /// # Errors
    /// poll(2) or accept(2) fails permanently.
    pub fn serve(&mut self, at_most: Duration) -> io::Result<Vec<Event>> {
        let until = Instant::now() + at_most;
        loop {
            self.serve_once(until)?;
            let mut events = Vec::new();
            for event in self.events.try_iter() {
                let Event::Refused { client, reason, why, .. } = event else {
                    events.push(event);
                    continue;
                };
                let (event, is_counted) = self.refusals.on_refused(client, reason, why);
                events.extend(event);
                self.shared.refused_silently.fetch_add(u64::from(!is_counted), Ordering::Relaxed);
            }
            if self.reported_at.elapsed() >= COUNTS_REPORT_INTERVAL {
                events.extend(self.counted());
            }
            if !events.is_empty() || Instant::now() > until {
                return Ok(events);
            }
        }
    }

    /// Waits for input and serves it.
    fn serve_once(&mut self, until: Instant) -> io::Result<()> {
        let now = Instant::now();
        let longest = until.saturating_duration_since(now).min(MAX_WAIT);
        let next = self.strangers.next_poll(now).map_or(longest, |at| at.saturating_duration_since(now).min(longest));
        let ready = {
            let own = self.listeners.iter().map(AsFd::as_fd).chain(self.datagrams.sockets().map(AsFd::as_fd));
            let own = own.chain([self.woken.as_fd()]).map(|socket| (socket, PollFlags::IN));
            wait_any(own.chain(self.strangers.poll_set()), Some(next))?
        };
        let (accept, others) = ready.split_at(self.listeners.len());
        let (hear, others) = others.split_at(self.datagrams.sockets().len());
        let Some((is_woken, strangers)) = others.split_first() else { return Ok(()) };
        for (heard, from) in self.strangers.poll(strangers, Instant::now()) {
            self.on_caller(heard, from);
        }
        if *is_woken {
            // The events are in the channel.
            drop(self.woken.read(&mut [0; 64]));
        }
        for index in (0..accept.len()).filter(|index| accept[*index]) {
            self.accept(index)?;
        }
        self.datagrams.serve(hear, &self.shared.registry);
        Ok(())
    }

    fn accept(&mut self, index: usize) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTS {
            match self.listeners[index].accept() {
                Ok((_, from)) if !self.shared.allows(from.ip()) => self.strangers.counts.not_allowed += 1,
                Ok((socket, from)) => self.strangers.add(socket, from, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The connection was closed before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                    if !self.strangers.close_oldest() {
                        std::thread::sleep(ACCEPT_PAUSE);
                    }
                    break;
                }
                Err(error) if is_permanent(&error) => return Err(error),
                // accept(2) also returns errors of closed connections, and fails if memory is exhausted.
                Err(_) => {
                    std::thread::sleep(ACCEPT_PAUSE);
                    break;
                }
            }
        }
        Ok(())
    }

    fn on_caller(&mut self, caller: Caller, from: SocketAddr) {
        match caller {
            Caller::Data(socket, cookie) => match self.shared.registry.hand_connection(cookie, socket.as_fd()) {
                Ok(()) => {}
                Err(NotAccepted::Unknown) => self.strangers.counts.dropped += 1,
                Err(NotAccepted::Refused) => self.strangers.counts.refused += 1,
            },
            Caller::Control(frames, greeting) => {
                let shared = Arc::clone(&self.shared);
                let thread = std::thread::Builder::new().name("hairpin-client".to_owned());
                // If no thread can be started, the connection is closed.
                drop(thread.spawn(move || shared.serve_client(*frames, &greeting, from)));
            }
            Caller::OtherVersion(frames, spoken) => {
                let shared = Arc::clone(&self.shared);
                let thread = std::thread::Builder::new().name("hairpin-refused".to_owned());
                let refuse = move || shared.refuse(*frames, Version, &version_mismatch(&spoken), from);
                drop(thread.spawn(refuse));
            }
        }
    }
}

/// Whether accept(2) will keep failing.
fn is_permanent(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP))
}

/// Raises the descriptor limit as far as needed and allowed. Returns the maximum number of unauthenticated clients.
fn raise_descriptor_limit() -> io::Result<usize> {
    let limits = getrlimit(Resource::Nofile);
    let wanted = 2 * strangers::MAX_STRANGERS as u64;
    let allowed = limits.maximum.map_or(wanted, |hard| hard.min(wanted)).max(limits.current.unwrap_or(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), ..limits })?;
    // The other half is for authenticated clients and their rounds.
    Ok(usize::try_from(allowed / 2).unwrap_or(strangers::MAX_STRANGERS).min(strangers::MAX_STRANGERS))
}

/// Attempts to find a port that is free for TCP and for UDP, if the kernel may choose it.
const MAX_PORTS: usize = 16;

/// Opens the port for TCP and UDP, over both IP versions if the address is unspecified.
fn open_ports(at: SocketAddr) -> io::Result<(Vec<TcpListener>, Datagrams)> {
    let open = || {
        let first = listen(at)?;
        let at = first.local_addr()?;
        let over_ipv4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port());
        let second = if at.ip() == Ipv6Addr::UNSPECIFIED { none_if_unsupported(listen(over_ipv4))? } else { None };
        let addresses = if second.is_some() { &[at, over_ipv4][..] } else { &[at] };
        let datagrams = Datagrams::bind(addresses)?;
        Ok::<_, io::Error>((std::iter::once(first).chain(second).collect(), datagrams))
    };
    for _ in 1..if at.port() == 0 { MAX_PORTS } else { 1 } {
        match open() {
            Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => {}
            opened => return opened,
        }
    }
    open()
}

/// Listens at that address, over one IP version only.
fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    // With SO_REUSEPORT the bind would succeed despite another server of this user; `exclusive` detects that server.
    let exclusive = bind_socket(at, Type::STREAM, false)?;
    let socket = bind_socket(exclusive.local_addr()?.as_socket().unwrap_or(at), Type::STREAM, true)?;
    socket.listen(BACKLOG)?;
    let listener = socket.into();
    // If the kernel does not keep the headers, some facts are missing from the record.
    drop(received::keep(&listener));
    Ok(listener)
}

/// Returns `None` on a host without that IP version.
fn none_if_unsupported(listener: io::Result<TcpListener>) -> io::Result<Option<TcpListener>> {
    match listener {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => Ok(None),
        listener => listener.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::atomic::AtomicBool;

    use hairpin_engine::clock::RealClock;
    use std::path::PathBuf;

    use hairpin_engine::control::frames::Frames;
    use hairpin_engine::ends::Host;
    use hairpin_engine::placement::Cpus;
    use hairpin_model::Limits;
    use serde_json::{Value, json};

    use super::*;
    use crate::dial::now_unix_s;
    use crate::proof::{Role, proof, ticket_id};
    use crate::protocol::{Base64, ServerInfo};
    use crate::ticket::Secret;
    use crate::tls::Tls;

    const PATIENT: Duration = Duration::from_secs(20);
    const SECRET: Secret = Secret([7; 16]);

    /// Sends the greeting that `greeting` builds from the client's proof. Returns the server's answer and events.
    fn answered(greeting: impl FnOnce(String) -> Value) -> (Value, Vec<Event>) {
        let identity = Identity::make().unwrap();
        let (clock, cpus) = (RealClock::calibrated(), Cpus::choose().unwrap());
        let host = Host { clock, cpus, namespace: None, across: None };
        let at = "127.0.0.1:0".parse().unwrap();
        let ticket = || AcceptedTicket {
            id: ticket_id(&SECRET),
            secret: SECRET,
            expires_unix_s: now_unix_s() + 1000,
            limits: Limits::default(),
            name: None,
            is_of_file: false,
            allow: Vec::new(),
        };
        let tickets = Box::new(move |id: &str| Ok(Some(ticket()).filter(|ticket| ticket.id == id)));
        let (program, about) = (PathBuf::from("/nonexistent"), ServerInfo::default());
        let service = Service { tickets, allow: Vec::new(), host, about, describes_host: false, program };
        let mut server = Server::bind(at, &identity, service).unwrap();
        let at = server.address();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut events = Vec::new();
                while !over.load(Ordering::Relaxed) || events.is_empty() {
                    events.extend(server.serve(Duration::from_millis(5)).unwrap());
                }
                events
            });
            let mut tls = Tls::to_server(TcpStream::connect(at).unwrap(), identity.fingerprint()).unwrap();
            tls.handshake_until(Instant::now() + PATIENT).unwrap();
            let given = proof(&SECRET, Role::Client, &tls.exporter().unwrap());
            let mut frames = Frames::over(tls, 1 << 16);
            let given = serde_json::to_value(Base64(given.to_vec())).unwrap().as_str().unwrap().to_owned();
            frames.send_any(&greeting(given)).unwrap();
            let answer = frames.receive_any(PATIENT).unwrap();
            over.store(true, Ordering::Relaxed);
            (answer, serving.join().unwrap())
        })
    }

    fn greeting(version: u32, proof: String) -> Value {
        json!({ "version": version, "tool": "hairpin 9.9.9", "ticket": ticket_id(&SECRET), "proof": proof, "purpose": "session" })
    }

    #[test]
    fn another_major_version_is_refused_and_both_are_named() {
        // A later version may have other fields.
        let (answer, events) =
            answered(|_| json!({ "version": 2, "tool": "hairpin 9.9.9\u{1b}[31m", "new": [1, 2] }));
        let what = answer["refused"]["what"].as_str().unwrap();
        assert_eq!(
            what,
            "the client (hairpin 9.9.9[31m) speaks version 2 of the protocol between hosts, and this server version 1"
        );
        assert!(matches!(events.as_slice(), [Event::Refused { .. }]), "{events:?}");
    }

    #[test]
    fn a_later_hairpin_of_the_same_major_version_is_served() {
        let (answer, events) = answered(|proof| {
            let mut greeting = greeting(1, proof);
            greeting["a field of later versions"] = Value::from(1);
            greeting
        });
        assert!(answer["welcome"]["session"].is_u64(), "{answer}");
        assert!(matches!(&events[0], Event::Began { tool, .. } if tool == "hairpin 9.9.9"), "{events:?}");
    }

    #[test]
    fn without_the_secret_nothing_is_revealed() {
        let (answer, _) = answered(|_| greeting(1, "AAAA".to_owned()));
        assert_eq!(answer["refused"]["what"], "the ticket is not known here, or was revoked");
    }
}
