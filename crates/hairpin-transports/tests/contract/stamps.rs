//! The kernel's time stamps of sent and received data, of TCP and UDP. The checks assert the stamps' order in the queue, and
//! their byte numbers.

use std::sync::mpsc::channel;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::trace::StampKind;
use hairpin_model::{FactValue, Options, Protocol, Waiting, fact_names};
use hairpin_transports::{KernelStamps, RawStamp, Setup, Wire};

use super::ends::{Checked, FILLING, LONG, Pair, SHORT, Subject, calls, is_timed_out, random_bytes, shown, text};
use super::kernel;
use super::waiting_batches::{has_slept, tell_name};
use crate::ensure;

fn has_stamps(subject: &Subject) -> bool {
    matches!(subject.card.name, "tcp" | "tcp6")
}

/// Whether the transport stamps single messages, and the kernel supports it.
pub(crate) fn can_sample(subject: &Subject) -> bool {
    is_stamped(subject) && kernel::TIMESTAMPING.exists()
}

fn is_stamped(subject: &Subject) -> bool {
    has_stamps(subject) || matches!(subject.card.name, "udp" | "udp6")
}

/// Whether the transport has stamps of bytes, and the kernel supports them.
pub(crate) fn can_stamp(subject: &Subject) -> bool {
    has_stamps(subject) && kernel::TIMESTAMPING.exists()
}

fn stamps(wire: &mut dyn Wire) -> Result<&mut dyn KernelStamps, String> {
    wire.kernel_stamps().ok_or_else(|| "no kernel stamps".to_owned())
}

/// Connects two ends with these options, exchanges a message, and then starts stamps at the client.
fn begun(subject: &Subject, options: &str) -> Result<Pair, String> {
    let options = Options::parse(options).map_err(text)?;
    let (mut client, mut server) = subject.pair(&Setup { options, ..subject.setup(100, LONG) })?;
    subject.exchange(&mut *client, Some(&mut *server), &random_bytes(1, 100))?;
    stamps(&mut *client)?.begin(true).map_err(text)?;
    Ok((client, server))
}

