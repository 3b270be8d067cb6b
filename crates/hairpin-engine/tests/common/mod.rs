//! Rounds for the tests that need real sockets.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hairpin_engine::Engine;
use hairpin_model::{Case, EndKind, Exchange, Extent, Options, Remedy, RoundOrder};
use hairpin_transports::{Setup, Transport, Wire};

pub(crate) type Wires = Vec<Box<dyn Wire>>;

/// The sending and the receiving ends of `count` connections. Each connection has its own listener.
pub(crate) fn pairs(transport: &dyn Transport, count: usize, server: &Setup) -> (Wires, Wires) {
    let client = Setup { options: Options::default(), ..server.clone() };
    let pair = |_| {
        let mut listener = transport.listen(server).expect("the transport listens");
        let address = listener.address();
        std::thread::scope(|scope| {
            let connected = || transport.connect(&address, &client).expect("it connects").open().expect("a wire");
            let connected = scope.spawn(connected);
            let mut accepted = listener.accept(&mut || false).expect("the connection is accepted");
            let accepted = accepted.accept_wire().expect("a wire");
            (connected.join().expect("it does not panic"), accepted)
        })
    };
    (0..count).map(pair).unzip()
}

pub(crate) const COUNT: u64 = 20;
pub(crate) const WARM_UP: u64 = 2;

/// A timed round of `count` messages.
pub(crate) fn order_of(case: Case, count: u64) -> RoundOrder {
    RoundOrder { timeout_ns: 20_000_000_000, ..RoundOrder::of(case, count) }
}

/// A timed round of exchanges.
pub(crate) fn order(transport: &str, writes: &str, remedy: Remedy) -> RoundOrder {
    let exchange =
        Exchange { writes: writes.parse().expect("writes"), gap_ns: 0, pipeline: 1, reply_writes: None, remedy };
    let case = Case::small_writes(transport, exchange).with(|changed| changed.ends.kind = EndKind::Threads);
    RoundOrder { warm_up: Extent::Count(WARM_UP), ..order_of(case, COUNT) }
}

/// An engine that starts `server_program` if the ends are processes.
pub(crate) fn engine(server_program: PathBuf) -> Engine {
    Engine::new(server_program, Arc::new(AtomicBool::new(false))).expect("the CPUs are known")
}
