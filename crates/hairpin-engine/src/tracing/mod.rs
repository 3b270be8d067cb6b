//! Observation of a traced round: each end's calls and the kernel's stamps ([`wire`]), the kernel's counters, and the
//! packets ([`round`]). The ends know nothing of it, and other rounds pay nothing for it.

pub(crate) mod observer;
pub mod round;
#[cfg(test)]
mod tests;
pub mod wire;

use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Case, EndTrace, Failure, Load, RoundOrder};
use hairpin_transports::Wire;

use hairpin_loops::clock::Clock;
use wire::TracingWire;

/// The wire of an end, traced or not.
pub enum Observed<'w, C> {
    Plain(&'w mut dyn Wire),
    Traced(Box<TracingWire<'w, C>>),
}

impl<'w, C: Clock + Clone + Send> Observed<'w, C> {
    /// Traces the wire of that end if the round is traced.
    pub fn begin(order: &RoundOrder, end: End, wire: &'w mut dyn Wire, clock: &C) -> Self {
        match order.purpose {
            Purpose::Traced => {
                let acknowledged = end == End::Client || has_several_in_flight(&order.case);
                Self::Traced(Box::new(TracingWire::begin(wire, clock.clone(), acknowledged)))
            }
            Purpose::Timed | Purpose::Untraced => Self::Plain(wire),
        }
    }

    pub fn wire(&mut self) -> &mut dyn Wire {
        match self {
            Self::Plain(wire) => *wire,
            Self::Traced(wire) => &mut **wire,
        }
    }

    /// The trace, if there is one.
    pub fn finish(self) -> Result<Option<EndTrace>, Failure> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Traced(wire) => wire.finish().map(Some).map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot trace the round to its end: {error}"),
                    "the round can be run without tracing",
                )
            }),
        }
    }
}

/// Whether an answer may be written while another is in flight, and so wait for its acknowledgment. Otherwise the next
/// request carries the ACK, and stamping it would only delay the server's reads.
fn has_several_in_flight(case: &Case) -> bool {
    match &case.primary().load {
        Load::PingPong { .. } | Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => false,
        Load::Paced { .. } => true,
        Load::Exchange { exchange, .. } => exchange.pipeline > 1,
    }
}
