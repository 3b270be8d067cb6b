//! The quantity that ranks a case: messages per second for message rates, goodput for streams, otherwise latency.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::ladder::CaseKind;
use hairpin_model::{CaseSummary, Figure, RoundPoint, quantities};

use crate::page_text::nbsp;
use crate::unit::Unit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Nanoseconds, due to received; lower is better.
    Latency,
    /// Messages received per second; higher is better.
    Rate,
    /// Bytes received per second; higher is better.
    Goodput,
}

impl Quantity {
    pub(crate) fn of(kind: CaseKind) -> Self {
        match kind {
            // The rate of an offered load is given, so its latency is ranked.
            CaseKind::RoundTrips
            | CaseKind::Exchanges
            | CaseKind::Offered
            | CaseKind::Periods
            | CaseKind::UnderLoad => Self::Latency,
            CaseKind::Messages => Self::Rate,
            CaseKind::Streams => Self::Goodput,
        }
    }

    fn ranked_by(self) -> (ComparedBy, &'static str, Unit) {
        match self {
            Self::Latency => (ComparedBy::P50, "p50", Unit::Time),
            Self::Rate => (ComparedBy::Rate, "messages/s", Unit::Rate),
            Self::Goodput => (ComparedBy::Goodput, "goodput", Unit::ByteRate),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.ranked_by().1
    }

    fn unit(self) -> Unit {
        self.ranked_by().2
    }

    pub(crate) fn figure(self, row: &CaseSummary) -> Option<Figure> {
        row.compared(self.ranked_by().0)
    }

    /// Returns the tail figures of a case; empty unless the quantity is latency.
    pub(crate) fn tail(self, row: &CaseSummary) -> Vec<(&'static str, Figure)> {
        let latency = &row.primary().latency_ns;
        let all = [("p99", latency.p99), ("p99.9", latency.p999), ("max", latency.max)];
        let tail = all.into_iter().filter_map(|(name, figure)| Some((name, figure?)));
        if self == Self::Latency { tail.collect() } else { Vec::new() }
    }

    /// Returns the figure of a round; `None` if it cannot be drawn.
    pub(crate) fn of_round(self, point: &RoundPoint) -> Option<f64> {
        point.compared(self.ranked_by().0).filter(|value| value.is_finite() && *value > 0.0)
    }

    pub(crate) fn round_in_words(self, point: &RoundPoint) -> String {
        let time = |ns: f64| nbsp(&quantities::duration(ns));
        match self {
            Self::Latency => {
                let p99 = point.p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", time(ns)));
                format!("p50 {}{p99}, max {}", time(point.p50_ns), time(point.max_ns))
            }
            Self::Rate => format!("{} received", self.text(point.rate_per_s)),
            Self::Goodput => {
                point.goodput_bytes_per_s.map_or_else(String::new, |value| format!("goodput {}", self.text(value)))
            }
        }
    }

    pub(crate) fn text(self, value: f64) -> String {
        nbsp(&self.unit().text(Some(value)))
    }

    /// Formats a figure with its interval: `1.34 M/s (95 % interval 1.30-1.38 M/s)`.
    pub(crate) fn with_bounds(self, figure: Figure) -> String {
        let bounds = self.unit().bounds(Some(figure));
        let bounds = bounds.map(|bounds| format!(" (95 % interval {})", nbsp(&bounds).replace('-', "\u{2013}")));
        self.text(figure.value) + &bounds.unwrap_or_default()
    }

    pub(crate) fn tick(self, value: f64) -> String {
        if self == Self::Latency {
            return nbsp(&quantities::round_duration(value));
        }
        let text = self.unit().text(Some(value));
        nbsp(&match text.split_once(' ') {
            Some((number, unit)) if number.contains('.') => {
                format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
            }
            _ => text,
        })
    }

    pub(crate) fn most_ticks(self) -> usize {
        match self {
            Self::Latency => 9,
            Self::Rate | Self::Goodput => 6,
        }
    }
}
