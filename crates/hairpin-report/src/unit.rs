//! How the values of a column are written.

use hairpin_model::Figure;
use hairpin_model::quantities::{self, DASH};

#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Time,
    Rate,
    ByteRate,
    Times,
    /// A part of a whole, 0 to 1.
    Share,
    /// Size of a message or a write.
    Bytes,
    /// Depth of a queue or use of memory, which may be fractional.
    Depth,
    /// No unit, or a unit that is part of the column's title.
    Plain,
}

impl Unit {
    pub(crate) fn text(self, value: Option<f64>) -> String {
        let shown = |value| match self {
            Self::Time => quantities::duration(value),
            Self::Rate => quantities::rate(value),
            Self::ByteRate => quantities::byte_rate(value),
            Self::Times => quantities::factor(value),
            Self::Share => quantities::share(value),
            // A size is a whole number.
            Self::Bytes => quantities::exact_bytes(value as u64),
            Self::Depth => quantities::bytes(value),
            Self::Plain => quantities::number(value),
        };
        value.map_or_else(|| DASH.to_owned(), shown)
    }

    /// Returns the interval in the unit of the value; `None` without an interval.
    pub(crate) fn bounds(self, figure: Option<Figure>) -> Option<String> {
        let value = figure.and_then(Figure::finite)?;
        let (low, high) = figure.and_then(Figure::interval)?;
        // Do not show bounds that both round to zero.
        if matches!(self, Self::Plain) && (0.0..0.0005).contains(&low) && (0.0..0.0005).contains(&high) {
            return None;
        }
        Some(match self {
            Self::Time => quantities::bounds(value, low, high),
            Self::Rate => quantities::rate_bounds(low, high),
            Self::ByteRate => quantities::byte_rate_bounds(low, high),
            // An estimated interval may exceed the range of a share, 0 to 1.
            Self::Share => {
                let percent = |share: f64| quantities::share(share.clamp(0.0, 1.0)).trim_end_matches(" %").to_owned();
                format!("{}-{}", percent(low), percent(high))
            }
            Self::Depth => quantities::byte_bounds(value, low, high),
            Self::Times | Self::Bytes | Self::Plain => quantities::number_bounds(value, low, high),
        })
    }
}
