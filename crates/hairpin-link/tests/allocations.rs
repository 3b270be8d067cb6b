//! A link allocates nothing for a packet once it has room: an allocation in the relay's path might be slow.

#![allow(unsafe_code, reason = "a counting allocator is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hairpin_link::Direction;
use hairpin_link::link::Link;
use hairpin_link::packet::{Outcome, Packet};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system allocator, counting by thread.
struct Counting;

// SAFETY: every call goes to the system allocator unchanged; counting allocates nothing, because a thread-local `Cell`
// with a constant initial value needs no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Sends packets of 1500 bytes both ways, `gap_ns` apart, and fetches what is due before each.
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
        let before = ALLOCATIONS.with(Cell::get);
        send(&mut link, &mut outcomes, 20_000..60_000, gap_ns);
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{line}");
    }
}
