//! The rules of fidelity. The base is the reference: a bare loop, or another build.

use crate::figures::{median, median_interval, quantile};

/// An interleaved round: the p50 of two runs of the base, and of one run of Hairpin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// First and second run of the base.
    pub(super) base_ns: (f64, f64),
    pub(super) hairpin_ns: f64,
    pub(super) resolution_ns: f64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.hairpin_ns / f64::midpoint(self.base_ns.0, self.base_ns.1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    /// Within this share of the base, or within the resolution of the clock.
    Within(f64),
    /// Within the base's own variation: the central 95 % of the ratios between its two runs.
    WithinSpread,
    /// The ratio's whole interval is below one plus this share.
    Below(f64),
    /// The ratio is not above the base's own variation.
    NotAboveSpread,
    /// At most 5 % above the base, shown to 2 %: the half-width of the interval; its upper bound is at most 1.08.
    Library,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Broken,
    /// The interval of the ratio includes the limit: more rounds are needed.
    Unsure,
}

#[derive(Debug)]
pub(super) struct Judged {
    /// Median over rounds of the base's p50.
    pub(super) base_ns: f64,
    /// Median over rounds of Hairpin's p50.
    pub(super) hairpin_ns: f64,
    pub(super) ratio: f64,
    /// 95 % interval of the median ratio.
    pub(super) interval: (f64, f64),
    /// 2.5 % and 97.5 % quantiles of the ratio between the base's two runs.
    pub(super) base_spread: (f64, f64),
    pub(super) verdict: Verdict,
}

/// Judges the rounds of a case. Without rounds, no rule holds.
pub(super) fn judge(rounds: &[Round], rule: Rule) -> Judged {
    let ratios: Vec<f64> = rounds.iter().map(Round::ratio).collect();
    let base: Vec<f64> = rounds.iter().flat_map(|round| [round.base_ns.0, round.base_ns.1]).collect();
    let hairpin: Vec<f64> = rounds.iter().map(|round| round.hairpin_ns).collect();
    let against_itself: Vec<f64> =
        rounds.iter().map(|round| round.base_ns.0 / round.base_ns.1).flat_map(|ratio| [ratio, 1.0 / ratio]).collect();
    let base_spread = (quantile(&against_itself, 0.025), quantile(&against_itself, 0.975));
    let (ratio, base_ns, interval) = (median(&ratios), median(&base), median_interval(&ratios));
    let resolution_ns = rounds.iter().map(|round| round.resolution_ns).fold(0.0, f64::max);
    let unless = |verdict, holds| if holds { Verdict::Holds } else { verdict };
    let verdict = match rule {
        Rule::Within(share) => unless(Verdict::Broken, (ratio - 1.0).abs() <= share.max(resolution_ns / base_ns)),
        Rule::WithinSpread => unless(Verdict::Broken, (base_spread.0..=base_spread.1).contains(&ratio)),
        Rule::Below(share) if interval.0 < 1.0 + share => unless(Verdict::Unsure, interval.1 < 1.0 + share),
        Rule::Below(_) => Verdict::Broken,
        Rule::NotAboveSpread => unless(Verdict::Broken, ratio <= base_spread.1),
        Rule::Library if ratio <= 1.05 => {
            unless(Verdict::Unsure, interval.1 - interval.0 <= 0.04 && interval.1 <= 1.08)
        }
        Rule::Library => Verdict::Broken,
    };
    Judged { base_ns, hairpin_ns: median(&hairpin), ratio, interval, base_spread, verdict }
}

