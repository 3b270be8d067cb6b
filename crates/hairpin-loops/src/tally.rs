//! The counts of one end, and the ledger computed from both ends' counts.

use std::collections::BTreeMap;

use hairpin_model::fact::{self};
use hairpin_model::ledger::{self};
use hairpin_model::{Fact, Ledger, Streamed, Way, fact_names};

use super::arrival_order::ArrivalOrder;
use super::client::Client;

/// Counts of the client. Messages of the warm-up are counted separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages sent after the warm-up.
    pub sent: u64,
    /// Answers in time after the warm-up.
    pub received: u64,
    /// Answers after the time-out, to messages sent after the warm-up.
    pub late: u64,
    /// Repeated answers to messages sent after the warm-up.
    pub duplicated: u64,
    /// Messages of an open loop, including the warm-up, that waited because their numbers would have been ambiguous.
    pub waited_for_answers: u64,
    pub warm_up_sent: u64,
    pub warm_up_received: u64,
    pub warm_up_late: u64,
    /// Repeated answers to warm-up messages.
    pub warm_up_duplicated: u64,
    /// Arrival order of answers, including the warm-up; `None` if answers cannot be reordered.
    pub order: Option<ArrivalOrder>,
}

impl Tally {
    /// Creates the tally of a client before its load.
    pub(super) fn of<C>(client: &Client<'_, C>) -> Self {
        let may_differ = ArrivalOrder::may_differ(&client.order.case, client.lossy);
        Self { order: may_differ.then(ArrivalOrder::default), ..Self::default() }
    }

    /// Counts the first answer to a message, which was sent after the warm-up if `measured`.
    #[inline]
    pub fn answered(&mut self, sequence: u64, measured: bool, in_time: bool) {
        if let Some(order) = &mut self.order {
            order.note(sequence);
        }
        let count = match (measured, in_time) {
            (true, true) => &mut self.received,
            (true, false) => &mut self.late,
            (false, true) => &mut self.warm_up_received,
            (false, false) => &mut self.warm_up_late,
        };
        *count += 1;
    }

    /// Counts a repeated answer to message `sequence`. Warm-up messages have the lowest sequence numbers.
    #[inline]
    pub fn answered_again(&mut self, sequence: u64) {
        let in_warm_up = sequence < self.warm_up_sent;
        *(if in_warm_up { &mut self.warm_up_duplicated } else { &mut self.duplicated }) += 1;
    }

    /// Computes the ledger from the kernel counters of both ends and the counters of the link.
    ///
    /// The kernel counters do not separate the warm-up. So the ledger includes the warm-up if a warm-up message is
    /// missing; otherwise the ledger covers only the measured messages. A reliable transport retransmits, so drops by
    /// its sockets or by the link do not count as losses.
    ///
    /// `link_lost` counts the messages that the link left unanswered, by cause. The counter of a full receive buffer
    /// includes duplicated and damaged packets. No counter separates these from messages, so all counts are kept, and
    /// any excess makes `unexplained` negative ([`Ledger::may_count_copies`]).
    pub fn ledger(
        &self,
        reliable: bool,
        client: &[Fact],
        server: &[Fact],
        link_lost: Option<&BTreeMap<String, u64>>,
    ) -> Ledger {
        let warm_up_lost = self.warm_up_received != self.warm_up_sent;
        let with = |count: u64, warm_up: u64| if warm_up_lost { count + warm_up } else { count };
        let mut lost = BTreeMap::new();
        let (up, down) = self.ways(server).unzip();
        if !reliable {
            let overflown = [buffer_drops(server, up), buffer_drops(client, down)];
            let network = [(ledger::NETWORK_UP, up, overflown[0]), (ledger::NETWORK_DOWN, down, overflown[1])];
            lost.extend(
                network
                    .into_iter()
                    .filter_map(|(cause, way, overflown)| Some((cause.to_owned(), way?.missing(overflown)))),
            );
            lost.extend(link_lost.into_iter().flatten().map(|(cause, count)| (cause.clone(), *count)));
            lost.insert(format!("{}-server", ledger::RECEIVE_BUFFER), overflown[0]);
            lost.insert(format!("{}-client", ledger::RECEIVE_BUFFER), overflown[1]);
            lost.retain(|_, count| *count > 0);
        }
        Ledger {
            sent: with(self.sent, self.warm_up_sent),
            received: with(self.received, self.warm_up_received),
            late: with(self.late, self.warm_up_late),
            duplicated: with(self.duplicated, self.warm_up_duplicated),
            lost,
            up,
            down,
            ..Ledger::default()
        }
        .closed()
    }

