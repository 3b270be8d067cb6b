//! Observation of a traced round: the calls of each end and the kernel's timestamps ([`wire`]), the kernel's
//! counters, and the packets ([`round`]); and of a stamped round: the points of sampled messages ([`sampling`]). The
//! ends do not know of it, and other rounds pay nothing.

pub(crate) mod observer;
pub mod round;
pub mod sampling;
#[cfg(test)]
mod tests;
pub mod wire;

use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Case, EndTrace, Fact, Failure, Load, RoundOrder, Sampled};
use hairpin_transports::{Wire, WireError};

use hairpin_loops::clock::Clock;
use hairpin_loops::time::realtime_ns;
use sampling::SamplingWire;
use wire::TracingWire;

/// The wire of an end, observed or not.
pub enum Observed<'w, C> {
    Plain(&'w mut dyn Wire),
    Traced(Box<TracingWire<'w, C>>),
    Sampled(Box<SamplingWire<'w, C>>),
}

#[derive(Debug, Default)]
pub struct WireObservations {
    /// `None` if the round is not traced.
    pub trace: Option<EndTrace>,
    /// Empty if the round is not stamped.
    pub sampled: Vec<Sampled>,
    pub facts: Vec<Fact>,
}

impl<'w, C: Clock + Clone + Send> Observed<'w, C> {
    /// Observes the wire of `end` if the round is traced or stamped. `boundaries`: whether a receive returns a whole
    /// message.
    pub fn begin(order: &RoundOrder, end: End, (wire, boundaries): (&'w mut dyn Wire, bool), clock: &C) -> Self {
        if order.sample_every.is_some() {
            let clocks: (C, sampling::Realtime<C>) = (clock.clone(), |_| realtime_ns());
            return Self::Sampled(Box::new(SamplingWire::begin(wire, clocks, (end, boundaries), order)));
        }
        if order.purpose != Purpose::Traced {
            return Self::Plain(wire);
        }
        let acknowledged = end == End::Client || has_several_in_flight(&order.case);
        Self::Traced(Box::new(TracingWire::begin(wire, clock.clone(), acknowledged)))
    }

    pub fn wire(&mut self) -> &mut dyn Wire {
        match self {
            Self::Plain(wire) => *wire,
            Self::Traced(wire) => &mut **wire,
            Self::Sampled(wire) => &mut **wire,
        }
    }

    pub fn finish(self) -> Result<WireObservations, Failure> {
        let observed = match self {
            Self::Plain(_) => Ok(WireObservations::default()),
            Self::Traced(wire) => {
                wire.finish().map(|trace| WireObservations { trace: Some(trace), ..WireObservations::default() })
            }
            Self::Sampled(wire) => {
                wire.finish().map(|(sampled, facts)| WireObservations { trace: None, sampled, facts })
            }
        };
        observed.map_err(|error: WireError| {
            let cause = format!("cannot complete the trace of the round: {error}");
            Failure::new(&error, cause, "run the round without tracing")
        })
    }
}

/// Whether an answer may be sent while another answer is in flight, and so may have to wait for an ACK. Otherwise the
/// next request carries the ACK, and timestamping this ACK would only delay the server's reads.
fn has_several_in_flight(case: &Case) -> bool {
    match &case.primary().load {
        Load::PingPong { .. }
        | Load::Messages { .. }
        | Load::Stream { .. }
        | Load::Offered { .. }
        | Load::Periodic { .. } => false,
        Load::Paced { .. } => true,
        Load::Exchange { exchange, .. } => exchange.pipeline > 1,
    }
}
