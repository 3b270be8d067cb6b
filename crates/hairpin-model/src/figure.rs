//! A figure with its interval.

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// Why a figure has no interval.
    pub enum NoInterval: "reason" {
        /// Too few rounds for an interval.
        TooFewRounds = "too-few-rounds",
        /// Too few rounds for an interval in the machine state of the figure.
        TooFewInState = "too-few-rounds-in-state",
        /// The figure rose or fell throughout the run.
        Trend = "trend",
        /// The figure varied more slowly than the run can show.
        SlowVariation = "slow-variation",
        /// The upper bound would be more than 100 times the lower one.
        SaysNothing = "says-nothing",
        /// A search confirmed no value.
        NotConfirmed = "not-confirmed",
    }
}

/// A value and its interval over rounds, 95 % unless the run says otherwise. The bounds are null if no valid interval
/// can be computed; `why` then gives the reason, if known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Figure {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Why the interval is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<NoInterval>,
}

impl From<f64> for Figure {
    fn from(value: f64) -> Self {
        Self::bare(value)
    }
}

impl Figure {
    pub fn new(value: f64, low: f64, high: f64) -> Self {
        Self { value, low: Some(low), high: Some(high), why: None }
    }

    pub fn bare(value: f64) -> Self {
        Self { value, ..Self::default() }
    }

    pub fn without(value: f64, why: NoInterval) -> Self {
        Self { why: Some(why), ..Self::bare(value) }
    }

    /// Applies the non-decreasing function `change` to the value and its bounds.
    pub fn rising(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: self.low.map(&change), high: self.high.map(&change), why: self.why }
    }

    /// Applies the non-increasing function `change` to the value and its bounds, and swaps the bounds.
    pub fn falling(self, change: impl Fn(f64) -> f64) -> Self {
        Self { value: change(self.value), low: self.high.map(&change), high: self.low.map(&change), why: self.why }
    }

    /// The value, if finite.
    pub fn finite(self) -> Option<f64> {
        Some(self.value).filter(|value| value.is_finite())
    }

    /// Both bounds, if finite.
    pub fn interval(self) -> Option<(f64, f64)> {
        self.low.zip(self.high).filter(|(low, high)| low.is_finite() && high.is_finite())
    }

    /// Whether the interval is entirely above or below `reference`; false without an interval.
    pub fn excludes(&self, reference: f64) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > reference || high < reference)
    }
}
