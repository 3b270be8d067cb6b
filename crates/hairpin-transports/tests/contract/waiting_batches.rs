//! Sends and receives of batches that wait in the system call on a wire opened with `block`.

use std::sync::mpsc::{Receiver, Sender, channel};

use hairpin_model::Waiting;
use hairpin_transports::{Batch, Wire};

use super::ends::{Checked, LONG, Subject, calls, fill, random_bytes, text};
use crate::ensure;

const SIZE: usize = 100;

fn is_counted(wire: &dyn Wire) -> bool {
    wire.descriptors().is_some()
}

/// Messages arrive complete and with their boundaries. Each send and each receive is one system call, for one or many
/// messages.
pub(crate) fn moved(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    let one_call = u64::from(is_counted(&*client));
    for (slots, count) in [(1, 1), (64, 1), (64, 5), (1, 3), (64, 64)] {
        let mut batch = if slots == 1 { Batch::new(1, SIZE) } else { subject.room(SIZE) };
        let messages = random_bytes(count as u64, SIZE * count - 30);
        let before = calls(&*client);
        let sent = client.send_batch_waiting(&messages, SIZE).map_err(text)?;
        ensure!(sent == messages.len(), "{sent} of {} bytes are accepted", messages.len());
        ensure!(calls(&*client) - before == one_call, "{count} messages are {} calls", calls(&*client) - before);
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        while pieces.concat().len() < sent {
            let before = calls(&*server);
            let came = server.receive_batch_waiting(&mut batch).map_err(text)?;
            ensure!(came == batch.pieces().count(), "{came} pieces, but {} in the batch", batch.pieces().count());
            ensure!(calls(&*server) - before == one_call, "a receive is {} calls", calls(&*server) - before);
            pieces.extend(batch.pieces().map(<[u8]>::to_vec));
        }
        if subject.card.boundaries {
            ensure!(
                pieces.iter().map(Vec::as_slice).eq(messages.chunks(SIZE)),
                "{count} messages arrived in other pieces"
            );
        }
        ensure!(pieces.concat() == messages, "{count} messages changed");
    }
    Ok(())
}

/// Whether another thread sleeps, according to its state in `/proc`.
fn is_asleep(task: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{task}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// Receives the name of a thread, and waits until this thread sleeps. Returns false if the thread never sleeps.
pub(crate) fn has_slept(task: &Receiver<String>) -> Result<bool, String> {
    let task = task.recv().map_err(text)?;
    let looks = LONG.as_millis() / 2;
    Ok((0..looks).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        is_asleep(&task)
    }))
}

pub(crate) fn tell_name(to: &Sender<String>) -> Checked {
    let name = std::fs::read_link("/proc/thread-self").map_err(text)?;
    to.send(name.display().to_string()).map_err(text)
}

/// With `block`, the receiver sleeps in the call until a message arrives; each call that is interrupted before returns
/// 0 and is one system call. With other waitings, a receive without data returns at once.
pub(crate) fn receiver_sleeps(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    let mut batch = subject.room(SIZE);
    if subject.waiting != Waiting::Block || !is_counted(&*server) {
        ensure!(
            server.receive_batch_waiting(&mut batch).map_err(text)? == 0,
            "nothing was sent, but a piece arrived"
        );
        return Ok(());
    }
    let (named, name) = channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| -> Result<(u64, u64), String> {
            tell_name(&named)?;
            // The client sends only after a call was interrupted.
            let (before, mut answers, mut was_interrupted) = (calls(&*server), 0, false);
            loop {
                answers += 1;
                match server.receive_batch_waiting(&mut batch).map_err(text)? {
                    0 if !was_interrupted => {
                        was_interrupted = true;
                        tell_name(&named)?;
                    }
                    0 => {}
                    _ => return Ok((answers, calls(&*server) - before)),
                }
            }
        });
        let sleeps = has_slept(&name)? && has_slept(&name)?;
        client.send(&random_bytes(1, SIZE)).map_err(text)?;
        let (answers, made) = receiver.join().map_err(|_| "the receiver panicked")??;
        ensure!(sleeps, "the receiver never sleeps");
        ensure!(answers >= 2 && made == answers, "{answers} answers are {made} system calls");
        Ok(())
    })?;
    ensure!(batch.pieces().eq([random_bytes(1, SIZE).as_slice()]), "the message changed");
    Ok(())
}

/// With `block`, the sender sleeps in the call while the wire is full, and continues when the wire has room.
pub(crate) fn sender_sleeps(subject: &Subject) -> Checked {
    const LARGE: usize = 5000;
    let (mut client, mut server) = subject.pair(&subject.setup(LARGE, LONG))?;
    let messages = random_bytes(9, 8 * LARGE);
    let waits = subject.waiting == Waiting::Block && is_counted(&*client);
    // Fills the wire. With `block`, a call on a full wire is interrupted and sends nothing. TCP makes more room at first.
    let sent = fill(3, |sent| {
        let before = calls(&*client);
        let taken = client.send_batch_waiting(&messages[sent % messages.len()..], LARGE).map_err(text)?;
        ensure!(calls(&*client) - before <= 1, "a send is {} calls", calls(&*client) - before);
        ensure!(!subject.card.boundaries || taken % LARGE == 0, "{taken} bytes are not whole messages");
        Ok(taken)
    })?;
    ensure!(sent > 0, "no bytes are accepted");
    let (named, name) = channel();
    let mut came = Vec::new();
    let more = std::thread::scope(|scope| {
        let sender = scope.spawn(|| -> Result<usize, String> {
            tell_name(&named)?;
            loop {
                match client.send_batch_waiting(&messages[sent % messages.len()..], LARGE).map_err(text)? {
                    0 => {}
                    taken => return Ok(taken),
                }
            }
        });
        let sleeps = !waits || has_slept(&name)?;
        let mut batch = subject.room(LARGE);
        while !sender.is_finished() {
            server.receive_batch(&mut batch).map_err(text)?;
            batch.pieces().for_each(|piece| came.extend_from_slice(piece));
        }
        let more = sender.join().map_err(|_| "the sender panicked")??;
        ensure!(sleeps, "the sender never sleeps");
        Ok(more)
    })?;
    let missing = (sent + more).checked_sub(came.len()).ok_or("more was received than sent")?;
    came.extend(subject.pieces_of(&mut *server, missing, LARGE)?.concat());
    let is_whole = came.chunks(messages.len()).all(|part| *part == messages[..part.len()]);
    ensure!(is_whole, "some of {} bytes changed or arrived out of order", sent + more);
    Ok(())
}
