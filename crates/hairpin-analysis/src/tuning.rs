//! `hairpin tune`: which changes the causes of an explanation suggest, what they should save, and what runs show.

use hairpin_model::explanation::evidence;
use hairpin_model::options::OptionName;
use hairpin_model::tuning::{Change, TuneMetric, TuneVerdict};
use hairpin_model::{Cause, ExplainedCause, ExplainedConnection, Explanation, Figure, Options, RangeNs};

use crate::statistics::distribution::student_quantile;
use crate::statistics::location::{mean, standard_deviation};

/// A receive buffer for 1 Gbit/s over 30 ms.
const LARGE_BUFFER_BYTES: u64 = 4 << 20;
/// Unsent bytes above which a program that writes less gains nothing.
const LOW_WATER: &str = "16384";

/// What is predicted from one run may differ by this share in the next ones.
const MARGIN: f64 = 0.1;

/// A change to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    pub change: Change,
    /// `None` if the user asks for it.
    pub because: Option<Cause>,
    /// What it saves, in the metric's unit.
    pub predicted: Option<RangeNs>,
}

/// Returns the changes that the causes suggest, and the causes for which there is none. `other_congestion_control` is one that
/// programs may use instead of the default, `max_rcvbuf_bytes` the largest receive buffer that they may set.
pub fn suggestions(
    explanation: &Explanation,
    metric: TuneMetric,
    other_congestion_control: Option<&str>,
    max_rcvbuf_bytes: u64,
) -> (Vec<Suggestion>, Vec<Cause>) {
    let (mut found, mut without): (Vec<Suggestion>, Vec<Cause>) = (Vec::new(), Vec::new());
    for cause in &explanation.causes {
        let option = |name: OptionName, value: &str| Some(Change::Options(Options::default().with(name, value)));
        let sysctl = |name: &str, value: &str| Some(Change::Sysctl(name.to_owned(), value.to_owned()));
        let change = match cause.code {
            Cause::NagleMeetsDelayedAck | Cause::NagleWaits => option(OptionName::Nodelay, "on"),
            Cause::ReceiveWindow => option(OptionName::Rcvbuf, &LARGE_BUFFER_BYTES.min(max_rcvbuf_bytes).to_string()),
            Cause::OwnSendQueue => option(OptionName::NotsentLowat, LOW_WATER),
            Cause::CongestionWindow | Cause::Retransmission | Cause::LinkSaturated => {
                other_congestion_control.and_then(|name| option(OptionName::Congestion, name))
            }
            Cause::SlowStartAfterIdle => sysctl("net.ipv4.tcp_slow_start_after_idle", "0"),
            Cause::RetransmissionTimeOut => sysctl("net.ipv4.tcp_rto_min_us", "20000"),
            _ => None,
        };
        match change {
            Some(change) if found.iter().all(|one| one.change != change) => {
                let predicted = predicted(cause, explanation, metric);
                found.push(Suggestion { change, because: Some(cause.code), predicted });
            }
            Some(_) => {}
            None if !without.contains(&cause.code) => without.push(cause.code),
            None => {}
        }
    }
    (found, without)
}

/// What the end of a cause saves: the time of its waits, over all exchanges. Only rules that end the wait have a prediction: a
/// larger window or another congestion control shortens it by an unknown part.
fn predicted(cause: &ExplainedCause, explanation: &Explanation, metric: TuneMetric) -> Option<RangeNs> {
    let ends_it = [Cause::NagleMeetsDelayedAck, Cause::NagleWaits, Cause::ReceiveWindow, Cause::SlowStartAfterIdle];
    let is_compared = metric != TuneMetric::Exchange || is_of_busiest(explanation, &cause.place);
    let saved = cause.saved_if_fixed_ns.filter(|_| is_compared && ends_it.contains(&cause.code))?;
    let number = |name: &str| cause.evidence.iter().find(|fact| fact.name == name)?.value.number();
    let (affected, all) = (number(evidence::AFFECTED)?, number(evidence::EXCHANGES)?);
    let factor = match metric {
        TuneMetric::Exchange => affected / all.max(1.0),
        // Exchanges of several connections may be in progress at once.
        TuneMetric::Time if explanation.packets.connections <= 1 => affected,
        TuneMetric::Time | TuneMetric::Output => return None,
    };
    Some(RangeNs { low: saved.low * factor * (1.0 - MARGIN), high: saved.high * factor * (1.0 + MARGIN) })
}

/// Whether a server is the one that takes most time, whose exchanges are compared, or one that this one calls.
fn is_of_busiest(explanation: &Explanation, place: &str) -> bool {
    let Some(busiest) = explanation.connections.first() else { return true };
    let program = |end: &str| end.split_once(" (").map(|(program, _)| program.to_owned());
    let server = program(&busiest.ends[1]);
    let calls = |other: &ExplainedConnection| {
        other.ends[1].contains(place) && server.is_some() && program(&other.ends[0]) == server
    };
    busiest.ends[1].contains(place) || explanation.connections.iter().any(calls)
}

