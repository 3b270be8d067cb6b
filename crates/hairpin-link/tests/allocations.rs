//! A link that has reserved its memory allocates nothing per packet, because an allocation could delay the emulator.

use hairpin_link::Direction;
use hairpin_link::link::Link;
use hairpin_link::packet::{Outcome, Packet};

use crate::counting::allocations_of;

/// Sends packets of 1500 bytes both ways, `gap_ns` apart, and fetches the due outcomes before each packet.
fn send(link: &mut Link, outcomes: &mut Vec<Outcome>, numbers: std::ops::Range<u64>, gap_ns: u64) {
    for number in numbers {
        let packet = Packet { number, size_bytes: 1500, carries_data: true };
        for direction in [Direction::Up, Direction::Down] {
            outcomes.clear();
            link.advance(number * gap_ns, outcomes);
            link.arrive(direction, packet, number * gap_ns);
        }
        let _ = link.next_event_ns();
    }
}

#[test]
fn a_packet_costs_no_allocation_whatever_its_fate() {
    let everything = "outage=1ms-2ms rate=100mbit queue=300packets codel=5ms/100ms burst-loss=1%/20% drop=7 drop-data=9 \
                      corrupt=5% duplicate=5% delay=20ms±5ms jitter=pareto order=free reorder=5%/3ms";
    // A packet takes 120 us to send: at gaps of 60 us the queue is full and CoDel drops.
    for (line, gap_ns) in [(everything, 200_000), (everything, 60_000), ("delay=23.5ms", 1_000_000), ("loss=0%", 10)]
    {
        let mut link = Link::new(&line.parse().unwrap(), 7, &[]).unwrap();
        let mut outcomes = Vec::with_capacity(1000);
        send(&mut link, &mut outcomes, 0..20_000, gap_ns);
        let count = allocations_of(|| send(&mut link, &mut outcomes, 20_000..60_000, gap_ns));
        assert_eq!(count, 0, "{line}");
    }
}
