//! The observers of a traced round.

use hairpin_model::round::Purpose;
use hairpin_model::trace::End;

use super::round::{OwnClock, Watch};
use crate::observer::{Context, Mark, Observations, Observer};
use hairpin_loops::clock::RealClock;

/// Captures the packets, and maps the kernel's stamps of both ends to the clock of the client.
struct Packets<'a>(Context<'a>, Option<Watch>);

pub(crate) fn packets(context: Context<'_>) -> Option<Box<dyn Observer + '_>> {
    let is_watched = context.order.purpose == Purpose::Traced && context.end == End::Client;
    is_watched.then(|| Box::new(Packets(context, None)) as Box<dyn Observer>)
}

impl Observer for Packets<'_> {
    fn mark(&mut self, mark: Mark<'_>) {
        let Self(Context { clock, order, card, binding, .. }, watch) = self;
        if let Mark::Opening { address: Some(address), server_namespace, .. } = mark {
            *watch = Some(Watch::begin(*clock, card, &order.case, (address, *binding), server_namespace));
        }
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.watched = self.1.map(Watch::end);
    }
}

/// Maps the trace of a server on another host to the clock of that host.
struct OfServer(RealClock, Option<OwnClock>);

pub(crate) fn own_clock(context: Context<'_>) -> Option<Box<dyn Observer + '_>> {
    let Context { clock, order, end, .. } = context;
    let has_own_clock = end == End::Server && order.purpose == Purpose::Traced && order.case.path.across.is_some();
    has_own_clock.then(|| Box::new(OfServer(clock, None)) as Box<dyn Observer>)
}

impl Observer for OfServer {
    fn mark(&mut self, mark: Mark<'_>) {
        if let Mark::Load(_) = mark {
            self.1 = Some(OwnClock::begin(self.0));
        }
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        if let Some(own_clock) = self.1 {
            to.report.trace = to.report.trace.take().map(|trace| Box::new(own_clock.place(*trace)));
        }
    }
}
