//! Axes: positions of values, and labelled ticks.

use crate::page_text::nbsp;
use hairpin_model::quantities;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Log,
    Linear,
}

/// An axis from `low` to `high`, which are finite and in this order. On a logarithmic axis both are above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    scale: Scale,
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub place: f64,
    pub label: String,
    /// Whether the label must be drawn, as for powers of ten and on linear axes. A narrow axis may omit other labels.
    pub major: bool,
}

/// Values that a logarithmic axis draws; in ns up to about thirty years. Other values are damaged data.
const DRAWABLE: std::ops::RangeInclusive<f64> = 1e-9..=1e18;

impl Axis {
    /// Returns a logarithmic axis for all of `values` with some margin; `None` if no value is finite and above zero.
    pub fn log(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values.into_iter().filter(|value| DRAWABLE.contains(value)))?;
        let room = ((high / low).ln() * 0.04).max(0.05).exp();
        Some(Self { scale: Scale::Log, low: low / room, high: high * room })
    }

    /// Like [`Self::log`], but spans at least `centre / (1 + share)` to `centre * (1 + share)`; noise looks small.
    pub fn log_around(centre: f64, share: f64, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let bounds = [centre / (1.0 + share), centre * (1.0 + share)];
        let held = extremes(values.into_iter().filter(|value| DRAWABLE.contains(value)));
        let with_room = held.map(|(low, high)| {
            let room = ((high / low).ln() * 0.07).exp();
            [low / room, high * room]
        });
        let all = with_room.into_iter().flatten().chain(bounds);
        let (low, high) = extremes(all.filter(|value| DRAWABLE.contains(value)))?;
        (low < high).then_some(Self { scale: Scale::Log, low, high })
    }

    /// Returns a linear axis from zero for all of `values`; `None` if no value is finite and above zero.
    pub fn from_zero(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (_, high) = extremes(values.into_iter().filter(|value| *value > 0.0))?;
        Some(Self { scale: Scale::Linear, low: 0.0, high })
    }

    /// Returns a linear axis from the lowest to the highest of `values`, with some margin at both ends, but not below
    /// zero. `None` if no value is finite.
    pub fn around(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values.into_iter())?;
        // The axis of a single value must be wide enough for distinct labels.
        let room = if low < high { (high - low) * 0.03 } else { (high * 0.1).max(1.0) };
        Self::between((low - room).max(0.0), high + room)
    }

    /// Returns a linear axis for all of `values`, which may be negative, with room at both ends; `None` if no value is
    /// finite.
    pub fn linear(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = extremes(values.into_iter())?;
        let room = if low < high { (high - low) * 0.1 } else { 1.0 };
        Self::between(low - room, high + room)
    }

    /// Returns a linear axis from `low` to `high`; `None` unless both are finite and in this order.
    pub fn between(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Self { scale: Scale::Linear, low, high })
    }

    /// Returns the position of `value`, 0 to 1, clamped to the axis; 0 if it is not finite.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            Scale::Linear => (value - self.low) / (self.high - self.low),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns ticks for an axis in nanoseconds, about `at_most` of them.
    pub fn time_ticks(&self, at_most: usize) -> Vec<Tick> {
        self.ticks(at_most, |ns| nbsp(&quantities::round_duration(ns)))
    }

    /// Returns ticks with custom labels, about `at_most` of them.
    pub fn ticks(&self, at_most: usize, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let values = match self.scale {
            Scale::Log if self.high / self.low >= 8.0 => self.decades(at_most),
            Scale::Log | Scale::Linear => self.steps(at_most),
        };
        let tick = |value: f64| Tick {
            value,
            place: self.place(value),
            label: label(value),
            major: self.scale == Scale::Linear || self.high / self.low < 8.0 || is_power_of_ten(value),
        };
        values.into_iter().map(tick).collect()
    }

    /// Returns powers of ten, with multiples of 2 and 5, or else of 3, if at most `at_most` values result.
    fn decades(&self, at_most: usize) -> Vec<f64> {
        // A decimal exponent fits an i32.
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |value: &f64| (self.low..=self.high).contains(value);
        let all = |factors: &[f64]| -> Vec<f64> {
            let of_decade = |exponent: i32| factors.iter().map(move |factor| factor * 10_f64.powi(exponent));
            (first..=last).flat_map(of_decade).filter(within).collect()
        };
        [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]]
            .into_iter()
            .map(all)
            .find(|values| values.len() <= at_most)
            .unwrap_or_else(|| all(&[1.0]))
    }

    /// Returns multiples of 1, 2 or 5 times a power of ten.
    fn steps(&self, at_most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / at_most.max(1) as f64;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * magnitude);
        let mut values = Vec::new();
        let mut number = (self.low / step).ceil();
        while number * step <= self.high * (1.0 + 1e-12) && values.len() <= 2 * at_most {
            values.push(number * step);
            number += 1.0;
        }
        values
    }
}

fn is_power_of_ten(value: f64) -> bool {
    let exponent = value.log10();
    (exponent - exponent.round()).abs() < 1e-9
}

