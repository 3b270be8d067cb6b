//! A fixture run over three links: a home uplink with a full queue and losses, a bridge without losses, and a link
//! from the command line, whose relay was late. All figures are invented, and ledgers close.

use std::collections::{BTreeMap, VecDeque};

use hairpin_model::summary::Verdict;
use hairpin_model::{
    Case, CaseSummary, DirectionRecord, DroppedPacket, LatenessNs, LinkSummary, LinkTimeline, PacketCounts, Run,
    ShownLink, StageRecord, Statement,
};

use super::{Generator, ROUNDS, summary, survey};

/// The profile that docs/links.md describes.
pub const HOME_UPLINK: &str = "up=5.5mbit down=87.16mbit up.queue=2752KiB down.queue=512KiB up.loss=0.015% \
                               delay=23.5ms±3ms jitter=normal";
/// The link of the claims of source D.
pub const BRIDGED_VM: &str = "delay=2ms";
pub const TYPED: &str =
    "up=5.5mbit down=80mbit queue=64KiB burst-loss=1%/20%/100%/0% duplicate=1% delay=23.5ms±1ms reorder=1%/5ms";

const MS: u64 = 1_000_000;
const MTU: &str = "packets of at most 1500 B";

/// Six cases: `tcp` on the loopback and over each link, and `udp` over the home uplink and the typed link.
pub fn run() -> Run {
    let mut generator = Generator(5);
    let mut over = |transport: &str, name: Option<&str>, line: &str, p50: f64| {
        let case = Case::ping_pong(transport).with(|changed| {
            changed.path.link = line.to_owned();
            changed.path.name = name.map(str::to_owned);
        });
        summary(case, p50, &mut generator)
    };
    let mut cases = vec![
        over("tcp", None, "loopback", 13_400.0),
        over("tcp", Some("bridged-vm"), BRIDGED_VM, 4_061_000.0),
        over("tcp", Some("home-uplink"), HOME_UPLINK, 47_200_000.0),
        over("udp", Some("home-uplink"), HOME_UPLINK, 47_100_000.0),
        over("tcp", None, TYPED, 48_900_000.0),
        over("udp", None, TYPED, 48_100_000.0),
    ];
    for row in &mut cases {
        row.ends.iter_mut().zip([0.0021, 0.0018]).for_each(|(end, seconds)| end.cpu_seconds = seconds);
    }
    cases[1].path.relay = Some(link(3000, &quiet()));
    cases[2].path.relay = Some(link(7, &uplink(0)));
    cases[3].path.relay = Some(link(7, &uplink(40)));
    cases[4].path.relay = Some(late(link(7, &typed()), 2));
    cases[5].path.relay = Some(late(link(7, &typed()), u64::from(ROUNDS)));
    spoil(&mut cases[5]);
    let mut run = survey(1);
    run.seed = 7;
    run.plan.experiment = "round-trip".to_owned();
    run.plan.question = "How long does a round trip take?".to_owned();
    run.plan.rounds_ordered = cases.len() as u64 * u64::from(ROUNDS);
    run.cases = cases;
    run.comparisons.clear();
    run.findings.clear();
    run.skipped.clear();
    let tcp = [0, 1, 2, 4].map(|place: usize| vec![run.cases[place].id.clone()]);
    super::answer(&mut run, vec![Statement::BestOverPaths { paths: tcp.to_vec() }]);
    run
}

/// The run with only the cases over the link that has this name or line.
pub fn run_over(link: &str) -> Run {
    let mut run = run();
    run.cases.retain(|row| row.case.path.link == link || row.case.path.name.as_deref() == Some(link));
    run.plan.rounds_ordered = run.cases.len() as u64 * u64::from(ROUNDS);
    let cases = super::ids(run.cases.first());
    super::answer(&mut run, vec![Statement::Best { cases, verdict: Some(Verdict::Faster) }]);
    run
}

fn link(seed: u64, shown: &ShownLink) -> LinkSummary {
    let packets = shown.up.packets.clone().plus(&shown.down.packets);
    let all = (1..ROUNDS).fold(packets.clone(), |all, _| all.plus(&packets));
    LinkSummary {
        seed,
        lateness_ns: Some(LatenessNs { p50: 1640 + seed, p99: 71_200, max: 412_000 }),
        packets: all,
        relay_cpu_ns_per_packet: Some(4730.0),
        shown: Some(Box::new(shown.clone())),
        ..LinkSummary::default()
    }
}

