//! UDP segmentation offload (`gso`), and zero-copy sends over TCP (`zerocopy`).

use std::time::{Duration, Instant};

use hairpin_model::options::OptionName;
use hairpin_model::trace::StampKind;
use hairpin_model::{Options, fact, fact_names};
use hairpin_transports::{Batch, Interest, Setup, Wire, WireError, WireSet};

use super::ends::{Checked, LONG, Pair, Subject, calls, fill, random_bytes, text};
use super::kernel;
use crate::ensure;

/// Connects two ends with the option; `None` if the transport or the kernel does not have the option.
fn pair_with(subject: &Subject, name: OptionName) -> Result<Option<Pair>, String> {
    let is_of_library = subject.card.library.is_some_and(|library| library.options.contains(&name));
    if is_of_library || !subject.card.options.contains(&name) || !kernel::has_option(name) {
        return Ok(None);
    }
    let options = Options::default().with(name, "on");
    subject.pair(&Setup { options, ..subject.setup(4096, LONG) }).map(Some)
}

/// The number of messages per receive, and all messages.
type Came = (Vec<usize>, Vec<Vec<u8>>);

/// Receives until `messages` messages have arrived. Each receive is one system call.
fn taken(wire: &mut dyn Wire, batch: &mut Batch, messages: usize) -> Result<Came, String> {
    let (mut counts, mut pieces) = (Vec::new(), Vec::new());
    while pieces.len() < messages {
        ensure!(wire.wait(LONG).map_err(text)?, "only {} of {messages} messages arrived", pieces.len());
        let before = calls(wire);
        counts.push(wire.receive_batch(batch).map_err(text)?);
        ensure!(calls(wire) - before == 1, "a receive is {} calls", calls(wire) - before);
        pieces.extend(batch.pieces().map(<[u8]>::to_vec));
    }
    Ok((counts, pieces))
}

/// As many messages as fit are one call and one packet. All messages arrive unchanged, even with few slots.
pub(crate) fn joined(subject: &Subject) -> Checked {
    let Some((mut client, mut server)) = pair_with(subject, OptionName::Gso)? else { return Ok(()) };
    // 65 messages of 1000 bytes fit into a packet.
    for (size, count, slots, expected) in
        [(1000, 100, 64, vec![65, 35]), (1000, 60, 1, vec![60]), (4000, 2, 1, vec![2]), (1000, 1, 8, vec![1])]
    {
        let messages = random_bytes(size as u64, size * count - 30);
        let before = calls(&*client);
        let sent = if slots == 1 {
            client.send_batch_waiting(&messages, size).map_err(text)?
        } else {
            client.send_batch(&messages, size).map_err(text)?
        };
        ensure!(sent == messages.len(), "{sent} of {} bytes are accepted", messages.len());
        let made = calls(&*client) - before;
        ensure!(made == expected.len() as u64, "{count} messages of {size} bytes are {made} calls");
        let (counts, pieces) = taken(&mut *server, &mut Batch::new(slots, size), count)?;
        ensure!(counts == expected, "{count} messages of {size} bytes arrived as {counts:?}");
        ensure!(pieces.iter().map(Vec::as_slice).eq(messages.chunks(size)), "messages of {size} bytes changed");
    }
    // These are too many messages for a packet. The first call finds the kernel's maximum.
    let messages = random_bytes(1, 16 * 200);
    let before = calls(&*client);
    ensure!(client.send_batch(&messages, 16).map_err(text)? == messages.len(), "only some of 200 messages are sent");
    let made = calls(&*client) - before;
    let (counts, pieces) = taken(&mut *server, &mut Batch::new(1, 16), 200)?;
    let known = [(2, vec![128, 72]), (5, vec![64, 64, 64, 8])];
    ensure!(known.contains(&(made, counts.clone())), "200 messages are {made} calls and arrived as {counts:?}");
    ensure!(pieces.iter().map(Vec::as_slice).eq(messages.chunks(16)), "small messages changed");
    // If the receiver does not have the option, messages arrive one by one.
    let options = Options::default().with(OptionName::Gso, "on");
    let plain = subject.setup(4096, LONG);
    let (mut client, mut server) = subject.unlike_pair(&Setup { options, ..plain.clone() }, &plain)?;
    let before = calls(&*client);
    client.send_batch(&messages[..160], 16).map_err(text)?;
    ensure!(calls(&*client) - before == 1, "10 messages are {} calls", calls(&*client) - before);
    let (_, pieces) = taken(&mut *server, &mut Batch::new(1, 16), 10)?;
    ensure!(pieces.iter().map(Vec::as_slice).eq(messages[..160].chunks(16)), "without the option messages changed");
    Ok(())
}

