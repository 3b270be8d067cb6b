//! Messages arrive complete, unchanged, in order, and in the pieces that the card promises.

use std::collections::BTreeSet;

use hairpin_model::{fact, fact_names};
use hairpin_transports::Setup;

use super::ends::{Checked, LONG, Subject, is_closed, random_bytes, shown, text, while_driven};
use crate::ensure;

const SIZES: &[usize] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 49, 63, 64, 65, 127, 511, 1000, 1400, 1500, 4095, 4096, 4097,
    9000, 16_384, 32_768, 65_000, 65_507, 65_527, 65_535, 65_536,
];

pub(crate) fn integrity(subject: &Subject) -> Checked {
    let limit = usize::try_from(subject.card.max_message_bytes).map_err(text)?;
    let mut sizes: Vec<usize> = SIZES.iter().copied().filter(|size| *size <= limit).collect();
    // About 3 MiB, or the maximum if it is smaller.
    sizes.push(limit.min((3 << 20) + 7));
    let largest = sizes[sizes.len() - 1];
    let (mut client, server) = subject.client(&subject.setup(largest, LONG))?;
    let server_sizes = sizes.clone();
    let (is_done, end_waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let echo = server.map(|mut server| {
            scope.spawn(move || {
                for size in server_sizes {
                    let message = subject.receive_whole(&mut *server, size)?;
                    server.send(&message).map_err(text)?;
                }
                // Keeps the wire open until the client has received everything.
                let _ = while_driven(&mut *server, || end_waits.recv());
                Ok::<_, String>(server)
            })
        });
        for (seed, size) in sizes.into_iter().enumerate() {
            subject.exchange(&mut *client, None, &random_bytes(seed as u64, size))?;
        }
        drop(is_done);
        match echo {
            Some(echo) => drop(echo.join().map_err(|_| "the echo panicked")??),
            None => return Ok(()),
        }
        // Late wake-ups are lost wake-ups, except that one may coincide with the end of a sleep.
        let late = fact::number(&client.effective(), fact_names::SHM_LATE_WAKES).unwrap_or(0.0);
        ensure!(late as u64 <= 1, "{late} late wake-ups");
        Ok(())
    })
}

pub(crate) fn order_and_boundaries(subject: &Subject) -> Checked {
    // The messages fit into every default buffer, so that even unreliable transports lose none.
    let messages: Vec<Vec<u8>> = (0..60_u64).map(|seed| random_bytes(seed, 8 + (seed as usize * 37) % 200)).collect();
    let (mut client, mut server) = subject.pair(&subject.setup(256, LONG))?;
    std::thread::scope(|scope| {
        let sent = &messages;
        let sender = scope.spawn(move || sent.iter().try_for_each(|message| client.send(message)).map(|()| client));
        let total: usize = messages.iter().map(Vec::len).sum();
        let (mut pieces, mut bytes, mut into) = (Vec::new(), 0, [0; 256]);
        while bytes < total {
            let taken = server.receive(&mut into).map_err(text)?;
            pieces.push(into[..taken].to_vec());
            bytes += taken;
        }
        drop(sender.join().map_err(|_| "the sender panicked")?.map_err(text)?);
        match (subject.card.boundaries, subject.card.ordered) {
            (true, true) => ensure!(pieces == messages, "messages arrived in another order or in other pieces"),
            (true, false) => {
                let (came, went): (BTreeSet<_>, BTreeSet<_>) = (pieces.iter().collect(), messages.iter().collect());
                ensure!(came == went && pieces.len() == messages.len(), "messages arrived in other pieces");
            }
            (false, _) => ensure!(pieces.concat() == messages.concat(), "the stream's bytes changed"),
        }
        Ok(())
    })
}

