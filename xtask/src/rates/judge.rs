//! Checks the bounds, and prints the table of a case.

use std::collections::BTreeMap;

use super::case::{Case, Rule};
use crate::figures::{median, median_interval};

/// Rate of each contestant in one round, by name.
pub(super) type Round = BTreeMap<&'static str, f64>;

/// The ratio of a contestant's rate to the rate of another contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    median: f64,
    /// Interval that contains the median with a probability of at least 95 %.
    interval: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    Broken,
    NotMeasured,
}

const HAIRPIN: &str = "hairpin";
const BARE: &str = "bare loop";

/// Prints the table of a case: each contestant's median rate, and the ratios of Hairpin's and the bare loop's rates to
/// this rate. Returns whether all bounds hold.
pub(super) fn print(case: &Case, rounds: &[Round]) -> bool {
    println!(
        "{:25} {:>10} {:>9} {:>15} {:>9} {:>15}  verdict",
        "contestant", "median", "hairpin/", "interval", "bare/", "interval"
    );
    let mut all_hold = true;
    for contestant in case.contestants {
        let rates: Vec<f64> = rounds.iter().filter_map(|round| round.get(contestant.name)).copied().collect();
        let rule = case.bounds.iter().find(|bound| bound.to == contestant.name).map(|bound| bound.rule);
        let (to_hairpin, to_bare) = (ratio(rounds, HAIRPIN, contestant.name), ratio(rounds, BARE, contestant.name));
        let verdict = rule.map(|rule| (rule, judge(to_hairpin, rule)));
        all_hold &= verdict.is_none_or(|(_, verdict)| verdict == Verdict::Holds);
        println!(
            "{:25} {:>10} {} {}  {}",
            contestant.name,
            if rates.is_empty() { "-".to_owned() } else { format!("{:.3}", median(&rates) / 1e6) },
            columns(to_hairpin, contestant.name == HAIRPIN),
            columns(to_bare, contestant.name == BARE),
            verdict.map(|(rule, verdict)| in_words(rule, verdict)).unwrap_or_default(),
        );
    }
    all_hold
}

/// Returns the ratio of contestant `of` to contestant `to`, over the rounds in which both ran.
fn ratio(rounds: &[Round], of: &str, to: &str) -> Option<Ratio> {
    let ratios: Vec<f64> = rounds.iter().filter_map(|round| Some(round.get(of)? / round.get(to)?)).collect();
    (!ratios.is_empty()).then(|| Ratio { median: median(&ratios), interval: median_interval(&ratios) })
}

fn columns(ratio: Option<Ratio>, is_itself: bool) -> String {
    match ratio {
        Some(Ratio { median, interval }) if !is_itself => {
            format!("{median:9.3} {:>15}", format!("{:.3} - {:.3}", interval.0, interval.1))
        }
        _ => format!("{:>9} {:>15}", "-", "-"),
    }
}

fn judge(ratio: Option<Ratio>, rule: Rule) -> Verdict {
    let Some(Ratio { median, interval }) = ratio else { return Verdict::NotMeasured };
    let holds = match rule {
        Rule::Median(least) => median >= least,
        Rule::LowerAndMedian(lower, least) => interval.0 >= lower && median >= least,
    };
    if holds { Verdict::Holds } else { Verdict::Broken }
}

fn in_words(rule: Rule, verdict: Verdict) -> String {
    let rule = match rule {
        Rule::Median(least) => format!("median at least {least:.2}"),
        Rule::LowerAndMedian(lower, least) => format!("interval from {lower:.2}, median at least {least:.2}"),
    };
    match verdict {
        Verdict::Holds => format!("holds ({rule})"),
        Verdict::Broken => format!("BROKEN (not {rule})"),
        Verdict::NotMeasured => format!("NOT MEASURED ({rule})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(hairpin: &[f64], other: f64) -> Vec<Round> {
        hairpin.iter().map(|&rate| Round::from([(HAIRPIN, rate), ("sockperf", other)])).collect()
    }

    fn verdict(hairpin: &[f64], rule: Rule) -> Verdict {
        judge(ratio(&rounds(hairpin, 100.0), HAIRPIN, "sockperf"), rule)
    }

    #[test]
    fn the_median_is_compared_with_its_limit() {
        assert_eq!(verdict(&[97.1; 9], Rule::Median(0.97)), Verdict::Holds);
        assert_eq!(verdict(&[96.9; 9], Rule::Median(0.97)), Verdict::Broken);
        assert_eq!(verdict(&[999.0; 9], Rule::Median(10.0)), Verdict::Broken);
    }

    #[test]
    fn the_interval_and_the_median_are_compared_with_their_limits() {
        let rule = Rule::LowerAndMedian(0.97, 1.0);
        assert_eq!(verdict(&[101.0; 9], rule), Verdict::Holds);
        assert_eq!(verdict(&[99.0; 9], rule), Verdict::Broken, "the median is below 1");
        // With nine rounds, the interval is from the second smallest to the second largest ratio.
        let one_slow = [50.0, 98.0, 101.0, 101.0, 101.0, 101.0, 101.0, 101.0, 101.0];
        assert_eq!(verdict(&one_slow, rule), Verdict::Holds);
        let two_slow = [50.0, 96.0, 101.0, 101.0, 101.0, 101.0, 101.0, 101.0, 101.0];
        assert_eq!(verdict(&two_slow, rule), Verdict::Broken);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let mut measured = rounds(&[100.0, 50.0, 20.0], 100.0);
        measured[1].insert("sockperf", 50.0);
        measured[2].insert("sockperf", 20.0);
        assert_eq!(ratio(&measured, HAIRPIN, "sockperf").unwrap(), Ratio { median: 1.0, interval: (1.0, 1.0) });
    }

    #[test]
    fn a_contestant_that_did_not_run_is_not_measured() {
        assert_eq!(
            judge(ratio(&rounds(&[100.0; 9], 100.0), HAIRPIN, "iperf3"), Rule::Median(0.97)),
            Verdict::NotMeasured
        );
        assert_eq!(verdict(&[], Rule::Median(0.97)), Verdict::NotMeasured);
        assert_eq!(in_words(Rule::Median(0.97), Verdict::Broken), "BROKEN (not median at least 0.97)");
    }
}
