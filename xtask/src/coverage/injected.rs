//! Changes of known size: a delay at each message of a round trip, and a higher rate of one-way loads. `hairpin compare`
//! has to find them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;
use serde_json::Value;

use super::runs::{LIMIT, Row, compared, median, repeat, run_in};
use crate::process;

/// The factor of [`Injection::Rate`], and the minimum share of pairs in which it is found.
const RATE_FACTOR: f64 = 1.15;
const MIN_FOUND_RATE_SHARE: f64 = 0.9;
/// Minimum share of pairs in which an injected delay is found: the smallest detectable delay, and a tenth of the p50.
const MIN_FOUND_SHARE: f64 = 0.8;
const MIN_FOUND_TENTH_SHARE: f64 = 39.0 / 40.0;
const INJECTED_IN: &[&str] = &["round-trip", "--transport", "tcp", "--placement", "same-cpu"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Injection {
    /// The smallest change that can be detected between two runs without a delay.
    SmallestDetectable,
    /// A tenth of the p50, if rounds vary by at most 3 %.
    Tenth,
    /// A rate that is [`RATE_FACTOR`] times as high.
    Rate,
}

pub(super) struct Found {
    injection: Injection,
    /// Pairs whose comparison can detect the injected delay.
    pairs: usize,
    found: usize,
    /// Pairs in different states of the machine.
    unlike: usize,
    /// Pairs without an interval, or with an interval too wide to detect the delay.
    unsure: usize,
    /// Runs without an injected delay, because its size is unknown or the rounds vary too much.
    without_fault: usize,
    shares: Vec<f64>,
}

impl Found {
    fn none(injection: Injection) -> Self {
        Self { injection, pairs: 0, found: 0, unlike: 0, unsure: 0, without_fault: 0, shares: Vec::new() }
    }

    /// Counts a pair whose injected delay is this share of the p50.
    fn count(&mut self, share: f64, row: &Row) {
        if row.verdict == "unlike" {
            self.unlike += 1;
        } else if row.smallest_detectable.is_none_or(|smallest| smallest > share) {
            self.unsure += 1;
        } else {
            self.pairs += 1;
            let expected = if self.injection == Injection::Rate { "faster" } else { "slower" };
            self.found += usize::from(row.verdict == expected);
            self.shares.push(share);
        }
    }

    pub(super) fn holds(&self) -> bool {
        let least = match self.injection {
            Injection::Tenth => MIN_FOUND_TENTH_SHARE,
            Injection::SmallestDetectable => MIN_FOUND_SHARE,
            Injection::Rate => MIN_FOUND_RATE_SHARE,
        };
        self.pairs > 0 && self.found as f64 >= least * self.pairs as f64
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { injection, pairs, found, unlike, unsure, without_fault, shares } = self;
        let share = median(shares.iter().copied()).unwrap_or(0.0);
        let what = match injection {
            Injection::SmallestDetectable => "the smallest detectable delay",
            Injection::Tenth => "a delay of a tenth",
            Injection::Rate => "a higher rate",
        };
        write!(
            out,
            "injected {what} (median +{:.1} %): found in {found} of {pairs} pairs that can detect it; {unsure} pairs \
             cannot detect it, {unlike} pairs are of different states; {without_fault} runs without an injected delay",
            100.0 * share
        )
    }
}

/// Measures runs without a delay, each followed by one run per size of the delay. The sizes are computed from this run
/// and the previous run without a delay.
pub(super) fn measure_injected(hairpin: &Path, scratch: &Path, count: usize, over: &str) -> Result<[Found; 2]> {
    let measure = |name: String, busy_ns: Option<f64>| -> Result<(PathBuf, Value)> {
        let out = scratch.join(name);
        let mut command = Command::new(hairpin);
        command.args(INJECTED_IN).args(["--over", over]);
        if let Some(busy_ns) = busy_ns {
            command.args(["--injected-fault", &format!("busy={busy_ns:.0}ns")]);
        }
        let told = run_in(hairpin, &out, &mut command)?;
        Ok((out, told))
    };
    let mut all = [Injection::SmallestDetectable, Injection::Tenth].map(Found::none);
    let (mut before, _) = measure("injected-without-0".to_owned(), None)?;
    for number in 1..=count {
        let (without, told) = measure(format!("injected-without-{number}"), None)?;
        let case = contract::list(&told, "cases").first().context("no case")?;
        let Some(repeat) = repeat(&told, case, "p50", &case["latency_ns"]["p50"]) else {
            bail!("the run has no p50")
        };
        let rows = compared(hairpin, &before, &without)?;
        let of_p50 = rows.iter().find(|row| row.figure == "p50").with_context(|| "no p50 was compared")?;
        for found in &mut all {
            let share = match found.injection {
                Injection::SmallestDetectable => of_p50.smallest_detectable,
                _ => repeat.deviation.is_some_and(|deviation| deviation <= 0.03).then_some(0.1),
            };
            let Some(share) = share else {
                found.without_fault += 1;
                continue;
            };
            let (with, _) = measure(format!("injected-{:?}-{number}", found.injection), Some(share * repeat.value))?;
            let rows = compared(hairpin, &without, &with)?;
            let of_p50 = rows.iter().find(|row| row.case == of_p50.case && row.figure == "p50");
            found.count(share, of_p50.context("the delayed run has no p50")?);
        }
        before = without;
    }
    Ok(all)
}

/// Compares each run with a copy of the next run in which everything arrived in a shorter time.
pub(super) fn inject_rates(hairpin: &Path, scratch: &Path, count: usize) -> Result<Found> {
    let mut found = Found::none(Injection::Rate);
    for number in 1..=count {
        let [before, after] = [number - 1, number].map(|number| scratch.join(number.to_string()));
        let faster = scratch.join(format!("faster-{number}"));
        process::remove(&faster)?;
        process::run(Command::new("cp").arg("-r").args([&after, &faster]), LIMIT)?.succeeded()?;
        let path = faster.join("rounds.jsonl");
        let rounds = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = rounds.lines().map(|line| Ok(format!("{}\n", with_higher_rate(serde_json::from_str(line)?))));
        let lines: String = lines.collect::<Result<_>>()?;
        std::fs::write(&path, lines).with_context(|| format!("cannot write {}", path.display()))?;
        process::run(Command::new(hairpin).arg("analyse").arg(&faster), LIMIT)?.succeeded()?;
        for row in compared(hairpin, &before, &faster)?
            .iter()
            .filter(|row| ["rate", "goodput"].contains(&row.figure.as_str()))
        {
            found.count(RATE_FACTOR - 1.0, row);
        }
        process::remove(&faster)?;
    }
    Ok(found)
}

/// A saved round in which the flows took less time to receive the same bytes.
fn with_higher_rate(mut round: Value) -> Value {
    for flow in round["outcome"]["flows"].as_array_mut().into_iter().flatten() {
        if let Some(over_ns) = flow["received"]["over_ns"].as_u64() {
            flow["received"]["over_ns"] = ((over_ns as f64 / RATE_FACTOR) as u64).into();
        }
    }
    round
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: &str, smallest_detectable: Option<f64>) -> Row {
        let [case, figure, verdict] = ["tcp", "p50", verdict].map(str::to_owned);
        Row { case, figure, verdict, smallest_detectable }
    }

    #[test]
    fn only_pairs_that_can_show_the_delay_count() {
        let mut found = Found::none(Injection::Tenth);
        for row in [
            row("slower", Some(0.08)),
            row("cannot-tell", Some(0.1)),
            row("cannot-tell", Some(0.11)),
            row("cannot-tell", None),
            row("unlike", None),
        ] {
            found.count(0.1, &row);
        }
        assert_eq!((found.pairs, found.found, found.unsure, found.unlike), (2, 1, 2, 1));
        assert!(!found.holds());
    }

    #[test]
    fn injected_delays_have_to_be_found() {
        let found = |injection, found| Found { pairs: 40, found, ..Found::none(injection) }.holds();
        assert!(found(Injection::SmallestDetectable, 32) && !found(Injection::SmallestDetectable, 31));
        assert!(found(Injection::Tenth, 39) && !found(Injection::Tenth, 38));
        assert!(found(Injection::Rate, 36) && !found(Injection::Rate, 35));
    }

    #[test]
    fn a_round_with_a_higher_rate_took_less_time() {
        let round = serde_json::json!({"outcome": {"flows": [{"received": {"over_ns": 1150, "bytes": 7}}, {}]}});
        let flow = &with_higher_rate(round)["outcome"]["flows"][0];
        assert_eq!((flow["received"]["over_ns"].as_u64(), flow["received"]["bytes"].as_u64()), (Some(1000), Some(7)));
    }
}
