//! A figure with its interval.

use serde::{Deserialize, Serialize};

/// A value and its 95 % interval over rounds. The bounds are null where the rounds are too few or differ too much
/// to give any.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure itself.
    pub value: f64,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
}

impl Figure {
    /// A figure with an interval.
    #[must_use]
    pub fn new(value: f64, low: f64, high: f64) -> Self {
        Self { value, low: Some(low), high: Some(high) }
    }

    /// A figure without an interval.
    #[must_use]
    pub fn bare(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// Whether the interval lies wholly above or wholly below `reference`; false without an interval.
    #[must_use]
    pub fn excludes(&self, reference: f64) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if low > reference || high < reference)
    }
}
