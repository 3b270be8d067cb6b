//! One contract for all: every transport fulfils its card, with every waiting on it.
//!
//! No durations are asserted. Time-outs are short only if the check expects a time-out.

mod batches;
mod closing;
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

use hairpin_model::{Card, Protocol, Waiting};
use hairpin_testing::or_skip;
use hairpin_transports::{ALL, Transport};

use crate::several_streams::SeveralStreams;
use ends::{Checked, Subject};

type Check = fn(&Subject) -> Checked;

/// Transports for tests only.
const DOUBLES: &[&dyn Transport] = &[&SeveralStreams];

/// The checks: name, whether it also applies to transports that the kernel answers, and function.
const CHECKS: &[(&str, bool, Check)] = &[
    ("every byte arrives as it was sent", true, delivery::integrity),
    ("order and boundaries are as on the card", false, delivery::order_and_boundaries),
    ("two messages in flight each way", false, delivery::both_ways_at_once),
    ("wait and try_receive", true, delivery::wait_and_try),
    ("a buffer that is too small cuts a message off", false, delivery::short_buffer),
    ("the largest message is what the kernel takes", true, delivery::largest),
    ("a receiver that does not read", false, pressure::back_pressure),
    ("answers that nobody reads", true, pressure::overflow),
    ("batches arrive as they were sent", false, batches::delivered),
    ("the system calls of batches are counted", false, batches::counted),
    ("batches that may wait move by one call each", false, waiting_batches::moved),
    ("a receive of a batch waits in the call", false, waiting_batches::receiver_sleeps),
    ("a send of a batch waits in the call", false, waiting_batches::sender_sleeps),
    ("a batch is one packet with UDP's offload", false, offloads::joined),
    ("messages of a packet are taken one by one", false, offloads::one_by_one),
    ("sends without a copy are counted and lose nothing", false, offloads::without_copy),
    ("sends without a copy that nobody receives", false, offloads::without_copy_full),
    ("sends without a copy beside kernel time stamps", false, offloads::without_copy_stamped),
    ("bytes of a file arrive as they were sent", false, files::sent),
    ("bytes of a file to a receiver that does not read", false, files::full),
    ("sends that do not wait fill a wire and lose nothing", false, batches::full),
    ("sends that are repeated arrive as often as is counted", false, batches::repeated),
    ("batches before a close", false, batches::closed),
    ("a set tells which wires can be received from", false, sets::tell),
    ("a set tells which wires have room", false, sets::room),
    ("a clean close", false, closing::clean_close),
    ("a close while the other end receives", false, closing::gone_while_receiving),
    ("a close while the other end sends", false, closing::gone_while_sending),
    ("a close before accept", false, closing::gone_before_accept),
    ("the other process is killed", false, other_process::killed),
    ("time-outs of accept and connect", false, time_outs::opening),
    ("time-outs of receive", true, time_outs::receiving),
    ("a wait ends by its own timer", true, time_outs::waiting),
    ("signals do not end a wait", true, time_outs::signals),
    ("invalid addresses", true, opening::bad_addresses),
    ("setups that are refused", true, opening::refused_setups),
    ("an address serves one client", false, opening::one_client),
    ("a second client", false, connections::second_client),
    ("a second wire", true, connections::second_wire),
    ("an accept that is abandoned", false, connections::abandoned),
    ("a port that is handed over", true, connections::handed_port),
    ("a connection that is handed over", true, connections::handed_connection),
    ("a port that is occupied", false, opening::occupied_port),
    ("a server across a link, or a clear refusal", true, links::server_end),
    ("a farewell leaves the way back open", false, links::farewell),
    ("a hello that a message has overtaken", false, links::overtaken_hello),
    ("strangers before the client", false, links::strangers),
    ("options are granted and read back", true, options::granted),
    ("options are refused", true, options::refused),
    ("counters", true, options::counters),
    ("byte streams, and only they, offer a stream", true, streams::offered),
    ("bytes sent in parts arrive whole and in order", false, streams::in_parts),
    ("sends in parts to a receiver that does not read", false, streams::full),
    ("sends in parts to an end that is gone", false, streams::gone),
    ("switches take effect at once", false, streams::switches),
    ("system calls are counted", false, streams::counted),
    ("segments are counted", false, streams::segments),
    ("a cork holds and releases", false, streams::cork),
    ("TCP offers kernel time stamps", true, stamps::offered),
    ("each segment is stamped by its last byte", false, stamps::by_segment),
    ("Nagle's algorithm shows in the stamps", false, stamps::nagle),
    ("what is received is stamped", false, stamps::received),
    ("stamps of acknowledgments are left out where they are not wanted", false, stamps::without_acknowledgments),
    ("stamps are not in the way of an acknowledgment", false, stamps::out_of_the_way),
    ("stamps do not end a wait", false, stamps::waiting),
    ("stamps with a receiver that does not read", false, stamps::full),
];

/// Checks that need an unused address. Concurrent checks could open the same port or descriptor.
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

/// One test per transport: it fulfils its card.
pub(crate) fn tests() -> Vec<(String, impl FnOnce() + Send + 'static)> {
    let transports = ALL.iter().chain(DOUBLES).copied();
    transports
        .map(|transport| (format!("contract::{}_keeps_its_card", name(transport)), move || check(transport)))
        .collect()
}

fn check(transport: &'static dyn Transport) {
    let card = transport.card();
    or_skip!(transport.can_run());
    let results: Vec<Checked> =
        card.waitings.iter().flat_map(|waiting| results(transport, &card, *waiting)).collect();
    let failures: Vec<&str> = results.iter().filter_map(|result| result.as_ref().err().map(String::as_str)).collect();
    assert!(failures.is_empty(), "{} checks failed:\n{}", failures.len(), failures.join("\n"));
    assert!(!results.is_empty(), "no check was made");
}

fn results(transport: &'static dyn Transport, card: &Card, waiting: Waiting) -> Vec<Checked> {
    let subject = Subject { transport, card: card.clone(), waiting };
    let checks = CHECKS.iter().filter(|(_, for_kernel, _)| *for_kernel || !subject.is_answered_by_kernel());
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
fn every_check_that_runs_alone_exists() {
    assert!(ALONE.iter().all(|name| CHECKS.iter().any(|(check, ..)| check == name)));
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

/// Not a test of its own: the contract starts this binary with this one test name as the server process.
#[test]
#[ignore = "child of the contract of each transport, which starts it as the server"]
fn child_server() {
    other_process::server_end();
}

/// In a network namespace whose sockets only have memory for the completions of a few sends.
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

/// Not a test of its own.
#[test]
#[ignore = "child of sends_without_a_copy_survive_a_lack_of_memory_for_completions"]
fn child_short_of_memory() {
    for transport in ["tcp", "tcp6"].map(|name| hairpin_transports::find(name).expect("it is built")) {
        for waiting in transport.card().waitings {
            let subject = Subject { transport, card: transport.card(), waiting: *waiting };
            offloads::without_copy_short_of_memory(&subject).expect("no send fails");
        }
    }
}

fn name(transport: &dyn Transport) -> &'static str {
    transport.card().name
}