    /// Counts per direction, if the server is on another host and reports how many messages it answered.
    ///
    /// The server answers duplicates too, and answers in order of arrival. The server counts the duplicates and
    /// reordered messages of the direction up; subtracting them from the client's counts gives the direction down.
    fn ways(&self, server: &[Fact]) -> Option<(Way, Way)> {
        fact::number(server, fact_names::ANSWERED)?;
        let of_server = |name| counter_value(server, name);
        let sent = self.sent + self.warm_up_sent;
        let (copied, overtaken) = (of_server(fact_names::DUPLICATED_UP), of_server(fact_names::REORDERED_UP));
        let arrived = of_server(fact_names::ANSWERED).saturating_sub(copied).min(sent);
        let reordered = self.order.as_ref().map_or(0, |order| order.reordered);
        let up = Way { sent, received: arrived, duplicated: copied, reordered: overtaken };
        let down = Way {
            sent: arrived,
            received: self.received + self.late + self.warm_up_received + self.warm_up_late,
            duplicated: (self.duplicated + self.warm_up_duplicated).saturating_sub(copied),
            reordered: reordered.saturating_sub(overtaken),
        };
        Some((up, down))
    }
}

/// The ledger of a one-way load. Each cause has its own counter: the receive buffer, send calls that the kernel
/// refused, the sender's queueing disciplines, the receiver's devices, and the link.
///
/// Only the link counts warm-up messages separately. If the warm-up lost others, the ledger includes the warm-up.
pub fn one_way_ledger(reliable: bool, sender: OneWayEnd<'_>, receiver: OneWayEnd<'_>, link: LinkLosses) -> Ledger {
    let (from, to) = (sender.counted, receiver.counted);
    let warm_up_lost = to.warm_up_received + link.in_warm_up != from.warm_up_sent;
    let with = |count: u64, warm_up: u64| if warm_up_lost { count + warm_up } else { count };
    let mut lost = BTreeMap::new();
    if !reliable {
        let refused = from.departures.as_ref().map_or(0, |sent| sent.refused);
        let by_kernel = |cause, end: OneWayEnd<'_>| (cause, ledger::counted_by_kernel(cause, end.facts));
        let causes = [
            by_kernel(ledger::RECEIVE_BUFFER, receiver),
            (ledger::SEND_BUFFER, refused),
            by_kernel(ledger::QDISC, sender),
            by_kernel(ledger::DEVICE, receiver),
            (ledger::LINK, with(link.measured, link.in_warm_up)),
            (ledger::RELAY, link.not_carried),
        ];
        lost.extend(
            causes.into_iter().filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.to_owned(), count)),
        );
    }
    Ledger {
        sent: with(from.sent, from.warm_up_sent),
        received: with(to.received, to.warm_up_received),
        late: 0,
        duplicated: to.duplicated,
        lost,
        ..Ledger::default()
    }
    .closed()
}

/// The ledger of a one-way load between two hosts. Losses that neither kernel counted happened between the hosts. The
/// counters of queueing disciplines and devices include other traffic on the interfaces, so the ledger limits them to
/// the number of missing messages.
pub fn between_hosts(reliable: bool, up: bool, sender: OneWayEnd<'_>, receiver: OneWayEnd<'_>) -> Ledger {
    let mut ledger = one_way_ledger(reliable, sender, receiver, LinkLosses::default());
    let (from, to) = (sender.counted, receiver.counted);
    let way = Way {
        sent: from.sent + from.warm_up_sent,
        received: to.received + to.warm_up_received,
        duplicated: to.duplicated,
        reordered: to.arrivals.as_ref().map_or(0, |arrivals| arrivals.reordered),
    };
    if let Some(count) = ledger.lost.get_mut(ledger::RECEIVE_BUFFER) {
        *count = buffer_drops(receiver.facts, Some(way)).min(*count);
    }
    let of_sockets = [ledger::RECEIVE_BUFFER, ledger::SEND_BUFFER].iter().filter_map(|cause| ledger.lost.get(*cause));
    let mut missing = way.missing(of_sockets.sum());
    for cause in [ledger::QDISC, ledger::DEVICE] {
        if let Some(count) = ledger.lost.get_mut(cause) {
            *count = missing.min(*count);
            missing -= *count;
        }
    }
    ledger.lost.retain(|_, count| *count > 0);
    let cause = if up { ledger::NETWORK_UP } else { ledger::NETWORK_DOWN };
    if !reliable && missing > 0 {
        ledger.lost.insert(cause.to_owned(), missing);
    }
    *(if up { &mut ledger.up } else { &mut ledger.down }) = Some(way);
    ledger.closed()
}

