//! A link's process: what it creates, and that it leaves nothing behind however it ends.
//!
//! The tests start a link as the engine does. Their threads enter the link's namespaces and return.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hairpin_engine::clock::RealClock;
use hairpin_engine::links::addresses::{FAR, NEAR_V4, NEAR_V6};
use hairpin_engine::links::namespace;
use hairpin_engine::links::{LinkOrder, RunningLink, tcp};
use hairpin_engine::placement::{Cpus, place};
use hairpin_model::environment::NetworkNamespace;
use hairpin_testing::{or_skip, program};

use crate::support::{OwnChild, PROGRAM, Place, Running, names_in, signal, until};

/// The order of a link without measurements.
pub(crate) fn order(profile: &str) -> LinkOrder {
    LinkOrder {
        profile: profile.to_owned(),
        traces: Vec::new(),
        seed: 7,
        congestion_control: tcp::default_congestion_control(),
        clock: RealClock::calibrated(),
        cpu: None,
        allowed_cpus: Cpus::choose().expect("the kernel tells").allowed,
        messages: std::collections::BTreeMap::new(),
        log: None,
    }
}

/// Starts a link of that profile. The error says why no link can be created here.
fn start(profile: &str) -> Result<RunningLink, String> {
    start_as(&order(profile))
}

/// Starts the ordered link. The error says why no link can be created here.
fn start_as(order: &LinkOrder) -> Result<RunningLink, String> {
    namespace::may_prepare().map_err(|why| why.to_string())?;
    // The tests run in threads, so only root, who needs no user namespace, gets here.
    assert_eq!(namespace::prepare(), Ok(NetworkNamespace::Original));
    Ok(RunningLink::start(Path::new(PROGRAM), order).expect("the link starts"))
}

/// Runs `act` in a network namespace.
pub(crate) fn within<T>(namespace: &Path, act: impl FnOnce() -> T) -> T {
    let _visit = namespace::visit(namespace).expect("a namespace of the link can be entered and left");
    act()
}

/// Identifies the network namespace of a file.
fn namespace_of(file: impl AsRef<Path>) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn here() -> (u64, u64) {
    namespace_of("/proc/thread-self/ns/net").expect("this thread is in a namespace")
}

/// The processes in a network namespace.
fn inhabitants(namespace: (u64, u64)) -> Vec<u32> {
    let ids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
    ids.filter(|id| namespace_of(format!("/proc/{id}/ns/net")) == Some(namespace)).collect()
}

/// Number of descriptors of this process that hold one of these namespaces open.
fn held(namespaces: [(u64, u64); 2]) -> usize {
    let files =
        names_in(Path::new("/proc/self/fd")).into_iter().map(|name| PathBuf::from("/proc/self/fd").join(name));
    files.filter_map(namespace_of).filter(|file| namespaces.contains(file)).count()
}

/// Identifies the namespaces of both ends. The numbers are unique only while the namespaces are held open.
fn both(link: &RunningLink) -> [(u64, u64); 2] {
    let ends = link.namespaces();
    [&ends.near, &ends.far].map(|path| namespace_of(path).expect("the link lives"))
}

/// Starts a process in that namespace. The process runs until it is killed, at the latest with the test.
fn sleeper(namespace: &Path, script: &str) -> OwnChild {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    OwnChild(within(namespace, || command.spawn().expect("sh can be started")))
}

fn has_ended(process: &mut OwnChild) -> bool {
    process.0.try_wait().expect("it is our child").is_some()
}

const SLEEP: &str = "exec sleep 1000";

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 100];
    let length = socket.recv(&mut buffer).expect("a datagram comes");
    buffer[..length].to_vec()
}

/// Connected sockets, one at each end.
fn sockets(link: &RunningLink, near: IpAddr, far: IpAddr) -> (UdpSocket, UdpSocket) {
    let bind = |namespace: &Path, address: IpAddr| {
        let socket = within(namespace, || UdpSocket::bind((address, 0)).expect("its address is there"));
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it is not zero");
        socket
    };
    let (near, far) = (bind(&link.namespaces().near, near), bind(&link.namespaces().far, far));
    near.connect(far.local_addr().expect("it is bound")).expect("the other end is known");
    far.connect(near.local_addr().expect("it is bound")).expect("the other end is known");
    (near, far)
}

#[test]
fn packets_go_both_ways_and_the_ledger_closes() {
    let link = or_skip!(start("delay=1ms"));
    let home = here();
    let pairs: [(IpAddr, IpAddr); 2] = [(NEAR_V4.into(), FAR.v4.into()), (NEAR_V6.into(), FAR.v6.into())];
    for (near, far) in pairs {
        let (near, far) = sockets(&link, near, far);
        near.send(b"up").expect("it can be sent");
        assert_eq!(receive(&far), b"up");
        far.send(b"down").expect("it can be sent");
        assert_eq!(receive(&near), b"down");
    }
    assert_eq!(here(), home, "the thread has returned to its own namespace");
    let record = link.finish().expect("the link ends in order").record;
    assert_eq!(record.seed, 7);
    // There were no other packets: no address was resolved or announced.
    for direction in [&record.up, &record.down] {
        assert_eq!((direction.packets.entered, direction.packets.out), (2, 2), "{record:?}");
        assert_eq!(direction.packets.unexplained(), 0);
    }
    assert!(record.relay.is_some_and(|relay| relay.setup_ns > 0), "{record:?}");
}