pub(crate) fn both_ways_at_once(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(512, LONG))?;
    for round in 0..200_u64 {
        let messages: Vec<Vec<u8>> = (0..4).map(|which| random_bytes(round * 4 + which, 100)).collect();
        client.send(&messages[0]).map_err(text)?;
        server.send(&messages[1]).map_err(text)?;
        client.send(&messages[2]).map_err(text)?;
        server.send(&messages[3]).map_err(text)?;
        for (wire, sent) in [(&mut client, [1, 3]), (&mut server, [0, 2])] {
            for which in sent {
                let came = subject.receive_whole(&mut **wire, 100)?;
                ensure!(came == messages[which], "round {round}: message {which} changed or arrived out of order");
            }
        }
    }
    Ok(())
}

pub(crate) fn wait_and_try(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(64, LONG))?;
    let mut into = [0; 64];
    for round in 0..50_u64 {
        let nothing = client.try_receive(&mut into).map_err(text)?;
        ensure!(nothing.is_none(), "{nothing:?} bytes before anything was sent");
        let message = random_bytes(round, 24);
        client.send(&message).map_err(text)?;
        if let Some(server) = &mut server {
            ensure!(server.wait(LONG).map_err(text)?, "the server never became ready");
            let bytes = server.try_receive(&mut into).map_err(text)?;
            ensure!(bytes == Some(24) && into[..24] == message, "the server is ready, but received {bytes:?} bytes");
            server.send(&message).map_err(text)?;
        }
        // Packets other than our message may end the first wait.
        let mut bytes = None;
        for _ in 0..100 {
            ensure!(client.wait(LONG).map_err(text)?, "the client never became ready");
            bytes = client.try_receive(&mut into).map_err(text)?;
            if bytes.is_some() {
                break;
            }
        }
        ensure!(bytes == Some(24) && into[..24] == message, "the client is ready, but received {bytes:?} bytes");
    }
    Ok(())
}

pub(crate) fn short_buffer(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(64, LONG))?;
    client.send(&random_bytes(1, 64)).map_err(text)?;
    client.send(&random_bytes(2, 10)).map_err(text)?;
    let mut into = [0; 10];
    let first = server.receive(&mut into).map_err(text)?;
    ensure!(first == 10 && into == random_bytes(1, 10)[..], "{first} bytes arrived, or the bytes changed");
    let second = server.receive(&mut into).map_err(text)?;
    let expected = if subject.card.boundaries { random_bytes(2, 10) } else { random_bytes(1, 64)[10..20].to_vec() };
    ensure!(into[..second] == expected, "wrong bytes after a truncated message");
    Ok(())
}

/// A message of the maximum size arrives; unreliable transports refuse one byte more.
pub(crate) fn largest(subject: &Subject) -> Checked {
    let limit = usize::try_from(subject.card.max_message_bytes).map_err(text)?;
    if !subject.card.boundaries || limit > 1 << 20 {
        return Ok(());
    }
    let (mut client, mut server) = subject.client(&subject.setup(limit, LONG))?;
    subject.exchange(&mut *client, server.as_deref_mut(), &random_bytes(3, limit))?;
    if !subject.card.reliable {
        let answer = client.send(&random_bytes(4, limit + 1));
        ensure!(answer.is_err(), "one byte more than on the card: {}", shown(&answer));
    }
    Ok(())
}

/// Messages that the server answers one by one, as protocols with requests send them.
pub(crate) fn answered(subject: &Subject) -> Checked {
    let largest = usize::try_from(subject.card.max_message_bytes).map_err(text)?.min(60_000);
    let setup = Setup { has_answers: true, ..subject.setup(largest, LONG) };
    let (mut client, mut server) = subject.pair(&setup)?;
    for (seed, size) in [1, 100, 1000, largest, 7].into_iter().enumerate() {
        subject.exchange(&mut *client, Some(&mut *server), &random_bytes(seed as u64, size))?;
    }
    drop(client);
    let answer = server.receive(&mut [0; 100]);
    ensure!(is_closed(&answer), "after the last answer, receive answers {}", shown(&answer));
    Ok(())
}
