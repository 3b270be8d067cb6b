//! A sender that is faster than its receiver.

use hairpin_model::{fact, fact_names};
use hairpin_transports::Wire;

use super::ends::{Checked, LONG, SHORT, Subject, is_timed_out, random_bytes, shown, text};
use super::kernel;
use crate::ensure;

const SIZE: usize = 4096;

/// On a reliable transport a full wire makes the sender time out, and everything accepted still arrives.
pub(crate) fn back_pressure(subject: &Subject) -> Checked {
    if !subject.card.reliable {
        return Ok(());
    }
    let (mut client, mut server) = subject.unlike_pair(&subject.setup(SIZE, SHORT), &subject.setup(SIZE, LONG))?;
    let mut accepted = 0_u64;
    let refusal = loop {
        match client.send(&random_bytes(accepted, SIZE)) {
            Ok(()) => accepted += 1,
            refusal => break refusal,
        }
        ensure!(accepted < 100_000, "400 MB are accepted without a reader");
    };
    ensure!(is_timed_out(&refusal), "a full wire answers {}", shown(&refusal));
    ensure!(accepted > 0, "not one message is accepted");
    for seed in 0..accepted {
        let message = subject.receive_whole(&mut *server, SIZE)?;
        ensure!(message == random_bytes(seed, SIZE), "message {seed} of {accepted} changed");
    }
    if subject.card.boundaries {
        let nothing = server.try_receive(&mut [0; SIZE]).map_err(text)?;
        ensure!(nothing.is_none(), "the refused message arrived");
        // There is room again.
        client.send(&random_bytes(accepted, SIZE)).map_err(text)?;
        ensure!(subject.receive_whole(&mut *server, SIZE)? == random_bytes(accepted, SIZE), "then a message changed");
    }
    Ok(())
}

/// On an unreliable transport the receiving socket counts the messages that it dropped.
pub(crate) fn overflow(subject: &Subject) -> Checked {
    if subject.card.reliable {
        return Ok(());
    }
    let (mut client, server) = subject.client(&subject.setup(1000, SHORT))?;
    let sent = 2000;
    for seed in 0..sent {
        client.send(&random_bytes(seed, 1000)).map_err(text)?;
    }
    // If the kernel answers, the answers overflow.
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
