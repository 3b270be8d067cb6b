//! The figures of one direction of a link, from which the stages are built.

use hairpin_model::words;

use crate::numbers::Numbers;
use crate::quantity::Share;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathProfile {
    pub outages: Vec<Outage>,
    /// The rate or trace that packets wait for, and the limit of the queue.
    pub bottleneck: Bottleneck,
    pub loss: Loss,
    /// Share of packets in which one bit is flipped.
    pub corrupt: Share,
    /// Share of packets that are sent twice.
    pub duplicate: Share,
    pub delay: Delay,
    pub reorder: Option<Reorder>,
}

words! {
    /// How a delay varies.
    pub enum Shape: "kind of jitter" {
        Uniform = "uniform",
        Normal = "normal",
        /// Pareto with shape 3. The spread is the standard deviation.
        Pareto = "pareto",
    }
}

words! {
    /// Whether a packet with a shorter delay may overtake an earlier packet.
    pub enum Order: "order" {
        /// No overtaking.
        Kept = "kept",
        /// Overtaking is allowed.
        Free = "free",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Delay in ns; the centre of the distribution if the delay varies.
    pub base_ns: u64,
    /// Variation in ns; 0 for a constant delay.
    pub spread_ns: u64,
    pub shape: Shape,
    pub order: Order,
}

impl Default for Delay {
    fn default() -> Self {
        Self { base_ns: 0, spread_ns: 0, shape: Shape::Uniform, order: Order::Kept }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Probability that a packet is lost, independently of the others.
    pub random: Share,
    pub burst: Option<GilbertElliott>,
    /// Numbers of the packets to drop, counted from 0.
    pub packets: Numbers,
    /// Numbers of the data packets to drop. Only packets that carry data are counted, from 1.
    pub data_packets: Numbers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    /// p: the probability that the medium changes from good to bad after a packet.
    pub turns_bad: Share,
    /// r: the probability that the medium changes from bad to good after a packet.
    pub turns_good: Share,
    /// 1 - h: the probability that a packet is lost in the bad state.
    pub lost_when_bad: Share,
    /// 1 - k: the probability that a packet is lost in the good state.
    pub lost_when_good: Share,
}

/// The path is down from `from_ns` until `until_ns`, in ns since the link started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub from_ns: u64,
    pub until_ns: u64,
}

/// The share of packets that are held back, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reorder {
    pub share: Share,
    pub by_ns: u64,
}

/// The bottleneck of a direction. Without a rate or a trace, packets do not wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bottleneck {
    pub rate_bits_per_s: Option<u64>,
    /// Name of the trace to replay instead of a rate.
    pub replay: Option<String>,
    pub limit: Limit,
    pub codel: Option<Codel>,
}

/// Queue limit; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub packets: Option<u64>,
    /// Limit in bytes of IP packets.
    pub bytes: Option<u64>,
}

impl Bottleneck {
    /// Whether packets wait for a rate or a trace.
    pub fn sends(&self) -> bool {
        self.rate_bits_per_s.is_some() || self.replay.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Acceptable waiting time in ns. RFC 8289 recommends 5 to 10 % of the interval.
    pub target_ns: u64,
    /// How long the waiting time may exceed the target, in ns: about the longest round trip through the queue.
    pub interval_ns: u64,
}

impl Codel {
    /// The recommendation of RFC 8289 for internet paths (sections 4.2 and 4.3).
    pub const RECOMMENDED: Self = Self { target_ns: 5_000_000, interval_ns: 100_000_000 };
}