/// A receive of one message leaves the other messages of the packet for later receives.
pub(crate) fn one_by_one(subject: &Subject) -> Checked {
    let Some((mut client, mut server)) = pair_with(subject, OptionName::Gso)? else { return Ok(()) };
    subject.exchange(&mut *client, Some(&mut *server), &random_bytes(7, 100))?;
    let messages = random_bytes(8, 6 * 100 - 30);
    client.send_batch(&messages, 100).map_err(text)?;
    let expected: Vec<&[u8]> = messages.chunks(100).collect();
    let mut into = [0; 100];
    ensure!(server.receive(&mut into).map_err(text)? == 100 && into == expected[0], "the first message changed");
    let before = calls(&*server);
    ensure!(server.wait(Duration::ZERO).map_err(text)?, "wait does not report the second message");
    ensure!(server.try_receive(&mut into).map_err(text)? == Some(100) && into == expected[1], "the second changed");
    let mut short = [0; 40];
    ensure!(server.receive(&mut short).map_err(text)? == 40 && short == expected[2][..40], "a short buffer");
    let mut batch = Batch::new(2, 100);
    ensure!(server.receive_batch(&mut batch).map_err(text)? == 2, "two slots, but not two messages");
    ensure!(batch.pieces().eq(expected[3..5].iter().copied()), "the fourth or the fifth changed");
    ensure!(server.receive_batch_waiting(&mut batch).map_err(text)? == 1, "the last message is missing");
    ensure!(batch.pieces().eq(expected[5..].iter().copied()), "the last message changed");
    ensure!(calls(&*server) == before, "stored messages take {} calls", calls(&*server) - before);
    ensure!(server.try_receive(&mut into).map_err(text)?.is_none(), "unexpected data are left");
    client.send_batch(&messages, 100).map_err(text)?;
    drop(client);
    let (counts, _) = taken(&mut *server, &mut batch, 6)?;
    ensure!(counts == [6], "{counts:?} messages arrived before the close");
    let end = server.receive(&mut into);
    ensure!(super::ends::is_closed(&end), "after the close, receive answers {}", super::ends::shown(&end));
    Ok(())
}

fn number(wire: &dyn Wire, name: &str) -> Option<u64> {
    fact::number(&wire.effective(), name).map(|number| number as u64)
}

