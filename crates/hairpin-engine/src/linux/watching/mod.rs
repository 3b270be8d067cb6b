//! Watches programs that Hairpin did not write, from outside: their packets, and samples of their sockets.
//!
//! One thread does everything in turn: it reads the ring of packets, looks up each known socket, and looks for new ones. It
//! holds no descriptor of a program, which would delay its FIN.

mod leftovers;
mod packets;
mod sockets;
mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use hairpin_loops::time::realtime_ns;
use hairpin_model::observed::{CpuWait, ObservedConnection, ObservedPackets, ObservedProgram, ObservedPrograms};
use hairpin_model::trace::End;
use hairpin_model::{ExplainedPrograms, Failure, RoundTrace, SocketSample, WhyNot};

pub use self::leftovers::Leftovers;
use self::packets::AllPackets;
use self::sockets::{Kind, Sockets};
use self::tree::{Thread, Tree};

use crate::cpu_quota::Throttling;
use crate::links::namespace;
use crate::netstat::Overflows;
use crate::packets::Connections;

/// Time between two samples of a socket, if there are few.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// A look-up takes 5 us, so that this bounds the time for samples to a tenth of a CPU.
const INTERVAL_PER_SOCKET: Duration = Duration::from_micros(50);
/// Time between two looks for new sockets, at first and later. A list of all sockets costs more than a look-up.
const FIRST_DISCOVERY_INTERVAL: Duration = Duration::from_millis(3);
const DISCOVERY_INTERVAL: Duration = Duration::from_millis(20);
const FIRST: Duration = Duration::from_millis(500);
/// A look for new sockets is followed by a pause of this many times its duration.
const MIN_PAUSES: u32 = 10;
/// Maximum number of sockets that are sampled, and of samples of each.
const MAX_SOCKETS: usize = 1_000;
const MAX_SAMPLES: usize = 200_000;
/// Maximum number of samples of all sockets, which take about 90 bytes each.
const MAX_ALL_SAMPLES: usize = 1_000_000;
/// Shorter waits of a thread for a CPU between two looks are not noted.
const MIN_CPU_WAIT_NS: u64 = 50_000;
/// Maximum number of such waits, and of times in send calls.
const MAX_NOTES: usize = 200_000;

/// What to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Processes that this process starts from now on, and what they start.
    Children,
    /// A process, and what it starts.
    Process(u32),
    Port(u16),
}

/// A running observation.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(ObservedPackets, ObservedPrograms)>,
}

impl Watch {
    /// Begins to watch, in these network namespaces, or in that of the calling thread if there are none. Returns when the
    /// observation runs, so that a program can be started.
    pub fn begin(subject: Subject, namespaces: &[&Path]) -> Result<Self, Failure> {
        let places = namespaces.iter().map(|path| Place::within(path)).collect::<Result<Vec<Place>, Failure>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let work = move || match Watching::new(subject, places) {
            Ok(watching) => {
                drop(ready.send(Ok(())));
                watching.run(&flag)
            }
            Err(error) => {
                drop(ready.send(Err(error)));
                Default::default()
            }
        };
        let failed = |error: io::Error| cannot_watch(&error);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(work).map_err(failed)?;
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended"))).map_err(failed)?;
        Ok(Self { stop, thread })
    }

    pub fn finish(self) -> (ObservedPackets, ObservedPrograms) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// A network namespace that is watched.
struct Place {
    packets: Result<AllPackets, WhyNot>,
    sockets: Sockets,
    overflows: Overflows,
}

impl Place {
    fn here() -> io::Result<Self> {
        Ok(Self { packets: AllPackets::begin(), sockets: Sockets::open()?, overflows: Overflows::begin() })
    }