fn late(link: LinkSummary, rounds: u64) -> LinkSummary {
    let why =
        |round: u64| format!("round {round}: the emulator was late by {} us at p50, bound 100 us", 118 + 7 * round);
    LinkSummary {
        lateness_ns: Some(LatenessNs { p50: 118_300, p99: 940_000, max: 7_300_000 }),
        rounds_left_out: (0..rounds).map(why).collect(),
        ..link
    }
}

fn spoil(row: &mut CaseSummary) {
    row.valid = false;
    row.why_invalid = vec![
        "10 of 10 rounds are invalid, the first because the emulator was late by 118 us at p50, bound 100 us"
            .to_owned(),
    ];
}

/// A stage that all packets leave, except the `dropped` packets.
fn stage(name: &str, figures: &str, entered: u64, dropped: &[(&str, u64)]) -> StageRecord {
    let dropped: BTreeMap<String, u64> = dropped.iter().map(|(reason, of)| ((*reason).to_owned(), *of)).collect();
    StageRecord {
        stage: name.to_owned(),
        figures: figures.to_owned(),
        packets: PacketCounts {
            entered,
            out: entered - dropped.values().sum::<u64>(),
            dropped,
            ..PacketCounts::default()
        },
        ..StageRecord::default()
    }
}

/// A delay stage that holds each packet for `each_ns`.
fn delay(figures: &str, entered: u64, each_ns: u64) -> StageRecord {
    StageRecord { time_inside_ns: entered * each_ns, ..stage("delay", figures, entered, &[]) }
}

fn with(mut stage: StageRecord, change: impl FnOnce(&mut PacketCounts)) -> StageRecord {
    change(&mut stage.packets);
    stage
}

/// The packet counts of a direction with these stages.
fn packets(stages: &[StageRecord]) -> PacketCounts {
    let dropped = stages.iter().map(|stage| (stage.stage.clone(), stage.packets.dropped.values().sum::<u64>()));
    PacketCounts {
        entered: stages[0].packets.entered,
        out: stages[stages.len() - 1].packets.out,
        dropped: dropped.filter(|(_, of)| *of > 0).collect(),
        duplicated: stages.iter().map(|stage| stage.packets.duplicated).sum(),
        reordered: stages.iter().map(|stage| stage.packets.reordered).sum(),
        corrupted: stages.iter().map(|stage| stage.packets.corrupted).sum(),
        inside: stages.iter().map(|stage| stage.packets.inside).sum(),
    }
}

/// The record of a direction with a time line.
fn seen(stages: Vec<StageRecord>, timeline: LinkTimeline, drops: Vec<DroppedPacket>) -> DirectionRecord {
    let packets = packets(&stages);
    DirectionRecord { packets, stages, timeline: Some(timeline), drops, ..DirectionRecord::default() }
}

fn quiet() -> ShownLink {
    let direction = || {
        let stages = vec![stage("mtu", MTU, 512, &[]), delay("2ms", 512, 2 * MS)];
        let zeros = vec![0; 128];
        let timeline = LinkTimeline {
            interval_ns: 16 * MS,
            entered: vec![4; 128],
            out: vec![4; 128],
            queue_packets_max: zeros.clone(),
            queue_bytes_max: zeros.clone(),
            queue_bytes_mean: zeros.clone(),
            out_bytes: zeros,
            ..LinkTimeline::default()
        };
        seen(stages, timeline, Vec::new())
    };
    ShownLink { round: 1, up: direction(), down: direction() }
}

/// The result of [`queued`].
struct Crossed {
    timeline: LinkTimeline,
    drops: Vec<DroppedPacket>,
    entered: u64,
    full: u64,
    lost: u64,
}

