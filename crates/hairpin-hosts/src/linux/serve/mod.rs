//! `hairpin serve`: the server end for clients on other hosts, at one port of TCP and UDP.
//!
//! One thread accepts connections, hears who they are, and answers hellos of datagrams; it never waits for one of them. A client
//! that is known gets a thread, and each of its rounds a process of its own, to which its flows of data are handed.

mod datagrams;
mod registry;
mod round;
mod strangers;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_engine::control::frames::Frames;
use hairpin_engine::ends::Host;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

pub use self::datagrams::Counts as DatagramCounts;
use self::datagrams::Datagrams;
use self::registry::Registry;
pub use self::strangers::Counts as ConnectionCounts;
use self::strangers::{Heard, Strangers};
use crate::dial::now_unix_s;
use crate::identity::Identity;
use crate::linux::wait::{Wants, wait_any};
use crate::proof::{Role, is_proof, proof};
use crate::protocol::{About, Answer, Base64, Greeting, Purpose, VERSION};
use crate::ticket::Secret;
use crate::tls::Tls;

/// Connections that are accepted at once, so that a flood leaves time for other work.
const AT_ONCE: usize = 64;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;
/// How long no connection is accepted where there are no descriptors for more.
const NO_ROOM: Duration = Duration::from_millis(20);
/// How long a session may be without a round.
const LONGEST_IDLE: Duration = Duration::from_mins(10);
/// How long a client has to close a connection on which it was refused.
const CLOSING: Duration = Duration::from_secs(2);
/// How often it is asked whether it has been.
const IDLE_LOOK: Duration = Duration::from_secs(5);

/// A ticket that the server takes.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its name.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// When it expires, in seconds since 1970.
    pub expires_unix_s: u64,
}

/// What happens at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has begun a run.
    Began {
        /// The session.
        session: u64,
        /// Where the client is.
        client: SocketAddr,
        /// Its Hairpin.
        tool: String,
        /// The name of its ticket.
        ticket: String,
    },
    /// A run is over.
    Ended {
        /// The session.
        session: u64,
        /// Its rounds.
        rounds: u64,
    },
    /// A client was refused.
    Refused {
        /// Where it is.
        client: SocketAddr,
        /// Why.
        why: String,
    },
}

/// What a server has.
pub struct Server {
    /// One, or two where it has all addresses of both versions of IP.
    listeners: Vec<TcpListener>,
    datagrams: Datagrams,
    strangers: Strangers,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    /// Readable when a thread has sent an event.
    woken: UnixStream,
}

/// What its threads share.
struct Shared {
    registry: Registry,
    tickets: Mutex<Vec<Taken>>,
    host: Host,
    about: About,
    program: PathBuf,
    at: SocketAddr,
    events: Sender<Event>,
    /// Wakes the thread that waits.
    wake: UnixStream,
}

impl Server {
    /// Binds the port; that of `::` is the port of all addresses of both versions of IP. `program` is started for each round, on `host`, of which clients are told what `about` says.
    ///
    /// # Errors
    /// The address or the port is not to be had, or the identity cannot be used.
    pub fn bind(at: SocketAddr, identity: &Identity, host: Host, about: About, program: PathBuf) -> io::Result<Self> {
        let config = identity.server_config().map_err(io::Error::other)?;
        let first = listener(at)?;
        let at = first.local_addr()?;
        let over_ipv4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port());
        let second = if at.ip() == Ipv6Addr::UNSPECIFIED { unless_missing(listener(over_ipv4))? } else { None };
        let addresses = if second.is_some() { &[at, over_ipv4][..] } else { &[at] };
        let (told, events) = channel();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let shared = Shared {
            registry: Registry::default(),
            tickets: Mutex::default(),
            host,
            about,
            program,
            at,
            events: told,
            wake,
        };
        Ok(Self {
            listeners: [Some(first), second].into_iter().flatten().collect(),
            datagrams: Datagrams::bind(addresses)?,
            strangers: Strangers::new(config, allow_descriptors()?),
            shared: Arc::new(shared),
            events,
            woken,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.at
    }

    /// From now on it takes these tickets.
    pub fn take(&self, tickets: Vec<Taken>) {
        *self.shared.tickets.lock().unwrap_or_else(PoisonError::into_inner) = tickets;
    }

    /// How many sessions there are.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.registry.sessions(None)
    }

