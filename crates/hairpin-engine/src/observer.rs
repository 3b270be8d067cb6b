//! Observers of a round, in addition to the recorder: machine state, CPU time, drops, noise, captures.
//!
//! Between [`Mark::First`] and [`Mark::Last`] an end handles measured messages. In this time the end sets no other
//! marks, except [`Mark::Running`] and [`Mark::Latest`] during a one-way load.

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
    /// The end is in its network namespace and, if pinned, on its CPU. It opens its connections next.
    Opening {
        pinned: Option<usize>,
        /// The address to connect to; `None` at the server.
        address: Option<&'a str>,
        /// At the client, the server's network namespace, if the server has its own.
        server_namespace: Option<&'a Path>,
    },
    /// These wires are open. The load, beginning with its warm-up, comes next.
    Load(&'a [Box<dyn Wire>]),
    /// The first measured message comes next.
    First,
    /// During a one-way load, at intervals of at least 50 ms, with the time in ns of the clock.
    Running(u64),
    /// A receiver has received data of a one-way load whose sender has ended. This may be the last data.
    Latest,
    /// The last measured message is complete. A server that answers cannot know this, so it sets no such mark.
    Last,
    /// In the process that starts the flows of a round: all flows are connected.
    Connected(&'a [FlowProcesses]),
    /// In the process that starts the flows: a phase begins, or the last phase has ended.
    Phase,
}

/// The processes of a flow's two ends, client first; a server need not be a process.
#[derive(Clone, Debug)]
pub(crate) struct FlowProcesses {
    pub(crate) flow: FlowId,
    pub(crate) processes: [Option<u32>; 2],
}

/// Observes one end of a round, or a whole round.
pub(crate) trait Observer: Send {
    /// Begins to observe, before the first mark; returns `None` if there is nothing to observe.
    fn begin(context: Context<'_>) -> Option<Self>
    where
        Self: Sized;

    fn mark(&mut self, _: Mark<'_>) {}

    /// Called when the load of this end is over.
    fn end(&mut self) {}

    /// Adds the observations to `to`, after the connection is closed or carries no more data.
    fn report(self: Box<Self>, to: &mut Observations);
}

#[derive(Default)]
pub(crate) struct Observations {
    pub(crate) report: EndReport,
    /// The reports of all ends, for observers of a whole round.
    pub(crate) ends: Vec<EndReport>,
    /// The noise of the machine during the round, observed only at the client.
    pub(crate) noise: Noise,
    /// The packets and clocks of a traced round, observed only at the client.
    pub(crate) watched: Option<TraceObservations>,
}
