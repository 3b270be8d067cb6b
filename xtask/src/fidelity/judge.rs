//! The rules of fidelity, on plain numbers.

use crate::figures::{median, median_interval, quantile};

/// One interleaved round: two runs of the bare loop and one of Hairpin, each by its p50.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// The bare loop, first and second.
    pub(super) bare_ns: (f64, f64),
    /// Hairpin.
    pub(super) hairpin_ns: f64,
    /// The least difference that the clock shows.
    pub(super) resolution_ns: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.hairpin_ns / f64::midpoint(self.bare_ns.0, self.bare_ns.1)
    }
}

/// How near Hairpin must be to the bare loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// Within this share of it, or within what the clock can tell apart.
    Within(f64),
    /// Within what the bare loop shows against itself: 95 % of the ratios of its two runs, either way round.
    WithinBareSpread,
}

/// Whether the rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Broken,
}

/// A case judged.
#[derive(Debug)]
pub(super) struct Judged {
    /// Median over rounds of the bare loop's p50.
    pub(super) bare_ns: f64,
    /// Median over rounds of Hairpin's p50.
    pub(super) hairpin_ns: f64,
    /// Median over rounds of the rounds' ratios.
    pub(super) ratio: f64,
    /// Its 95 % interval.
    pub(super) interval: (f64, f64),
    /// 2.5 % and 97.5 % quantile of the bare loop by itself.
    pub(super) bare_spread: (f64, f64),
    /// The verdict.
    pub(super) verdict: Verdict,
}

/// Judges the rounds of a case; no rounds hold no rule.
pub(super) fn judge(rounds: &[Round], rule: Rule) -> Judged {
    let ratios: Vec<f64> = rounds.iter().map(Round::ratio).collect();
    let bare: Vec<f64> = rounds.iter().flat_map(|round| [round.bare_ns.0, round.bare_ns.1]).collect();
    let hairpin: Vec<f64> = rounds.iter().map(|round| round.hairpin_ns).collect();
    let against_itself: Vec<f64> =
        rounds.iter().map(|round| round.bare_ns.0 / round.bare_ns.1).flat_map(|ratio| [ratio, 1.0 / ratio]).collect();
    let bare_spread = (quantile(&against_itself, 0.025), quantile(&against_itself, 0.975));
    let (ratio, bare_ns) = (median(&ratios), median(&bare));
    let resolution_ns = rounds.iter().map(|round| round.resolution_ns).fold(0.0, f64::max);
    let holds = match rule {
        Rule::Within(share) => (ratio - 1.0).abs() <= share.max(resolution_ns / bare_ns),
        Rule::WithinBareSpread => (bare_spread.0..=bare_spread.1).contains(&ratio),
    };
    let verdict = if holds { Verdict::Holds } else { Verdict::Broken };
    Judged { bare_ns, hairpin_ns: median(&hairpin), ratio, interval: median_interval(&ratios), bare_spread, verdict }
}

impl Judged {
    /// The verdict with its rule.
    pub(super) fn in_words(&self, rule: Rule) -> String {
        let rule = match rule {
            Rule::Within(share) => format!("within {:.0} %", share * 100.0),
            Rule::WithinBareSpread => "within the bare loop's own spread".to_owned(),
        };
        match self.verdict {
            Verdict::Holds => format!("holds ({rule})"),
            Verdict::Broken => format!("BROKEN (not {rule})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(bare_ns: &[(f64, f64)], hairpin_ns: f64) -> Vec<Round> {
        bare_ns.iter().map(|&bare_ns| Round { bare_ns, hairpin_ns, resolution_ns: 10.0 }).collect()
    }

    fn verdict(bare_ns: &[(f64, f64)], hairpin_ns: f64, rule: Rule) -> Verdict {
        judge(&rounds(bare_ns, hairpin_ns), rule).verdict
    }

    #[test]
    fn three_percent_is_the_limit_both_ways() {
        let quiet = [(10_000.0, 10_000.0); 21];
        for (hairpin_ns, expected) in [
            (10_299.0, Verdict::Holds),
            (10_301.0, Verdict::Broken),
            (9_701.0, Verdict::Holds),
            (9_699.0, Verdict::Broken),
        ] {
            assert_eq!(verdict(&quiet, hairpin_ns, Rule::Within(0.03)), expected, "{hairpin_ns}");
        }
    }

    #[test]
    fn what_the_clock_cannot_tell_apart_is_no_difference() {
        let fast = [(120.0, 120.0); 21];
        assert_eq!(verdict(&fast, 130.0, Rule::Within(0.05)), Verdict::Holds);
        assert_eq!(verdict(&fast, 140.0, Rule::Within(0.05)), Verdict::Broken);
    }

    #[test]
    fn the_bare_loop_s_own_spread_is_the_limit_where_it_is_wide() {
        let wide: Vec<_> = (0..20).map(|number| (50_000.0 + f64::from(number) * 500.0, 55_000.0)).collect();
        assert_eq!(verdict(&wide, 56_000.0, Rule::WithinBareSpread), Verdict::Holds);
        assert_eq!(verdict(&wide, 70_000.0, Rule::WithinBareSpread), Verdict::Broken);
        assert_eq!(verdict(&wide, 45_000.0, Rule::WithinBareSpread), Verdict::Broken);
    }

    #[test]
    fn one_round_gone_wrong_does_not_decide() {
        let mut measured = rounds(&[(10_000.0, 10_000.0); 21], 10_100.0);
        measured[3].hairpin_ns = 90_000.0;
        let judged = judge(&measured, Rule::Within(0.03));
        assert_eq!(judged.verdict, Verdict::Holds);
        assert!((judged.ratio - 1.01).abs() < 1e-9 && judged.interval.1 < 1.02);
        assert!(judged.in_words(Rule::Within(0.03)).starts_with("holds (within 3 %)"));
    }

    #[test]
    fn nothing_measured_holds_nothing() {
        assert_eq!(verdict(&[], 1.0, Rule::Within(0.03)), Verdict::Broken);
        assert_eq!(verdict(&[], 1.0, Rule::WithinBareSpread), Verdict::Broken);
    }
}