    /// Sockets stay in the namespace in which they were opened.
    fn within(namespace: &Path) -> Result<Self, Failure> {
        let _visit = namespace::visit(namespace)?;
        Self::here().map_err(|error| cannot_watch(&error))
    }
}

fn cannot_watch(error: &io::Error) -> Failure {
    let hint = "watching programs needs sock_diag (CONFIG_INET_DIAG) and /proc";
    Failure::new(error, format!("cannot watch programs: {error}"), hint)
}

/// The ends of a connection as one of its sockets has them: the local one, then the remote one.
type Ends = (SocketAddr, SocketAddr);

struct Watching {
    subject: Subject,
    /// Whether only the subject uses the network namespaces.
    owns_places: bool,
    tree: Tree,
    places: Vec<Place>,
    connections: Connections,
    /// Samples of each socket of a connection that belongs to the subject.
    samples: BTreeMap<Ends, Vec<SocketSample>>,
    kept_samples: usize,
    /// Sockets that are still open, each with its place.
    open: BTreeSet<(usize, Ends)>,
    /// The program of each local end.
    owners: HashMap<SocketAddr, ObservedProgram>,
    listening: BTreeSet<SocketAddr>,
    programs: BTreeSet<u32>,
    /// Drops of each UDP socket, by inode: its address, and the first and the last count.
    udp_drops: BTreeMap<u32, (SocketAddr, u64, u64)>,
    began: Instant,
    began_realtime_ns: u64,
    /// When the threads were looked at last.
    looked_ns: u64,
    /// The ends of each socket of the subject, by inode, and when threads waited in send calls on it.
    ends: HashMap<u32, Ends>,
    blocked_sends: BTreeMap<Ends, Vec<Range<u64>>>,
    quota: Throttling,
    observed: ObservedPrograms,
}

impl Watching {
    fn new(subject: Subject, mut places: Vec<Place>) -> io::Result<Self> {
        let owns_places = !places.is_empty() && subject == Subject::Children;
        if places.is_empty() {
            places.push(Place::here()?);
        }
        let tree = match subject {
            Subject::Process(process) => Tree::of(process),
            Subject::Children | Subject::Port(_) => Tree::of_this_process(),
        };
        let why_not = places.iter().find_map(|place| place.packets.as_ref().err().map(ToString::to_string));
        let mut quota = Throttling::default();
        quota.add("self");
        let mut watching = Self {
            subject,
            owns_places,
            tree,
            places,
            connections: Connections::default(),
            samples: BTreeMap::new(),
            kept_samples: 0,
            open: BTreeSet::new(),
            owners: HashMap::new(),
            listening: BTreeSet::new(),
            programs: BTreeSet::new(),
            udp_drops: BTreeMap::new(),
            began: Instant::now(),
            began_realtime_ns: realtime_ns(),
            looked_ns: 0,
            ends: HashMap::new(),
            blocked_sends: BTreeMap::new(),
            quota,
            observed: ObservedPrograms {
                figures: ExplainedPrograms { no_packets: why_not, ..ExplainedPrograms::default() },
                ..ObservedPrograms::default()
            },
        };
        watching.discover()?;
        Ok(watching)
    }

    fn run(mut self, stop: &AtomicBool) -> (ObservedPackets, ObservedPrograms) {
        let mut discovered = Instant::now();
        let mut took = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            for (number, place) in self.places.iter_mut().enumerate() {
                if let Ok(packets) = &mut place.packets {
                    packets.read(number, &mut self.connections);
                }
            }
            self.sample();
            let is_first = self.began.elapsed() < FIRST;
            let interval = if is_first { FIRST_DISCOVERY_INTERVAL } else { DISCOVERY_INTERVAL };
            if discovered.elapsed() >= interval.max(took.saturating_mul(MIN_PAUSES)) {
                let looks = Instant::now();
                // An error leaves the sockets that are known.
                drop(self.discover());
                self.look_at_threads();
                self.observed.figures.stopped_by_quota_ns = self.quota.ns();
                discovered = Instant::now();
                took = discovered.duration_since(looks);
            }
            let sockets = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
            let interval = MIN_INTERVAL.max(INTERVAL_PER_SOCKET.saturating_mul(sockets));
            sleep(interval.saturating_sub(began.elapsed()));
        }
        drop(self.discover());
        self.finish()
    }

