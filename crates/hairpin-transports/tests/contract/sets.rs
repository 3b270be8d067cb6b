//! Waiting for several wires at once.

use std::time::Duration;

use hairpin_transports::{Batch, Interest, Ready, WireSet};

use super::ends::{Checked, LONG, Subject, fill, is_closed, shown, text, while_driven};
use crate::ensure;

fn tokens(set: &mut WireSet, at_most: Duration) -> Result<Vec<Ready>, String> {
    let mut ready = vec![Ready { token: 99, readable: true, writable: true }];
    set.wait(at_most, &mut ready).map_err(text)?;
    Ok(ready)
}

pub(crate) fn tell(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let mut pairs = (0..3).map(|_| subject.pair(&setup)).collect::<Result<Vec<_>, _>>()?;
    let is_told = pairs[0].1.descriptors().is_some();
    let mut set = WireSet::new(3).map_err(text)?;
    for (token, (_, server)) in pairs.iter().enumerate() {
        set.add(token, &**server, Interest::Read).map_err(text)?;
    }
    let count = |ready: &[Ready]| ready.iter().filter(|one| one.readable && !one.writable).count();
    let nothing = tokens(&mut set, Duration::ZERO)?;
    ensure!(count(&nothing) == if is_told { 0 } else { 3 }, "before anything was sent: {nothing:?}");
    pairs[1].0.send(b"to the second").map_err(text)?;
    let one = tokens(&mut set, LONG)?;
    let expected = if is_told { vec![1] } else { vec![0, 1, 2] };
    ensure!(one.iter().map(|one| one.token).eq(expected), "after one message: {one:?}");
    let mut batch = Batch::new(1, 100);
    for (token, (_, server)) in pairs.iter_mut().enumerate() {
        let count = server.receive_batch(&mut batch).map_err(text)?;
        ensure!(count == usize::from(token == 1), "wire {token} has {count} pieces");
    }
    // The set reports a closed wire, but not a removed wire.
    set.remove(2, &*pairs[2].1, Interest::Read).map_err(text)?;
    pairs[2].0.send(b"to nobody").map_err(text)?;
    let (client, mut server) = pairs.remove(0);
    drop(client);
    let gone = tokens(&mut set, LONG)?;
    let is_known =
        gone.iter().any(|one| one.token == 0) && gone.iter().all(|one| one.token < if is_told { 1 } else { 2 });
    ensure!(is_known, "the first is closed: {gone:?}");
    let answer = loop {
        match server.receive_batch(&mut batch) {
            Ok(0) => {}
            answer => break answer,
        }
    };
    ensure!(is_closed(&answer), "the wire answers {}", shown(&answer));
    ensure!(set.system_calls() == 3, "3 waits are {} system calls", set.system_calls());
    Ok(())
}

/// A full wire is not ready to send until there is room.
pub(crate) fn room(subject: &Subject) -> Checked {
    const SIZE: usize = 4096;
    let (mut client, mut server) = subject.pair(&subject.setup(SIZE, LONG))?;
    let mut set = WireSet::new(1).map_err(text)?;
    set.add(7, &*client, Interest::Write).map_err(text)?;
    let empty = tokens(&mut set, LONG)?;
    ensure!(empty == [Ready { token: 7, readable: false, writable: true }], "an empty wire: {empty:?}");
    let sent = fill(100, |_| client.try_send(&[1; SIZE]).map_err(text))?;
    if client.descriptors().is_some() {
        let full = tokens(&mut set, Duration::ZERO)?;
        ensure!(full.is_empty(), "a full wire: {full:?}");
    }
    while_driven(&mut *client, || subject.pieces_of(&mut *server, sent, SIZE))?;
    let emptied = tokens(&mut set, LONG)?;
    ensure!(emptied.iter().any(|one| one.token == 7 && one.writable), "an emptied wire: {emptied:?}");
    Ok(())
}