pub(crate) fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |so_far, value| {
        let (low, high) = so_far.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// The axis of a percentile curve. Positions are the number of nines, log10(1 / (1 - q)), as in HdrHistogram's plots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nines {
    most: f64,
}

impl Nines {
    /// Returns an axis up to the maximum of `samples` messages. The maximum of n messages is drawn at 1 - 1/n.
    pub fn of(samples: u64) -> Self {
        Self { most: (samples.max(10) as f64).log10() }
    }

    /// Returns the position of a quantile of `samples` messages, 0 to 1.
    pub fn place(&self, quantile: f64, samples: u64) -> f64 {
        let last = (samples.max(1) as f64).log10();
        let nines = if quantile < 1.0 { -(1.0 - quantile.max(0.0)).log10() } else { last };
        if nines.is_finite() { (nines.min(last) / self.most).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns quantile, position and label of each tick: 0, 50, 90, 99, 99.9 %, ...
    pub fn ticks(&self) -> Vec<(f64, f64, String)> {
        let mut ticks =
            vec![(0.0, 0.0, "0 %".to_owned()), (0.5, std::f64::consts::LOG10_2 / self.most, "50 %".to_owned())];
        let mut nines = 1;
        while f64::from(nines) <= self.most && nines <= 12 {
            let quantile = 1.0 - 10_f64.powi(-nines);
            let places = usize::try_from(nines - 2).unwrap_or(0);
            ticks.push((quantile, f64::from(nines) / self.most, format!("{:.places$} %", quantile * 100.0)));
            nines += 1;
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<String> {
        ticks.iter().map(|tick| tick.label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn a_log_axis_maps_equal_ratios_to_equal_distances() {
        let axis = Axis::log([100.0, 1e6]).unwrap();
        let places = [100.0, 1e3, 1e4, 1e5, 1e6].map(|value| axis.place(value));
        for pair in places.windows(3) {
            assert!(((pair[1] - pair[0]) - (pair[2] - pair[1])).abs() < 1e-9, "{places:?}");
        }
        assert!(places[0] > 0.0 && places[4] < 1.0, "there is room at both ends: {places:?}");
    }

    #[test]
    fn ticks_are_powers_of_ten_and_also_between_them_over_few_decades() {
        let wide = Axis::log([100.0, 5e6]).unwrap().time_ticks(6);
        assert_eq!(labels(&wide), ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]);
        let narrow = Axis::log([2500.0, 60_000.0]).unwrap().time_ticks(6);
        assert_eq!(labels(&narrow), ["5 µs", "10 µs", "20 µs", "50 µs"]);
        assert_eq!(narrow.iter().map(|tick| tick.major).collect::<Vec<_>>(), [false, true, false, false]);
    }

    #[test]
    fn a_narrow_axis_still_has_labels() {
        let ticks = Axis::log([2400.0, 2600.0]).unwrap().time_ticks(4);
        assert!(ticks.len() >= 2, "{ticks:?}");
        let time = Axis::from_zero([21.3e9]).unwrap().time_ticks(5);
        assert_eq!(labels(&time), ["0", "5 s", "10 s", "15 s", "20 s"]);
    }

    #[test]
    fn a_time_axis_begins_at_its_lowest_value() {
        let axis = Axis::around([18e9, 38e9]).unwrap();
        assert_eq!(labels(&axis.time_ticks(3)), ["20 s", "30 s"]);
        assert!(axis.place(18e9) > 0.0 && axis.place(18e9) < 0.05, "{axis:?}");
        assert!((Axis::around([5e9]).unwrap().place(5e9) - 0.5).abs() < 1e-9, "a single value is in the middle");
        assert_eq!(Axis::around([0.0, 1e9]).unwrap().low, 0.0, "the axis does not begin before the run");
        assert_eq!(Axis::around([f64::NAN]), None);
    }

    #[test]
    fn invalid_values_stay_on_the_axis() {
        let axis = Axis::log([1.0, 10.0]).unwrap();
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300] {
            assert!((0.0..=1.0).contains(&axis.place(value)), "{value}");
        }
        assert_eq!(Axis::log([f64::NAN, 0.0, -1.0]), None);
        assert_eq!(Axis::from_zero([]), None);
    }

    #[test]
    fn a_single_value_has_an_axis_around_it() {
        let axis = Axis::log([5.0]).unwrap();
        assert!((axis.place(5.0) - 0.5).abs() < 1e-9);
        let axis = Axis::log_around(100.0, 0.1, [101.0]).unwrap();
        assert!((axis.low - 90.909).abs() < 0.01 && (axis.high - 110.0).abs() < 0.01, "{axis:?}");
    }

    #[test]
    fn the_maximum_of_n_messages_is_at_one_minus_one_nth() {
        let nines = Nines::of(1000);
        assert!((nines.place(1.0, 1000) - 1.0).abs() < 1e-9);
        assert!((nines.place(1.0, 100) - 2.0 / 3.0).abs() < 1e-9);
        assert!((nines.place(0.9, 1000) - 1.0 / 3.0).abs() < 1e-9);
        let labels: Vec<String> = nines.ticks().into_iter().map(|(_, _, label)| label).collect();
        assert_eq!(labels, ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
    }
}
