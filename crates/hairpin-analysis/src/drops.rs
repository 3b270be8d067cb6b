//! Matches a link's drops to the messages of a round.

use hairpin_model::samples::Fate;
use hairpin_model::{DirectionRecord, DropFigures, DroppedPacket, LinkRecord, Samples};

use crate::links::directions;
use crate::over_rounds::SAMPLES_FOR_P99;
use crate::statistics::location::median;

/// The tail is the slowest 1 / `TAIL_DIVISOR` of the messages.
const TAIL_DIVISOR: usize = 100;

/// An answered message. Times are in ns since the start of the round.
struct Message {
    sent_ns: u64,
    received_ns: u64,
    latency_ns: f64,
}

/// Computes how the link's payload drops affected the messages with raw samples, as far as drops were listed. `None`
/// if nothing was dropped during these messages. `in_order`: no message is answered before an earlier message.
pub(crate) fn figures(samples: &Samples, link: &LinkRecord, in_order: bool) -> Option<DropFigures> {
    let began_ns = link.samples_began_ns?;
    let messages = messages(samples, listed_until_ns(link, began_ns));
    let (first, last) = (messages.first()?.sent_ns, messages.iter().map(|message| message.received_ns).max()?);
    let mut drops_ns: Vec<u64> = directions(link)
        .into_iter()
        .flat_map(|direction| &direction.drops)
        .filter(|drop| drop.carries_data)
        .filter_map(|drop| drop.dropped_ns.checked_sub(began_ns))
        .filter(|at_ns| (first..=last).contains(at_ns))
        .collect();
    drops_ns.sort_unstable();
    if drops_ns.is_empty() {
        return None;
    }
    let hit = hits(&messages, &drops_ns, in_order);
    let latencies = |of: bool| -> Vec<f64> {
        let chosen = messages.iter().zip(&hit).filter(|(_, hit)| **hit == of);
        chosen.map(|(message, _)| message.latency_ns).collect()
    };
    let (hit_ns, other_p50_ns) = (latencies(true), median(&latencies(false)));
    let added_ns = other_p50_ns.map_or(0.0, |other| hit_ns.iter().map(|latency| latency - other).sum());
    Some(DropFigures {
        packets_dropped: drops_ns.len() as u64,
        messages_hit: hit_ns.len() as u64,
        hit_p50_ns: median(&hit_ns),
        other_p50_ns,
        share_of_tail_hit: share_of_tail_hit(&messages, &hit),
        added_ns,
    })
}

fn messages(samples: &Samples, until_ns: u64) -> Vec<Message> {
    let rows = (samples.warm_up..samples.kept()).filter(|row| samples.fate[*row] != Fate::Lost);
    let message = |row: usize| Message {
        sent_ns: samples.sent_ns[row],
        received_ns: samples.received_ns[row],
        latency_ns: samples.received_ns[row].saturating_sub(samples.due_ns[row]) as f64,
    };
    let mut messages: Vec<Message> = rows.map(message).filter(|message| message.received_ns <= until_ns).collect();
    messages.sort_by_key(|message| message.sent_ns);
    messages
}

fn listed_until_ns(link: &LinkRecord, began_ns: u64) -> u64 {
    let last = |direction: &DirectionRecord| direction.drops.last().map_or(0, |drop: &DroppedPacket| drop.dropped_ns);
    let cut_short = directions(link).into_iter().filter(|direction| direction.drops_unlisted > 0);
    cut_short.map(|direction| last(direction).saturating_sub(began_ns)).min().unwrap_or(u64::MAX)
}

/// Marks the messages that a drop may have delayed: those in transit at the time of the drop; with in-order delivery
/// also later messages that were sent before a delayed message was answered.
fn hits(messages: &[Message], drops_ns: &[u64], in_order: bool) -> Vec<bool> {
    let mut held_until_ns = 0;
    let hit = |message: &Message| {
        let next = drops_ns.partition_point(|at_ns| *at_ns < message.sent_ns);
        let on_its_way = drops_ns.get(next).is_some_and(|at_ns| *at_ns <= message.received_ns);
        let behind = in_order && message.sent_ns < held_until_ns;
        if on_its_way {
            held_until_ns = held_until_ns.max(message.received_ns);
        }
        on_its_way || behind
    };
    messages.iter().map(hit).collect()
}

