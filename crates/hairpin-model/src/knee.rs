//! The knee of a sweep of offered rates: the highest rate that a transport delivers completely.

use serde::{Deserialize, Serialize};

use crate::round::FlowRecord;
use crate::words;

words! {
    /// Why an offered rate was not delivered.
    pub enum NotDelivered: "reason" {
        Lost = "lost",
        /// The sender did not keep up with the rate.
        SenderBehind = "sender-behind",
        /// The receiver did not keep up with the sender: messages waited in buffers.
        ReceiverBehind = "receiver-behind",
    }
}

/// Share of an offered load that was delivered in these rounds, 0 to 1; `None` if nothing was sent.
///
/// It is the share of all messages that arrived, over all rounds together, multiplied by the median over rounds of
/// whether both ends kept up. So a rate counts as delivered only if the loss that the table shows is at most 1 %.
pub fn delivered_share<'f>(rounds: impl IntoIterator<Item = &'f FlowRecord>, offered_per_s: f64) -> Option<f64> {
    let (mut sent, mut received, mut kept_up) = (0, 0, Vec::new());
    for flow in rounds {
        sent += flow.ledger.sent;
        received += flow.ledger.received;
        kept_up.extend(share_kept_up(flow, offered_per_s));
    }
    kept_up.sort_by(f64::total_cmp);
    Some(kept_up.get(kept_up.len() / 2)? * received as f64 / sent.max(1) as f64)
}

/// Product of two factors of at most 1; `None` if nothing was sent. The first shows whether the sender kept up with
/// the rate, from its lag behind the due times. The second shows whether the receiver kept up with the sender: time
/// from first to last send / time from first to last arrival. Rates counted in the round are not used because with
/// random arrivals they differ from the requested rate by chance.
fn share_kept_up(flow: &FlowRecord, offered_per_s: f64) -> Option<f64> {
    let sent = flow.sent.as_ref().filter(|sent| sent.messages > 0)?;
    let messages = sent.messages as f64;
    let sender = match &flow.figures.lateness_ns {
        // A sender that falls behind is about twice as late at the end as at the median.
        Some(lateness) => messages / (messages + offered_per_s * lateness.max.min(2.0 * lateness.p50) / 1e9),
        None if sent.over_ns > 0 => messages * 1e9 / sent.over_ns as f64 / offered_per_s,
        None => 1.0,
    };
    let receiver = match &flow.received {
        Some(received) if received.over_ns > 0 => sent.over_ns as f64 / received.over_ns as f64,
        _ => 1.0,
    };
    Some(sender.min(1.0) * receiver.min(1.0))
}

/// Returns the highest rate that was delivered together with all lower rates, and the next higher rate measured.
/// `rates` are in ascending order, each with a flag: whether the rate was delivered.
pub fn bracket(rates: &[(f64, bool)]) -> (Option<f64>, Option<f64>) {
    let first_failed = rates.iter().position(|(_, delivered)| !delivered);
    let below = first_failed.unwrap_or(rates.len()).checked_sub(1);
    (below.map(|place| rates[place].0), first_failed.map(|place| rates[place].0))
}

/// The knee of one sweep: cases that differ only in the offered rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Knee {
    /// The identities of the sweep's cases, in ascending order of rate.
    pub cases: Vec<String>,
    /// The highest rate, in messages per second, that was delivered (at least 99 % in all rounds) together with all lower rates
    /// measured; null if the lowest rate was not delivered.
    pub delivered_per_s: Option<f64>,
    /// The next higher rate measured, which was not delivered; null if all were delivered.
    pub not_delivered_per_s: Option<f64>,
    /// Why that rate was not delivered; null if all were delivered.
    pub why_not: Option<NotDelivered>,
    /// The offered rate with the highest power: messages delivered per second / mean latency (L. Kleinrock, ICC 1979).
    /// Null if fewer than two rates have a latency.
    pub highest_power_per_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_way::{Received, Sent};
    use crate::summary::Percentiles;

    #[test]
    fn a_bracket_ends_at_the_first_rate_that_failed() {
        let rates = [(1e3, true), (4e3, true), (16e3, false), (64e3, true)];
        assert_eq!(bracket(&rates), (Some(4e3), Some(16e3)), "a higher rate delivered by chance is not the knee");
        assert_eq!(bracket(&rates[..2]), (Some(4e3), None));
        assert_eq!(bracket(&rates[2..]), (None, Some(16e3)));
        assert_eq!(bracket(&[]), (None, None));
    }

    fn round(received: u64, lateness_ns: f64, arrivals_over_ns: u64) -> FlowRecord {
        let mut flow = FlowRecord::default();
        (flow.ledger.sent, flow.ledger.received) = (1000, received);
        flow.sent = Some(Sent { messages: 1000, over_ns: 1_000_000_000, ..Sent::default() });
        flow.received = Some(Received { over_ns: arrivals_over_ns, ..Received::default() });
        let late = Percentiles { p50: lateness_ns, max: 3.0 * lateness_ns, ..Percentiles::default() };
        flow.figures.lateness_ns = Some(late);
        flow
    }

    #[test]
    fn lost_and_late_messages_were_not_delivered() {
        let share =
            |received, lateness_ns, over_ns| delivered_share([&round(received, lateness_ns, over_ns)], 1000.0);
        assert_eq!(share(1000, 0.0, 1_000_000_000), Some(1.0));
        assert_eq!(share(1000, 0.0, 900_000_000), Some(1.0));
        assert_eq!(share(900, 0.0, 1_000_000_000), Some(0.9));
        assert_eq!(share(1000, 500e6, 1_000_000_000), Some(0.5), "1 s late at the end of the round");
        assert_eq!(share(1000, 0.0, 2_000_000_000), Some(0.5), "the receiver took twice the time");
        assert_eq!(delivered_share([&FlowRecord::default()], 1000.0), None);
    }

    #[test]
    fn the_loss_of_all_rounds_together_decides() {
        let [whole, lossy] = [1000, 700].map(|received| round(received, 0.0, 1_000_000_000));
        assert_eq!(delivered_share([&whole, &lossy, &whole], 1000.0), Some(0.9), "the median round lost nothing");
    }

    #[test]
    fn without_lateness_the_send_rate_shows_whether_the_sender_kept_up() {
        let mut flow = round(1000, 0.0, 1_000_000_000);
        flow.figures.lateness_ns = None;
        assert_eq!(delivered_share([&flow], 1000.0), Some(1.0));
        assert_eq!(delivered_share([&flow], 4000.0), Some(0.25));
    }
}
