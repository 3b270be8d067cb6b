//! A sender that is faster than its receiver.

use hairpin_model::{fact, fact_names};
use hairpin_transports::Wire;

use super::ends::{Checked, FILLING, LONG, SHORT, Subject, is_timed_out, random_bytes, shown, text};
use super::kernel;
use crate::ensure;

/// On a reliable transport, sends on a full wire time out, and all accepted messages still arrive.
pub(crate) fn back_pressure(subject: &Subject) -> Checked {
    let setups = [SHORT, LONG].map(|timeout| subject.setup(FILLING, timeout));
    let (mut client, mut server) = subject.unlike_pair(&setups[0], &setups[1])?;
    let accepted = subject.fill_and_empty((&mut *client, &mut *server), |client, message| client.send(message))?;
    if subject.card.boundaries {
        let nothing = server.try_receive(&mut [0; FILLING]).map_err(text)?;
        ensure!(nothing.is_none(), "the refused message arrived");
        // The wire has room again.
        let next = random_bytes(accepted, FILLING);
        client.send(&next).map_err(text)?;
        ensure!(subject.receive_whole(&mut *server, FILLING)? == next, "the message after the time-out changed");
    }
    Ok(())
}

/// On an unreliable transport, the receiving socket counts dropped messages.
pub(crate) fn overflow(subject: &Subject) -> Checked {
    let (mut client, server) = subject.client(&subject.setup(1000, SHORT))?;
    let sent = 2000;
    for seed in 0..sent {
        client.send(&random_bytes(seed, 1000)).map_err(text)?;
    }
    // If the kernel answers, the client's receive buffer overflows.
    let mut receiver: Box<dyn Wire> = match server {
        Some(server) => server,
        None => client,
    };
    let mut received = 0;
    let mut into = [0; 1000];
    let end = loop {
        match receiver.receive(&mut into) {
            Ok(bytes) => {
                ensure!(bytes == 1000, "{bytes} bytes instead of 1000");
                received += 1;
            }
            end => break end,
        }
    };
    ensure!(is_timed_out(&end), "after the last message: {}", shown(&end));
    if !kernel::MEMINFO.exists() {
        return Ok(());
    }
    let drops = fact::number(&receiver.effective(), fact_names::SOCKET_DROPS).ok_or("no socket.drops")?;
    ensure!(drops > 0.0 && received > 0, "{received} received, {drops} dropped");
    ensure!(received + drops as u64 == sent, "{sent} sent, but {received} received and {drops} dropped");
    Ok(())
}