impl Judged {
    pub(super) fn in_words(&self, rule: Rule) -> String {
        let rule = match rule {
            Rule::Within(share) => format!("within {:.0} %", share * 100.0),
            Rule::WithinSpread => "within the bare loop's own spread".to_owned(),
            Rule::Below(share) => format!("below {:.2}", 1.0 + share),
            Rule::NotAboveSpread => "within the old build's own spread".to_owned(),
            Rule::Library if self.interval.1 < 1.0 => "faster".to_owned(),
            Rule::Library => "at most 5 % slower, to 2 %".to_owned(),
        };
        match self.verdict {
            Verdict::Holds => format!("holds ({rule})"),
            Verdict::Broken => format!("BROKEN (not {rule})"),
            Verdict::Unsure => format!("NOT SHOWN (interval not {rule}; hint: more --rounds)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(base_ns: &[(f64, f64)], hairpin_ns: f64) -> Vec<Round> {
        base_ns.iter().map(|&base_ns| Round { base_ns, hairpin_ns, resolution_ns: 10.0 }).collect()
    }

    fn verdict(base_ns: &[(f64, f64)], hairpin_ns: f64, rule: Rule) -> Verdict {
        judge(&rounds(base_ns, hairpin_ns), rule).verdict
    }

    #[test]
    fn three_percent_is_the_limit_in_both_directions() {
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
    fn differences_below_the_resolution_of_the_clock_do_not_count() {
        let fast = [(120.0, 120.0); 21];
        assert_eq!(verdict(&fast, 130.0, Rule::Within(0.05)), Verdict::Holds);
        assert_eq!(verdict(&fast, 140.0, Rule::Within(0.05)), Verdict::Broken);
    }

    #[test]
    fn the_spread_of_the_bare_loop_limits_both_sides_and_the_spread_of_a_build_only_one() {
        use Verdict::{Broken, Holds};
        let wide: Vec<_> = (0..20).map(|number| (50_000.0 + f64::from(number) * 500.0, 55_000.0)).collect();
        for (hairpin_ns, within, not_above) in [
            (56_000.0, Holds, Holds),
            (70_000.0, Broken, Broken),
            (45_000.0, Broken, Holds),
            (30_000.0, Broken, Holds),
        ] {
            assert_eq!(verdict(&wide, hairpin_ns, Rule::WithinSpread), within, "{hairpin_ns}");
            assert_eq!(verdict(&wide, hairpin_ns, Rule::NotAboveSpread), not_above, "{hairpin_ns}");
        }
    }

    #[test]
    fn one_outlier_does_not_decide() {
        let mut measured = rounds(&[(10_000.0, 10_000.0); 21], 10_100.0);
        measured[3].hairpin_ns = 90_000.0;
        let judged = judge(&measured, Rule::Within(0.03));
        assert_eq!(judged.verdict, Verdict::Holds);
        assert!((judged.ratio - 1.01).abs() < 1e-9 && judged.interval.1 < 1.02);
        assert!(judged.in_words(Rule::Within(0.03)).starts_with("holds (within 3 %)"));
    }

    #[test]
    fn a_build_is_not_slower_if_the_whole_interval_is_below_the_limit() {
        let quiet = [(10_000.0, 10_000.0); 21];
        assert_eq!(verdict(&quiet, 10_199.0, Rule::Below(0.02)), Verdict::Holds);
        assert_eq!(verdict(&quiet, 10_200.0, Rule::Below(0.02)), Verdict::Broken);
        assert_eq!(verdict(&quiet, 5_000.0, Rule::Below(0.02)), Verdict::Holds, "a faster build");
        // The median ratio is 1, but a third of the rounds have a ratio of 1.05: more rounds are needed.
        let mut unsure = rounds(&quiet, 10_000.0);
        unsure.iter_mut().step_by(3).for_each(|round| round.hairpin_ns = 10_500.0);
        let judged = judge(&unsure, Rule::Below(0.02));
        assert_eq!(judged.verdict, Verdict::Unsure);
        assert!(judged.in_words(Rule::Below(0.02)).starts_with("NOT SHOWN (interval not below 1.02"));
    }

    #[test]
    fn a_library_is_at_most_five_percent_slower_within_a_narrow_interval() {
        let quiet = [(10_000.0, 10_000.0); 21];
        assert_eq!(verdict(&quiet, 10_499.0, Rule::Library), Verdict::Holds);
        assert_eq!(verdict(&quiet, 10_501.0, Rule::Library), Verdict::Broken);
        assert_eq!(verdict(&quiet, 5_000.0, Rule::Library), Verdict::Holds);
        assert_eq!(judge(&rounds(&quiet, 5_000.0), Rule::Library).in_words(Rule::Library), "holds (faster)");
        let mut wide = rounds(&quiet, 10_000.0);
        wide.iter_mut().step_by(3).for_each(|round| round.hairpin_ns = 10_500.0);
        assert_eq!(judge(&wide, Rule::Library).verdict, Verdict::Unsure, "half-width 2.5 %");
    }

    #[test]
    fn without_rounds_no_rule_holds() {
        assert_eq!(verdict(&[], 1.0, Rule::Within(0.03)), Verdict::Broken);
        for rule in [Rule::WithinSpread, Rule::Below(0.02), Rule::NotAboveSpread, Rule::Library] {
            assert_eq!(verdict(&[], 1.0, rule), Verdict::Broken);
        }
    }
}