/// The CPUs on which a process's first thread may run, parsed from a list such as `0-2,5`.
pub(crate) fn cpus_of(id: u32) -> Vec<usize> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).expect("the process lives");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("proc(5) has it");
    let cpu = |text: &str| -> usize { text.parse().expect("a number") };
    let range = |text: &str| match text.split_once('-') {
        Some((first, last)) => cpu(first)..=cpu(last),
        None => cpu(text)..=cpu(text),
    };
    list.trim().split(',').flat_map(range).collect()
}

#[test]
fn a_relay_runs_on_the_cpu_of_its_order_and_reports_it() {
    let free = order("delay=1ms");
    let allowed = free.allowed_cpus.clone();
    // Pins this process, because a link must not inherit the CPU of the process that starts it.
    place(allowed.first().copied(), &allowed).expect("it is allowed");
    for cpu in allowed.iter().copied().map(Some).chain([None]) {
        let ordered = LinkOrder { cpu, ..free.clone() };
        let link = or_skip!(start_as(&ordered));
        assert_eq!(cpus_of(link.id()), cpu.map_or_else(|| allowed.clone(), |cpu| vec![cpu]));
        let relay = link.finish().expect("the link ends in order").record.relay.expect("a relay carried it");
        assert_eq!(relay.pinned_cpu, cpu);
    }
}

#[test]
fn packet_number_0_is_the_first_that_a_program_sends() {
    let link = or_skip!(start("up.drop=0 delay=0ms"));
    let (near, far) = sockets(&link, NEAR_V4.into(), FAR.v4.into());
    for text in [b"0", b"1", b"2"] {
        near.send(text).expect("it can be sent");
    }
    assert_eq!((receive(&far), receive(&far)), (b"1".to_vec(), b"2".to_vec()));
    let record = link.finish().expect("the link ends in order").record;
    assert_eq!((record.up.packets.entered, record.up.packets.out, record.down.packets.entered), (3, 2, 0));
    assert_eq!(record.up.packets.dropped["loss"], 1);
}

#[test]
fn a_stream_arrives_complete_in_packets_of_the_mtu() {
    const BYTES: usize = 1_000_000;
    let link = or_skip!(start("mtu=1000B delay=0ms"));
    let listener = within(&link.namespaces().far, || TcpListener::bind((FAR.v4, 0)).expect("it can listen"));
    let to = listener.local_addr().expect("it is bound");
    let reader = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("it comes to its end");
        bytes
    });
    let mut stream = within(&link.namespaces().near, || TcpStream::connect(to).expect("it can connect"));
    let sent: Vec<u8> = (0..BYTES).map(|place| u8::try_from(place % 251).expect("below 251")).collect();
    stream.write_all(&sent).expect("it can be sent");
    drop(stream);
    assert!(reader.join().expect("the reader ends") == sent, "every byte in its place");
    let record = link.finish().expect("the link ends in order").record;
    // A packet of 1000 bytes carries at most 960 bytes. The link's first stage drops larger packets.
    assert!(record.up.packets.entered >= u64::try_from(BYTES / 960).expect("small"), "{record:?}");
    assert!(record.packets.dropped.is_empty(), "{record:?}");
    assert_eq!(record.packets.unexplained(), 0);
}

#[test]
fn both_ends_have_their_address_and_mtu_and_know_each_other() {
    or_skip!(program("ip"));
    let link = or_skip!(start("mtu=1400B"));
    let ends: [(&Path, Ipv4Addr, Ipv6Addr); 2] =
        [(&link.namespaces().near, NEAR_V4, NEAR_V6), (&link.namespaces().far, FAR.v4, FAR.v6)];
    for (namespace, v4, v6) in ends {
        let ip = |arguments: &[&str]| {
            let mut command = Command::new("ip");
            command.args(arguments);
            within(namespace, || command.output()).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let shown = ip(&["-o", "address"]).expect("it was found just now");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 4, "two at the loopback, two at eth0, and no others: {shown}");
        for address in ["127.0.0.1/8".to_owned(), "::1/128".to_owned(), format!("{v4}/24"), format!("{v6}/64")] {
            assert!(shown.contains(&format!(" {address} ")), "{address}: {shown}");
        }
        assert!(!shown.contains("tentative"), "{shown}");
        let shown = ip(&["-o", "link"]).expect("it was there");
        let eth0 = shown.lines().find(|line| line.contains(" eth0@")).expect("it is there");
        assert!(eth0.contains(" mtu 1400 ") && eth0.contains("NOARP") && eth0.contains("LOWER_UP"), "{shown}");
        assert!(eth0.contains(" link/ether 02:00:00:00:00:10 "), "both ends have the same hardware address: {shown}");
    }
    drop(link);
}

