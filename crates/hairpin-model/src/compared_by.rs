//! The figures that cases and runs are compared by.

use crate::words;

words! {
    /// A figure that cases and runs are compared by.
    pub enum ComparedBy: "figure" {
        P50 = "p50",
        P90 = "p90",
        P99 = "p99",
        P999 = "p999",
        Mean = "mean",
        /// Answers per second; for a one-way load, messages received per second.
        Rate = "rate",
        /// Bytes per second that the receiver of a one-way load received.
        Goodput = "goodput",
    }
}

impl ComparedBy {
    /// Whether higher is better; false for latencies.
    pub fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::Goodput)
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Mean => "ns",
            Self::Rate => "per_s",
            Self::Goodput => "bytes_per_s",
        }
    }
}
