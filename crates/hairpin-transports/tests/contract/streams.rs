//! Small writes to a byte stream: sends in parts, `MSG_MORE`, switches, and exact counts of system calls.

use std::io::IoSlice;

use hairpin_model::options::OptionName;
use hairpin_model::{Options, Waiting};
use hairpin_transports::{Segments, Setup, Stream, Wire, WireError};

use super::ends::{Checked, FILLING, LONG, SHORT, Subject, is_closed, random_bytes, shown, text, while_driven};
use super::kernel;
use super::options::word;
use crate::ensure;

/// A way to send bytes.
type SendBy = fn(&mut dyn Stream, &[u8]) -> Result<(), WireError>;

const SENDS: &[(&str, SendBy)] = &[
    ("more", |stream, bytes| stream.send_more(bytes)),
    ("one part", |stream, bytes| stream.send_vectored(&[IoSlice::new(bytes)])),
    ("parts", |stream, bytes| {
        // Parts of 0 to 6 bytes. 4000 bytes have more parts than one call accepts.
        let (mut parts, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (part, after) = rest.split_at((parts.len() % 7).min(rest.len()));
            parts.push(IoSlice::new(part));
            rest = after;
        }
        stream.send_vectored(&parts)
    }),
];

/// The ways that this transport supports: pipes have no `MSG_MORE`.
fn sends(subject: &Subject) -> impl Iterator<Item = &'static (&'static str, SendBy)> {
    let from = usize::from(!is_socket(subject));
    SENDS[from..].iter()
}

fn is_socket(subject: &Subject) -> bool {
    !subject.card.options.is_empty()
}

fn is_tcp(subject: &Subject) -> bool {
    subject.card.options.contains(&OptionName::Nodelay)
}

/// Whether the kernel counts the transport's segments.
pub(crate) fn has_segments(subject: &Subject) -> bool {
    subject.is_plain_stream() && is_tcp(subject) && kernel::TCP_INFO.exists()
}

fn stream(wire: &mut dyn Wire) -> Result<&mut dyn Stream, String> {
    wire.stream().ok_or_else(|| "no stream".to_owned())
}

pub(crate) fn offered(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(100, LONG))?;
    for wire in [Some(&mut client), server.as_mut()].into_iter().flatten() {
        let offered = wire.stream().is_some();
        ensure!(offered == subject.is_stream(), "stream() is some: {offered}");
    }
    Ok(())
}

pub(crate) fn in_parts(subject: &Subject) -> Checked {
    for (name, send_by) in sends(subject) {
        // The last message is larger than any default buffer.
        for (seed, size) in [(1, 1), (2, 200), (3, 4000), (4, (3 << 20) + 7)] {
            let message = random_bytes(seed, size);
            let (mut client, mut server) = subject.pair(&subject.setup(size, LONG))?;
            let came = std::thread::scope(|scope| {
                let receiver = scope.spawn(|| subject.receive_whole(&mut *server, size));
                send_by(stream(&mut *client)?, &message[..size - 1]).map_err(text)?;
                client.send(&message[size - 1..]).map_err(text)?;
                while_driven(&mut *client, || receiver.join()).map_err(|_| "the receiver panicked")?
            })?;
            ensure!(came == message, "{name}: {size} bytes changed");
        }
    }
    Ok(())
}

pub(crate) fn empty(subject: &Subject) -> Checked {
    for (name, send_by) in sends(subject) {
        let (mut client, mut server) = subject.pair(&subject.setup(1, LONG))?;
        send_by(stream(&mut *client)?, &[]).map_err(text)?;
        let is_readable = while_driven(&mut *client, || server.wait(SHORT)).map_err(text)?;
        ensure!(!is_readable, "{name}: an empty send arrives");
        client.send(&[1]).map_err(text)?;
        let came = while_driven(&mut *client, || subject.receive_whole(&mut *server, 1))?;
        ensure!(came == [1], "{name}: {came:?} arrived");
    }
    Ok(())
}

