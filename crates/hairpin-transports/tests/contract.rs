//! The contract of all transports: each has the properties on its card, with every waiting on the card.
//!
//! No check asserts a duration. Time-outs are short only if the check expects a time-out.

mod batches;
mod closing;
mod codes;
mod connections;
mod delivery;
mod ends;
mod files;
mod kernel;
mod links;
mod offloads;
mod opening;
mod options;
mod other_process;
mod pressure;
mod sets;
mod stamps;
mod streams;
mod time_outs;
mod waiting_batches;

use std::sync::{PoisonError, RwLock};

use hairpin_model::{Card, Protocol, Reach, Waiting};
use hairpin_testing::or_skip;
use hairpin_transports::{ALL, Transport};

use crate::several_streams::SeveralStreams;
use ends::{Checked, Subject};

type Check = fn(&Subject) -> Checked;

/// Transports for tests only.
const DOUBLES: &[&dyn Transport] = &[&SeveralStreams];

/// Whether a check applies to a transport.
type IsFor = fn(&Subject) -> bool;

const ALL_OF_THEM: IsFor = |_| true;

/// The checks: name, transports to check, and function.
const CHECKS: &[(&str, IsFor, Check)] = &[
    ("every byte arrives as it was sent", ALL_OF_THEM, delivery::integrity),
    ("order and boundaries are as on the card", Subject::has_server, delivery::order_and_boundaries),
    ("two messages in flight each way", Subject::has_server, delivery::both_ways_at_once),
    ("messages with answers", Subject::is_reliable, delivery::answered),
    ("wait and try_receive", ALL_OF_THEM, delivery::wait_and_try),
    ("a small buffer truncates a message", Subject::has_server, delivery::short_buffer),
    ("the largest message on the card arrives", ALL_OF_THEM, delivery::largest),
    ("a receiver that does not read", Subject::is_reliable, pressure::back_pressure),
    (
        "messages that overflow a receive buffer",
        |subject| !subject.card.reliable && subject.card.library.is_none(),
        pressure::overflow,
    ),
    ("batches arrive as they were sent", Subject::has_server, batches::delivered),
    ("the system calls of batches are counted", Subject::is_plain, batches::counted),
    ("batches that may wait take one call each", Subject::is_plain, waiting_batches::moved),
    ("a receive of a batch waits in the call", Subject::is_plain, waiting_batches::receiver_sleeps),
    (
        "a send of a batch waits in the call",
        |subject| subject.is_plain() && subject.card.reliable,
        waiting_batches::sender_sleeps,
    ),
    ("a batch is one packet with UDP's offload", Subject::has_server, offloads::joined),
    ("messages of a packet are received one by one", Subject::has_server, offloads::one_by_one),
    ("sends without a copy are counted and lose nothing", Subject::has_server, offloads::without_copy),
    ("sends without a copy fill a wire", Subject::has_server, offloads::without_copy_full),
    ("sends without a copy together with time stamps", Subject::has_server, offloads::without_copy_stamped),
    ("bytes of a file arrive as they were sent", Subject::has_server, files::sent),
    ("bytes of a file to a receiver that does not read", |subject| subject.card.sends_files, files::full),
    ("sends that do not wait fill a wire and lose nothing", Subject::is_reliable, batches::full),
    ("repeated sends arrive as often as they are counted", Subject::is_reliable, batches::repeated),
    ("batches before a close", Subject::has_server, batches::closed),
    ("a set reports the wires with data to receive", Subject::has_server, sets::tell),
    ("a set reports the wires with room", Subject::is_reliable, sets::room),
    ("a clean close", Subject::has_server, closing::clean_close),
    ("a close in two steps", Subject::has_server, closing::close_in_two_steps),
    ("a close while the other end receives", Subject::has_server, closing::gone_while_receiving),
    ("a close while the other end sends", Subject::has_server, closing::gone_while_sending),
    ("a close before accept", Subject::has_server, closing::gone_before_accept),
    (
        "the other process is killed",
        |subject| subject.has_server() && subject.card.reach != Reach::Process,
        other_process::killed,
    ),
    ("time-outs of accept and connect", Subject::has_server, time_outs::opening),
    ("time-outs of receive", ALL_OF_THEM, time_outs::receiving),
    ("a wait ends by its own timer", ALL_OF_THEM, time_outs::waiting),
    ("signals do not end a wait", |subject| subject.waiting != Waiting::Spin, time_outs::signals),
    ("invalid addresses", ALL_OF_THEM, opening::bad_addresses),
    ("setups that are refused", ALL_OF_THEM, opening::refused_setups),
    ("an address serves one client", Subject::has_server, opening::one_client),
    ("a second client", Subject::has_server, connections::second_client),
    ("a second wire", ALL_OF_THEM, connections::second_wire),
    ("an accept that is abandoned", Subject::has_server, connections::abandoned),
    ("a port that is handed over", ALL_OF_THEM, connections::handed_port),
    ("a connection that is handed over", ALL_OF_THEM, connections::handed_connection),
    ("a port that is occupied", Subject::has_server, opening::occupied_port),
    ("a server across a link, or a clear refusal", ALL_OF_THEM, links::server_end),
    ("a farewell leaves the other direction open", Subject::has_server, links::farewell),
    ("a repeated hello after the first message", Subject::has_datagram_flows, links::overtaken_hello),
    ("messages with codes, and those of strangers", Subject::has_datagram_flows, codes::strangers),
    ("batches of messages with codes", Subject::has_datagram_flows, codes::batches),
    (
        "other clients before the client",
        |subject| subject.is_network() && subject.card.protocol == Protocol::Tcp,
        links::strangers,
    ),
    ("options are granted and read back", ALL_OF_THEM, options::granted),
    ("options are refused", ALL_OF_THEM, options::refused),
    ("counters", |subject| subject.card.library.is_none(), options::counters),
    ("only byte streams offer a stream", ALL_OF_THEM, streams::offered),
    ("bytes sent in parts arrive whole and in order", Subject::is_stream, streams::in_parts),
    ("an empty send sends nothing", Subject::is_stream, streams::empty),
    ("sends in parts to a receiver that does not read", Subject::is_stream, streams::full),
    ("sends in parts to an end that has closed", Subject::is_stream, streams::gone),
    ("switches take effect at once", Subject::is_stream, streams::switches),
    ("system calls are counted", Subject::is_plain_stream, streams::counted),
    ("segments are counted", Subject::is_plain_stream, streams::segments),
    ("a cork holds and releases", streams::has_segments, streams::cork),
    ("TCP and UDP offer kernel time stamps", ALL_OF_THEM, stamps::offered),
    ("each segment is stamped by its last byte", stamps::can_stamp, stamps::by_segment),
    ("Nagle's algorithm shows in the stamps", stamps::can_stamp, stamps::nagle),
    ("received data are stamped", stamps::can_stamp, stamps::received),
    ("each arrival is stamped and counted on request", stamps::can_stamp_arrivals, stamps::arrivals),
    ("single messages are stamped", stamps::can_sample, stamps::of_messages),
    ("acknowledgments are stamped only on request", stamps::can_stamp, stamps::without_acknowledgments),
    ("stamps do not delay an acknowledgment", stamps::can_stamp, stamps::out_of_the_way),
    ("stamps do not end a wait", stamps::can_stamp, stamps::waiting),
    ("stamps with a receiver that does not read", stamps::can_stamp, stamps::full),
];

