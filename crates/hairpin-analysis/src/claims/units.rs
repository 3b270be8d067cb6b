//! Units of figures.

use hairpin_model::{FigureName, Measure};

pub(super) const RATIO_UNIT: &str = "x";

/// Returns the size of the figure's base unit in `unit`; `None` if the figure has no such unit.
pub(super) fn scale(name: FigureName, unit: &str) -> Option<f64> {
    let units: &[(&str, f64)] = match name {
        FigureName::P50
        | FigureName::P99
        | FigureName::P999
        | FigureName::Max
        | FigureName::Mean
        | FigureName::ServiceP50
        | FigureName::ServiceMean
        | FigureName::First
        | FigureName::Work
        | FigureName::SendStack
        | FigureName::Scheduling
        | FigureName::ReleaseJitterP50
        | FigureName::SmallestPeriod => &[("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)],
        FigureName::Rate | FigureName::ReceivedPerS | FigureName::SentPerS => &[("1/s", 1.0), ("msg/s", 1.0)],
        FigureName::BytesPerMs => &[("bytes/ms", 1.0)],
        FigureName::Segments => &[("segments", 1.0)],
        FigureName::PureAcks => &[("ACKs", 1.0)],
        FigureName::BlockedShare | FigureName::LostShare | FigureName::ReceivedShare | FigureName::ReverseShare => {
            &[("share", 1.0)]
        }
        FigureName::TimeInStates | FigureName::Exceeds => &[("share", 1.0)],
        FigureName::WakeUpsPerPeriod => &[("wake-ups", 1.0)],
        FigureName::ClientCpuPerPeriod => &[("us", 1e-3), ("ms", 1e-6)],
        FigureName::SentBytes | FigureName::ReceivedBytes | FigureName::Goodput | FigureName::ReverseBytes => {
            &[("bytes/s", 1.0), ("KiB/s", 1.0 / 1024.0), ("MiB/s", 1.0 / 1_048_576.0)]
        }
        FigureName::InFlight => &[("requests", 1.0)],
        FigureName::ClientSystemCalls | FigureName::ServerSystemCalls => &[("calls", 1.0)],
        FigureName::ClientCpuPerMillion
        | FigureName::ServerCpuPerMillion
        | FigureName::ClientCpuPerGb
        | FigureName::ServerCpuPerGb => &[("s", 1.0), ("ms", 1e3)],
        FigureName::Fairness => &[("index", 1.0)],
    };
    units.iter().find(|(known, _)| *known == unit).map(|(_, scale)| *scale)
}

/// Whether the figure is a time read from a histogram.
pub(super) fn is_latency(name: FigureName) -> bool {
    scale(name, "ns").is_some()
}

pub fn fits_unit(of: &Measure, unit: &str) -> bool {
    if of.against.is_some() { unit == RATIO_UNIT } else { scale(of.figure, unit).is_some() }
}
