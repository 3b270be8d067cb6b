//! The figures of one direction of a link, as a profile says them and the stages are made from them.

use hairpin_model::words;

use crate::numbers::Numbers;
use crate::quantity::Share;

/// The figures of one direction: what each of the stages is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathProfile {
    /// When it is down.
    pub outages: Vec<Outage>,
    /// What packets wait for, and how many may.
    pub bottleneck: Bottleneck,
    /// What it loses.
    pub loss: Loss,
    /// In which share of packets a bit is flipped.
    pub corrupt: Share,
    /// Which share of packets is sent twice.
    pub duplicate: Share,
    /// How long it takes.
    pub delay: Delay,
    /// What is held back.
    pub reorder: Option<Reorder>,
}

words! {
    /// How a delay varies.
    pub enum Shape: "kind of jitter" {
        /// Equally likely everywhere up to the spread.
        Uniform = "uniform",
        /// Normal; the spread is the standard deviation.
        Normal = "normal",
        /// Pareto of shape 3; the spread is the standard deviation.
        Pareto = "pareto",
    }
}

words! {
    /// Whether a packet may overtake another because its delay is shorter.
    pub enum Order: "order" {
        /// It may not.
        Kept = "kept",
        /// It may.
        Free = "free",
    }
}

/// The delay of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The delay, or its middle, in ns.
    pub base_ns: u64,
    /// By how much it varies, in ns; 0 for a constant delay.
    pub spread_ns: u64,
    /// How it varies.
    pub shape: Shape,
    /// Whether packets may overtake each other.
    pub order: Order,
}

impl Default for Delay {
    fn default() -> Self {
        Self { base_ns: 0, spread_ns: 0, shape: Shape::Uniform, order: Order::Kept }
    }
}

/// What a direction loses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Each packet independently, with this probability.
    pub random: Share,
    /// In bursts.
    pub burst: Option<GilbertElliott>,
    /// By number, from 0.
    pub packets: Numbers,
    /// By number among the packets that carry data, from 1.
    pub data_packets: Numbers,
}

/// The model of Gilbert and Elliott.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// p: the probability that a good medium is bad for the next packet.
    pub turns_bad: Share,
    /// r: the probability that a bad medium is good for the next packet.
    pub turns_good: Share,
    /// 1 - h: the probability that a packet is lost in the bad state.
    pub lost_when_bad: Share,
    /// 1 - k: the probability that a packet is lost in the good state.
    pub lost_when_good: Share,
}

/// The path is down from `from_ns` on, and up again at `until_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it goes down, in ns since the link started.
    pub from_ns: u64,
    /// When it is up again.
    pub until_ns: u64,
}

/// Which packets are held back, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    /// The probability.
    pub share: Share,
    /// For how long, in ns.
    pub by_ns: u64,
}

/// The bottleneck of a direction; without a rate and a trace there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bottleneck {
    /// Bits a second.
    pub rate_bits_per_s: Option<u64>,
    /// The name of the trace to replay instead.
    pub replay: Option<String>,
    /// How much may wait.
    pub limit: Limit,
    /// The second discipline.
    pub codel: Option<Codel>,
}

/// How much may wait; what is null is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes of IP packets.
    pub bytes: Option<u64>,
}

impl Bottleneck {
    /// Whether there is anything to wait for.
    #[must_use]
    pub fn sends(&self) -> bool {
        self.rate_bits_per_s.is_some() || self.replay.is_some()
    }
}

/// CoDel's two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// The wait that is acceptable, in ns. RFC 8289 recommends 5 to 10 % of the interval.
    pub target_ns: u64,
    /// For how long it may be longer, in ns: about the longest round trip through the queue.
    pub interval_ns: u64,
}

impl Codel {
    /// What RFC 8289 recommends for paths across the internet (sections 4.2 and 4.3).
    pub const RECOMMENDED: Self = Self { target_ns: 5_000_000, interval_ns: 100_000_000 };
}
