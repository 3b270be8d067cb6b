//! The rules by which causes are named, a file each.

mod accept_queue_overflow;
mod application_window;
mod blocked_in_send;
mod client_idle;
mod congestion_window;
mod connect_delayed;
mod connection_per_request;
mod delayed_ack;
mod link_saturated;
mod nagle_meets_delayed_ack;
mod nagle_waits;
mod one_request_per_round_trip;
mod path_mtu;
mod receive_window;
mod retransmission;
mod retransmission_time_out;
mod server_stalled;
mod server_work;
mod slow_reader;
mod slow_start_after_idle;
mod with_acks;

use hairpin_model::explanation::evidence;
use hairpin_model::{Cause, Fact, RangeNs};

use super::connection::{Connection, Exchange};
use super::peer::{Peer, Waits};

/// A cause is named from this share of the time of the exchanges.
const MIN_SHARE: f64 = 0.15;

/// How a cause is recognized.
pub(super) struct Rule {
    pub(super) code: Cause,
    pub(super) judge: for<'p> fn(&'p Peer) -> Option<Judged<'p>>,
    /// Causes whose time this one explains: they are not named beside it.
    pub(super) explains: &'static [Cause],
}

/// What a rule found.
#[derive(Default)]
pub(super) struct Judged<'p> {
    pub(super) share: Option<f64>,
    pub(super) saved: Option<RangeNs>,
    pub(super) evidence: Vec<Fact>,
    /// The exchange to draw.
    pub(super) worst: Option<(&'p Connection, &'p Exchange)>,
}

/// All rules. Of causes with equal shares the first is named first.
pub(super) const ALL: &[Rule] = &[
    accept_queue_overflow::RULE,
    connect_delayed::RULE,
    path_mtu::RULE,
    blocked_in_send::RULE,
    nagle_meets_delayed_ack::RULE,
    nagle_waits::RULE,
    delayed_ack::RULE,
    retransmission_time_out::RULE,
    retransmission::RULE,
    slow_reader::RULE,
    receive_window::RULE,
    link_saturated::RULE,
    slow_start_after_idle::RULE,
    congestion_window::RULE,
    connection_per_request::RULE,
    application_window::RULE,
    one_request_per_round_trip::RULE,
    server_stalled::RULE,
    server_work::RULE,
    client_idle::RULE,
];

impl<'p> Judged<'p> {
    /// What waits of some exchanges show; `None` if they take too little time.
    fn of(waits: &Waits<'p>, min_share: f64) -> Option<Self> {
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

    fn with(mut self, name: &str, value: Option<f64>) -> Self {
        self.evidence.extend(value.map(|value| Fact::number(name, value)));
        self
    }
}