/// Checks of the waiting modes that only round trips have.
const OF_ROUND_TRIPS: &[&str] = &[
    "every byte arrives as it was sent",
    "order and boundaries are as on the card",
    "two messages in flight each way",
    "messages with answers",
    "wait and try_receive",
    "a small buffer truncates a message",
    "the largest message on the card arrives",
    "a receiver that does not read",
    "a clean close",
    "a close in two steps",
    "a close while the other end receives",
    "a close while the other end sends",
    "the other process is killed",
    "time-outs of receive",
    "a wait ends by its own timer",
    "signals do not end a wait",
    "a repeated hello after the first message",
    "options are granted and read back",
    "counters",
];

/// Checks that need an unused address, which a concurrent check could open.
const ALONE: &[&str] = &[
    "a close before accept",
    "time-outs of accept and connect",
    "invalid addresses",
    "an address serves one client",
    "a second client",
    "an accept that is abandoned",
    "a port that is handed over",
    "a port that is occupied",
];

/// The lock for checks of transports that could use the same addresses.
fn addresses(card: &Card) -> &'static RwLock<()> {
    static ADDRESSES: [RwLock<()>; 4] = [const { RwLock::new(()) }; 4];
    match (card.protocol, card.name) {
        (Protocol::Tcp, _) => &ADDRESSES[0],
        (Protocol::Udp | Protocol::Icmp, _) => &ADDRESSES[1],
        (Protocol::None, "pipe" | "fifo") => &ADDRESSES[2],
        (Protocol::None, _) => &ADDRESSES[3],
    }
}

