//! What watches a round beside the recorder: machine state, CPU time, drops, noise, captures.
//!
//! Between [`Mark::First`] and [`Mark::Last`] an end handles measured messages. It then marks nothing, except during a
//! one-way load [`Mark::Running`] and [`Mark::Latest`].

use std::path::Path;

use hairpin_model::trace::End;
use hairpin_model::{Binding, Card, EndReport, FlowId, Noise, RoundOrder};
use hairpin_transports::Wire;

use crate::tracing::round::TraceObservations;
use hairpin_loops::clock::RealClock;

#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) clock: RealClock,
    pub(crate) order: &'a RoundOrder,
    pub(crate) card: &'a Card,
    pub(crate) end: End,
    pub(crate) binding: Binding,
}

/// A moment of a round.
#[derive(Clone, Copy)]
pub(crate) enum Mark<'a> {
    /// The end is in its network namespace and on its CPU, if it is pinned. It opens its connections next.
    Opening {
        pinned: Option<usize>,
        /// The address to connect to; `None` at the server.
        address: Option<&'a str>,
        /// The server's network namespace, if it has one of its own and this is the client.
        server_namespace: Option<&'a Path>,
    },
    /// These wires are open, and the load with its warm-up comes next.
    Load(&'a [Box<dyn Wire>]),
    /// The first measured message comes next.
    First,
    /// Every 50 ms or later during a one-way load, with the time in ns of the clock.
    Running(u64),
    /// A receiver has something of a one-way load whose sender has ended: it may be the last.
    Latest,
    /// The last measured message is complete. A server that answers does not know which is the last.
    Last,
    /// In the process of a round of several flows, or of one with phases: all flows are connected.
    Connected(&'a [FlowProcesses]),
    /// In that process: a phase begins, or the last one has ended.
    Phase,
}

/// The processes of a flow's ends, the client's first; the server may have none.
#[derive(Clone, Debug)]
pub(crate) struct FlowProcesses {
    pub(crate) flow: FlowId,
    pub(crate) processes: [Option<u32>; 2],
}

/// Watches one end of a round, or a whole round.
pub(crate) trait Observer {
    /// Begins before the first mark; `None` if there is nothing to observe.
    fn begin(context: Context<'_>) -> Option<Self>
    where
        Self: Sized;

    fn mark(&mut self, _: Mark<'_>) {}

    /// The load of this end is over.
    fn end(&mut self) {}

    /// Adds what was observed, after the connection is closed or will carry nothing more.
    fn report(self: Box<Self>, to: &mut Observations);
}

#[derive(Default)]
pub(crate) struct Observations {
    pub(crate) report: EndReport,
    /// The reports of all ends, for an observer of a whole round.
    pub(crate) ends: Vec<EndReport>,
    /// The machine during the round; only of the client.
    pub(crate) noise: Noise,
    /// The packets and the clocks of a traced round; only of the client.
    pub(crate) watched: Option<TraceObservations>,
}
