//! Sends and receives do not allocate, on any transport with any waiting: allocations would distort the measurement.

use std::io::IoSlice;
use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{AnsweredBy, Options, Waiting};
use hairpin_transports::{ALL, Batch, Cookie, Interest, Setup, Transport, Wire, WireSet};

use crate::contract::is_possible;
use crate::counting::allocations_of;

const SIZE: usize = 1000;
const WARM_UP: usize = 3;
const COUNTED: usize = 200;

fn receive_whole(wire: &mut dyn Wire, into: &mut [u8; SIZE]) {
    let mut filled = 0;
    while filled < SIZE {
        filled += wire.receive(&mut into[filled..]).expect("receive");
    }
}

/// The ways to send a whole message. Transports that are not byte streams replace unsupported ways by `send`.
const SENDS: &[fn(&mut dyn Wire, &[u8; SIZE])] = &[
    |wire, message| wire.send(message).expect("send"),
    |wire, message| match wire.stream() {
        Some(stream) => {
            let parts = message.as_chunks::<10>().0;
            let parts: [IoSlice<'_>; SIZE / 10] = std::array::from_fn(|place| IoSlice::new(&parts[place]));
            stream.send_vectored(&parts).expect("send_vectored");
        }
        None => wire.send(message).expect("send"),
    },
    |wire, message| {
        let mut sent = 0;
        while sent < SIZE {
            sent += wire.send_batch(&message[sent..], SIZE).expect("send_batch");
        }
    },
    |wire, message| {
        let (first, last) = message.split_at(SIZE / 2);
        // A pipe does not support `send_more`.
        let is_announced = wire.stream().is_some_and(|stream| stream.send_more(first).is_ok());
        wire.send(if is_announced { last } else { message }).expect("send");
    },
    |wire, message| {
        let stream = wire.stream().filter(|stream| stream.segments().is_some());
        let is_tcp = stream.is_some_and(|stream| stream.set(OptionName::Cork, true).is_ok());
        wire.send(message).expect("send");
        if is_tcp && let Some(stream) = wire.stream() {
            stream.set(OptionName::Cork, false).expect("set");
        }
    },
    |wire, message| {
        let mut sent = 0;
        while sent < SIZE {
            sent += wire.send_batch_waiting(&message[sent..], SIZE).expect("send_batch_waiting");
        }
    },
];

fn client(wire: &mut dyn Wire, waiting: Waiting) -> u64 {
    let mut message = [7; SIZE];
    if !Waiting::BASIC.contains(&waiting) {
        // Such a wire only sends a message and awaits the answer.
        let mut exchange = || {
            wire.send(&message).expect("send");
            receive_whole(wire, &mut message);
        };
        (0..WARM_UP).for_each(|_| exchange());
        return allocations_of(|| (0..COUNTED).for_each(|_| exchange()));
    }
    let mut batch = Batch::new(Batch::MAX_MESSAGES, SIZE);
    let (mut set, mut ready) = (WireSet::new(1).expect("a set"), Vec::with_capacity(2));
    set.add(0, wire, Interest::Both).expect("add");
    let mut place = 0;
    let mut exchange = || {
        SENDS[place % SENDS.len()](wire, &message);
        place += 1;
        receive_whole(wire, &mut message);
        // The open loop's calls when nothing has arrived.
        assert_eq!(wire.try_receive(&mut message).expect("try_receive"), None);
        wire.wait(Duration::ZERO).expect("wait");
        assert_eq!(wire.receive_batch(&mut batch).expect("receive_batch"), 0);
        set.wait(Duration::ZERO, &mut ready).expect("wait for a set");
    };
    (0..WARM_UP).for_each(|_| exchange());
    allocations_of(|| (0..COUNTED).for_each(|_| exchange()))
}

fn echo(wire: &mut dyn Wire) -> u64 {
    let mut message = [0; SIZE];
    let mut exchange = || {
        receive_whole(wire, &mut message);
        wire.send(&message).expect("send");
    };
    (0..WARM_UP).for_each(|_| exchange());
    allocations_of(|| (0..COUNTED).for_each(|_| exchange()))
}

/// Returns the allocations of the client, and of the server unless the kernel answers.
fn measure(transport: &dyn Transport, waiting: Waiting) -> (u64, Option<u64>) {
    let has_nagle = transport.card().options.contains(&OptionName::Nodelay);
    let options = Options::parse(if has_nagle { "nodelay=on" } else { "" }).expect("a valid option");
    let setup = Setup { options, cookie: Cookie([1; 16]), ..Setup::new(waiting, Duration::from_secs(20), SIZE) };
    if transport.card().answered_by == AnsweredBy::Kernel {
        let mut wire = transport.connect("127.0.0.1", &setup).and_then(|mut one| one.open()).expect("connect");
        return (client(&mut *wire, waiting), None);
    }
    let mut listener = transport.listen(&setup).expect("listen");
    let address = listener.address();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            let mut server = listener.accept(&mut || false).and_then(|mut one| one.accept_wire()).expect("accept");
            let allocations = echo(&mut *server);
            // Keeps the wire open until the client has received the last answer.
            (server, allocations)
        });
        let mut wire = transport.connect(&address, &setup).and_then(|mut one| one.open()).expect("connect");
        let allocations = client(&mut *wire, waiting);
        (allocations, Some(server.join().expect("the echo does not panic").1))
    })
}

#[test]
fn sending_and_receiving_allocate_nothing() {
    assert!(allocations_of(|| drop(std::hint::black_box(vec![0_u8; 10]))) > 0, "the counter counts allocations");
    for transport in ALL.iter().filter(|one| one.can_run().is_ok() && one.card().library.is_none()) {
        let card = transport.card();
        for waiting in card.waitings.iter().filter(|waiting| is_possible(**waiting)) {
            let (client, server) = measure(*transport, *waiting);
            assert_eq!((client, server.unwrap_or(0)), (0, 0), "{} by {waiting}", card.name);
        }
    }
}