/// Simulates `count` packets of 1500 B, one every `gap_ns`, through a queue of `limit` bytes that sends one packet
/// per `service_ns`. Packets in `lost` are lost after the queue.
fn queued(count: u64, gap_ns: u64, service_ns: u64, limit: u64, lost: &[u64]) -> Crossed {
    const INTERVALS: usize = 205;
    let interval_ns = 32 * MS;
    let at = |ns: u64| usize::try_from(ns / interval_ns).expect("a small count").min(INTERVALS - 1);
    let (mut entered, mut out) = (vec![0; INTERVALS], vec![0; INTERVALS]);
    let (mut full, mut random, mut depth) = (vec![0; INTERVALS], vec![0; INTERVALS], vec![0_u64; INTERVALS]);
    let mut drops = Vec::new();
    let mut queue: VecDeque<u64> = VecDeque::new();
    let mut last_ns = 0;
    for number in 0..count {
        let now_ns = number * gap_ns;
        while queue.front().is_some_and(|leaves| *leaves <= now_ns) {
            queue.pop_front();
        }
        entered[at(now_ns)] += 1;
        let mut drop = |dropped_ns: u64, stage: &str, reason: &str| {
            drops.push(DroppedPacket {
                number,
                size_bytes: 1500,
                carries_data: true,
                arrived_ns: now_ns,
                dropped_ns,
                stage: stage.to_owned(),
                reason: reason.to_owned(),
            });
        };
        if queue.len() as u64 * 1500 > limit {
            full[at(now_ns)] += 1;
            drop(now_ns, "queue", "full");
            continue;
        }
        last_ns = now_ns.max(last_ns) + service_ns;
        queue.push_back(last_ns);
        for (ahead, place) in (at(now_ns)..=at(last_ns)).enumerate() {
            let served = ahead as u64 * interval_ns / service_ns;
            depth[place] = depth[place].max((queue.len() as u64).saturating_sub(served));
        }
        if lost.contains(&number) {
            random[at(last_ns)] += 1;
            drop(last_ns, "loss", "random");
        } else {
            out[at(last_ns + 24 * MS)] += 1;
        }
    }
    drops.sort_by_key(|drop| drop.dropped_ns);
    let sum = |counts: &[u64]| counts.iter().sum::<u64>();
    let (full_sum, random_sum) = (sum(&full), sum(&random));
    let dropped =
        [("queue", full), ("loss", random)].into_iter().filter(|(_, counts)| counts.iter().any(|of| *of > 0));
    let timeline = LinkTimeline {
        interval_ns,
        entered,
        out,
        dropped: dropped.map(|(stage, counts)| (stage.to_owned(), counts)).collect(),
        queue_bytes_max: depth.iter().map(|packets| packets * 1500).collect(),
        queue_bytes_mean: depth.iter().map(|packets| packets * 1000).collect(),
        out_bytes: Vec::new(),
        queue_packets_max: depth,
    };
    Crossed { timeline, drops, entered: count, full: full_sum, lost: random_sum }
}

/// An uplink whose queue fills and drops, with ACKs in the other direction. `more` adds packets.
fn uplink(more: u64) -> ShownLink {
    let crossed = queued(3500 + more, 667_000, 2_181_818, 2752 * 1024, &[411, 1207]);
    let through = crossed.entered - crossed.full;
    let stages = vec![
        stage("mtu", MTU, crossed.entered, &[]),
        stage("queue", "5.5mbit/s, queue limit 2752KiB, tail drop", crossed.entered, &[("full", crossed.full)]),
        stage("loss", "0.015% at random", through, &[("random", crossed.lost)]),
        delay("23.5ms±3ms normal, in order", through - crossed.lost, 24_900_000),
    ];
    let up = DirectionRecord { drops_unlisted: 40, ..seen(stages, crossed.timeline, crossed.drops) };
    let back = queued(900, 4_363_636, 4_000, 512 * 1024, &[]);
    let stages = vec![
        stage("mtu", MTU, 900, &[]),
        stage("queue", "87.16mbit/s, queue limit 512KiB, tail drop", 900, &[]),
        delay("23.5ms±3ms normal, in order", 900, 23_700_000),
    ];
    let down = seen(stages, back.timeline, Vec::new());
    ShownLink { round: 4, up, down }
}

/// A link with nearly every stage, with duplicated and reordered packets and packets still inside.
fn typed() -> ShownLink {
    let crossed = queued(1600, 2_000_000, 2_181_818, 64 * 1024, &[100, 101, 102, 103, 640, 641, 1201]);
    let through = crossed.entered - crossed.full;
    let left = through - crossed.lost;
    let stages = vec![
        stage("mtu", MTU, crossed.entered, &[]),
        stage("queue", "5.5mbit/s, queue limit 64KiB, tail drop", crossed.entered, &[("full", crossed.full)]),
        stage("loss", "in bursts 1%/20%/100%/0%", through, &[("burst", crossed.lost)]),
        with(stage("duplicate", "1% of packets sent twice", left, &[]), |packets| {
            (packets.duplicated, packets.out) = (16, left + 16);
        }),
        with(delay("23.5ms±1ms uniform, in order", left + 16, 23_900_000), |packets| {
            (packets.inside, packets.out) = (3, left + 13);
        }),
        with(stage("reorder", "1% of packets held back 5ms", left + 13, &[]), |packets| packets.reordered = 15),
    ];
    let up = seen(stages, crossed.timeline, crossed.drops);
    let down = DirectionRecord { timeline: None, ..uplink(0).down };
    ShownLink { round: 2, up, down }
}
