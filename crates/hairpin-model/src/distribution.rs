//! Distributions of times: percentiles of one round, figures over rounds, curves.

use serde::{Deserialize, Serialize};

use crate::compared_by::ComparedBy;
use crate::figure::Figure;

/// Summary of a distribution of times. Each value is in ns for one round, and a figure with its interval for a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Distribution<T> {
    pub p50: T,
    /// 90th percentile.
    pub p90: T,
    /// 99th percentile; a case needs at least 1 000 samples.
    pub p99: T,
    /// 99.9th percentile; a case needs at least 10 000 samples.
    pub p999: T,
    /// Maximum. For a case, the maximum of all rounds; low and high are the smallest and largest maximum of a round.
    pub max: T,
    pub mean: T,
}

impl<T: Copy> Distribution<T> {
    pub fn of(&self, figure: ComparedBy) -> Option<T> {
        match figure {
            ComparedBy::P50 => Some(self.p50),
            ComparedBy::P90 => Some(self.p90),
            ComparedBy::P99 => Some(self.p99),
            ComparedBy::P999 => Some(self.p999),
            ComparedBy::Mean => Some(self.mean),
            ComparedBy::Rate | ComparedBy::Goodput => None,
        }
    }
}

/// Percentiles of one round, in ns.
pub type Percentiles = Distribution<f64>;

/// Latency figures of a case: medians over its rounds, null if there are too few samples.
pub type LatencyFigures = Distribution<Option<Figure>>;

/// A point of the percentile curve of all samples of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CurvePoint {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// Latency at this quantile, in ns.
    pub latency_ns: f64,
}
