//! Sends and receives of one or several messages without waiting.

use std::collections::BTreeSet;

use hairpin_transports::{Repeated, Wire};

use super::ends::{Checked, LONG, Subject, fill, is_closed, random_bytes, shown, text, while_driven};
use crate::ensure;

const SIZE: usize = 100;
const COUNT: usize = 50;

/// All messages of a batch arrive; the last is shorter.
pub(crate) fn delivered(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    let messages = random_bytes(1, SIZE * COUNT - 30);
    let mut sent = 0;
    let mut pieces = Vec::new();
    while sent < messages.len() {
        let taken = client.send_batch(&messages[sent..], SIZE).map_err(text)?;
        let is_whole = taken % SIZE == 0 || sent + taken == messages.len();
        ensure!(!subject.card.boundaries || is_whole, "{taken} bytes are not whole messages");
        pieces.extend(subject.pieces_of(&mut *server, taken, SIZE)?);
        sent += taken;
    }
    if !subject.card.boundaries {
        ensure!(pieces.concat() == messages, "the stream's bytes changed");
        return Ok(());
    }
    let expected: Vec<&[u8]> = messages.chunks(SIZE).collect();
    let came: BTreeSet<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let in_order = pieces.iter().map(Vec::as_slice).eq(expected.iter().copied());
    ensure!(in_order || !subject.card.ordered, "messages arrived in another order or in other pieces");
    ensure!(pieces.len() == COUNT && came == expected.into_iter().collect(), "messages arrived in other pieces");
    Ok(())
}

/// Each batch is one system call, even if it moves no data.
pub(crate) fn counted(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    if client.descriptors().is_none() {
        ensure!(client.system_calls().is_none(), "no descriptor, but calls are counted: {:?}", client.system_calls());
        return Ok(());
    }
    let calls = |wire: &dyn Wire| wire.system_calls().ok_or("no count of system calls");
    ensure!(calls(&*client)? == 0 && calls(&*server)? == 0, "a new wire has made calls");
    let mut batch = subject.room(SIZE);
    for (turn, count) in [1, 5, 20].into_iter().enumerate() {
        let sent = client.send_batch(&random_bytes(1, SIZE * count), SIZE).map_err(text)?;
        ensure!(sent == SIZE * count, "{sent} bytes of {count} messages are accepted");
        ensure!(calls(&*client)? == turn as u64 + 1, "{} batches are {} calls", turn + 1, calls(&*client)?);
        let mut missing = sent;
        while missing > 0 {
            ensure!(server.wait(LONG).map_err(text)?, "{missing} bytes never arrived");
            let before = calls(&*server)?;
            server.receive_batch(&mut batch).map_err(text)?;
            missing -= batch.pieces().map(<[u8]>::len).sum::<usize>();
            ensure!(calls(&*server)? == before + 1, "a receive is {} calls", calls(&*server)? - before);
        }
        let before = calls(&*server)?;
        ensure!(server.receive_batch(&mut batch).map_err(text)? == 0, "unexpected data are left");
        ensure!(calls(&*server)? == before + 1, "a receive of nothing is {} calls", calls(&*server)? - before);
    }
    Ok(())
}

/// Fills the wire with sends that do not wait. All accepted bytes arrive, and then the wire has room again.
pub(crate) fn full(subject: &Subject) -> Checked {
    const LARGE: usize = 5000;
    let (mut client, mut server) = subject.pair(&subject.setup(LARGE, LONG))?;
    for seed in 0..2 {
        let messages = random_bytes(seed, 3 * LARGE);
        let mut sent = Vec::new();
        // TCP makes more room once its segments have arrived.
        fill(3, |so_far| {
            let from = so_far % messages.len();
            let whole = (from / LARGE + 1) * LARGE;
            let taken = match so_far / messages.len() % 2 {
                0 => client.try_send(&messages[from..whole]).map_err(text)?,
                _ => client.send_batch(&messages[from..], LARGE).map_err(text)?,
            };
            ensure!(!subject.card.boundaries || taken % LARGE == 0, "{taken} bytes are not whole messages");
            sent.extend_from_slice(&messages[from..from + taken]);
            Ok(taken)
        })?;
        ensure!(!sent.is_empty(), "no bytes are accepted");
        let pieces = while_driven(&mut *client, || subject.pieces_of(&mut *server, sent.len(), LARGE))?;
        ensure!(pieces.concat() == sent, "some of {} bytes changed or arrived in another order", sent.len());
    }
    Ok(())
}

/// Sends the same bytes a few times, and then until the wire is full. All counted bytes arrive.
pub(crate) fn repeated(subject: &Subject) -> Checked {
    const LARGE: usize = 5000;
    let (mut client, mut server) = subject.pair(&subject.setup(LARGE, LONG))?;
    let bytes = random_bytes(4, LARGE);
    for (times, most) in [(1, 1), (3, 3), (u64::MAX, 80_000)] {
        let Repeated { whole, rest } = client.send_repeatedly(&bytes, times, false).map_err(text)?;
        ensure!(whole <= most, "{whole} sends are accepted without a reader");
        ensure!(times > most || (whole, rest) == (times, 0), "{whole} of {times} are sent, and {rest} bytes");
        ensure!(rest < LARGE && (rest == 0 || !subject.card.boundaries), "{rest} bytes of a message are accepted");
        let expected = [bytes.repeat(whole as usize), bytes[..rest].to_vec()].concat();
        let pieces = while_driven(&mut *client, || subject.pieces_of(&mut *server, expected.len(), LARGE))?;
        ensure!(pieces.concat() == expected, "some of {} bytes changed or arrived in another order", expected.len());
    }
    Ok(())
}

/// Receives everything that the other end sent before it closed, and then the close.
pub(crate) fn closed(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    let messages = random_bytes(3, 5 * SIZE);
    ensure!(client.send_batch(&messages, SIZE).map_err(text)? == messages.len(), "5 messages have no room");
    drop(client);
    let (mut came, mut batch) = (Vec::new(), subject.room(SIZE));
    let end = loop {
        match server.receive_batch(&mut batch) {
            Ok(_) => came.extend(batch.pieces().flatten().copied()),
            end => break end,
        }
    };
    ensure!(is_closed(&end), "after the close, receive_batch answers {}", shown(&end));
    ensure!(came == messages, "{} of {} bytes arrived, or some bytes changed", came.len(), messages.len());
    let answer = server.receive_batch(&mut batch);
    ensure!(is_closed(&answer), "after the first report, receive_batch answers {}", shown(&answer));
    // The first send may still be accepted; later sends report the close.
    let mut answers = (0..3).map(|_| server.try_send(&messages[..SIZE]));
    let last = answers.next_back().ok_or("no answer")?;
    ensure!(is_closed(&last), "try_send after the close answers {}", shown(&last));
    Ok(())
}