fn share_of_tail_hit(messages: &[Message], hit: &[bool]) -> Option<f64> {
    if (messages.len() as u64) < SAMPLES_FOR_P99 {
        return None;
    }
    let mut slowest: Vec<(f64, bool)> =
        messages.iter().zip(hit).map(|(message, hit)| (message.latency_ns, *hit)).collect();
    slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let tail = &slowest[..messages.len() / TAIL_DIVISOR];
    Some(tail.iter().filter(|(_, hit)| *hit).count() as f64 / tail.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::links::{dropped, dropping};
    use crate::fixture::{back_to_back, paced};

    const MS: u64 = 1_000_000;

    /// 200 messages with a latency of 20 ms, except those listed in `slow`; packets are dropped at `drops_ns`.
    fn figures_of(slow: &[(usize, u64)], drops_ns: &[u64]) -> Option<DropFigures> {
        let mut latencies = vec![20 * MS; 200];
        slow.iter().for_each(|(place, latency)| latencies[*place] = *latency);
        figures(&back_to_back(&[20 * MS; 5], &latencies), &dropping("loss", drops_ns), true)
    }

    #[test]
    fn a_drop_hits_the_message_in_transit() {
        // After five warm-up messages, message 10 is sent at 300 ms.
        let figures = figures_of(&[(10, 260 * MS), (100, 250 * MS)], &[301 * MS]).unwrap();
        let expected = DropFigures {
            packets_dropped: 1,
            messages_hit: 1,
            hit_p50_ns: Some(260e6),
            other_p50_ns: Some(20e6),
            share_of_tail_hit: None,
            added_ns: 240e6,
        };
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_tail_needs_as_many_messages_as_a_p99() {
        let tail = |messages: usize| {
            let mut latencies = vec![20 * MS; messages];
            (latencies[10], latencies[100]) = (260 * MS, 250 * MS);
            let link = dropping("loss", &[10 * 20 * MS + MS]);
            figures(&back_to_back(&[], &latencies), &link, true).unwrap().share_of_tail_hit
        };
        assert_eq!((tail(999), tail(1000)), (None, Some(0.1)));
    }

    #[test]
    fn drops_in_the_warm_up_without_payload_or_after_the_end_hit_no_message() {
        assert_eq!(figures_of(&[], &[50 * MS]), None, "in the warm-up");
        assert_eq!(figures_of(&[], &[9_000 * MS]), None, "the last answer arrived after 4.1 s");
        assert_eq!(figures_of(&[], &[]), None);
        let mut link = dropping("loss", &[301 * MS]);
        link.up.drops[0].carries_data = false;
        assert_eq!(figures(&back_to_back(&[], &[20 * MS; 200]), &link, true), None);
        link.up.drops[0].carries_data = true;
        assert!(figures(&back_to_back(&[], &[20 * MS; 200]), &link, true).is_some());
        link.samples_began_ns = None;
        assert_eq!(figures(&back_to_back(&[], &[20 * MS; 200]), &link, true), None);
    }

    #[test]
    fn drop_times_are_converted_to_the_clock_of_the_samples() {
        let samples = back_to_back(&[], &[20 * MS; 200]);
        let mut link = dropping("loss", &[]);
        link.samples_began_ns = Some(500 * MS);
        link.down.drops = vec![dropped(3, 499 * MS, "loss"), dropped(4, 550 * MS, "loss")];
        let figures = figures(&samples, &link, true).unwrap();
        assert_eq!((figures.packets_dropped, figures.messages_hit), (1, 1), "one drop is before the samples");
    }

    #[test]
    fn unlisted_drops_limit_the_figures() {
        let mut link = dropping("loss", &[30 * MS, 1_001 * MS]);
        link.up.drops_unlisted = 7;
        let figures = figures(&back_to_back(&[], &[20 * MS; 200]), &link, true).unwrap();
        // Fifty messages were answered before the last listed drop: too few for a tail, and the drop hit none.
        assert_eq!((figures.packets_dropped, figures.messages_hit, figures.share_of_tail_hit), (1, 1, None));
    }

    #[test]
    fn in_order_delivery_also_delays_messages_behind() {
        // One message is sent per ms and answered after 3 ms. The message sent at 100 ms is lost; its answer and those
        // of later messages arrive at 120 ms.
        let service = |k: u64| if (100..117).contains(&k) { (120 - k) * MS } else { 3 * MS };
        let messages: Vec<(u64, u64)> = (0..1000).map(|k| (0, service(k))).collect();
        let link = dropping("loss", &[100 * MS + 1]);
        let hit = |in_order| figures(&paced(MS, &messages), &link, in_order).unwrap();
        // The messages sent at 98, 99 and 100 ms are in transit; those sent until 119 ms wait behind them.
        assert_eq!((hit(false).messages_hit, hit(true).messages_hit), (3, 22));
        assert_eq!(hit(true).share_of_tail_hit, Some(1.0));
        assert_eq!(hit(true).added_ns, (0..17).map(|k| (17 - k) as f64 * 1e6).sum::<f64>());
    }

    #[test]
    fn if_every_message_was_hit_there_are_no_others() {
        let figures = figures(&back_to_back(&[], &[20 * MS; 2]), &dropping("loss", &[MS, 21 * MS]), true).unwrap();
        assert_eq!((figures.messages_hit, figures.other_p50_ns, figures.added_ns), (2, None, 0.0));
    }

    proptest! {
        #[test]
        fn no_more_messages_are_hit_than_exist(latencies in proptest::collection::vec(1_u64..1000, 1..300),
                                                      drops in proptest::collection::vec(0_u64..100_000, 0..40),
                                                      in_order: bool) {
            let samples = back_to_back(&[], &latencies);
            if let Some(figures) = figures(&samples, &dropping("loss", &drops), in_order) {
                prop_assert!(figures.messages_hit >= 1 && figures.messages_hit <= latencies.len() as u64);
                prop_assert!(figures.packets_dropped <= drops.len() as u64);
                prop_assert!(figures.share_of_tail_hit.is_none_or(|share| (0.0..=1.0).contains(&share)));
            }
        }
    }
}
