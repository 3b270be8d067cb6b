//! When one end closes, the other end receives the data sent before, and then the close.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hairpin_model::Options;
use hairpin_model::options::OptionName;
use hairpin_transports::{Setup, Wire, WireError};

use super::ends::{Checked, LONG, SHORT, Subject, is_closed, is_timed_out, random_bytes, shown, text};
use crate::ensure;

pub(crate) fn clean_close(subject: &Subject) -> Checked {
    close_cleanly(subject, |_| ())
}

pub(crate) fn close_in_two_steps(subject: &Subject) -> Checked {
    close_cleanly(subject, |client| client.begin_close())
}

fn close_cleanly(subject: &Subject, begin_close: fn(&mut dyn Wire)) -> Checked {
    // If an end closes with unread bytes, data held by Nagle's algorithm is not sent.
    let nodelay = if subject.card.options.contains(&OptionName::Nodelay) { "nodelay=on" } else { "" };
    let options = Options::parse(nodelay).map_err(text)?;
    let (mut client, mut server) = subject.pair(&Setup { options, ..subject.setup(100, LONG) })?;
    // One message to the client stays unread, as in a run that is interrupted.
    server.send(&random_bytes(9, 100)).map_err(text)?;
    for seed in 0..3 {
        client.send(&random_bytes(seed, 100)).map_err(text)?;
    }
    begin_close(&mut *client);
    drop(client);
    for seed in 0..3 {
        let message = subject.receive_whole(&mut *server, 100)?;
        ensure!(message == random_bytes(seed, 100), "message {seed}, sent before the close, changed");
    }
    let mut into = [0; 100];
    for _ in 0..3 {
        let answer = server.receive(&mut into);
        ensure!(is_closed(&answer), "receive after the close answers {}", shown(&answer));
        let answer = server.try_receive(&mut into);
        ensure!(is_closed(&answer), "try_receive after the close answers {}", shown(&answer));
    }
    ensure!(server.wait(SHORT).map_err(text)?, "the end is closed, but wait does not report it");
    let answer = server.send(&into);
    ensure!(is_closed(&answer), "send after the close answers {}", shown(&answer));
    Ok(())
}

pub(crate) fn gone_while_receiving(subject: &Subject) -> Checked {
    let (client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    let (begin, begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            begin.send(()).expect("the check waits for the start");
            server.receive(&mut [0; 100])
        });
        begun.recv().map_err(text)?;
        // The receiver is probably inside the call by now; the result must not depend on this.
        std::thread::sleep(SHORT);
        drop(client);
        let answer = receiver.join().map_err(|_| "the receiver panicked")?;
        ensure!(is_closed(&answer), "receive answers {}", shown(&answer));
        Ok(())
    })
}

pub(crate) fn gone_while_sending(subject: &Subject) -> Checked {
    let (client, server) = subject.pair(&subject.setup(1000, LONG))?;
    let sent = &AtomicU64::new(0);
    let send_until_refused = |mut wire: Box<dyn Wire>| {
        for seed in 0..u64::MAX {
            sent.store(seed, Ordering::Relaxed);
            if let Err(error) = wire.send(&random_bytes(seed, 1000)) {
                return error;
            }
        }
        unreachable!("the loop above only ends with an error");
    };
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || send_until_refused(server));
        // A socket without unread data closes in order: the kernel then keeps an MPTCP socket for 60 s, and accepts
        // data from the other end.
        while sent.load(Ordering::Relaxed) < 2 && !sender.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(SHORT);
        drop(client);
        let error = sender.join().map_err(|_| "the sender panicked")?;
        ensure!(matches!(error, WireError::Closed), "send answers {error}");
        Ok(())
    })
}

/// A client that is never accepted does not wait forever.
pub(crate) fn gone_before_accept(subject: &Subject) -> Checked {
    let listener = subject.transport.listen(&subject.setup(100, SHORT)).map_err(text)?;
    let Ok(mut client) = subject.connect(&listener.address(), &subject.setup(100, SHORT)) else {
        // A datagram hello gets no answer, and no library's handshake completes.
        ensure!(
            subject.card.library.is_some() || subject.card.name.ends_with("datagram") || !subject.card.reliable,
            "connect fails before accept"
        );
        return Ok(());
    };
    drop(listener);
    // MPTCP resets its connections in a work queue, which may run later.
    let deadline = Instant::now() + LONG;
    let answer = loop {
        let answer = client.receive(&mut [0; 100]);
        if !is_timed_out(&answer) || Instant::now() > deadline {
            break answer;
        }
    };
    ensure!(is_closed(&answer), "receive answers {}", shown(&answer));
    Ok(())
}