/// The counts of one end of a one-way load, and the counters of its kernel.
#[derive(Clone, Copy, Debug)]
pub struct OneWayEnd<'a> {
    pub counted: &'a Streamed,
    /// The counters of the end's kernel.
    pub facts: &'a [Fact],
}

/// Messages of a one-way load that a link lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkLosses {
    pub measured: u64,
    pub in_warm_up: u64,
    /// Packets of the whole load, including the warm-up, for which the emulator's own sockets had no room.
    pub not_carried: u64,
}

fn counter_value(facts: &[Fact], name: &str) -> u64 {
    // The cast is safe: the number is a kernel counter.
    fact::number(facts, name).unwrap_or(0.0) as u64
}

/// Messages for which the receive buffer of an end had no room. The kernel also counts datagrams of others: if any arrived, no
/// more than the missing messages.
fn buffer_drops(facts: &[Fact], way: Option<Way>) -> u64 {
    let drops = ledger::counted_by_kernel(ledger::RECEIVE_BUFFER, facts);
    match way.filter(|_| counter_value(facts, fact_names::STRAYS) > 0) {
        Some(way) => drops.min(way.missing(0)),
        None => drops,
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::Sent;

    use super::*;

    fn socket_drops(count: u32) -> Fact {
        Fact::number(fact_names::SOCKET_DROPS, count.into())
    }

    fn lost(ledger: &Ledger) -> Vec<(&str, u64)> {
        ledger.lost.iter().map(|(cause, count)| (cause.as_str(), *count)).collect()
    }

    /// The ledger if `received` of 20 measured messages and `warm_up` of 10 warm-up messages arrived.
    fn one_way(received: u64, warm_up: u64, link: LinkLosses, facts: [&[Fact]; 2]) -> Ledger {
        let refused = Sent { messages: 20, refused: 1, ..Sent::default() };
        let sender = Streamed { sent: 20, warm_up_sent: 10, departures: Some(refused), ..Streamed::default() };
        let receiver = Streamed { received, warm_up_received: warm_up, ..Streamed::default() };
        let [from, to] = facts;
        let (from, to) = (OneWayEnd { counted: &sender, facts: from }, OneWayEnd { counted: &receiver, facts: to });
        one_way_ledger(false, from, to, link)
    }

    #[test]
    fn a_one_way_ledger_has_each_cause_from_its_own_counter() {
        let from = [Fact::number(fact_names::QDISC_DROPS, 2.0), Fact::number(fact_names::DEVICE_DROPS, 50.0)];
        let to = [
            socket_drops(3),
            Fact::number(fact_names::DEVICE_DROPS, 4.0),
            Fact::number(fact_names::QDISC_DROPS, 60.0),
        ];
        let link = LinkLosses { measured: 5, in_warm_up: 0, not_carried: 1 };
        let ledger = one_way(4, 10, link, [&from, &to]);
        let buffers = [("receive-buffer-overflow", 3), ("relay", 1), ("send-buffer", 1)];
        let expected = [&[("device", 4), ("link", 5), ("qdisc", 2)][..], &buffers].concat();
        assert_eq!(lost(&ledger), expected);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (20, 4, 0));
    }

    #[test]
    fn a_one_way_ledger_covers_the_warm_up_only_if_it_lost_messages_outside_the_link() {
        let none: [&[Fact]; 2] = [&[], &[]];
        let link = LinkLosses { measured: 2, in_warm_up: 3, not_carried: 0 };
        let apart = one_way(17, 7, link, none);
        assert_eq!((apart.sent, apart.received, apart.lost["link"], apart.unexplained), (20, 17, 2, 0));
        let covered = one_way(17, 6, link, [&[], &[socket_drops(1)]]);
        assert_eq!((covered.sent, covered.received, covered.lost["link"], covered.unexplained), (30, 23, 5, 0));
    }

    #[test]
    fn a_clean_warm_up_stays_out_of_the_ledger() {
        let tally = Tally { sent: 10, received: 9, warm_up_sent: 5, warm_up_received: 5, ..Tally::default() };
        let ledger = tally.ledger(false, &[], &[socket_drops(1)], None);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (10, 9, 0));
        assert_eq!(lost(&ledger), [("receive-buffer-overflow-server", 1)]);
    }

    #[test]
    fn drops_of_a_reliable_transport_are_not_losses() {
        let tally = Tally { sent: 10, received: 10, ..Tally::default() };
        let link = BTreeMap::from([("link-loss".to_owned(), 2)]);
        let ledger = tally.ledger(true, &[socket_drops(3)], &[socket_drops(1)], Some(&link));
        assert_eq!((ledger.lost.len(), ledger.unexplained), (0, 0));
    }

    #[test]
    fn losses_of_link_and_buffers_are_separate() {
        let tally = Tally { sent: 20, received: 12, late: 1, duplicated: 3, ..Tally::default() };
        let echo = [socket_drops(5), Fact::number(fact_names::UDP_BUFFER_ERRORS, 2.0)];
        let link =
            ["link-loss", "link-corrupt", "link-queue"].map(str::to_owned).into_iter().zip([2, 3, 0]).collect();
        let ledger = tally.ledger(false, &[], &echo, Some(&link));
        assert_eq!(ledger.unexplained, 0, "the socket counter includes damaged packets: {ledger:?}");
        assert_eq!(
            ledger.lost.keys().collect::<Vec<_>>(),
            ["link-corrupt", "link-loss", "receive-buffer-overflow-server"]
        );
    }

    #[test]
    fn counters_are_never_reduced() {
        // The link lost 2 of 20 messages, and 12 were answered, so 6 are missing. But the receive buffers dropped 9
        // packets.
        let tally = Tally { sent: 20, received: 12, ..Tally::default() };
        let link = BTreeMap::from([("link-loss".to_owned(), 2)]);
        let ledger = tally.ledger(false, &[socket_drops(4)], &[socket_drops(5)], Some(&link));
        let counted =
            [("link-loss", 2), ("receive-buffer-overflow-client", 4), ("receive-buffer-overflow-server", 5)];
        assert_eq!(lost(&ledger), counted);
        assert_eq!(ledger.unexplained, -3, "duplicates were dropped too, and no counter shows how many");
    }

    #[test]
    fn a_warm_up_that_lost_messages_is_covered_too() {
        let tally = Tally { sent: 10, received: 10, warm_up_sent: 5, warm_up_received: 3, ..Tally::default() };
        let ledger = tally.ledger(false, &[socket_drops(2)], &[], None);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (15, 13, 0));
    }

    /// The arrival order if `count` messages arrived after a message that was sent later.
    fn reordered(count: u64) -> Option<ArrivalOrder> {
        let mut order = ArrivalOrder::default();
        std::iter::once(count).chain(0..count).for_each(|number| order.note(number));
        Some(order)
    }

    /// The ledger from a client's tally and the counts of both ends.
    fn between(client: &Tally, [answered, copied, overtaken]: [u32; 3], overflown: [u32; 2]) -> Ledger {
        let server = [
            Fact::number(fact_names::ANSWERED, answered.into()),
            Fact::number(fact_names::DUPLICATED_UP, copied.into()),
            Fact::number(fact_names::REORDERED_UP, overtaken.into()),
            socket_drops(overflown[0]),
        ];
        client.ledger(false, &[socket_drops(overflown[1])], &server, None)
    }

    #[test]
    fn loss_duplicates_and_order_are_reported_by_direction() {
        let tally = Tally {
            sent: 90,
            received: 70,
            late: 4,
            duplicated: 5,
            warm_up_sent: 10,
            warm_up_received: 8,
            warm_up_duplicated: 1,
            order: reordered(9),
            ..Tally::default()
        };
        // Of 100 messages, the server's buffer dropped 7, the network lost 3 on the way up, and 90 arrived (2 twice).
        let ledger = between(&tally, [92, 2, 6], [7, 1]);
        let (up, down) = (ledger.up.unwrap(), ledger.down.unwrap());
        assert_eq!(up, Way { sent: 100, received: 90, duplicated: 2, reordered: 6 });
        assert_eq!(down, Way { sent: 90, received: 82, duplicated: 4, reordered: 3 });
        let expected = [
            (ledger::NETWORK_DOWN, 7),
            (ledger::NETWORK_UP, 3),
            ("receive-buffer-overflow-client", 1),
            ("receive-buffer-overflow-server", 7),
        ];
        assert_eq!(lost(&ledger), expected);
        assert_eq!((ledger.sent, ledger.received, ledger.late, ledger.unexplained), (100, 78, 4, 0));
    }

    #[test]
    fn duplicates_on_the_way_up_are_not_counted_on_the_way_down() {
        let tally = Tally { sent: 10, received: 10, duplicated: 3, order: reordered(2), ..Tally::default() };
        let down = between(&tally, [14, 4, 2], [0, 0]).down.unwrap();
        assert_eq!(down, Way { sent: 10, received: 10, duplicated: 0, reordered: 0 }, "one copied answer was lost");
    }

    #[test]
    fn a_one_way_load_reports_order_and_duplicates_of_its_direction() {
        let arrivals = hairpin_model::one_way::Received { reordered: 5, ..Default::default() };
        let from = Streamed { sent: 20, warm_up_sent: 10, ..Streamed::default() };
        let to = Streamed {
            received: 17,
            duplicated: 2,
            warm_up_received: 10,
            arrivals: Some(arrivals),
            ..Default::default()
        };
        let ends = [OneWayEnd { counted: &from, facts: &[] }, OneWayEnd { counted: &to, facts: &[] }];
        let ledger = between_hosts(false, false, ends[0], ends[1]);
        assert_eq!(ledger.down, Some(Way { sent: 30, received: 27, duplicated: 2, reordered: 5 }));
        assert_eq!((ledger.up, ledger.lost[ledger::NETWORK_DOWN]), (None, 3));
    }

    #[test]
    fn losses_of_other_programs_on_the_interfaces_are_not_counted() {
        let sent = Streamed { sent: 20, ..Streamed::default() };
        let assert_lost = |received, [qdisc, device]: [u32; 2], expected: &[(&str, u64)]| {
            let received = Streamed { received, ..Streamed::default() };
            let [from, to] = [(fact_names::QDISC_DROPS, qdisc), (fact_names::DEVICE_DROPS, device)]
                .map(|(name, count)| [Fact::number(name, count.into()), socket_drops(1)]);
            let ends = [OneWayEnd { counted: &sent, facts: &from }, OneWayEnd { counted: &received, facts: &to }];
            let ledger = between_hosts(false, true, ends[0], ends[1]);
            assert_eq!((lost(&ledger), ledger.unexplained), (expected.to_vec(), 0));
        };
        let buffer = (ledger::RECEIVE_BUFFER, 1);
        assert_lost(19, [50, 50], &[buffer]);
        assert_lost(12, [3, 50], &[(ledger::DEVICE, 4), (ledger::QDISC, 3), buffer]);
        assert_lost(12, [3, 2], &[(ledger::DEVICE, 2), (ledger::NETWORK_UP, 2), (ledger::QDISC, 3), buffer]);
    }

    #[test]
    fn duplicates_count_for_the_phase_of_their_message() {
        let duplicated = |warm_up_received| {
            let mut tally = Tally { sent: 10, received: 10, warm_up_sent: 5, warm_up_received, ..Tally::default() };
            [0, 4, 4, 5, 14].into_iter().for_each(|sequence| tally.answered_again(sequence));
            tally.ledger(false, &[], &[], None).duplicated
        };
        assert_eq!(duplicated(5), 2, "the ledger excludes a clean warm-up and its duplicates");
        assert_eq!(duplicated(4), 5);
    }

    #[test]
    fn full_buffers_that_also_dropped_datagrams_of_others_count_no_more_than_the_missing_messages() {
        let way = Way { sent: 1000, received: 990, duplicated: 0, reordered: 0 };
        let strays = |count: u32| Fact::number(fact_names::STRAYS, count.into());
        assert_eq!(buffer_drops(&[socket_drops(4), strays(7)], Some(way)), 4);
        assert_eq!(buffer_drops(&[socket_drops(4000), strays(7)], Some(way)), 10);
        assert_eq!(buffer_drops(&[socket_drops(4000), strays(0)], Some(way)), 4000, "an excess is reported");
    }
}
