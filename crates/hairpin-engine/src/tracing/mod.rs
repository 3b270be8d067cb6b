//! Observation of a traced round: the calls of each end and the kernel's timestamps ([`wire`]), the kernel's
//! counters, and the packets ([`round`]). The ends do not know of the tracing, and untraced rounds pay nothing.

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
    /// Traces the wire of `end` if the round is traced.
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

    /// Ends the trace; `None` if the round is not traced.
    pub fn finish(self) -> Result<Option<EndTrace>, Failure> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Traced(wire) => wire.finish().map(Some).map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot complete the trace of the round: {error}"),
                    "run the round without tracing",
                )
            }),
        }
    }
}

/// Whether an answer may be sent while another answer is in flight, and so may have to wait for an ACK. Otherwise the
/// next request carries the ACK, and timestamping this ACK would only delay the server's reads.
fn has_several_in_flight(case: &Case) -> bool {
    match &case.primary().load {
        Load::PingPong { .. } | Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => false,
        Load::Paced { .. } => true,
        Load::Exchange { exchange, .. } => exchange.pipeline > 1,
    }
}
