//! What is seen of a traced round: what each end calls and what the kernel stamps for it ([`wire`]), the kernel's
//! counters, and the packets ([`round`]). The ends know nothing of it, and other rounds pay nothing.

pub mod round;
#[cfg(test)]
mod tests;
pub mod wire;

use hairpin_model::case::Case;
use hairpin_model::flow::Load;
use hairpin_model::round::{Failure, Purpose, RoundOrder};
use hairpin_model::trace::{End, EndTrace};
use hairpin_transports::Wire;

use hairpin_loops::clock::Clock;
use wire::TracingWire;

/// An end's wire as its half gets it.
pub enum Observed<'w, C> {
    /// The wire itself.
    Plain(&'w mut dyn Wire),
    /// The wire, traced.
    Traced(Box<TracingWire<'w, C>>),
}

impl<'w, C: Clock + Clone + Send> Observed<'w, C> {
    /// Traces the wire of that end where the round is for that.
    pub fn begin(order: &RoundOrder, end: End, wire: &'w mut dyn Wire, clock: &C) -> Self {
        match order.purpose {
            Purpose::Traced => {
                let acknowledged = end == End::Client || has_several_in_flight(&order.case);
                Self::Traced(Box::new(TracingWire::begin(wire, clock.clone(), acknowledged)))
            }
            Purpose::Timed | Purpose::Untraced => Self::Plain(wire),
        }
    }

    /// The wire to use.
    pub fn wire(&mut self) -> &mut dyn Wire {
        match self {
            Self::Plain(wire) => *wire,
            Self::Traced(wire) => &mut **wire,
        }
    }

    /// The trace, if there is one.
    ///
    /// # Errors
    /// The kernel's stamps cannot be taken.
    pub fn finish(self) -> Result<Option<EndTrace>, Failure> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Traced(wire) => wire.finish().map(Some).map_err(|error| Failure {
                cause: format!("cannot trace the round to its end: {error}"),
                hint: "the round can be run without tracing".to_owned(),
            }),
        }
    }
}

/// Whether an answer may be written while another is on its way, and so wait for the acknowledgment of that one. Else
/// the next request brings it, and a stamp of it would only be in the way of what the server reads.
fn has_several_in_flight(case: &Case) -> bool {
    match &case.flow().load {
        Load::PingPong { .. } | Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => false,
        Load::Paced { .. } => true,
        Load::Exchange { exchange, .. } => exchange.pipeline > 1,
    }
}