    /// Notes how long the programs' threads have waited for a CPU, and those that wait in a send call.
    fn look_at_threads(&mut self) {
        let from_ns = self.looked_ns;
        // The wall clock may be set back.
        let until_ns = realtime_ns().saturating_sub(self.began_realtime_ns).max(from_ns);
        self.looked_ns = until_ns;
        for Thread { process, waited_ns, sends_on } in self.tree.threads(&self.programs) {
            if waited_ns >= MIN_CPU_WAIT_NS && self.observed.cpu_waits.len() < MAX_NOTES {
                self.observed.cpu_waits.push(CpuWait { from_ns, until_ns, process, waited_ns });
            }
            let Some(ends) = sends_on.and_then(|inode| self.ends.get(&inode)) else { continue };
            let times = self.blocked_sends.entry(*ends).or_default();
            if let Some(last) = times.last_mut().filter(|last| last.end >= from_ns) {
                last.end = until_ns;
            } else if times.len() < MAX_NOTES / MAX_SOCKETS {
                times.push(until_ns..until_ns);
            }
        }
    }

    /// Takes a sample of each open socket.
    fn sample(&mut self) {
        let mut closed = Vec::new();
        for (place, ends) in &self.open {
            let at_ns = realtime_ns().saturating_sub(self.began_realtime_ns);
            let found = self.places[*place].sockets.find(ends.0, ends.1).ok().and_then(|socket| socket.sample);
            self.observed.figures.samples += 1;
            let Some(mut sample) = found else {
                closed.push((*place, *ends));
                continue;
            };
            // The wall clock may be set back.
            sample.at_ns = at_ns.max(self.samples.get(ends).and_then(|all| all.last()).map_or(0, |last| last.at_ns));
            let at_ns = sample.at_ns;
            let all = self.samples.entry(*ends).or_default();
            let is_like = |one: &SocketSample| SocketSample { at_ns, ..*one } == sample;
            // Of equal samples in a row the first and the last are kept: a change is between two samples.
            if let [.., before, last] = all.as_mut_slice()
                && is_like(before)
                && is_like(last)
            {
                last.at_ns = at_ns;
            } else if all.len() < MAX_SAMPLES && self.kept_samples < MAX_ALL_SAMPLES {
                all.push(sample);
                self.kept_samples += 1;
            }
        }
        self.open.retain(|one| !closed.contains(one));
    }

    /// Looks for new sockets of the subject, for drops, and for full queues.
    fn discover(&mut self) -> io::Result<()> {
        let owners = if let Subject::Port(_) = self.subject { HashMap::new() } else { self.tree.sockets() };
        for owner in owners.values() {
            if self.programs.insert(owner.process) {
                self.quota.add(&owner.process.to_string());
            }
        }
        self.ends.clear();
        let (mut found, mut datagrams) = (Vec::new(), Vec::new());
        for (number, place) in self.places.iter_mut().enumerate() {
            place.sockets.each(Kind::Tcp, |socket| found.push((number, socket)))?;
            place.sockets.each(Kind::Udp, |socket| datagrams.push(socket))?;
        }
        let is_of_subject = |socket: &sockets::Socket| match self.subject {
            Subject::Port(port) => socket.local.port() == port || socket.remote.port() == port,
            _ => owners.contains_key(&socket.inode),
        };
        let locals: BTreeMap<Ends, usize> =
            found.iter().map(|(place, socket)| ((socket.local, socket.remote), *place)).collect();
        for (place, socket) in found.iter().filter(|(_, socket)| is_of_subject(socket)) {
            if let Some(owner) = owners.get(&socket.inode) {
                self.owners.insert(socket.local, owner.clone());
            }
            if socket.is_listening {
                self.listening.insert(socket.local);
                if socket.receive_queue > socket.send_queue {
                    let full = (socket.local, u64::from(socket.send_queue));
                    if !self.observed.full_queues.contains(&full) && self.observed.full_queues.len() < MAX_SOCKETS {
                        self.observed.full_queues.push(full);
                    }
                }
                continue;
            }
            self.ends.insert(socket.inode, (socket.local, socket.remote));
            // The other end may be on this machine too, in a program that is not of the subject.
            let other_ends = (socket.remote, socket.local);
            let other = locals.get(&other_ends).map(|place| (*place, other_ends));
            for (place, ends) in [Some((*place, (socket.local, socket.remote))), other].into_iter().flatten() {
                if self.samples.len() < MAX_SOCKETS && !self.samples.contains_key(&ends) {
                    self.samples.insert(ends, Vec::new());
                    self.open.insert((place, ends));
                }
            }
        }
        for sockets::Socket { inode, local, drops, .. } in datagrams {
            let is_ours = match self.subject {
                Subject::Port(port) => local.port() == port,
                _ => owners.contains_key(&inode),
            };
            if is_ours {
                self.owners.extend(owners.get(&inode).map(|owner| (local, owner.clone())));
                // A socket that existed before may have dropped before.
                let before = if self.subject == Subject::Children { 0 } else { drops.into() };
                self.udp_drops.entry(inode).or_insert((local, before, before)).2 = drops.into();
            }
        }
        Ok(())
    }

