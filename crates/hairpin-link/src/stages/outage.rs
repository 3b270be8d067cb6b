//! Takes the path down between two times: drops packets that arrive meanwhile.
//!
//! Times are in ns since the link started. The path goes down at the first time and up at the second. Packets already
//! inside are not affected, because the outage is at the entry of the path, like an interface without carrier.

use hairpin_model::Refused;

pub use crate::figures::Outage;

use crate::figures::PathProfile;
use crate::packet::InFlight;
use crate::quantity::{shown_time, time_ns};
use crate::stage::{Card, Contradiction, Outbox, Stage};
use crate::word::Word;

pub const CARD: Card = Card {
    name: "outage",
    models: "times at which the path is down",
    words: &[Word {
        name: "outage",
        example: "outage=2s-2.5s,10s-11s",
        says: "down from the first to the second time after the start; several outages in order, separated by commas",
        read: |path, value| {
            path.outages = value.split(',').map(read).collect::<Result<_, _>>()?;
            Ok(())
        },
        shown: |path| (!path.outages.is_empty()).then(|| shown(&path.outages)),
        about: None,
    }],
    reasons: &["down"],
    check,
    figures: |path, _| (!path.outages.is_empty()).then(|| format!("down {}", shown(&path.outages))),
    build: |path, _| {
        let stage = Down { outages: path.outages.clone() };
        (!stage.outages.is_empty()).then(|| Box::new(stage) as Box<dyn Stage>)
    },
};

fn read(text: &str) -> Result<Outage, Refused> {
    let Some((from, until)) = text.split_once('-') else {
        let problem = format!("`{text}` is not an outage");
        return Err(Refused::new(problem, "two times after the start, for instance 2s-2.5s"));
    };
    Ok(Outage { from_ns: time_ns(from)?, until_ns: time_ns(until)? })
}

fn shown(outages: &[Outage]) -> String {
    let each = outages.iter().map(|outage| format!("{}-{}", shown_time(outage.from_ns), shown_time(outage.until_ns)));
    each.collect::<Vec<_>>().join(",")
}

fn check(path: &PathProfile, _mtu_bytes: u32) -> Option<Contradiction> {
    let outages = &path.outages;
    let fault = |problem: String, hint: &str| Contradiction { word: "outage", problem, hint: hint.to_owned() };
    if let Some(outage) = outages.iter().find(|outage| outage.until_ns <= outage.from_ns) {
        let problem = format!("the outage {} does not end after it begins", shown(&[*outage]));
        return Some(fault(problem, "the first time is when the path goes down, the second when it is up again"));
    }
    let overlapping = outages.windows(2).find(|pair| pair[1].from_ns <= pair[0].until_ns)?;
    let problem = format!("the outages {} overlap, touch or are out of order", shown(overlapping));
    Some(fault(problem, "write outages in order of time, and join outages that touch"))
}

#[derive(Clone, Debug)]
struct Down {
    outages: Vec<Outage>,
}

impl Stage for Down {
    fn arrive(&mut self, packet: InFlight, now_ns: u64, out: &mut Outbox) {
        let ended = self.outages.partition_point(|outage| outage.until_ns <= now_ns);
        if self.outages.get(ended).is_some_and(|outage| outage.from_ns <= now_ns) {
            out.drop(packet, "down");
        } else {
            out.pass(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{departures, drops, fates, packets};

    #[test]
    fn packets_that_arrive_during_an_outage_are_dropped() {
        let times = [9, 10, 19, 20, 29, 30, 40, 50];
        let outcomes = fates("outage=10ns-20ns,30ns-50ns", &packets(times.map(|at_ns| (at_ns, 100))));
        let dropped: Vec<u64> = drops(&outcomes).into_iter().map(|(_, at_ns, _)| at_ns).collect();
        assert_eq!(dropped, [10, 19, 30, 40]);
        assert_eq!(departures(&outcomes), [(0, 9), (3, 20), (4, 29), (7, 50)]);
    }

    #[test]
    fn packets_already_inside_are_not_affected() {
        let outcomes = fates("outage=1ms-1s delay=20ms", &packets([(0, 100)]));
        assert_eq!(departures(&outcomes), [(0, 20_000_000)]);
    }
}
