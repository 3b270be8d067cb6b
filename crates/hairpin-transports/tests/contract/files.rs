//! Sending from a file.

use std::io::ErrorKind;
use std::sync::mpsc::channel;
use std::time::Duration;

use hairpin_model::Waiting;
use hairpin_transports::{Wire, WireError};

use super::ends::{Checked, LONG, Subject, calls, fill, is_closed, random_bytes, shown, text};
use super::time_outs::sleeps_so_far;
use super::waiting_batches::{has_slept, tell_name};
use crate::ensure;

fn is_of_kind<T>(answer: &Result<T, WireError>, kind: ErrorKind) -> bool {
    matches!(answer, Err(WireError::System { source, .. }) if source.kind() == kind)
}

/// Returns the number of system calls per send: a socket of a blocking wire needs four more to send without waiting.
fn calls_of_a_send(subject: &Subject, wire: &dyn Wire, may_wait: bool) -> u64 {
    let is_socket = wire.descriptors().is_some() && !subject.card.options.is_empty();
    if is_socket && subject.waiting == Waiting::Block && !may_wait { 5 } else { 1 }
}

/// Ranges of a file arrive complete; a transport without files refuses each call.
pub(crate) fn sent(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    let content = random_bytes(1, 50_000);
    if !subject.card.sends_files {
        let loaded = client.load_file(&content);
        ensure!(is_of_kind(&loaded, ErrorKind::Unsupported), "without files, load_file answers {}", shown(&loaded));
        let sent = client.send_file(0, 10, true);
        ensure!(is_of_kind(&sent, ErrorKind::Unsupported), "without files, send_file answers {}", shown(&sent));
        return Ok(());
    }
    let none = client.send_file(0, 1, false);
    ensure!(is_of_kind(&none, ErrorKind::InvalidInput), "without a loaded file, send_file answers {}", shown(&none));
    client.load_file(&random_bytes(2, 10)).map_err(text)?;
    client.load_file(&content).map_err(text)?;
    for (from, to) in [(2, 1), (0, content.len() + 1), (usize::MAX, usize::MAX)] {
        let answer = client.send_file(from, to, true);
        ensure!(is_of_kind(&answer, ErrorKind::InvalidInput), "{from} to {to} answers {}", shown(&answer));
    }
    for may_wait in [true, false] {
        for (from, to) in [(0, 100), (4000, 4200), (49_990, 50_000), (7, 30_007)] {
            let before = calls(&*client);
            let taken = client.send_file(from, to, may_wait).map_err(text)?;
            ensure!(taken == to - from, "{taken} of {} bytes are accepted", to - from);
            let made = calls(&*client) - before;
            ensure!(made == calls_of_a_send(subject, &*client, may_wait), "a send is {made} calls");
            let came = subject.receive_whole(&mut *server, taken)?;
            ensure!(came == content[from..to], "bytes {from} to {to} changed");
        }
    }
    // Other calls still work, and a receive still waits for data.
    subject.exchange(&mut *client, Some(&mut *server), &content[..100])?;
    if subject.waiting == Waiting::Block {
        let (named, name) = channel();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| tell_name(&named).and_then(|()| subject.receive_whole(&mut *client, 100)));
            let sleeps = has_slept(&name)?;
            server.send(&content[..100]).map_err(text)?;
            let came = receiver.join().map_err(|_| "the receiver panicked")??;
            ensure!(sleeps && came == content[..100], "a receive sleeps: {sleeps}, or its bytes changed");
            Ok(())
        })?;
    }
    drop(server);
    if subject.card.name == "mptcp" {
        // MPTCP does not tell a sender that the receiver has closed.
        let end = client.receive(&mut [0; 8]);
        ensure!(is_closed(&end), "receive answers {}", shown(&end));
    }
    let mut last = client.send_file(0, 50_000, true);
    for _ in 0..10_000 {
        if is_closed(&last) {
            break;
        }
        // A spinning wire does not wait. The kernel may process the reset later, on another CPU.
        std::thread::sleep(Duration::from_millis(1));
        last = client.send_file(0, 50_000, true);
    }
    ensure!(is_closed(&last), "without a receiver, send_file answers {}", shown(&last));
    Ok(())
}

/// A full wire accepts no bytes, whether a send may wait or not. All accepted bytes arrive.
pub(crate) fn full(subject: &Subject) -> Checked {
    let content = random_bytes(3, 300_000);
    for may_wait in [true, false] {
        let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
        client.load_file(&content).map_err(text)?;
        let mut awake = 0;
        let sent = fill(3, |sent| {
            let (before, sleeps_before) = (calls(&*client), sleeps_so_far());
            let taken = client.send_file(sent % content.len(), content.len(), may_wait).map_err(text)?;
            let made = calls(&*client) - before;
            ensure!(made == calls_of_a_send(subject, &*client, may_wait), "a send is {made} calls");
            awake += u32::from(taken == 0 && sleeps_so_far() == sleeps_before);
            Ok(taken)
        })?;
        ensure!(sent > 0, "no bytes are accepted");
        let waits = may_wait && subject.waiting == Waiting::Block;
        ensure!(waits != (awake > 0), "{awake} sends without room did not sleep");
        let came = subject.pieces_of(&mut *server, sent, 1 << 14)?.concat();
        let is_whole = came.chunks(content.len()).all(|part| *part == content[..part.len()]);
        ensure!(is_whole, "some of {sent} bytes changed");
        let again = client.send_file(0, 100, may_wait).map_err(text)?;
        ensure!(again == 100, "an emptied wire accepts {again} of 100 bytes");
    }
    Ok(())
}