    fn finish(mut self) -> (ObservedPackets, ObservedPrograms) {
        // The counter is that of all programs of a namespace.
        let is_ours = self.owns_places || !self.observed.full_queues.is_empty();
        let overflows = self.places.iter_mut().map(|place| place.overflows.count());
        let listen_overflows = if is_ours { overflows.sum() } else { 0 };
        for (number, place) in std::mem::take(&mut self.places).into_iter().enumerate() {
            if let Ok(packets) = place.packets {
                packets.finish(number, &mut self.connections);
            }
        }
        let first_realtime_ns = self.connections.began_realtime_ns().unwrap_or(self.began_realtime_ns);
        let began_ns = first_realtime_ns.min(self.began_realtime_ns);
        let [packets_later_ns, samples_later_ns] =
            [first_realtime_ns, self.began_realtime_ns].map(|ns| ns - began_ns);
        let mut packets = std::mem::take(&mut self.connections).finish(None);
        packets.connections.retain(|connection| self.is_of_subject(connection));
        for connection in &mut packets.connections {
            for packet in &mut connection.trace.packets {
                packet.at_ns += packets_later_ns;
                packet.arrived_ns = packet.arrived_ns.map(|ns| ns + packets_later_ns);
            }
        }
        self.add_samples(&mut packets.connections, samples_later_ns);
        let name =
            |address: &SocketAddr| self.owners.get(address).map_or_else(String::new, |owner| owner.name.clone());
        for wait in &mut self.observed.cpu_waits {
            wait.from_ns += samples_later_ns;
            wait.until_ns += samples_later_ns;
        }
        let dropped = self.udp_drops.values().filter(|(_, first, last)| last > first);
        let udp_drops = dropped.map(|(address, first, last)| (*address, name(address), last - first)).collect();
        let figures = ExplainedPrograms {
            stopped_by_quota_ns: self.quota.ns(),
            duration_ns: u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            own_cpu_ns: hairpin_loops::time::thread_cpu_ns(),
            programs: self.programs.len() as u64,
            ..self.observed.figures
        };
        (packets, ObservedPrograms { figures, udp_drops, listen_overflows, ..self.observed })
    }

    /// Whether a captured connection belongs to the subject. Connections that were too short to be listed belong to it if
    /// they have the same server as one that was.
    fn is_of_subject(&self, connection: &ObservedConnection) -> bool {
        let (client, server) = (connection.client, connection.server);
        if self.owns_places {
            return true;
        }
        if let Subject::Port(port) = self.subject {
            return client.port() == port || server.port() == port;
        }
        let unspecified = |address: SocketAddr| {
            self.listening
                .iter()
                .any(|one| one.port() == address.port() && (one.ip() == address.ip() || one.ip().is_unspecified()))
        };
        self.samples.contains_key(&(client, server))
            || self.samples.contains_key(&(server, client))
            || unspecified(server)
            || self.samples.keys().any(|(local, remote)| *remote == server && local.ip() == client.ip())
    }

