//! Messages with codes: those of others are dropped and counted.

use std::net::UdpSocket;
use std::sync::Arc;

use hairpin_model::{Options, fact, fact_names};
use hairpin_transports::{Batch, CODES, Codes, Setup, Wire, pattern};

use super::ends::{Checked, LONG, Pair, Subject, is_closed, shown, text};
use crate::ensure;

/// Opens two ends whose messages have codes.
fn pair(subject: &Subject, size: usize, options: &str) -> Result<Pair, String> {
    let codes =
        |seed: u64| (1..=CODES as u64).map(|number| (number + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let [up, down]: [Arc<[u64]>; 2] = [codes(0), codes(1 << 40)];
    let options = if options.is_empty() { Options::default() } else { Options::parse(options).map_err(text)? };
    let setup = Setup { options, ..subject.setup(size, LONG) };
    let client = Setup { codes: Some(Codes::new(Arc::clone(&up), Arc::clone(&down), size)), ..setup.clone() };
    let server = Setup { codes: Some(Codes::new(down, up, size)), ..setup };
    subject.unlike_pair(&client, &server)
}

/// A message as loops send it.
fn message(number: u64, size: usize) -> Vec<u8> {
    (0..size).map(|index| number.to_le_bytes().get(index).copied().unwrap_or(pattern(index))).collect()
}

/// The socket of a wire.
fn socket_of(wire: &dyn Wire) -> Result<UdpSocket, String> {
    let descriptors = wire.descriptors().ok_or("the wire has no descriptors")?;
    descriptors.writable.try_clone_to_owned().map(UdpSocket::from).map_err(text)
}

fn strays(wire: &dyn Wire) -> f64 {
    fact::number(&wire.effective(), fact_names::STRAYS).unwrap_or(-1.0)
}

/// Datagrams of others, a message that comes back, and an empty datagram are dropped, and messages arrive unchanged.
pub(crate) fn strangers(subject: &Subject) -> Checked {
    for size in [4, 7, 12, 16, 40, 1400] {
        let (mut client, mut server) = pair(subject, size, "")?;
        let stranger = socket_of(&*client)?;
        let mut said = 0.0;
        for number in 0..20 {
            for forged in [
                vec![0; size],
                message(number, size),
                vec![1],
                vec![1; 4],
                message(number, size + 1),
                b"\x08\x01".repeat(20),
                Vec::new(),
            ] {
                stranger.send(&forged).map_err(text)?;
                said += 1.0;
            }
            subject.exchange(&mut *client, Some(&mut *server), &message(number, size))?;
        }
        ensure!(strays(&*server) == said, "{size} bytes: {} of {said} strays counted", strays(&*server));
        ensure!(strays(&*client) == 0.0, "{size} bytes: {} strays at the client", strays(&*client));
        drop(client);
        let end = server.receive(&mut vec![0; size]);
        ensure!(is_closed(&end), "{size} bytes: {} after the end", shown(&end));
    }
    Ok(())
}

/// Batches of messages with codes, with and without UDP's offload.
pub(crate) fn batches(subject: &Subject) -> Checked {
    const COUNT: u64 = 200;
    for (size, options) in [(8, ""), (16, ""), (1000, ""), (16, "gso=on"), (1000, "gso=on")] {
        let (mut client, mut server) = pair(subject, size, options)?;
        let stranger = socket_of(&*client)?;
        let codes = client.take_codes().ok_or("the wire has no codes")?;
        let messages: Vec<Vec<u8>> = (0..COUNT).map(|number| message(number, size)).collect();
        let mut arrived = Vec::new();
        let mut batch = Batch::new(Batch::MAX_MESSAGES, size.max(Batch::MIN_MESSAGE_SLOT_BYTES));
        for part in messages.chunks(50) {
            stranger.send(&vec![1; size]).map_err(text)?;
            let mut batch_of = part.concat();
            batch_of.chunks_exact_mut(size).for_each(|message| codes.write(message));
            let sent = client.send_batch(&batch_of, size).map_err(text)?;
            ensure!(sent == part.len() * size, "{sent} bytes of {} messages are accepted", part.len());
            let wanted = arrived.len() + part.len();
            while arrived.len() < wanted {
                ensure!(server.wait(LONG).map_err(text)?, "{} messages arrived", arrived.len());
                server.receive_batch(&mut batch).map_err(text)?;
                arrived.extend(batch.pieces().map(<[u8]>::to_vec));
            }
        }
        ensure!(arrived == messages, "{size} bytes, {options}: messages changed");
        ensure!(strays(&*server) == 4.0, "{size} bytes, {options}: {} strays", strays(&*server));
        client.farewell();
        let end = server.wait(LONG).and_then(|_| server.receive_batch(&mut batch));
        ensure!(is_closed(&end), "{size} bytes, {options}: {} after the end", shown(&end));
    }
    Ok(())
}