/// Returns what a change saved: the mean of `before - after` over rounds, with Student's interval of the differences, at the
/// level `1 - alpha`. `None` with fewer than two rounds.
pub fn saved(before: &[f64], after: &[f64], alpha: f64) -> Option<Figure> {
    let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| before - after).collect();
    figure(&differences, alpha)
}

pub fn figure(values: &[f64], alpha: f64) -> Option<Figure> {
    let degrees = u32::try_from(values.len().checked_sub(1)?).ok().filter(|degrees| *degrees > 0)?;
    let (value, deviation) = (mean(values)?, standard_deviation(values)?);
    let half = student_quantile(1.0 - alpha / 2.0, degrees) * deviation / (values.len() as f64).sqrt();
    Some(Figure::new(value, value - half, value + half))
}

/// Returns what a change did, by what it saved.
pub fn verdict(saved: Option<Figure>) -> TuneVerdict {
    match saved {
        Some(Figure { low: Some(low), .. }) if low > 0.0 => TuneVerdict::Helps,
        Some(Figure { high: Some(high), .. }) if high < 0.0 => TuneVerdict::Hurts,
        Some(_) => TuneVerdict::NoEffect,
        None => TuneVerdict::NotMade,
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{CauseText, ExplainedPackets, Fact, Tier};

    use super::*;

    fn explanation(code: Cause) -> Explanation {
        let cause = ExplainedCause {
            code,
            place: "10.0.0.2:80".to_owned(),
            share: Some(0.9),
            saved_if_fixed_ns: Some(RangeNs { low: 40e6, high: 44e6 }),
            evidence: vec![Fact::number(evidence::AFFECTED, 30.0), Fact::number(evidence::EXCHANGES, 40.0)],
            text: CauseText::default(),
        };
        Explanation {
            tier: Tier::Packets,
            subject: String::new(),
            packets: ExplainedPackets { connections: 1, ..ExplainedPackets::default() },
            programs: None,
            seen: Vec::new(),
            not_seen: Vec::new(),
            causes: vec![cause],
            connections: Vec::new(),
            exit_code: None,
        }
    }

    #[test]
    fn a_cause_suggests_its_change_and_what_it_saves_in_the_unit_of_the_metric() {
        let of = |metric| suggestions(&explanation(Cause::NagleMeetsDelayedAck), metric, None, 0).0;
        let per_exchange = of(TuneMetric::Exchange);
        assert_eq!(per_exchange[0].change.to_string(), "nodelay=on");
        let is_near = |found: Option<RangeNs>, low: f64, high: f64| {
            found.is_some_and(|range| (range.low / low - 1.0).abs() < 1e-9 && (range.high / high - 1.0).abs() < 1e-9)
        };
        // 30 of 40 exchanges wait 40 to 44 ms; with the margin of a tenth.
        assert!(is_near(per_exchange[0].predicted, 27e6, 36.3e6));
        assert!(is_near(of(TuneMetric::Time)[0].predicted, 1.08e9, 1.452e9));
        assert_eq!(of(TuneMetric::Output)[0].predicted, None);
        let (none, without) = suggestions(&explanation(Cause::ServerWork), TuneMetric::Time, Some("cubic"), 0);
        assert_eq!((none.len(), without), (0, vec![Cause::ServerWork]));
        let (window, _) = suggestions(&explanation(Cause::CongestionWindow), TuneMetric::Time, Some("bbr"), 0);
        assert_eq!((window[0].change.to_string().as_str(), window[0].predicted), ("congestion=bbr", None));
    }

    #[test]
    fn the_interval_of_paired_differences_decides() {
        // The differences 9, 10, 11, 10: mean 10, deviation sqrt(2/3), t(0.975, 3) = 3.182.
        let found = saved(&[19.0, 20.0, 21.0, 20.0], &[10.0; 4], 0.05).unwrap();
        let half = 3.182_446 * (2.0_f64 / 3.0).sqrt() / 2.0;
        assert!((found.value - 10.0).abs() < 1e-9 && (found.low.unwrap() - (10.0 - half)).abs() < 1e-4, "{found:?}");
        assert_eq!(verdict(Some(found)), TuneVerdict::Helps);
        assert_eq!(verdict(saved(&[10.0, 12.0], &[12.0, 10.0], 0.05)), TuneVerdict::NoEffect);
        assert_eq!(verdict(saved(&[1.0, 1.1, 1.0], &[5.0, 5.0, 5.1], 0.05)), TuneVerdict::Hurts);
        assert_eq!(verdict(saved(&[1.0], &[2.0], 0.05)), TuneVerdict::NotMade);
    }
}
