//! What a rule is, and what it finds.

use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::explanation::evidence;
use hairpin_model::trace::End;
use hairpin_model::{Cause, Fact, RangeNs};

use super::connection::{Connection, Exchange};
use super::peer::{Peer, Waits, middle_half};

/// A cause explains another one if it takes at least this part of the other's time.
pub(super) const MIN_EXPLAINING_SHARE: f64 = 0.5;

/// A cause is named from this share of the time of the exchanges.
pub(super) const MIN_SHARE: f64 = 0.15;

/// States in which a server works.
///
/// Without samples of the server's socket, packets do not tell its work from bytes that its kernel holds. These would follow
/// an acknowledgment, and are then in a state of their own.
pub(super) const OF_SERVER: [ExchangeState; 4] =
    [ExchangeState::ServerProgram, ExchangeState::WorkOrHeld, ExchangeState::ProgramOrCpu, ExchangeState::NoEvidence];

/// How a cause is recognized.
pub(super) struct Rule {
    pub(super) code: Cause,
    pub(super) judge: for<'p> fn(&'p Peer) -> Option<Judged<'p>>,
    /// Causes whose time this one explains, and which are not named if it is.
    pub(super) explains: &'static [Cause],
}

/// What a rule found.
pub(super) struct Judged<'p> {
    pub(super) share: Option<f64>,
    pub(super) saved: Option<RangeNs>,
    pub(super) evidence: Vec<Fact>,
    /// The exchange to draw.
    pub(super) worst: Option<(&'p Connection, &'p Exchange)>,
}

impl<'p> Judged<'p> {
    /// What waits of some exchanges show; `None` if they take too little time.
    pub(super) fn of(waits: &Waits<'p>, min_share: f64) -> Option<Self> {
        if waits.share < min_share || waits.affected.is_empty() {
            return None;
        }
        let evidence = vec![
            Fact::number(evidence::AFFECTED, waits.affected.len() as f64),
            Fact::number(evidence::EXCHANGES, waits.exchanges as f64),
            Fact::number(evidence::WAIT_NS, waits.median_ns),
        ];
        let worst = waits.affected.iter().max_by_key(|(_, exchange)| exchange.duration_ns()).copied();
        Some(Self { share: Some(waits.share), saved: waits.saved, evidence, worst })
    }

    /// What lasted for these times shows, in ns.
    pub(super) fn lasting(mut ns: Vec<f64>, share: f64, worst: Option<(&'p Connection, &'p Exchange)>) -> Self {
        ns.sort_by(f64::total_cmp);
        Self { share: Some(share.min(1.0)), saved: middle_half(&ns), evidence: Vec::new(), worst }
    }

    pub(super) fn with(mut self, name: &str, value: Option<f64>) -> Self {
        self.evidence.extend(value.map(|value| Fact::number(name, value)));
        self
    }

    pub(super) fn with_end(mut self, end: Option<End>) -> Self {
        self.evidence.extend(end.map(|end| Fact::word(evidence::END, end.word())));
        self
    }

    /// Names the end whose kernel or program must act.
    pub(super) fn with_actor_in(self, states: &[ExchangeState]) -> Self {
        let who = self.worst.and_then(|(_, exchange)| exchange.actor_in(states));
        self.with_end(who.and_then(|who| who.end()))
    }
}
