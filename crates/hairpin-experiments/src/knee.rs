//! The rates of a sweep: where the greatest offered load lies that arrives whole.
//!
//! A first sweep has few rates, far apart. Then more rates are measured between the greatest that arrived whole and the least
//! above it that did not, until these are close.

use hairpin_model::capabilities::HostCapabilities;
use hairpin_model::case::Case;
use hairpin_model::flow::{Direction, Load, Pacing};
use hairpin_model::knee;
use hairpin_model::one_way::WHOLE;
use hairpin_model::options::OptionName;
use hairpin_model::round::RoundRecord;

use crate::links;
use crate::sequence::Planned;

/// The most rates that a sweep has.
pub const MAX_RATES: usize = 16;
/// The rates of the first sweep on this machine, messages a second.
const LOCAL_PER_S: [f64; 6] = [1e3, 4e3, 16e3, 64e3, 256e3, 1024e3];
/// Those over a link, as shares of the messages that it carries a second.
const SHARES: [f64; 8] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0];
/// Headers of a datagram, which the link carries too: IPv4 (RFC 791) and UDP (RFC 768), in bytes.
const HEADER_BYTES: u64 = 28;
/// The sweep ends where the rates around the knee are within this factor.
const CLOSE: f64 = 1.2;

/// The rates of the first sweep of a case, rising.
#[must_use]
pub fn first_rates(case: &Case, capabilities: &HostCapabilities) -> Vec<f64> {
    let way = usize::from(case.flow().direction == Direction::Down);
    let link_bits = links::between(case, capabilities).and_then(|link| link.bits_per_s[way]);
    match link_bits {
        None => LOCAL_PER_S.to_vec(),
        Some(bits_per_s) => {
            let bits = (case.flow().load.size_bytes() + HEADER_BYTES) * 8;
            let carried_per_s = bits_per_s as f64 / bits as f64;
            SHARES.iter().map(|share| round(share * carried_per_s)).collect()
        }
    }
}

/// A rate that people can read: three digits, which the next sweep finds again.
fn round(per_s: f64) -> f64 {
    let scale = 10_f64.powf((per_s.log10().floor() - 2.0).max(-3.0));
    (per_s / scale).round() * scale
}

/// The case at that rate; where the kernel is to pace, it is told the bytes that a connection may send a second.
#[must_use]
pub fn at_rate(case: &Case, per_s: f64) -> Case {
    case.clone().with(|case| {
        let flow = case.flow_mut();
        let wires = flow.wires() as f64;
        if let Load::Offered { offered_per_s, size_bytes, pacing, .. } = &mut flow.load {
            *offered_per_s = per_s;
            if *pacing == Pacing::Kernel {
                // A rate below one byte a second would be no limit.
                let bytes_per_s = (per_s * *size_bytes as f64 / wires).round().max(1.0) as u64;
                flow.options = flow.options.clone().with(OptionName::PacingRate, &bytes_per_s.to_string());
            }
        }
    })
}

/// More cases of a sweep, after those that were planned and done.
#[must_use]
pub fn refined(planned: &[Planned], done: &[RoundRecord]) -> Vec<Case> {
    let mut sweeps: Vec<(Case, Vec<(f64, bool)>)> = Vec::new();
    let cases = planned.iter().map(|planned| &planned.case).chain(done.iter().map(|round| &round.order.case));
    let mut seen = std::collections::BTreeSet::new();
    for case in cases.filter(|case| case.replicate == 0 && seen.insert(case.id())) {
        let Some(per_s) = case.flow().load.rate_per_s() else { continue };
        let Some(whole) = arrived_whole(case, done) else { continue };
        let apart = case.without_rate();
        match sweeps.iter_mut().find(|(sweep, _)| *sweep == apart) {
            Some((_, rates)) => rates.push((per_s, whole)),
            None => sweeps.push((apart, vec![(per_s, whole)])),
        }
    }
    sweeps.into_iter().filter_map(|(sweep, rates)| Some(at_rate(&sweep, next_rate(rates)?))).collect()
}

/// The rate to measure next, between the greatest that arrived whole below any that did not and that one; `None` where these are
/// close, where all or none arrived whole, and where there are enough.
fn next_rate(mut rates: Vec<(f64, bool)>) -> Option<f64> {
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(low), Some(high)) = knee::bracket(&rates) else { return None };
    let between = round((low * high).sqrt());
    (rates.len() < MAX_RATES && high / low > CLOSE && between > low && between < high).then_some(between)
}

/// Whether what was offered of a case arrived: by the median round; `None` where none was measured.
fn arrived_whole(case: &Case, done: &[RoundRecord]) -> Option<bool> {
    let id = case.id();
    let Load::Offered { offered_per_s, .. } = case.flow().load else { return None };
    let of_case = done.iter().filter(|round| round.case_id == id);
    let measured = of_case.filter_map(RoundRecord::measured);
    // What is not known to have been sent did not arrive.
    let mut shares: Vec<f64> =
        measured.map(|measured| knee::delivered_share(measured.flow(), offered_per_s).unwrap_or(0.0)).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).map(|share| *share >= WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_closes_in_on_the_knee_and_ends() {
        // All up to 100 000 arrives.
        let whole = |per_s: f64| per_s <= 1e5;
        let mut rates: Vec<(f64, bool)> = LOCAL_PER_S.iter().map(|per_s| (*per_s, whole(*per_s))).collect();
        while let Some(next) = next_rate(rates.clone()) {
            assert!(rates.iter().all(|(per_s, _)| *per_s != next), "{next} is measured once");
            rates.push((next, whole(next)));
        }
        let low = rates.iter().filter(|(_, whole)| *whole).map(|(per_s, _)| *per_s).fold(0.0, f64::max);
        let high = rates.iter().filter(|(_, whole)| !whole).map(|(per_s, _)| *per_s).fold(f64::INFINITY, f64::min);
        assert!(low <= 1e5 && 1e5 < high && high / low <= CLOSE, "{low} to {high}");
        assert!(rates.len() <= MAX_RATES);
    }

    #[test]
    fn where_all_or_none_arrived_there_is_nothing_between() {
        assert_eq!(next_rate(vec![(1e3, true), (4e3, true)]), None);
        assert_eq!(next_rate(vec![(1e3, false), (4e3, false)]), None);
        assert_eq!(next_rate(vec![]), None);
    }

    #[test]
    fn rates_have_three_digits() {
        assert_eq!([1234.5, 0.123_456, 987_654.0].map(round), [1230.0, 0.123, 988_000.0]);
    }
}
