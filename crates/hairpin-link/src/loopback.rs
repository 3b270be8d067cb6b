//! The link that changes nothing: every packet leaves when it comes.

use crate::stage::{Packet, Stage, Verdict};

/// The pass-through, and the test double of the stages to come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loopback;

impl Stage for Loopback {
    fn pass(&mut self, _packet: Packet, now_ns: u64) -> Verdict {
        Verdict::leaves_at(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Fate;

    #[test]
    fn every_packet_leaves_once_and_at_once() {
        let mut link: Box<dyn Stage> = Box::new(Loopback);
        for (number, now_ns) in [(0, 0), (1, 5), (2, 5), (3, 1_000_000)] {
            let verdict = link.pass(Packet { number, size_bytes: 1500 }, now_ns);
            assert_eq!(verdict, Verdict { fate: Fate::LeavesAt(now_ns), copy_leaves_at: None });
        }
    }
}
