//! The latency budget of a case: where the time of a round trip goes, in parts that sum to it exactly.
//!
//! Some messages of a stamped round are sampled: both ends note the times of their calls, and the kernel stamps the
//! packets. All these times are of CLOCK_REALTIME.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::trace::End;
use crate::words;

/// The times of a sampled message at one end, in ns; null if unknown. Saved as an array in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[Option<i64>; 9]", into = "[Option<i64>; 9]")]
pub struct EndPoints {
    /// The send call began.
    pub send_called: Option<i64>,
    /// The packet entered the packet scheduler (`SCM_TSTAMP_SCHED`).
    pub scheduled: Option<i64>,
    /// The packet was handed to the driver (`SCM_TSTAMP_SND`).
    pub driver: Option<i64>,
    /// The send call returned.
    pub send_returned: Option<i64>,
    /// The receive call began.
    pub receive_called: Option<i64>,
    /// The packet arrived at this host.
    pub arrived: Option<i64>,
    /// The receive call returned the message.
    pub read: Option<i64>,
    /// How long the thread was runnable without a CPU meanwhile: at the server from before the receive call until after
    /// the send call, at the client from before the send call until after the receive call; without the send call if that
    /// call or the wait before it was long.
    pub waited: Option<i64>,
    /// How often the thread got a CPU meanwhile.
    pub switched_in: Option<i64>,
}

impl From<[Option<i64>; 9]> for EndPoints {
    fn from(all: [Option<i64>; 9]) -> Self {
        let [send_called, scheduled, driver, send_returned, receive_called, arrived, read, waited, switched_in] = all;
        Self { send_called, scheduled, driver, send_returned, receive_called, arrived, read, waited, switched_in }
    }
}

impl From<EndPoints> for [Option<i64>; 9] {
    fn from(of: EndPoints) -> Self {
        let EndPoints { send_called, scheduled, driver, send_returned, receive_called, .. } = of;
        let EndPoints { arrived, read, waited, switched_in, .. } = of;
        [send_called, scheduled, driver, send_returned, receive_called, arrived, read, waited, switched_in]
    }
}

impl EndPoints {
    /// Returns the points with times since `origin`.
    #[must_use]
    pub fn since(self, origin: i64) -> Self {
        let mut all = <[Option<i64>; 9]>::from(self);
        // The last two are no times.
        all[..7].iter_mut().for_each(|time| *time = time.map(|time| time.wrapping_sub(origin)));
        all.into()
    }

    /// Whether all times and waits are within eleven days of 0, as those of any round are. Sums of them cannot overflow.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        <[Option<i64>; 9]>::from(self).into_iter().flatten().all(|ns| ns.unsigned_abs() < MAX_POINT_NS)
    }
}

const MAX_POINT_NS: u64 = 1_000_000_000_000_000;

/// The points of a message at one end, with the message's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampled {
    pub sequence: u64,
    pub points: EndPoints,
}

/// A sampled round trip. Times count from the client's send call; times of a server with its own clock count from the
/// return of its receive call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledTrip {
    pub sequence: u64,
    pub client: EndPoints,
    /// Null if the server reported none.
    pub server: Option<EndPoints>,
}

/// The sampled round trips of a stamped round, in a file of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledRound {
    /// The server's times are of another host's clock.
    pub server_has_own_clock: bool,
    pub trips: Vec<SampledTrip>,
}

/// Maximum sampled round trips of a round.
pub const MAX_TRIPS: usize = 10_000;

/// Figures of a stamped round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StampedFigures {
    /// Median of the sampled round trips, in ns; null without any.
    pub stamped_p50_ns: Option<f64>,
    /// Median of the other round trips, in ns; null without any.
    pub others_p50_ns: Option<f64>,
    /// Means of the parts of the band p50, in ns, by name: the sum over both ends.
    pub parts_ns: BTreeMap<String, f64>,
}