    /// What came at the port so far.
    #[must_use]
    pub fn counts(&self) -> (ConnectionCounts, DatagramCounts) {
        (self.strangers.counts, self.datagrams.counts)
    }

    /// Serves what comes, for about so long or until something happens; answers what did.
    ///
    /// # Errors
    /// The system does not let it wait or accept any more.
    pub fn serve(&mut self, at_most: Duration) -> io::Result<Vec<Event>> {
        let until = Instant::now() + at_most;
        loop {
            self.look(until.saturating_duration_since(Instant::now()))?;
            let events: Vec<Event> = self.events.try_iter().collect();
            if !events.is_empty() || Instant::now() > until {
                return Ok(events);
            }
        }
    }

    /// Waits until something comes, `at_most` so long, and serves that.
    fn look(&mut self, at_most: Duration) -> io::Result<()> {
        let now = Instant::now();
        let next = self.strangers.next_look(now).map_or(at_most, |at| at.saturating_duration_since(now).min(at_most));
        let ready = {
            let ports = self.listeners.iter().map(AsFd::as_fd).chain(self.datagrams.sockets().map(AsFd::as_fd));
            let own = std::iter::once(self.woken.as_fd()).chain(ports);
            wait_any(own.map(|socket| (socket, Wants::Input)).chain(self.strangers.watched()), next)?
        };
        let (woken, others) = ready.split_at(1);
        if woken == [true] {
            // The events themselves are in the channel.
            drop((&self.woken).read(&mut [0; 64]));
        }
        let (accept, others) = others.split_at(self.listeners.len());
        let (hear, strangers) = others.split_at(self.datagrams.sockets().len());
        for (heard, from) in self.strangers.hear(strangers, Instant::now()) {
            self.heard(heard, from);
        }
        for place in (0..accept.len()).filter(|place| accept[*place]) {
            self.accept(place)?;
        }
        self.datagrams.serve(hear, &self.shared.registry);
        Ok(())
    }

