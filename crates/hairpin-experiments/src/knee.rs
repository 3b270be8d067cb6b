//! Chooses the rates of a sweep that searches for the highest offered load that is delivered.
//!
//! The first sweep has a few rates, far apart. Each later step adds a rate between the highest delivered rate and the
//! lowest undelivered rate above it, until these two rates are close.

use hairpin_model::flow::Direction;
use hairpin_model::names::grouped;
use hairpin_model::one_way::WHOLE;
use hairpin_model::{Case, HostCapabilities, Load, Measured, RoundOrder, RoundRecord, knee};

use crate::links;

pub const MAX_RATES: usize = 16;
/// Rates of the first sweep if the link rate is unknown, messages/s.
const LOCAL_RATES_PER_S: [f64; 6] = [1e3, 4e3, 16e3, 64e3, 256e3, 1024e3];
/// Rates of the first sweep over a link, as shares of the message rate that the link carries.
const LINK_RATE_SHARES: [f64; 8] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0];
/// Size of the IPv4 (RFC 791) and UDP (RFC 768) headers that a link carries with each datagram.
const HEADER_BYTES: u64 = 28;
/// The sweep ends when the ratio of the rates on both sides of the knee is at most this.
const MAX_KNEE_RATIO: f64 = 1.2;

/// Returns the rates of the first sweep of a case, ascending.
pub fn first_rates(case: &Case, capabilities: &HostCapabilities) -> Vec<f64> {
    let way = usize::from(case.primary().direction == Direction::Down);
    let link_bits = links::between(case, capabilities).and_then(|link| link.bits_per_s[way]);
    match link_bits {
        None => LOCAL_RATES_PER_S.to_vec(),
        Some(bits_per_s) => {
            let bits = (case.primary().load.size_bytes() + HEADER_BYTES) * 8;
            let carried_per_s = bits_per_s as f64 / bits as f64;
            LINK_RATE_SHARES.iter().map(|share| round(share * carried_per_s)).collect()
        }
    }
}

/// Rounds to three significant digits, so that rates are readable and the next sweep has the same ones.
pub(crate) fn round(value: f64) -> f64 {
    let scale = 10_f64.powf((value.log10().floor() - 2.0).max(-3.0));
    (value / scale).round() * scale
}

/// Returns the next case of each unfinished sweep, given the rounds done so far.
pub fn refine_rates(planned: &[RoundOrder], done: &[RoundRecord]) -> Vec<Case> {
    let cases = planned.iter().chain(done.iter().map(|round| &round.order)).map(|order| &order.case);
    let mut seen = std::collections::BTreeSet::new();
    let cases = cases.filter(|case| case.replicate == 0 && seen.insert(case.id()));
    let rate = |case: &Case| Some((case.primary().load.rate_per_s()?, is_delivered(case, done)?));
    let sweeps = grouped(cases.filter_map(|case| Some((case.without_rate(), rate(case)?))));
    sweeps.into_iter().filter_map(|(sweep, rates)| Some(sweep.at_rate(next_rate(rates)?))).collect()
}

/// Returns the rate to measure next: between the highest rate up to which every rate was delivered and the next
/// higher measured rate. `None` if these two are close, if all or no rates were delivered, or at [`MAX_RATES`].
fn next_rate(mut rates: Vec<(f64, bool)>) -> Option<f64> {
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(low), Some(high)) = knee::bracket(&rates) else { return None };
    let between = round((low * high).sqrt());
    (rates.len() < MAX_RATES && high / low > MAX_KNEE_RATIO && between > low && between < high).then_some(between)
}

/// Whether the offered load of a case was delivered; `None` if not measured.
fn is_delivered(case: &Case, done: &[RoundRecord]) -> Option<bool> {
    let id = case.id();
    let Load::Offered { offered_per_s, .. } = case.primary().load else { return None };
    let of_case = done.iter().filter(|round| round.case_id == id);
    let flows: Vec<_> = of_case.filter_map(RoundRecord::measured).map(Measured::primary).collect();
    // Without a known share the rate counts as undelivered.
    let share = knee::delivered_share(flows.iter().copied(), offered_per_s);
    (!flows.is_empty()).then(|| share.is_some_and(|share| share >= WHOLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_added_if_all_or_none_were_delivered() {
        assert_eq!(next_rate(vec![(1e3, true), (4e3, true)]), None);
        assert_eq!(next_rate(vec![(1e3, false), (4e3, false)]), None);
        assert_eq!(next_rate(vec![]), None);
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!([1234.5, 0.123_456, 987_654.0].map(round), [1230.0, 0.123, 988_000.0]);
    }
}