/// Names of the parts.
pub mod parts {
    /// Into the socket and down to the packet scheduler, in the send call.
    pub const SEND_STACK: &str = "send-stack";
    /// From the packet scheduler to the driver.
    pub const SEND_QUEUE: &str = "send-queue";
    /// From the driver to the arrival at the other host. On the loopback, the device only.
    pub const NETWORK: &str = "network";
    /// Runnable, without a CPU.
    pub const RUN_QUEUE: &str = "run-queue";
    /// The rest from the arrival to the return of the receive call, of an end that sleeps.
    pub const WAKE_UP: &str = "wake-up";
    /// The same, of an end that busy-polls.
    pub const RECEIVE: &str = "receive";
    /// Between the calls of the server.
    pub const WORK: &str = "work";
}

words! {
    /// A band of round trips, by rank.
    pub enum BandName: "band" {
        P50 = "p50",
        P90 = "p90-p99",
        P99 = "p99-p99.9",
        Above = "above p99.9",
        Slowest = "slowest 1 %",
        All = "all",
    }
}

/// A part of a round trip, as the mean over the round trips of a band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BudgetPart {
    /// The name of a part, or of a union of parts that the measured points do not separate.
    pub name: String,
    /// The end at which the part ends; null for a union of both directions.
    pub end: Option<End>,
    /// May be negative.
    pub mean_ns: f64,
    /// `mean_ns` / the mean round trip.
    pub share: f64,
}

/// A band of round trips, and the parts of their mean in the order of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Band {
    pub band: BandName,
    pub samples: u64,
    /// The mean round trip, the sum of the parts; null with fewer than 30 samples.
    pub round_trip_ns: Option<f64>,
    /// Empty with fewer than 30 samples.
    pub parts: Vec<BudgetPart>,
    /// The send calls, until they returned. They overlap with the parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BudgetPart>,
}

impl Band {
    pub fn largest(&self) -> Option<&BudgetPart> {
        self.parts.iter().max_by(|one, other| one.mean_ns.total_cmp(&other.mean_ns))
    }

    /// Sum of the shares of the parts with this name, at both ends.
    pub fn share_of(&self, name: &str) -> f64 {
        self.parts.iter().filter(|part| part.name == name).map(|part| part.share).sum()
    }
}

/// A union of parts that are not separated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Union {
    pub name: String,
    pub of: Vec<String>,
}

/// Cost of stamping: p50 / p50 of rounds without stamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StampingCost {
    /// Of the stamped round trips.
    pub stamped: Option<Figure>,
    /// Of the other round trips in the same rounds.
    pub others: Option<Figure>,
}

words! {
    /// Why points are missing.
    pub enum WhyMissing: "reason" {
        /// The kernel does not stamp this transport, or refused.
        Refused = "refused",
        /// The server reported no points: an earlier version of Hairpin, or a lost message.
        NotReported = "not-reported",
        /// The kernel gave fewer stamps than requested: the error queue was full, or the device does not stamp.
        Lost = "lost",
        /// CLOCK_REALTIME was set during the round, whose round trips do not count.
        ClockSet = "clock-set",
    }
}

/// Points missing at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct MissingPoints {
    pub end: End,
    pub why: WhyMissing,
    /// The system's text, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Affected round trips; for a refusal and a set clock, affected rounds.
    pub count: u64,
}

/// Where the time of a case's round trips goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LatencyBudget {
    pub bands: Vec<Band>,
    /// The slowest 1 % together.
    pub slowest: Band,
    /// All round trips.
    pub all: Band,
    pub unions: Vec<Union>,
    pub cost: StampingCost,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPoints>,
}

impl LatencyBudget {
    pub fn band(&self, name: BandName) -> Option<&Band> {
        self.bands.iter().find(|band| band.band == name)
    }

    /// The band that the verdict is about: the slowest 1 %, or else the median.
    pub fn judged(&self) -> Option<&Band> {
        Some(&self.slowest).filter(|band| !band.parts.is_empty()).or(self.band(BandName::P50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_saved_as_an_array_and_only_times_are_shifted() {
        let points = EndPoints {
            send_called: Some(1_000),
            scheduled: Some(1_007),
            read: Some(1_900),
            waited: Some(5),
            switched_in: Some(1),
            ..EndPoints::default()
        };
        let text = serde_json::to_string(&points.since(1_000)).unwrap();
        assert_eq!(text, "[0,7,null,null,null,null,900,5,1]");
        assert_eq!(serde_json::from_str::<EndPoints>(&text).unwrap().since(-1_000), points);
    }
}
