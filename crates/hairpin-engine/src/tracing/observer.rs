//! The observer of a traced round.

use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Binding, Card, Case};

use super::round::{OwnClock, TraceObserver};
use crate::observer::{Context, Mark, Observations, Observer};
use hairpin_loops::clock::RealClock;

/// At the client, captures the packets and maps the kernel's timestamps to the client's clock. At a server on another
/// host, maps the timestamps to the server's clock.
pub(crate) struct TracedRound {
    clock: RealClock,
    card: Card,
    case: Case,
    binding: Binding,
    has_own_clock: bool,
    watch: Option<TraceObserver>,
    own_clock: Option<OwnClock>,
}

impl Observer for TracedRound {
    fn begin(Context { clock, order, card, end, binding }: Context<'_>) -> Option<Self> {
        let (card, case) = (card.clone(), order.case.clone());
        let has_own_clock = end == End::Server && case.path.across.is_some();
        let observer = Self { clock, card, case, binding, has_own_clock, watch: None, own_clock: None };
        (order.purpose == Purpose::Traced).then_some(observer)
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Opening { address: Some(address), server_namespace, .. } => {
                let to = (address, self.binding);
                self.watch = Some(TraceObserver::begin(self.clock, &self.card, &self.case, to, server_namespace));
            }
            Mark::Load(_) if self.has_own_clock => self.own_clock = Some(OwnClock::begin(self.clock)),
            _ => {}
        }
    }

    fn report(self: Box<Self>, Observations { report, watched, .. }: &mut Observations) {
        *watched = self.watch.map(TraceObserver::end);
        if let Some(own_clock) = self.own_clock {
            report.trace = report.trace.take().map(|trace| Box::new(own_clock.place(*trace)));
        }
    }
}
