//! The knee of a sweep of offered rates: the greatest load that a transport delivers whole.

use serde::{Deserialize, Serialize};

use crate::round::FlowRecord;
use crate::words;

/// An offered load was delivered where at least this share of it arrived.
pub const DELIVERED: f64 = 0.99;

words! {
    /// Why an offered rate was not delivered.
    pub enum NotDelivered: "reason" {
        /// Messages were lost.
        Lost = "lost",
        /// The sender did not send them at that rate.
        SenderBehind = "sender-behind",
    }
}

/// The share of a round's offered load that arrived, 0 to 1: of the messages sent those received, times the rate at which they
/// were sent over the rate offered, 1 at most. `None` where nothing was sent.
#[must_use]
pub fn delivered_share(flow: &FlowRecord, offered_per_s: f64) -> Option<f64> {
    let sent = flow.sent.as_ref().filter(|sent| sent.messages > 0)?;
    let received = flow.ledger.received as f64 / flow.ledger.sent.max(1) as f64;
    let kept_up =
        if sent.over_ns > 0 { sent.messages as f64 * 1e9 / sent.over_ns as f64 / offered_per_s } else { 1.0 };
    Some(received * kept_up.min(1.0))
}

/// The greatest rate that was delivered and below which every other was, and the next one measured above it. `rates` rise, each
/// with whether it was delivered.
#[must_use]
pub fn bracket(rates: &[(f64, bool)]) -> (Option<f64>, Option<f64>) {
    let first_failed = rates.iter().position(|(_, delivered)| !delivered);
    let below = first_failed.unwrap_or(rates.len()).checked_sub(1);
    (below.map(|place| rates[place].0), first_failed.map(|place| rates[place].0))
}

/// The knee of one sweep: cases that differ in the offered rate alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Knee {
    /// The identities of its cases, the rates rising.
    pub cases: Vec<String>,
    /// The greatest rate, in messages a second, of which at least 99 % arrived, as of every lower one measured; null where not
    /// even the lowest was delivered.
    pub delivered_per_s: Option<f64>,
    /// The next rate measured above it, which was not delivered; null where all were.
    pub not_delivered_per_s: Option<f64>,
    /// Why that one was not; null where all were delivered.
    pub why_not: Option<NotDelivered>,
    /// The offered rate of the highest power: messages delivered a second over their mean latency (L. Kleinrock, ICC 1979). Null
    /// of fewer than two rates with a latency.
    pub highest_power_per_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_way::Sent;

    #[test]
    fn a_bracket_ends_at_the_first_rate_that_failed() {
        let rates = [(1e3, true), (4e3, true), (16e3, false), (64e3, true)];
        assert_eq!(bracket(&rates), (Some(4e3), Some(16e3)), "what follows a failure by luck is no knee");
        assert_eq!(bracket(&rates[..2]), (Some(4e3), None));
        assert_eq!(bracket(&rates[2..]), (None, Some(16e3)));
        assert_eq!(bracket(&[]), (None, None));
    }

    #[test]
    fn what_was_lost_and_what_was_sent_late_were_not_delivered() {
        let share = |received, over_ns| {
            let mut flow = FlowRecord::default();
            (flow.ledger.sent, flow.ledger.received) = (1000, received);
            flow.sent = Some(Sent { messages: 1000, over_ns, ..Sent::default() });
            delivered_share(&flow, 1000.0)
        };
        assert_eq!(share(1000, 1_000_000_000), Some(1.0));
        assert_eq!(share(1000, 999_000_000), Some(1.0), "the last gap is not waited for");
        assert_eq!(share(900, 1_000_000_000), Some(0.9));
        assert_eq!(share(1000, 2_000_000_000), Some(0.5));
        assert_eq!(delivered_share(&FlowRecord::default(), 1000.0), None);
    }
}
