//! `cargo xtask calibration`: does Hairpin call the same the same, and the slower slower?
//!
//! A/A: the same case twice in one run, many times; at most 8 % may be called different where 5 % are by definition.
//! Planted: the echo half of the second is kept busy for a tenth of the measured round trip; it must be called slower.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::contract;
use crate::process;

/// No run takes this long.
const LIMIT: Duration = Duration::from_mins(2);

/// The planted part of the round trip.
const PLANTED_SHARE: f64 = 0.1;

/// Verdicts counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    faster: usize,
    slower: usize,
    cannot_tell: usize,
}

impl Counts {
    fn add(&mut self, verdict: &str) -> Result<()> {
        match verdict {
            "faster" => self.faster += 1,
            "slower" => self.slower += 1,
            "cannot-tell" => self.cannot_tell += 1,
            other => bail!("unknown verdict `{other}`"),
        }
        Ok(())
    }

    fn pairs(self) -> usize {
        self.faster + self.slower + self.cannot_tell
    }
}

/// Measures and prints both counts; answers whether both are within their limits.
///
/// # Errors
/// Where the binary cannot be built or run, or tells no comparison.
pub(crate) fn run(root: &Path, pairs: usize, planted: usize) -> Result<bool> {
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let scratch = process::scratch("calibration")?;
    let mut same = Counts::default();
    let mut p50_ns = 0.0;
    for number in 0..pairs {
        let told = pair(&hairpin, &scratch, number, None)?;
        same.add(verdict(&told)?)?;
        p50_ns = contract::list(&told, "cases")[0]["latency_ns"]["p50"]["value"].as_f64().unwrap_or(p50_ns);
        if (number + 1) % 20 == 0 {
            println!("{} of {pairs} A/A pairs: {same:?}", number + 1);
        }
    }
    let busy_ns = (p50_ns * PLANTED_SHARE).round();
    let mut slowed = Counts::default();
    for number in 0..planted {
        slowed.add(verdict(&pair(&hairpin, &scratch, number, Some(busy_ns))?)?)?;
    }
    process::remove(&scratch)?;
    println!("A/A: {} of {} called different (limit {})", same.faster + same.slower, pairs, most_different(pairs));
    println!(
        "planted {busy_ns} ns on {p50_ns:.0} ns: {} of {planted} called slower (at least {}), {} faster",
        slowed.slower,
        least_slower(planted),
        slowed.faster
    );
    Ok(holds(same, slowed))
}

/// 16 of 200.
fn most_different(pairs: usize) -> usize {
    pairs * 8 / 100
}

/// 18 of 20.
fn least_slower(planted: usize) -> usize {
    (planted * 9).div_ceil(10)
}

fn holds(same: Counts, slowed: Counts) -> bool {
    same.faster + same.slower <= most_different(same.pairs())
        && slowed.slower >= least_slower(slowed.pairs())
        && same.pairs() > 0
        && slowed.pairs() > 0
}

/// One run of a case and its twin, the twin's echo half kept busy where that is asked.
fn pair(hairpin: &Path, scratch: &Path, number: usize, busy_ns: Option<f64>) -> Result<Value> {
    let out: PathBuf = scratch.join("run");
    process::remove(&out)?;
    let mut command = Command::new(hairpin);
    command.args(["round-trip", "--transport", "tcp", "--placement", "together", "--twin"]);
    // A seed of its own for each pair: with one seed all would be measured in the same order.
    command.args(["--rounds", "10", "--count", "300", "--json", "--seed", &number.to_string()]);
    if let Some(busy_ns) = busy_ns {
        command.args(["--plant-twin", &format!("busy={busy_ns}ns")]);
    }
    process::run(command.arg("--out").arg(out), LIMIT)?.succeeded().context("hairpin")?.json()
}

/// The verdict of the only comparison of a case with itself.
fn verdict(run: &Value) -> Result<&str> {
    let mut pairs = contract::list(run, "comparisons").iter().filter(|comparison| comparison["role"] == "a-a");
    match (pairs.next(), pairs.next()) {
        (Some(pair), None) => pair["verdict"].as_str().context("an A/A comparison has no verdict"),
        (None, _) => bail!("no A/A comparison in the run"),
        (Some(_), Some(_)) => bail!("more than one A/A comparison in the run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::tests::{example, with};
    use serde_json::json;

    fn counts(faster: usize, slower: usize, cannot_tell: usize) -> Counts {
        Counts { faster, slower, cannot_tell }
    }

    #[test]
    fn sixteen_of_two_hundred_and_eighteen_of_twenty_are_the_limits() {
        assert!(holds(counts(8, 8, 184), counts(0, 18, 2)));
        assert!(!holds(counts(8, 9, 183), counts(0, 18, 2)));
        assert!(!holds(counts(8, 8, 184), counts(0, 17, 3)));
        assert!(!holds(counts(0, 0, 0), counts(0, 20, 0)));
        assert!(!holds(counts(0, 0, 200), counts(0, 0, 0)));
    }

    #[test]
    fn the_verdict_of_the_pair_is_read() {
        assert_eq!(verdict(&example()).unwrap(), "cannot-tell");
        assert!(verdict(&with("/comparisons", json!([]))).is_err());
        assert!(verdict(&with("/comparisons/0/verdict", json!(null))).is_err());
        let twice = json!([{"role": "a-a", "verdict": "faster"}, {"role": "a-a", "verdict": "slower"}]);
        assert!(verdict(&with("/comparisons", twice)).is_err());
        assert!(Counts::default().add("equal").is_err());
    }
}