    /// Adds the samples to the connections; those without packets become connections of their own.
    fn add_samples(&mut self, connections: &mut Vec<ObservedConnection>, later_ns: u64) {
        let is_listening = |address: &SocketAddr| self.listening.iter().any(|one| one.port() == address.port());
        for ((local, remote), mut samples) in std::mem::take(&mut self.samples) {
            samples.iter_mut().for_each(|sample| sample.at_ns += later_ns);
            let place = connections.iter().rposition(|one| {
                (one.client, one.server) == (local, remote) || (one.client, one.server) == (remote, local)
            });
            let place = place.unwrap_or_else(|| {
                let (client, server) = if is_listening(&local) { (remote, local) } else { (local, remote) };
                connections.push(ObservedConnection {
                    client,
                    server,
                    programs: [None, None],
                    trace: RoundTrace::default(),
                    has_handshake: false,
                    mss_bytes: None,
                    link_header_bytes: 0,
                    blocked_sends: Default::default(),
                    path_mtu_bytes: None,
                });
                connections.len() - 1
            });
            let connection = &mut connections[place];
            let is_client = connection.client == local;
            if is_client {
                // The SYN counts as an acknowledged byte at the end that sent it first.
                samples.iter_mut().for_each(|sample| sample.acked_bytes = sample.acked_bytes.saturating_sub(1));
            }
            if !connection.has_handshake && !connection.trace.packets.is_empty() {
                count_from_the_first_packet(connection, is_client, &mut samples);
            }
            let end = if is_client { &mut connection.trace.client } else { &mut connection.trace.server };
            end.samples = samples;
        }
        for connection in connections {
            let ends = [(connection.client, connection.server), (connection.server, connection.client)];
            connection.blocked_sends = ends.map(|ends| {
                let times = self.blocked_sends.remove(&ends).unwrap_or_default();
                times.into_iter().map(|time| time.start + later_ns..time.end + later_ns).collect()
            });
            connection.programs = [connection.client, connection.server].map(|address| {
                let any = |one: &&SocketAddr| one.port() == address.port() && one.ip().is_unspecified();
                let owner = self.owners.get(&address).or_else(|| self.owners.get(self.listening.iter().find(any)?));
                owner.cloned()
            });
        }
    }
}

/// Makes samples count bytes as packets do, if the connection began before the first packet.
fn count_from_the_first_packet(connection: &ObservedConnection, is_client: bool, samples: &mut [SocketSample]) {
    let own = if is_client { End::Client } else { End::Server };
    // Bytes before the first packet: the median difference, since a sample and a packet are not of the same moment.
    let before = |is_own: bool, counted: fn(&SocketSample) -> u64| {
        let mut packets = connection.trace.packets.iter().filter(|packet| (packet.from == own) == is_own).peekable();
        let mut highest = 0;
        let mut differences: Vec<u64> = Vec::new();
        for sample in samples.iter() {
            while let Some(packet) = packets.next_if(|packet| packet.at_ns <= sample.at_ns) {
                highest = highest.max(packet.end_byte);
            }
            differences.push(counted(sample).saturating_sub(highest));
        }
        differences.sort_unstable();
        differences.get(differences.len() / 2).copied().unwrap_or(0)
    };
    let sent_before = before(true, |sample| sample.acked_bytes.saturating_add(sample.unacked_bytes));
    let received_before = before(false, |sample| sample.received_bytes);
    for sample in samples {
        sample.acked_bytes = sample.acked_bytes.saturating_sub(sent_before);
        sample.received_bytes = sample.received_bytes.saturating_sub(received_before);
    }
}
