//! The injections and decoys, one line each.

/// A command whose latency or loss has a known cause.
pub(crate) struct Trial {
    /// Finding code of the injected cause, or of the cause that the decoy imitates.
    pub(crate) cause: &'static str,
    pub(crate) kind: TrialKind,
    /// Arguments of `hairpin`, without `--out`. An argument with spaces is in single quotes.
    pub(crate) arguments: &'static str,
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// In the environment of this program.
    Here,
    /// In a new network namespace whose loopback device has this queue discipline (tc(8)).
    BehindQueue(&'static str),
    /// In a new control group with this CPU quota, in percent of one CPU.
    WithQuota(u32),
    BesideBusyLoop(usize),
}

impl Trial {
    pub(crate) fn words(&self) -> impl Iterator<Item = &'static str> {
        let quoted = self.arguments.split('\'').enumerate();
        quoted.flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrialKind {
    /// The command provokes the cause, which must be named first.
    Injection,
    /// The command shows similar symptoms with another cause: the imitated cause must not be named first.
    Decoy,
}

pub(super) const fn injection(cause: &'static str, arguments: &'static str) -> Trial {
    Trial { cause, kind: TrialKind::Injection, arguments, place: Place::Here }
}

impl Trial {
    const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

pub(super) const fn decoy(cause: &'static str, arguments: &'static str) -> Trial {
    Trial { cause, kind: TrialKind::Decoy, arguments, place: Place::Here }
}

#[rustfmt::skip]
pub(crate) const ALL: &[Trial] = &[
    injection("bufferbloat", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --congestion cubic --connections 4 --idle 300ms --ramp 2s --duration 1s --recovery 300ms --rounds 3"),
    decoy("bufferbloat", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --load none --idle 500ms --ramp 300ms --duration 1s --recovery 300ms --rounds 3"),
    decoy("bufferbloat", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --congestion cubic --load-rate 5mbit --idle 500ms --ramp 500ms --duration 1s --recovery 300ms --rounds 3"),
    injection("cold-start", "round-trip --placement same-cpu --transport tcp --warmup 0 --count 10 --rounds 6"),
    decoy("cold-start", "round-trip --placement same-cpu --transport tcp --warmup 200 --count 100 --rounds 6 --injected-fault sleep=1ms/20"),
    injection("congestion-control", "round-trip --transport tcp --placement cross-cpu --size 1MiB --option congestion=bbr --option congestion=cubic --warmup 100 --count 60 --rounds 8"),
    decoy("congestion-control", "round-trip --transport tcp --placement cross-cpu --size 16KiB --option congestion=bbr --option congestion=cubic --warmup 5 --count 20 --rounds 6 --injected-fault sleep=3ms/1"),
    injection("cork-not-released", "small-writes --placement same-cpu --transport tcp --remedy cork-forgotten --warmup 1 --exchanges 2 --rounds 2"),
    decoy("cork-not-released", "small-writes --placement same-cpu --transport tcp --remedy cork --warmup 1 --exchanges 2 --rounds 2 --injected-fault sleep=200ms/1"),
    injection("cpu-contention", "under-load --load-cpu same --rounds 10"),
    decoy("cpu-contention", "under-load --load-cpu other --rounds 10"),
    injection("cpu-quota", "round-trip --transport tcp --placement cross-cpu --duration 500ms --rounds 6").at(Place::WithQuota(60)),
    injection("cpu-quota", "message-rate --transport udp --placement cross-cpu --duration 500ms --rounds 4").at(Place::WithQuota(60)),
    decoy("cpu-quota", "round-trip --transport tcp --placement cross-cpu --count 200 --rounds 6 --injected-fault sleep=40ms/20").at(Place::WithQuota(400)),
    injection("cpu-quota", "periodic --transport tcp --placement cross-cpu --period 1ms --timing spin --count 300 --rounds 6").at(Place::WithQuota(60)),
    decoy("cpu-quota", "periodic --transport tcp --placement same-cpu --period 1ms --count 300 --rounds 6 --injected-fault sleep=40ms/100").at(Place::WithQuota(60)),
    injection("echo-stalled", "round-trip --placement same-cpu --transport tcp --count 200 --rounds 3 --injected-fault sleep=5ms/20"),
    injection("echo-stalled", "round-trip --placement same-cpu --transport udp --count 40 --rounds 3 --injected-fault busy=2ms/1"),
    decoy("echo-stalled", "round-trip --placement same-cpu --transport tcp --link delay=2.5ms --count 20 --rounds 3"),
    injection("echo-stalled", "periodic --transport tcp --placement same-cpu --period 1ms --count 400 --rounds 6 --injected-fault sleep=5ms/200"),
    decoy("echo-stalled", "periodic --transport tcp --placement same-cpu --period 1ms --count 300 --rounds 6 --injected-fault busy=300us/1"),
    injection("head-of-line-blocking", "streams --transport tcp-streams --link 'up.loss=2% delay=20ms' --duration 2s --rounds 4"),
    decoy("head-of-line-blocking", "streams --transport tcp --channels separate --link 'up.loss=2% delay=20ms' --duration 2s --rounds 4"),
    injection("link-drops", "offered-load --placement same-cpu --transport udp --link 'delay=2ms loss=20%' --rate 500 --count 200 --rounds 3"),
    injection("link-drops", "offered-load --placement same-cpu --transport udp --link 'delay=2ms rate=1mbit queue=16KiB' --rate 200 --size 1000 --count 200 --rounds 3"),
    decoy("link-drops", "offered-load --placement same-cpu --transport udp --link delay=2ms --option rcvbuf=2304 --arrivals burst=100 --rate 2000 --count 400 --rounds 3"),
    injection("link-saturated", "round-trip --placement same-cpu --transport udp --link 'delay=2ms rate=1mbit' --rate 200 --size 1000 --count 60 --rounds 3"),
    decoy("link-saturated", "round-trip --placement same-cpu --transport udp --link delay=50ms --rate 200 --size 1000 --count 60 --rounds 3"),
    injection("many-small-segments", "small-writes --placement same-cpu --transport tcp --remedy nodelay,one-write --exchanges 40 --rounds 6"),
    decoy("many-small-segments", "small-writes --placement same-cpu --transport tcp --remedy cork,one-write --exchanges 40 --rounds 6 --injected-fault busy=100us/1"),
    injection("nagle-meets-delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy default --warmup 1 --exchanges 4 --rounds 2"),
    injection("nagle-meets-delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy default --pipeline 4 --warmup 4 --exchanges 16 --rounds 2"),
    injection("nagle-meets-delayed-ack", "round-trip --placement same-cpu --transport tcp --rate 2000 --count 1000 --rounds 6 --injected-fault sleep=3ms/50"),
    injection("nagle-meets-delayed-ack", "round-trip --transport tcp --placement cross-cpu --rate 1000 --count 300 --rounds 3 --injected-fault sleep=3ms/50"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy default --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=40ms/1"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy default --writes 2x2 --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=40ms/1"),
    decoy("nagle-meets-delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy one-write --link delay=22ms --warmup 1 --exchanges 4 --rounds 2"),
    decoy("nagle-meets-delayed-ack", "round-trip --placement same-cpu --transport tcp --rate 100 --count 30 --rounds 3 --injected-fault sleep=3ms/1"),
    injection("nagle-waits", "small-writes --placement same-cpu --transport tcp --remedy quickack --writes 2x2 --link delay=5ms --warmup 1 --exchanges 8 --rounds 2"),
    decoy("nagle-waits", "small-writes --placement same-cpu --transport tcp --remedy nodelay --writes 2x2 --link delay=10ms --warmup 1 --exchanges 8 --rounds 2"),
    injection("own-send-queue", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --transport tcp --congestion cubic --idle 500ms --ramp 3s --duration 2s --recovery 500ms --probe-connection shared --rounds 3"),
    decoy("own-send-queue", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --transport tcp --congestion cubic --idle 500ms --ramp 3s --duration 2s --recovery 500ms --probe-connection own --connections 4 --rounds 3"),
    injection("rate-not-reached", "round-trip --placement same-cpu --transport udp --rate 3000000 --duration 20ms --rounds 3"),
    decoy("rate-not-reached", "round-trip --placement same-cpu --transport udp --rate 100 --count 20 --rounds 3 --injected-fault sleep=5ms/1"),
    injection("retransmission", "round-trip --placement same-cpu --transport tcp --link 'delay=2ms loss=3%' --count 60 --rounds 3"),
    decoy("retransmission", "round-trip --placement same-cpu --transport tcp --link delay=10ms+-8ms --count 30 --rounds 3"),
    injection("run-queue", "budget --transport tcp --placement cross-cpu --count 8000 --rounds 6 --all-rounds").at(Place::BesideBusyLoop(1)),
    decoy("run-queue", "budget --transport tcp --placement cross-cpu --count 2000 --rounds 6 --injected-fault busy=200us/1"),
    injection("run-queue", "periodic --transport tcp --placement same-cpu --period 1ms --count 300 --rounds 6").at(Place::BesideBusyLoop(1)),
    decoy("run-queue", "periodic --transport tcp --placement same-cpu --period 1ms --count 300 --rounds 6").at(Place::BesideBusyLoop(0)),
    injection("sender-bursts", "offered-load --placement same-cpu --transport udp --option rcvbuf=4096 --arrivals burst=100 --rate 2000 --count 400 --rounds 6"),
    decoy("sender-bursts", "offered-load --placement same-cpu --transport udp --link 'delay=2ms loss=20%' --arrivals burst=10 --rate 500 --count 200 --rounds 3"),
    injection("server-work", "budget --transport tcp --placement cross-cpu --count 2000 --rounds 6 --injected-fault busy=200us/1"),
    injection("server-work", "budget --transport udp --placement same-cpu --count 2000 --rounds 6 --injected-fault busy=200us/1"),
    decoy("server-work", "budget --transport tcp --placement same-cpu --link delay=100us --count 1000 --rounds 6"),
    injection("shared-connection", "under-load --link 'rate=10mbit queue=256KiB delay=5ms codel=5ms/100ms' --transport tcp --congestion cubic --idle 500ms --ramp 3s --duration 2s --recovery 500ms --probe-connection own,shared --load-option notsent-lowat=16384 --rounds 4"),
    decoy("shared-connection", "under-load --link 'rate=10mbit queue=256KiB delay=5ms' --transport tcp --congestion cubic --idle 500ms --ramp 3s --duration 2s --recovery 500ms --probe-connection own --connections 4 --rounds 3"),
    injection("stack-dominated", "budget --transport tcp --placement cross-cpu --waiting spin --count 8000 --rounds 6"),
    decoy("stack-dominated", "budget --transport tcp --placement cross-cpu --waiting spin --count 2000 --rounds 6 --injected-fault busy=200us/1"),
    injection("timer-slack", "periodic --transport tcp --placement same-cpu --period 1ms --timer-slack 10ms --count 300 --rounds 6"),
    decoy("timer-slack", "periodic --transport tcp --placement same-cpu --period 20ms --timer-slack 50us --count 30 --rounds 6"),
    injection("udp-receive-overrun", "message-rate --placement same-cpu --transport udp --option rcvbuf=4096 --rounds 3"),
    decoy("udp-receive-overrun", "offered-load --placement same-cpu --transport udp --link 'delay=2ms loss=20%' --option rcvbuf=4096 --rate 500 --count 200 --rounds 3"),
    injection("udp-send-overrun", "message-rate --placement same-cpu --transport udp --rounds 3").at(Place::BehindQueue("tbf rate 8mbit burst 4kb limit 8kb")),
    decoy("udp-send-overrun", "message-rate --placement same-cpu --transport udp --option rcvbuf=4096 --rounds 3"),
    injection("wake-up-dominated", "round-trip --transport tcp --placement cross-cpu --waiting block,spin --count 400 --rounds 6"),
    injection("wake-up-dominated", "budget --transport tcp --placement cross-cpu --count 8000 --rounds 6"),
    injection("wake-up-dominated", "round-trip --transport pipe --placement cross-cpu --waiting block,spin --count 400 --rounds 6"),
    decoy("wake-up-dominated", "round-trip --transport tcp --placement cross-cpu --waiting block,spin --warmup 10 --count 40 --rounds 6 --injected-fault busy=1500us/1"),
];