pub(crate) fn full(subject: &Subject) -> Checked {
    for (name, send_by) in sends(subject) {
        let setups = [SHORT, LONG].map(|timeout| subject.setup(FILLING, timeout));
        let (mut client, mut server) = subject.unlike_pair(&setups[0], &setups[1])?;
        let send = |client: &mut dyn Wire, message: &[u8]| send_by(client.stream().expect("a stream"), message);
        let filled = subject.fill_and_empty((&mut *client, &mut *server), send);
        filled.map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

pub(crate) fn gone(subject: &Subject) -> Checked {
    // More than a segment, so that the kernel sends data even with `MSG_MORE`.
    let message = random_bytes(1, 100_000);
    for (name, send_by) in sends(subject) {
        let (mut client, server) = subject.pair(&subject.setup(message.len(), LONG))?;
        drop(server);
        if subject.card.name == "mptcp" {
            // MPTCP does not tell a sender that the receiver has closed.
            let end = client.receive(&mut [0; 8]);
            ensure!(is_closed(&end), "receive answers {}", shown(&end));
        }
        // The first send may still be accepted; later sends report the close.
        let mut accepted = 0;
        let answer = loop {
            match send_by(stream(&mut *client)?, &message) {
                Ok(()) => accepted += 1,
                answer => break answer,
            }
            ensure!(accepted < 100, "{name}: 10 MB are accepted without a receiver");
        };
        ensure!(is_closed(&answer), "{name}: the send answers {}", shown(&answer));
        let again = send_by(stream(&mut *client)?, &message);
        ensure!(is_closed(&again), "{name}: the next send answers {}", shown(&again));
    }
    Ok(())
}

pub(crate) fn switches(subject: &Subject) -> Checked {
    let (mut client, _far) = subject.pair(&subject.setup(100, LONG))?;
    for name in [OptionName::Nodelay, OptionName::Cork, OptionName::Quickack] {
        for on in [true, false, true] {
            let answer = stream(&mut *client)?.set(name, on);
            if !subject.card.options.contains(&name) {
                ensure!(matches!(answer, Err(WireError::System { .. })), "{name} answers {}", shown(&answer));
                continue;
            }
            answer.map_err(text)?;
            let effective = word(&client.effective(), name);
            ensure!(effective.as_deref() == Some(if on { "on" } else { "off" }), "{name}={on}, but {effective:?}");
        }
    }
    let answer = stream(&mut *client)?.set(OptionName::Sndbuf, true);
    ensure!(matches!(answer, Err(WireError::System { .. })), "a buffer size is not a switch: {}", shown(&answer));
    let more = stream(&mut *client)?.send_more(b"more");
    let refused =
        matches!(&more, Err(WireError::System { source, .. }) if source.raw_os_error() == Some(libc::EOPNOTSUPP));
    ensure!(if is_socket(subject) { more.is_ok() } else { refused }, "send_more answers {}", shown(&more));
    Ok(())
}

/// Calls are counted exactly, in a sequence in which no call needs a retry.
pub(crate) fn counted(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    let calls = |wire: &mut dyn Wire| wire.system_calls().ok_or("no count of system calls".to_owned());
    ensure!(calls(&mut *client)? == 0 && calls(&mut *server)? == 0, "a new wire has made calls");
    let mut expected = 0;
    for _ in 0..10 {
        client.send(&[1; 10]).map_err(text)?;
        expected += 1;
    }
    ensure!(calls(&mut *client)? == expected, "10 sends are {} calls", calls(&mut *client)?);
    stream(&mut *client)?.send_vectored(&[IoSlice::new(&[1; 2]); 25]).map_err(text)?;
    expected += 1;
    // One part more than the kernel accepts in one call.
    stream(&mut *client)?.send_vectored(&[IoSlice::new(&[1; 2]); 1025]).map_err(text)?;
    expected += 2;
    if is_tcp(subject) {
        for on in [true, false] {
            stream(&mut *client)?.set(OptionName::Nodelay, on).map_err(text)?;
            expected += 1;
        }
    }
    // `effective` and `segments` are not counted.
    let (_, _) = (client.effective(), stream(&mut *client)?.segments());
    ensure!(calls(&mut *client)? == expected, "the client made {expected} calls, not {}", calls(&mut *client)?);

    // All data have been sent, so no receive sleeps, and the number of calls per receive depends only on the waiting.
    let (mut taken, mut receives) = (0, 0);
    while taken < 100 + 50 + 2050 {
        ensure!(server.wait(LONG).map_err(text)?, "nothing arrived");
        let before = calls(&mut *server)?;
        taken += server.receive(&mut [0; 4096]).map_err(text)?;
        receives += 1;
        let made = calls(&mut *server)? - before;
        let named = if subject.waiting == Waiting::Poll { 2 } else { 1 };
        ensure!(made == named, "receive {receives} is {made} calls");
    }
    let before = calls(&mut *server)?;
    ensure!(server.try_receive(&mut [0; 8]).map_err(text)?.is_none(), "unexpected data are left");
    let made = calls(&mut *server)? - before;
    ensure!(made == 1, "try_receive of nothing is {made} calls");
    Ok(())
}

/// At both ends, every segment is counted, either as a segment with payload or as a pure ACK.
pub(crate) fn segments(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    if !is_tcp(subject) {
        ensure!(stream(&mut *client)?.segments().is_none(), "segments without TCP");
        return Ok(());
    }
    if !kernel::TCP_INFO.exists() {
        return Ok(());
    }
    let counted = |wire: &mut dyn Wire| stream(wire)?.segments().ok_or("no segments".to_owned());
    let before = [counted(&mut *client)?, counted(&mut *server)?];
    for seed in 0..10 {
        subject.exchange(&mut *client, Some(&mut *server), &random_bytes(seed, 100))?;
    }
    for (wire, before) in [&mut client, &mut server].into_iter().zip(before) {
        let after: Segments = counted(&mut **wire)?;
        let (with_payload, bare) = (after.with_payload - before.with_payload, after.bare - before.bare);
        ensure!(with_payload == 20, "10 exchanges are {with_payload} segments with payload");
        ensure!(before.bare >= 2, "the handshake is {} pure ACKs", before.bare);
        ensure!(bare <= 21, "10 exchanges are {bare} pure ACKs");
    }
    Ok(())
}

/// A cork holds back a partial segment until it is released.
pub(crate) fn cork(subject: &Subject) -> Checked {
    // Nagle is off, so that only the cork can hold data.
    let options = Options::default().with(OptionName::Nodelay, "on");
    let (mut client, mut server) = subject.pair(&Setup { options, ..subject.setup(100, LONG) })?;
    let sent = |wire: &mut dyn Wire| stream(wire)?.segments().ok_or("no segments".to_owned());
    let before = sent(&mut *client)?.with_payload;
    stream(&mut *client)?.set(OptionName::Cork, true).map_err(text)?;
    for _ in 0..5 {
        client.send(&[5; 2]).map_err(text)?;
    }
    stream(&mut *client)?.set(OptionName::Cork, false).map_err(text)?;
    ensure!(subject.receive_whole(&mut *server, 10)? == [5; 10], "corked bytes changed");
    // If the machine stalls for more than 200 ms, the kernel sends corked data.
    let corked = sent(&mut *client)?.with_payload - before;
    ensure!((1..5).contains(&corked), "5 corked writes are {corked} segments");
    // These segments fit into the initial congestion window.
    for _ in 0..5 {
        client.send(&[5; 2]).map_err(text)?;
    }
    let released = sent(&mut *client)?.with_payload - before - corked;
    ensure!(released == 5, "5 writes without the cork are {released} segments");
    Ok(())
}