/// Waits until nothing is left of ended namespaces. The kernel reuses their numbers for new namespaces, which another
/// test may hold for a while.
fn until_gone(ends: [(u64, u64); 2]) {
    until("no process holds or is in the link's namespaces", || {
        held(ends) == 0 && ends.iter().all(|end| inhabitants(*end).is_empty())
    });
}

#[test]
fn twenty_starts_leave_no_process_namespace_or_file() {
    for round in 0..20 {
        let link = or_skip!(start("delay=1ms"));
        let (id, ends) = (link.id(), both(&link));
        assert_eq!(held(ends), 2, "the handle holds both while the link lives");
        link.finish().expect("the link ends in order");
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "{round}: the process was reaped");
        until_gone(ends);
    }
}

#[test]
fn processes_at_an_end_are_ended_with_the_link() {
    let link = or_skip!(start("delay=1ms"));
    let ends = both(&link);
    let mut plain = sleeper(&link.namespaces().near, SLEEP);
    // A shell that starts another child when its child is killed, and a process whose parent has ended.
    let mut again = sleeper(&link.namespaces().far, "while :; do sleep 1000; done");
    let mut left = sleeper(&link.namespaces().far, "setsid sleep 1000 & exit 0");
    until("all of them run", || {
        has_ended(&mut left) && inhabitants(ends[1]).len() >= 3 && inhabitants(ends[0]).len() == 1
    });
    link.finish().expect("the link ends in order");
    until_gone(ends);
    until("both have ended", || has_ended(&mut plain) && has_ended(&mut again));
}

#[test]
fn a_dropped_link_is_removed() {
    let link = or_skip!(start("delay=1ms"));
    let (id, ends) = (link.id(), both(&link));
    let mut process = sleeper(&link.namespaces().near, SLEEP);
    drop(link);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
    until_gone(ends);
    until("it has ended", || has_ended(&mut process));
}

#[test]
fn a_killed_link_is_reported_and_removed() {
    let link = or_skip!(start("delay=1ms"));
    let ends = both(&link);
    let mut process = sleeper(&link.namespaces().far, SLEEP);
    signal("KILL", link.id());
    let failure = link.finish().expect_err("it was killed");
    assert_eq!(failure.cause, "the link ended early (signal: 9 (SIGKILL))");
    until_gone(ends);
    until("it has ended", || has_ended(&mut process));
}

#[test]
fn a_process_that_itself_enters_an_end_is_not_killed() {
    let link = or_skip!(start("delay=1ms"));
    let namespaces = link.namespaces().clone();
    let visit = namespace::visit(&namespaces.near).expect("it can be entered");
    let inner = namespace::visit(&namespaces.far).expect("it can be entered from the other");
    let far = here();
    drop(inner);
    assert_ne!(here(), far);
    link.finish().expect("the link ends in order");
    drop(visit);
    assert!(namespace::visit(&namespaces.near).is_err(), "the link has ended");
}

#[test]
fn a_link_that_cannot_be_created_fails_with_the_cause() {
    or_skip!(namespace::may_prepare());
    let why = |order: &LinkOrder| RunningLink::start(Path::new(PROGRAM), order).err().expect("it is refused");
    assert!(why(&order("delay=1")).cause.starts_with("cannot read the profile `delay=1`: "));
    assert_eq!(why(&order("loopback")).cause, "the loopback is not a link");
    let program = Path::new("/no/such/program");
    let failure = RunningLink::start(program, &order("delay=1ms")).err().expect("there is none");
    assert!(failure.cause.starts_with("cannot start the link /no/such/program: "), "{failure:?}");
}

#[test]
fn a_link_with_a_small_mtu_has_only_ipv4() {
    let link = or_skip!(start("mtu=600B"));
    let (near, far) = sockets(&link, NEAR_V4.into(), FAR.v4.into());
    near.send(b"up").expect("it can be sent");
    assert_eq!(receive(&far), b"up");
    within(&link.namespaces().near, || assert!(UdpSocket::bind((NEAR_V6, 0)).is_err()));
    link.finish().expect("the link ends in order");
}

#[test]
fn the_hidden_command_without_an_order_is_refused() {
    let place = Place::new();
    let ran = place.hairpin("__link").refused();
    assert_eq!(ran.stderr, "error: only hairpin itself starts the link\n");
    let ran = Running::start(place.command(PROGRAM).args(["__link", "1"])).end().refused();
    assert!(ran.stderr.starts_with("error: cannot read the order: "), "{ran:?}");
}