/// Waits until the kernel no longer needs the memory of the sends.
fn completed(wire: &mut dyn Wire) -> Checked {
    let began = std::time::Instant::now();
    while wire.sends_in_flight().map_err(text)? > 0 {
        ensure!(began.elapsed() < LONG, "sends never complete");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Every completed send is counted. On the loopback device, the kernel copies all sends.
pub(crate) fn without_copy(subject: &Subject) -> Checked {
    const COUNT: usize = 500;
    let Some((mut client, mut server)) = pair_with(subject, OptionName::Zerocopy)? else { return Ok(()) };
    let messages = random_bytes(5, 4096 * COUNT);
    let (mut sends, mut sent, mut came) = (0, 0, Vec::new());
    let began = std::time::Instant::now();
    while came.len() < messages.len() {
        let end = (sent + 4096).min(messages.len());
        // Sends the second half with calls that may wait. The wire has room, since all data have been received.
        let taken = if sent >= messages.len() / 2 {
            client.send_batch_waiting(&messages[sent..end], 4096)
        } else {
            client.send_batch(&messages[sent..end], 4096)
        };
        let taken = match taken {
            // Other processes of the user may have pinned the memory.
            Err(WireError::Refused) if !kernel::may_pin_memory() && began.elapsed() < LONG => 0,
            taken if end > sent => taken.map_err(text)?,
            _ => 0,
        };
        sends += u64::from(taken > 0);
        sent += taken;
        came.extend(subject.pieces_of(&mut *server, sent - came.len(), 4096)?.concat());
    }
    ensure!(came == messages, "bytes changed");
    // The counters are complete whether completions were read before or not.
    if subject.waiting == hairpin_model::case::Waiting::Poll {
        completed(&mut *client)?;
    } else {
        let began = std::time::Instant::now();
        while number(&*client, fact_names::ZEROCOPY_COMPLETED) != Some(sends) && began.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        ensure!(client.sends_in_flight().map_err(text)? == 0, "all sends are complete, but some are in flight");
    }
    let figures = [fact_names::ZEROCOPY_COMPLETED, fact_names::ZEROCOPY_COPIED].map(|name| number(&*client, name));
    ensure!(figures == [Some(sends); 2], "{sends} sends, but {figures:?} completed and copied");
    // `send` always copies.
    subject.exchange(&mut *client, Some(&mut *server), &random_bytes(7, 100))?;
    ensure!(number(&*client, fact_names::ZEROCOPY_COMPLETED) == Some(sends), "`send` is counted as a zero-copy send");
    let (plain, _far) = subject.pair(&subject.setup(100, LONG))?;
    ensure!(number(&*plain, fact_names::ZEROCOPY_COMPLETED).is_none(), "a wire without the option has a count");
    Ok(())
}

/// Sends until a few sends find no room. Returns the numbers of accepted bytes and sends.
fn filled(client: &mut dyn Wire, message: &[u8], begin: usize) -> Result<(usize, u64), String> {
    let (mut sends, deadline) = (0, Instant::now() + LONG);
    let sent = fill(3, |sent| {
        let from = (begin + sent) % message.len();
        // Other tests of the same user may have pinned all the memory that RLIMIT_MEMLOCK allows.
        let is_refused = |result: &Result<usize, WireError>| {
            matches!(result, Err(WireError::Refused)) && !kernel::may_pin_memory() && Instant::now() < deadline
        };
        let mut taken = client.send_batch(&message[from..], message.len());
        while is_refused(&taken) {
            std::thread::sleep(Duration::from_millis(1));
            taken = client.send_batch(&message[from..], message.len());
        }
        let taken = taken.map_err(text)?;
        sends += u64::from(taken > 0);
        Ok(taken)
    })?;
    Ok((sent, sends))
}

/// Receives at least `least` bytes, which continue the repeated message at `begin`.
fn drained(server: &mut dyn Wire, message: &[u8], begin: usize, least: usize) -> Result<usize, String> {
    let (mut came, mut batch) = (0, Batch::new(1, 1 << 20));
    while came < least {
        ensure!(server.wait(LONG).map_err(text)?, "only {came} of {least} bytes arrived");
        server.receive_batch(&mut batch).map_err(text)?;
        for piece in batch.pieces() {
            let expected = message.iter().cycle().skip((begin + came) % message.len()).take(piece.len());
            ensure!(piece.iter().eq(expected), "bytes changed after {}", begin + came);
            came += piece.len();
        }
    }
    Ok(came)
}

/// Small and large sends fill the buffer and lose nothing. Completions do not keep waking an event loop.
pub(crate) fn without_copy_full(subject: &Subject) -> Checked {
    for size in [100, 100_000] {
        let Some((mut client, mut server)) = pair_with(subject, OptionName::Zerocopy)? else { return Ok(()) };
        let message = random_bytes(3, size);
        let mut set = WireSet::new(1).map_err(text)?;
        set.add(0, &*client, Interest::Write).map_err(text)?;
        let (mut sends, mut sent, mut came) = (0, 0, 0);
        for _ in 0..4 {
            let (bytes, more) = filled(&mut *client, &message, sent)?;
            (sent, sends) = (sent + bytes, sends + more);
            let mut ready = Vec::new();
            set.wait(Duration::ZERO, &mut ready).map_err(text)?;
            // If the limit on pinned memory stopped the sends, the buffer has room.
            let is_full = ready.is_empty() || !kernel::may_pin_memory();
            ensure!(is_full, "a full wire without completions is ready: {ready:?}");
            // Some sends complete, and later sends find these completions in the error queue.
            came += drained(&mut *server, &message, came, (sent - came) / 2)?;
        }
        came += drained(&mut *server, &message, came, sent - came)?;
        ensure!(came == sent, "{sent} bytes were sent, but {came} arrived");
        completed(&mut *client)?;
        let figure = number(&*client, fact_names::ZEROCOPY_COMPLETED);
        ensure!(figure == Some(sends), "{figure:?} of {sends} sends are complete");
    }
    Ok(())
}

/// When the memory for completions is used up, sends accept nothing until some of the memory is free again.
pub(crate) fn without_copy_short_of_memory(subject: &Subject) -> Checked {
    let (mut client, mut server) = pair_with(subject, OptionName::Zerocopy)?.ok_or("no zerocopy")?;
    let message = random_bytes(3, 100);
    let (mut sent, mut sends) = (0, 0);
    for _ in 0..10 {
        let (bytes, more) = filled(&mut *client, &message, sent)?;
        (sent, sends) = (sent + bytes, sends + more);
        let waiting = client.send_batch_waiting(&message[sent % 100..], 100).map_err(text)?;
        (sent, sends) = (sent + waiting, sends + u64::from(waiting > 0));
        drained(&mut *server, &message, sent - bytes - waiting, bytes + waiting)?;
        completed(&mut *client)?;
    }
    let figure = number(&*client, fact_names::ZEROCOPY_COMPLETED);
    ensure!(sends > 100 && figure == Some(sends), "{figure:?} of {sends} sends are complete");
    Ok(())
}

/// Stamps and completions share the error queue, and none is lost.
pub(crate) fn without_copy_stamped(subject: &Subject) -> Checked {
    const COUNT: u64 = 10;
    if !kernel::TIMESTAMPING.exists() {
        return Ok(());
    }
    let Some((mut client, mut server)) = pair_with(subject, OptionName::Zerocopy)? else { return Ok(()) };
    client.stream().ok_or("no stream")?.set(OptionName::Nodelay, true).map_err(text)?;
    let message = random_bytes(4, 100);
    let send = |client: &mut dyn Wire, server: &mut dyn Wire| -> Checked {
        ensure!(client.send_batch(&message, 100).map_err(text)? == 100, "100 bytes have no room");
        ensure!(subject.receive_whole(server, 100)? == message, "bytes changed");
        Ok(())
    };
    // The completion of this send is in the queue when stamps begin.
    send(&mut *client, &mut *server)?;
    client.kernel_stamps().ok_or("no stamps")?.begin(true).map_err(text)?;
    let mut taken = Vec::new();
    for turn in 0..COUNT {
        send(&mut *client, &mut *server)?;
        match turn % 3 {
            0 => drop(client.sends_in_flight().map_err(text)?),
            1 => client.kernel_stamps().ok_or("no stamps")?.take(&mut taken).map_err(text)?,
            _ => drop(client.effective()),
        }
    }
    completed(&mut *client)?;
    let began = std::time::Instant::now();
    let acknowledged = |taken: &[hairpin_transports::RawStamp], kind| -> Vec<u64> {
        taken.iter().filter(|stamp| stamp.kind == kind).map(|stamp| stamp.end_byte).collect()
    };
    while !acknowledged(&taken, StampKind::Acknowledged).contains(&(100 * COUNT)) {
        ensure!(began.elapsed() < LONG, "the last byte is never acknowledged: {taken:?}");
        client.kernel_stamps().ok_or("no stamps")?.take(&mut taken).map_err(text)?;
    }
    let ends: Vec<u64> = (1..=COUNT).map(|count| 100 * count).collect();
    ensure!(acknowledged(&taken, StampKind::Driver) == ends, "stamps were lost: {taken:?}");
    let figures = number(&*client, fact_names::ZEROCOPY_COMPLETED);
    ensure!(figures == Some(COUNT + 1), "{figures:?} of {} sends are complete", COUNT + 1);
    Ok(())
}