    fn accept(&mut self, place: usize) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            match self.listeners[place].accept() {
                Ok((socket, from)) => self.strangers.take_in(socket, from, Instant::now()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // It has gone again, or there is no room for it now.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if has_no_descriptors(&error) => {
                    if !self.strangers.close_oldest() {
                        std::thread::sleep(NO_ROOM);
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn heard(&mut self, heard: Heard, from: SocketAddr) {
        match heard {
            Heard::Data(socket, cookie) => {
                if self.shared.registry.connected(cookie, socket.as_fd()).is_err() {
                    self.strangers.counts.dropped += 1;
                }
            }
            Heard::Control(frames, greeting) => {
                let shared = Arc::clone(&self.shared);
                let thread = std::thread::Builder::new().name("hairpin-client".to_owned());
                // Without a thread the client finds its connection closed.
                drop(thread.spawn(move || shared.known(*frames, &greeting, from)));
            }
        }
    }
}

impl Shared {
    fn tell(&self, event: Event) {
        // A server that is gone hears nothing; one with events to hear is awake.
        drop(self.events.send(event));
        drop((&self.wake).write(&[0]));
    }

    /// Answers a client that says who it is, and serves what it wants.
    fn known(&self, mut frames: Frames<Tls>, greeting: &Greeting, from: SocketAddr) {
        match self.checked(&frames, greeting) {
            Ok((ticket, session, answer)) => {
                if frames.send_any(&answer).is_ok() {
                    match greeting.purpose {
                        Purpose::Session => self.session(frames, session, &ticket, greeting, from),
                        Purpose::Round(_) => {
                            // The address that the client knows, where there are several.
                            let at = frames.carrier().socket().local_addr().unwrap_or(self.at);
                            round::serve(frames, at, &self.host, &self.program, &self.registry);
                        }
                    }
                } else if greeting.purpose == Purpose::Session {
                    self.registry.end(session);
                }
            }
            Err((what, hint)) => {
                self.tell(Event::Refused { client: from, why: what.clone() });
                drop(frames.send_any(&Answer::Refused { what, hint: hint.to_owned() }));
                frames.carrier_mut().close(CLOSING);
            }
        }
    }

    /// Whether the client has the secret of a ticket, and may have what it wants.
    fn checked(
        &self,
        frames: &Frames<Tls>,
        greeting: &Greeting,
    ) -> Result<(Taken, u64, Answer), (String, &'static str)> {
        if greeting.version != VERSION {
            let what = format!(
                "it speaks version {} of the protocol between hosts, and this server ({}) version {VERSION}",
                greeting.version,
                tool()
            );
            return Err((what, "use the same version of Hairpin at both ends"));
        }
        let exporter = frames.carrier().exporter().map_err(|error| (error.to_string(), ""))?;
        let tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = tickets.iter().find(|ticket| ticket.id == greeting.ticket).cloned();
        drop(tickets);
        let ticket = ticket.filter(|ticket| is_proof(&ticket.secret, Role::Client, &exporter, &greeting.proof.0));
        let ticket = ticket.ok_or_else(|| {
            ("the ticket is not known here, or was revoked".to_owned(), "get a new one from `hairpin serve`")
        })?;
        if ticket.expires_unix_s <= now_unix_s() {
            return Err(("the ticket has expired".to_owned(), "get a new one from `hairpin serve`"));
        }
        let session = match greeting.purpose {
            Purpose::Session => self.registry.begin(&ticket.id),
            Purpose::Round(session) if self.registry.count_round(session, &ticket.id) => session,
            Purpose::Round(_) => return Err(("its session is over".to_owned(), "start the run again")),
        };
        let proof = Base64(proof(&ticket.secret, Role::Server, &exporter).to_vec());
        Ok((ticket, session, Answer::Welcome { version: VERSION, tool: tool(), proof, session }))
    }

    /// Holds a session until its client has closed it.
    fn session(&self, mut frames: Frames<Tls>, session: u64, ticket: &Taken, greeting: &Greeting, from: SocketAddr) {
        let (tool, id) = (printable(&greeting.tool), ticket.id.clone());
        self.tell(Event::Began { session, client: from, tool, ticket: id });
        let is_idle = || self.registry.idle(session).is_none_or(|idle| idle > LONGEST_IDLE);
        drop(frames.send_any(&self.about));
        // Its client has nothing to say, and closes it at the end of its run.
        while !is_idle() && matches!(frames.receive_any::<Answer>(IDLE_LOOK), Err(ControlError::TimedOut(_))) {}
        let rounds = self.registry.end(session).map_or(0, |session| session.rounds);
        self.tell(Event::Ended { session, rounds });
    }
}

fn has_no_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Allows this process as many descriptors as it needs at most, as far as it may; answers how many strangers may have one.
fn allow_descriptors() -> io::Result<usize> {
    let limits = getrlimit(Resource::Nofile);
    let wanted = 2 * strangers::MOST as u64;
    let allowed = limits.maximum.map_or(wanted, |hard| hard.min(wanted)).max(limits.current.unwrap_or(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), ..limits })?;
    // The others are for clients that are known, and their rounds.
    Ok(usize::try_from(allowed / 2).unwrap_or(strangers::MOST).min(strangers::MOST))
}

/// Listens there, over one version of IP only.
fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// None on a host without that version of IP.
fn unless_missing(listener: io::Result<TcpListener>) -> io::Result<Option<TcpListener>> {
    match listener {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => Ok(None),
        listener => listener.map(Some),
    }
}

fn tool() -> String {
    concat!("hairpin ", env!("CARGO_PKG_VERSION")).to_owned()
}

/// What a client says of itself, for a log: short, and without what steers a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(60).collect()
}
