//! Round trips between two processes on the requested CPUs: the client's loop and the echo's loop.

use std::io;

use crate::extras::ExtraWork;
use crate::options::Options;
use crate::system::{fork, kill, pin};
use crate::wires::End;

/// Time limit of both processes (SIGALRM); longer than any measurement.
const MAX_S: u32 = 120;

/// Forks the echo, runs the client, and ends the echo. Returns the round-trip times in ticks, in order of time.
pub(crate) fn round_trips(asked: &Options, mut client: impl End, echo: impl End) -> io::Result<Vec<u64>> {
    let child = fork(MAX_S, || echo_for_ever(asked, echo))?;
    let measured = pin(asked.cpus.0).and_then(|()| measure(asked, &mut client));
    kill(child);
    measured
}

/// The reference loop: stamp, send, receive, stamp, store.
fn measure(asked: &Options, client: &mut impl End) -> io::Result<Vec<u64>> {
    // Ones populate the pages, which avoids page faults in the loop; pages of zeros would be allocated lazily.
    let mut sent = vec![1_u64; asked.count];
    let mut received = vec![1_u64; asked.count];
    let mut carried = ExtraWork::new(&asked.extras, asked.count)?;
    let mut message = 0_u32;
    for _ in 0..asked.warmup {
        message = exchange(client, message);
    }
    for (sent, received) in sent.iter_mut().zip(&mut received) {
        *sent = carried.stamp();
        message = exchange(client, message);
        carried.received();
        *received = carried.stamp();
        carried.answered(message, *sent, *received);
    }
    Ok(received.iter().zip(&sent).map(|(received, sent)| received.wrapping_sub(*sent)).collect())
}

/// Sends a message and verifies the answer. Returns the next message.
#[inline(always)]
fn exchange(client: &mut impl End, message: u32) -> u32 {
    client.send(message);
    let answer = client.receive();
    assert!(answer == message, "sent {message}, received {answer}");
    message.wrapping_add(1)
}

fn echo_for_ever(asked: &Options, mut echo: impl End) -> ! {
    pin(asked.cpus.1).expect("this process may use the echo's CPU");
    let mut carried = ExtraWork::new(&asked.extras, 0).expect("the client has set the same alarm");
    if asked.echo_stamps() {
        let mut held = 0_u64;
        loop {
            let message = echo.receive();
            carried.received();
            let since = carried.stamp();
            let turn = carried.stamp().wrapping_sub(since);
            held = held.wrapping_add(turn);
            carried.count_held(turn);
            std::hint::black_box(held);
            echo.send(message);
        }
    }
    loop {
        let message = echo.receive();
        carried.received();
        echo.send(message);
    }
}
