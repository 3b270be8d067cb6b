//! The injections and decoys of states of exchanges, one line each. The longest state of the traced exchanges must be the
//! injected one; a decoy takes as long for another reason.

use super::trials::{Trial, decoy, injection};

#[rustfmt::skip]
pub(super) const ALL: &[Trial] = &[
    injection("client-idle", "small-writes --placement same-cpu --transport tcp --remedy nodelay --writes 4x2 --gap 5ms --warmup 1 --exchanges 4 --rounds 2"),
    decoy("client-idle", "small-writes --placement same-cpu --transport tcp --remedy nodelay --writes 4x2 --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=15ms/1"),
    injection("server-program", "small-writes --placement same-cpu --transport tcp --remedy one-write --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=15ms/1"),
    decoy("server-program", "small-writes --placement same-cpu --transport tcp --remedy one-write --link delay=7.5ms --warmup 1 --exchanges 4 --rounds 2"),
    injection("send-buffer", "small-writes --transport tcp --remedy one-write --writes 1x1000000 --link delay=2ms --option sndbuf=8192 --warmup 1 --exchanges 2 --rounds 2"),
    decoy("send-buffer", "small-writes --transport tcp --remedy one-write --writes 1x100000 --link delay=50ms --warmup 1 --exchanges 2 --rounds 2"),
    injection("nagle", "small-writes --placement same-cpu --transport tcp --remedy quickack --writes 2x2 --link delay=5ms --warmup 1 --exchanges 8 --rounds 2"),
    decoy("nagle", "small-writes --placement same-cpu --transport tcp --remedy nodelay --writes 2x2 --link delay=10ms --warmup 1 --exchanges 8 --rounds 2"),
    injection("cork", "small-writes --placement same-cpu --transport tcp --remedy cork-forgotten --warmup 1 --exchanges 2 --rounds 2"),
    decoy("cork", "small-writes --placement same-cpu --transport tcp --remedy cork --warmup 1 --exchanges 2 --rounds 2 --injected-fault sleep=200ms/1"),
    injection("pacing", "small-writes --placement same-cpu --transport tcp --remedy one-write --writes 1x100000 --option pacing-rate=500000,congestion=cubic --warmup 1 --exchanges 2 --rounds 2"),
    decoy("pacing", "small-writes --placement same-cpu --transport tcp --remedy one-write --writes 1x100000 --link rate=4mbit --option congestion=cubic --warmup 1 --exchanges 2 --rounds 2"),
    injection("receive-window", "small-writes --transport tcp --remedy one-write --writes 1x20000 --link delay=2ms --option rcvbuf=4096 --warmup 1 --exchanges 2 --rounds 2"),
    decoy("receive-window", "small-writes --transport tcp --remedy one-write --writes 1x100000 --link delay=50ms --warmup 1 --exchanges 2 --rounds 2"),
    injection("tail-loss-probe", "small-writes --placement same-cpu --transport tcp --remedy one-write --link 'delay=2ms up.drop-data=2' --warmup 1 --exchanges 2 --rounds 2"),
    decoy("tail-loss-probe", "small-writes --placement same-cpu --transport tcp --remedy one-write --link delay=100ms --warmup 1 --exchanges 2 --rounds 2"),
    injection("retransmission-timeout", "small-writes --placement same-cpu --transport tcp --remedy one-write --link 'delay=2ms up.drop-data=2,3,4' --warmup 1 --exchanges 2 --rounds 2"),
    decoy("retransmission-timeout", "small-writes --placement same-cpu --transport tcp --remedy default --warmup 1 --exchanges 2 --rounds 2 --injected-fault sleep=400ms/1"),
    injection("propagation", "small-writes --placement same-cpu --transport tcp --remedy one-write --link delay=7.5ms --warmup 1 --exchanges 4 --rounds 2"),
    decoy("propagation", "small-writes --placement same-cpu --transport tcp --remedy one-write --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=15ms/1"),
    injection("queueing", "small-writes --placement same-cpu --transport tcp --remedy one-write --writes 1x8000 --link rate=1mbit --warmup 1 --exchanges 4 --rounds 2"),
    decoy("queueing", "small-writes --placement same-cpu --transport tcp --remedy one-write --writes 1x8000 --link delay=35ms --warmup 1 --exchanges 4 --rounds 2"),
    injection("delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy default --warmup 1 --exchanges 4 --rounds 2"),
    decoy("delayed-ack", "small-writes --placement same-cpu --transport tcp --remedy one-write --warmup 1 --exchanges 4 --rounds 2 --injected-fault sleep=40ms/1"),
    injection("wake-up", "round-trip --transport tcp --placement cross-cpu --rate 100 --count 20 --rounds 3"),
    decoy("wake-up", "round-trip --transport tcp --placement cross-cpu --rate 100 --count 20 --rounds 3 --injected-fault busy=500us/1"),
];