/// Returns one test per transport, which checks the contract.
pub(crate) fn tests() -> Vec<(String, impl FnOnce() + Send + 'static)> {
    let transports = ALL.iter().chain(DOUBLES).copied();
    transports
        .map(|transport| (format!("contract::{}_keeps_its_card", name(transport)), move || check(transport)))
        .collect()
}

fn check(transport: &'static dyn Transport) {
    let card = transport.card();
    or_skip!(transport.can_run());
    let waitings = card.waitings.iter().filter(|waiting| is_possible(**waiting));
    let results: Vec<Checked> = waitings.flat_map(|waiting| results(transport, &card, *waiting)).collect();
    let failures: Vec<&str> = results.iter().filter_map(|result| result.as_ref().err().map(String::as_str)).collect();
    assert!(failures.is_empty(), "{} checks failed:\n{}", failures.len(), failures.join("\n"));
    assert!(!results.is_empty(), "no check was made");
}

/// No device here has a queue to busy-poll, and containers may refuse io_uring.
pub(crate) fn is_possible(waiting: Waiting) -> bool {
    match waiting {
        Waiting::BusyPoll => false,
        Waiting::Uring | Waiting::UringSqpoll => hairpin_transports::may_use_io_uring().is_ok(),
        _ => true,
    }
}

fn results(transport: &'static dyn Transport, card: &Card, waiting: Waiting) -> Vec<Checked> {
    let subject = Subject { transport, card: card.clone(), waiting };
    let is_basic = Waiting::BASIC.contains(&waiting);
    let checks = CHECKS.iter().filter(|(name, ..)| is_basic || OF_ROUND_TRIPS.contains(name));
    let checks = checks.filter(|(_, is_for, _)| is_for(&subject));
    let results = checks.map(|(name, _, check)| {
        let addresses = addresses(card);
        let (_alone, _beside) = if ALONE.contains(name) {
            (Some(addresses.write().unwrap_or_else(PoisonError::into_inner)), None)
        } else {
            (None, Some(addresses.read().unwrap_or_else(PoisonError::into_inner)))
        };
        check(&subject).map_err(|why| format!("{} by {waiting}: {name}: {why}", card.name))
    });
    results.collect()
}

#[test]
fn every_listed_check_exists() {
    assert!(ALONE.iter().chain(OF_ROUND_TRIPS).all(|name| CHECKS.iter().any(|(check, ..)| check == name)));
}

#[test]
fn transports_report_a_detail_or_a_hint() {
    for transport in ALL {
        match transport.can_run() {
            Ok(receipt) => assert!(!receipt.detail.is_empty(), "{}", name(*transport)),
            Err(why_not) => {
                assert!(!why_not.reason.is_empty() && !why_not.hint.is_empty(), "{}", name(*transport));
            }
        }
    }
}

/// Not a test: the contract starts this binary with only this test as the server process.
#[test]
#[ignore = "child of the contract of each transport, which starts it as the server"]
fn child_server() {
    other_process::server_end();
}

/// Runs in a network namespace whose sockets have memory for the completions of only a few sends.
#[test]
fn sends_without_a_copy_survive_a_lack_of_memory_for_completions() {
    if !kernel::ZEROCOPY.exists() {
        hairpin_testing::skip!("the kernel has no SO_ZEROCOPY");
    }
    let unshared = |command: &str| {
        let exe = std::env::current_exe().expect("the test's own program");
        let child = ["--exact", "contract::child_short_of_memory", "--ignored", "--nocapture"];
        std::process::Command::new("unshare").args(["-rn", "sh", "-c", command]).arg(exe).args(child).output()
    };
    let prepare = "ip link set lo up && echo 2000 > /proc/sys/net/core/optmem_max";
    let answer = hairpin_testing::or_skip!(unshared(prepare));
    if !answer.status.success() {
        hairpin_testing::skip!("no network namespace: {}", String::from_utf8_lossy(&answer.stderr));
    }
    let answer = unshared(&format!("{prepare} && exec \"$0\" \"$@\"")).expect("as before");
    let said = String::from_utf8_lossy(&answer.stdout);
    let why = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success() && said.contains("1 passed"), "{said}{why}");
}

/// Not a test: runs in the network namespace.
#[test]
#[ignore = "child of sends_without_a_copy_survive_a_lack_of_memory_for_completions"]
fn child_short_of_memory() {
    for transport in ["tcp", "tcp6"].map(|name| hairpin_transports::find(name).expect("it is built")) {
        for waiting in Waiting::BASIC {
            let subject = Subject { transport, card: transport.card(), waiting: *waiting };
            offloads::without_copy_short_of_memory(&subject).expect("no send fails");
        }
    }
}

fn name(transport: &dyn Transport) -> &'static str {
    transport.card().name
}
