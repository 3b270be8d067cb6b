//! What is planted, and what only looks like it. A line each.

/// A setting whose cause is known.
pub(crate) struct Trial {
    /// What is planted, or what the decoy imitates: a finding's code.
    pub(crate) cause: &'static str,
    pub(crate) kind: Kind,
    /// Of `hairpin`, without where the run is saved. A word with blanks stands in single quotes.
    pub(crate) arguments: &'static str,
}

impl Trial {
    /// The arguments one by one.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        let quoted = self.arguments.split('\'').enumerate();
        quoted.flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The setting provokes the cause: it must be named first.
    Planting,
    /// It looks the same from outside and has another cause: the one that it imitates must not be named first.
    Decoy,
}

const fn planting(cause: &'static str, arguments: &'static str) -> Trial {
    Trial { cause, kind: Kind::Planting, arguments }
}

const fn decoy(cause: &'static str, arguments: &'static str) -> Trial {
    Trial { cause, kind: Kind::Decoy, arguments }
}

/// Every trial, decoys behind the plantings of their cause.
#[rustfmt::skip]
pub(crate) const ALL: &[Trial] = &[
    planting("cold-start", "round-trip --placement together --transport tcp --warmup 0 --count 10 --rounds 6"),
    decoy("cold-start", "round-trip --placement together --transport tcp --warmup 200 --count 100 --rounds 6 --plant sleep=1ms/20"),
    planting("congestion-control", "round-trip --transport tcp --placement apart --size 1MiB --option congestion=bbr --option congestion=cubic --warmup 100 --count 60 --rounds 8"),
    decoy("congestion-control", "round-trip --transport tcp --placement apart --size 16KiB --option congestion=bbr --option congestion=cubic --warmup 5 --count 20 --rounds 6 --plant sleep=3ms/1"),
    planting("cork-not-released", "small-writes --placement together --transport tcp --remedy cork-forgotten --warmup 1 --exchanges 2 --rounds 2"),
    decoy("cork-not-released", "small-writes --placement together --transport tcp --remedy cork --warmup 1 --exchanges 2 --rounds 2 --plant sleep=200ms/1"),
    planting("echo-stalled", "round-trip --placement together --transport tcp --count 200 --rounds 3 --plant sleep=5ms/20"),
    planting("echo-stalled", "round-trip --placement together --transport udp --count 40 --rounds 3 --plant busy=2ms/1"),
    decoy("echo-stalled", "round-trip --placement together --transport tcp --link delay=2.5ms --count 20 --rounds 3"),
    planting("link-saturated", "round-trip --placement together --transport udp --link 'delay=2ms rate=1mbit' --rate 200 --size 1000 --count 60 --rounds 3"),
    decoy("link-saturated", "round-trip --placement together --transport udp --link delay=50ms --rate 200 --size 1000 --count 60 --rounds 3"),
    planting("many-small-segments", "small-writes --placement together --transport tcp --remedy nodelay,one-write --exchanges 40 --rounds 6"),
    decoy("many-small-segments", "small-writes --placement together --transport tcp --remedy cork,one-write --exchanges 40 --rounds 6 --plant busy=100us/1"),
    planting("nagle-meets-delayed-ack", "small-writes --placement together --transport tcp --remedy none --warmup 1 --exchanges 4 --rounds 2"),
    planting("nagle-meets-delayed-ack", "small-writes --placement together --transport tcp --remedy none --pipeline 4 --warmup 4 --exchanges 16 --rounds 2"),
    planting("nagle-meets-delayed-ack", "round-trip --placement together --transport tcp --rate 2000 --count 1000 --rounds 6 --plant sleep=3ms/50"),
    planting("nagle-meets-delayed-ack", "round-trip --transport tcp --placement apart --rate 1000 --count 300 --rounds 3 --plant sleep=3ms/50"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement together --transport tcp --remedy none --warmup 1 --exchanges 4 --rounds 2 --plant sleep=40ms/1"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement together --transport tcp --remedy none --writes 2x2 --warmup 1 --exchanges 4 --rounds 2 --plant sleep=40ms/1"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement together --transport tcp --remedy one-write --link delay=22ms --warmup 1 --exchanges 4 --rounds 2"),
    decoy("nagle-meets-delayed-ack", "round-trip --placement together --transport tcp --rate 100 --count 30 --rounds 3 --plant sleep=3ms/1"),
    planting("nagle-waits", "small-writes --placement together --transport tcp --remedy quickack --writes 2x2 --link delay=5ms --warmup 1 --exchanges 8 --rounds 2"),
    decoy("nagle-waits", "small-writes --placement together --transport tcp --remedy nodelay --writes 2x2 --link delay=10ms --warmup 1 --exchanges 8 --rounds 2"),
    planting("rate-not-reached", "round-trip --placement together --transport udp --rate 3000000 --duration 20ms --rounds 3"),
    decoy("rate-not-reached", "round-trip --placement together --transport udp --rate 100 --count 20 --rounds 3 --plant sleep=5ms/1"),
    planting("retransmission", "round-trip --placement together --transport tcp --link 'delay=2ms loss=3%' --count 60 --rounds 3"),
    decoy("retransmission", "round-trip --placement together --transport tcp --link delay=10ms+-8ms --count 30 --rounds 3"),
    planting("wake-up-dominated", "round-trip --transport tcp --placement apart --waiting block,spin --count 400 --rounds 6"),
    planting("wake-up-dominated", "round-trip --transport pipe --placement apart --waiting block,spin --count 400 --rounds 6"),
    decoy("wake-up-dominated", "round-trip --transport tcp --placement apart --waiting block,spin --warmup 10 --count 40 --rounds 6 --plant busy=1500us/1"),
];