/// Returns all stamps up to the acknowledgment of `bytes`.
fn until_acknowledged(wire: &mut dyn Wire, bytes: u64) -> Result<Vec<RawStamp>, String> {
    let mut taken = Vec::new();
    for _ in 0..10_000 {
        stamps(wire)?.take(&mut taken).map_err(text)?;
        if place(&taken, StampKind::Acknowledged, bytes).is_some() {
            return Ok(taken);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(format!("{bytes} bytes are never acknowledged: {taken:?}"))
}

fn place(stamps: &[RawStamp], kind: StampKind, end_byte: u64) -> Option<usize> {
    stamps.iter().position(|stamp| stamp.kind == kind && stamp.end_byte == end_byte)
}

fn ends(stamps: &[RawStamp], kind: StampKind) -> Vec<u64> {
    stamps.iter().filter(|stamp| stamp.kind == kind).map(|stamp| stamp.end_byte).collect()
}

pub(crate) fn offered(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(100, LONG))?;
    for wire in [Some(&mut client), server.as_mut()].into_iter().flatten() {
        let offered = wire.kernel_stamps().is_some();
        ensure!(offered == is_stamped(subject), "kernel_stamps() is some: {offered}");
    }
    Ok(())
}

pub(crate) fn by_segment(subject: &Subject) -> Checked {
    let (mut client, mut server) = begun(subject, "nodelay=on")?;
    // After a second `begin`, byte numbers start at 0 again.
    for _ in 0..2 {
        stamps(&mut *client)?.begin(true).map_err(text)?;
        for size in 1..=5 {
            client.send(&random_bytes(2, size)).map_err(text)?;
        }
        subject.receive_whole(&mut *server, 15)?;
        let taken = until_acknowledged(&mut *client, 15)?;
        let [scheduled, driver, acknowledged] =
            [StampKind::Scheduled, StampKind::Driver, StampKind::Acknowledged].map(|kind| ends(&taken, kind));
        ensure!(scheduled == driver && driver == acknowledged, "some segments lack stamps: {taken:?}");
        // The kernel may merge writes even with NODELAY if the device is busy.
        ensure!(
            driver.is_sorted() && driver.last() == Some(&15),
            "the last write is not the last segment: {taken:?}"
        );
        ensure!(driver.iter().all(|end| [1, 3, 6, 10, 15].contains(end)), "a segment ends inside a write: {taken:?}");
        for end in driver {
            let places = [StampKind::Scheduled, StampKind::Driver, StampKind::Acknowledged]
                .map(|kind| place(&taken, kind, end));
            ensure!(places.is_sorted(), "byte {end} is scheduled, sent and acknowledged at {places:?}");
        }
        let began = taken[0].realtime_ns;
        ensure!(taken.iter().all(|stamp| stamp.realtime_ns.abs_diff(began) < 60_000_000_000), "times: {taken:?}");
    }
    Ok(())
}

/// Three small writes: Nagle's algorithm holds the second write until the ACK of the first, and adds the third to the
/// same segment. The server delays its ACK, so with NODELAY the second write is sent before the ACK.
pub(crate) fn nagle(subject: &Subject) -> Checked {
    let taken_with = |options: &str| {
        let (mut client, mut server) = begun(subject, options)?;
        for _ in 0..3 {
            client.send(&[3; 2]).map_err(text)?;
        }
        subject.receive_whole(&mut *server, 6)?;
        until_acknowledged(&mut *client, 6)
    };
    let held = taken_with("quickack=off")?;
    let segments = ends(&held, StampKind::Driver);
    ensure!(segments.len() >= 2 && segments[0] == 2, "with Nagle on, the segments are {held:?}");
    for pair in segments.windows(2) {
        let acknowledged = place(&held, StampKind::Acknowledged, pair[0]);
        let sent = place(&held, StampKind::Driver, pair[1]);
        ensure!(acknowledged.is_some() && acknowledged < sent, "byte {} was not held: {held:?}", pair[1]);
    }
    // If the machine stalls between the writes, the ACK may come first even with NODELAY.
    for _ in 0..20 {
        let free = taken_with("quickack=off,nodelay=on")?;
        let segments = ends(&free, StampKind::Driver);
        let acknowledged = place(&free, StampKind::Acknowledged, segments[0]);
        if segments.len() >= 2 && place(&free, StampKind::Driver, segments[1]) < acknowledged {
            return Ok(());
        }
    }
    Err("with Nagle off, the second write was held 20 times".to_owned())
}

pub(crate) fn received(subject: &Subject) -> Checked {
    let (mut client, mut server) = begun(subject, "nodelay=on")?;
    stamps(&mut *server)?.begin(true).map_err(text)?;
    let mut into = [0; 100];
    // The kernel enables receive stamps a moment later (net_enable_timestamp, net/core/dev.c).
    for sent in 1..1000 {
        client.send(&[4; 10]).map_err(text)?;
        let (bytes, received_ns) = stamps(&mut *server)?.receive(&mut into).map_err(text)?;
        ensure!(bytes == 10 && into[..10] == [4; 10], "{bytes} bytes arrived, or the bytes changed");
        let taken = until_acknowledged(&mut *client, 10 * sent)?;
        let Some(received_ns) = received_ns else { continue };
        let left = place(&taken, StampKind::Driver, 10 * sent).ok_or("no driver stamp")?;
        let left_ns = taken[left].realtime_ns;
        ensure!(left_ns <= received_ns, "received at {received_ns}, before the send at {left_ns}");
        return Ok(());
    }
    Err("no received message has a stamp".to_owned())
}

pub(crate) fn can_stamp_arrivals(subject: &Subject) -> bool {
    subject.is_plain() && subject.card.name != "mptcp" && kernel::TIMESTAMPING.exists()
}

/// A transport that the kernel does not stamp refuses.
pub(crate) fn arrivals(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    if subject.card.protocol == Protocol::None {
        ensure!(server.stamp_arrivals().is_err(), "stamps of a transport without packets");
        return Ok(());
    }
    let count = |wire: &dyn Wire| {
        let facts = wire.effective();
        let fact = facts.iter().find(|fact| fact.name == fact_names::STAMPS_RECEIVED)?;
        if let FactValue::Number(count) = fact.value { Some(count) } else { None }
    };
    ensure!(count(&*server).is_none(), "a count without a request");
    server.stamp_arrivals().map_err(text)?;
    ensure!(count(&*server) == Some(0.0), "{:?} stamps before the first message", count(&*server));
    let mut expected = 0.0;
    // The kernel enables receive stamps a moment later, see `received`.
    for _ in 0..1000 {
        client.send(&[4; 10]).map_err(text)?;
        subject.receive_whole(&mut *server, 10)?;
        let counted = count(&*server).unwrap_or_default();
        expected = if counted > 0.0 { expected + 1.0 } else { 0.0 };
        ensure!(counted == expected, "{counted} stamps of {expected} messages");
        if counted == 5.0 {
            return Ok(());
        }
    }
    Err("no received message has a stamp".to_owned())
}

/// Only the messages that request stamps have them; the others between them take ordinary calls.
pub(crate) fn of_messages(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    for wire in [&mut client, &mut server] {
        stamps(&mut **wire)?.begin_for_messages().map_err(text)?;
    }
    let (mut taken, mut into) = (Vec::new(), [0; 100]);
    // The kernel enables receive stamps a moment later (net_enable_timestamp, net/core/dev.c).
    for number in 1..1000 {
        client.send(&[1; 5]).map_err(text)?;
        ensure!(server.receive(&mut into).map_err(text)? == 5, "a plain message is cut");
        stamps(&mut *client)?.take(&mut taken).map_err(text)?;
        ensure!(taken.is_empty(), "a plain message is stamped: {taken:?}");
        stamps(&mut *client)?.send_stamped(&[2; 10]).map_err(text)?;
        let (bytes, received_ns) = stamps(&mut *server)?.receive(&mut into).map_err(text)?;
        ensure!(bytes == 10 && into[..10] == [2; 10], "{bytes} bytes arrived, or the bytes changed");
        for _ in 0..10_000 {
            stamps(&mut *client)?.take(&mut taken).map_err(text)?;
            if taken.len() >= 2 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let kinds: Vec<StampKind> = taken.iter().map(|stamp| stamp.kind).collect();
        ensure!(kinds == [StampKind::Scheduled, StampKind::Driver], "the stamps are {taken:?}");
        let expected = if subject.card.boundaries { number } else { 15 * number };
        ensure!(taken.iter().all(|stamp| stamp.end_byte == expected), "not of message {number}: {taken:?}");
        let times = [taken[0].realtime_ns, taken[1].realtime_ns, received_ns.unwrap_or(u64::MAX)];
        ensure!(times.is_sorted(), "scheduled, sent and received at {times:?}");
        taken.clear();
        if received_ns.is_some() {
            return Ok(());
        }
    }
    Err("no received message has a stamp".to_owned())
}

pub(crate) fn without_acknowledgments(subject: &Subject) -> Checked {
    let (mut client, mut server) = begun(subject, "nodelay=on")?;
    stamps(&mut *client)?.begin(false).map_err(text)?;
    // The answer carries the ACK.
    subject.exchange(&mut *client, Some(&mut *server), &random_bytes(7, 100))?;
    let mut taken = Vec::new();
    stamps(&mut *client)?.take(&mut taken).map_err(text)?;
    let kinds: Vec<StampKind> = taken.iter().map(|stamp| stamp.kind).collect();
    ensure!(kinds == [StampKind::Scheduled, StampKind::Driver], "acknowledgments were not requested: {taken:?}");
    Ok(())
}

/// A read of a small segment on a connection without answers acknowledges the segment at once, unless stamps are left
/// in the receive buffer (`__tcp_cleanup_rbuf`, net/ipv4/tcp.c). The segment itself creates the stamp of an ACK.
pub(crate) fn out_of_the_way(subject: &Subject) -> Checked {
    let (mut client, mut server) = begun(subject, "nodelay=on")?;
    let (mut taken, mut into) = (Vec::new(), [0; 10]);
    // A new connection acknowledges everything at once, up to 16 times (`TCP_MAX_QUICKACKS`, include/net/tcp.h).
    for sent in 1..=40 {
        client.send(&[8; 10]).map_err(text)?;
        subject.receive_whole(&mut *server, 10)?;
        // Makes the client forget that it answers: it no longer delays ACKs to send them with answers.
        stamps(&mut *client)?.take(&mut taken).map_err(text)?;
        client.stream().ok_or("no stream")?.set(OptionName::Quickack, true).map_err(text)?;
        let bare = |wire: &mut dyn Wire| wire.stream().and_then(|stream| stream.segments()).map(|all| all.bare);
        let (bare_before, calls_before) = (bare(&mut *server), calls(&*client));
        // Every second answer arrives while the client sleeps in the call, so the answer's stamp was not in the queue
        // before. A spinning client can see an answer before its stamp exists (`tcp_rcv_established`,
        // net/ipv4/tcp_input.c).
        let is_late = sent % 2 == 0 && subject.waiting != Waiting::Spin;
        if !is_late {
            server.send(&[9; 10]).map_err(text)?;
        }
        let (named, name) = channel();
        tell_name(&named)?;
        let (bytes, _) = std::thread::scope(|scope| {
            let server = &mut server;
            let sender = scope.spawn(move || -> Checked {
                if is_late {
                    has_slept(&name)?;
                    server.send(&[9; 10]).map_err(text)?;
                }
                Ok(())
            });
            let received = stamps(&mut *client)?.receive(&mut into).map_err(text);
            sender.join().map_err(|_| "the sender panicked")??;
            received
        })?;
        ensure!(bytes == 10 && into == [9; 10], "{bytes} bytes arrived, or the bytes changed");
        let bare_after = bare(&mut *server);
        ensure!(
            bare_after > bare_before,
            "answer {sent} is not acknowledged at once: {bare_before:?}, {bare_after:?}"
        );
        let made = calls(&*client) - calls_before;
        let spared = if subject.waiting == Waiting::Poll { 2 } else { 1 };
        ensure!(made == spared, "observing calls are counted: {made} calls");
        stamps(&mut *client)?.take(&mut taken).map_err(text)?;
        ensure!(place(&taken, StampKind::Acknowledged, 10 * sent).is_some(), "a stamp is lost: {taken:?}");
    }
    Ok(())
}

pub(crate) fn waiting(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.unlike_pair(&subject.setup(100, SHORT), &subject.setup(100, LONG))?;
    stamps(&mut *client)?.begin(true).map_err(text)?;
    client.send(&[6; 100]).map_err(text)?;
    subject.receive_whole(&mut *server, 100)?;
    let before = calls(&*client);
    let answer = client.receive(&mut [0; 100]);
    ensure!(is_timed_out(&answer), "with stamps but no message, receive answers {}", shown(&answer));
    let made = calls(&*client) - before;
    // The alarm interrupts a blocking call a few times during the time-out, and three stamps wake a poll.
    ensure!(subject.waiting == Waiting::Spin || made <= 10, "the wait made {made} calls");
    ensure!(!client.wait(Duration::from_millis(3)).map_err(text)?, "wait returns true, but only stamps arrived");
    let taken = until_acknowledged(&mut *client, 100)?;
    ensure!(ends(&taken, StampKind::Driver) == [100], "stamps were lost: {taken:?}");
    server.send(&[7; 100]).map_err(text)?;
    ensure!(subject.receive_whole(&mut *client, 100)? == [7; 100], "the answer changed");
    drop(server);
    ensure!(client.wait(LONG).map_err(text)?, "wait does not report the close");
    Ok(())
}

pub(crate) fn full(subject: &Subject) -> Checked {
    let setups = [SHORT, LONG].map(|timeout| subject.setup(FILLING, timeout));
    let (mut client, mut server) = subject.unlike_pair(&setups[0], &setups[1])?;
    stamps(&mut *client)?.begin(true).map_err(text)?;
    let mut taken = Vec::new();
    let accepted = subject.fill_and_empty((&mut *client, &mut *server), |client, message| {
        client.send(message)?;
        client.kernel_stamps().expect("stamps have begun").take(&mut taken)
    })?;
    let left = ends(&taken, StampKind::Driver);
    ensure!(!left.is_empty() && left.is_sorted(), "the segments were sent in the order {left:?}");
    ensure!(left.iter().all(|end| *end <= (accepted + 1) * FILLING as u64), "stamps of unsent bytes: {left:?}");
    server.send(&[7; 100]).map_err(text)?;
    ensure!(subject.receive_whole(&mut *client, 100)? == [7; 100], "the answer changed");
    Ok(())
}
