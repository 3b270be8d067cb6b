//! What one end counted, and the ledger made of both ends' counts.

use std::collections::BTreeMap;

use hairpin_model::fact::{self, Fact};
use hairpin_model::fact_names;
use hairpin_model::ledger::Ledger;

/// Counts of the client half, the warm-up included and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages sent after the warm-up.
    pub sent: u64,
    /// Answers in time after the warm-up.
    pub received: u64,
    /// Answers after the time-out, to messages sent after the warm-up.
    pub late: u64,
    /// Answers that had come before.
    pub duplicated: u64,
    /// Warm-up messages sent.
    pub warm_up_sent: u64,
    /// Warm-up messages answered in time.
    pub warm_up_received: u64,
    /// Warm-up messages answered late.
    pub warm_up_late: u64,
}

impl Tally {
    /// Counts an answer to a message that was sent after the warm-up, or in it.
    #[inline]
    pub fn answered(&mut self, measured: bool, in_time: bool) {
        let count = match (measured, in_time) {
            (true, true) => &mut self.received,
            (true, false) => &mut self.late,
            (false, true) => &mut self.warm_up_received,
            (false, false) => &mut self.warm_up_late,
        };
        *count += 1;
    }

    /// The measured messages' part of something that was counted over all messages, shared out by their number: the
    /// echo half cannot know when the warm-up ended.
    #[must_use]
    pub fn measured_part(&self, whole: u64) -> u64 {
        let all = u128::from(self.sent + self.warm_up_sent);
        let part = (u128::from(whole) * u128::from(self.sent)).checked_div(all).unwrap_or(0);
        u64::try_from(part).expect("a part is not more than the whole")
    }

    /// Closes the ledger with the kernel's own counters of both ends, and with the messages that the link kept from being
    /// answered, by cause.
    ///
    /// The counters do not know when the warm-up ended. So where the warm-up lost anything, the ledger covers it too;
    /// else it covers the measured messages only. On a lossless transport what a socket or the link dropped was sent
    /// again, so it is no cause of a loss.
    ///
    /// A full receive buffer counts arrivals, not messages. Where it also threw away copies that a link made, or packets
    /// that the link damaged, more is accounted for than was sent, and `unexplained` is negative by as much.
    #[must_use]
    pub fn ledger(
        &self,
        lossless: bool,
        client: &[Fact],
        echo: &[Fact],
        link: Option<&BTreeMap<String, u64>>,
    ) -> Ledger {
        let warm_up_lost = self.warm_up_received != self.warm_up_sent;
        let with = |count: u64, warm_up: u64| if warm_up_lost { count + warm_up } else { count };
        let mut lost = link.filter(|_| !lossless).cloned().unwrap_or_default();
        lost.retain(|_, count| *count > 0);
        let counted = [("receive-buffer-overflow-echo", echo), ("receive-buffer-overflow-client", client)];
        for (cause, facts) in counted.into_iter().filter(|_| !lossless) {
            let drops = overflown(facts);
            if drops > 0 {
                lost.insert(cause.to_owned(), drops);
            }
        }
        Ledger {
            sent: with(self.sent, self.warm_up_sent),
            received: with(self.received, self.warm_up_received),
            late: with(self.late, self.warm_up_late),
            duplicated: self.duplicated,
            lost,
            unexplained: 0,
        }
        .closed()
    }
}

/// Messages that an end's receive buffer had no room for. Where the kernel counts these alone, that counts: a socket's own
/// counter adds those with a wrong checksum, which a link damaged and has counted.
fn overflown(facts: &[Fact]) -> u64 {
    let alone = fact::number(facts, fact_names::UDP_BUFFER_ERRORS);
    let drops = alone.or_else(|| fact::number(facts, fact_names::SOCKET_DROPS)).unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a kernel's count of messages")]
    let drops = drops as u64;
    drops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_phases_used_is_shared_out_by_their_messages() {
        let tally = Tally { sent: 30, warm_up_sent: 10, ..Tally::default() };
        assert_eq!(tally.measured_part(1000), 750);
        assert_eq!(Tally::default().measured_part(1000), 0);
    }

    #[test]
    fn a_clean_warm_up_stays_out_of_the_ledger() {
        let tally = Tally { sent: 10, received: 9, warm_up_sent: 5, warm_up_received: 5, ..Tally::default() };
        let ledger = tally.ledger(false, &[], &[Fact::number(fact_names::SOCKET_DROPS, 1.0)], None);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (10, 9, 0));
        assert_eq!(ledger.lost, BTreeMap::from([("receive-buffer-overflow-echo".to_owned(), 1)]));
    }

    #[test]
    fn what_a_lossless_transport_dropped_was_sent_again() {
        let tally = Tally { sent: 10, received: 10, ..Tally::default() };
        let ledger = tally.ledger(
            true,
            &[Fact::number(fact_names::SOCKET_DROPS, 3.0)],
            &[Fact::number(fact_names::SOCKET_DROPS, 1.0)],
            Some(&BTreeMap::from([("link-loss".to_owned(), 2)])),
        );
        assert_eq!((ledger.lost.len(), ledger.unexplained), (0, 0));
    }

    #[test]
    fn what_the_link_lost_stands_beside_what_the_buffers_had_no_room_for() {
        let tally = Tally { sent: 20, received: 12, late: 1, duplicated: 3, ..Tally::default() };
        let echo = [Fact::number(fact_names::SOCKET_DROPS, 5.0), Fact::number(fact_names::UDP_BUFFER_ERRORS, 2.0)];
        let link =
            ["link-loss", "link-corrupt", "link-queue"].map(str::to_owned).into_iter().zip([2, 3, 0]).collect();
        let ledger = tally.ledger(false, &[], &echo, Some(&link));
        assert_eq!(ledger.unexplained, 0, "the socket's own counter has the damaged ones too: {ledger:?}");
        assert_eq!(
            ledger.lost.keys().collect::<Vec<_>>(),
            ["link-corrupt", "link-loss", "receive-buffer-overflow-echo"]
        );
    }

    #[test]
    fn a_warm_up_that_lost_messages_is_covered_too() {
        let tally = Tally { sent: 10, received: 10, warm_up_sent: 5, warm_up_received: 3, ..Tally::default() };
        let ledger = tally.ledger(false, &[Fact::number(fact_names::SOCKET_DROPS, 2.0)], &[], None);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (15, 13, 0));
    }
}
