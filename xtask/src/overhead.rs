//! `cargo xtask overhead`: measures the cost of Hairpin's own instrumentation. Limits apply only to figures that do not
//! depend on the load: memory, and the ratio of two minimum costs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::median;
use crate::{process, system};

/// Number of measurements of the recorder's cost, and of starts of `hairpin list`, which alternate.
const STARTS: usize = 20;

/// Maximum cost of a sample, in clock reads: a sample needs two, and its recording may cost as much as two more.
const MAX_CLOCK_READS: f64 = 4.0;

const MAX_MEGABYTES: f64 = 100.0;

pub(crate) fn run(root: &Path) -> Result<bool> {
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let (mut costs, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        costs.push(recorder_cost(&hairpin)?);
        starts.push(start_ms(&hairpin)?);
    }
    let (clock_read_ns, sample_ns) = minima(&costs);
    let scratch = process::scratch("overhead")?;
    let survey =
        system::run(Command::new(&hairpin).arg("--out").arg(&scratch).stdin(Stdio::null()).stdout(Stdio::null()))
            .context("the survey failed")?;
    process::remove(&scratch)?;
    let lines = [
        ("a clock read", clock_read_ns, "ns", None),
        ("a sample, including both clock reads", sample_ns, "ns", None),
        ("a sample, in clock reads", sample_ns / clock_read_ns, "clock reads", Some(MAX_CLOCK_READS)),
        ("hairpin list", median(&starts), "ms", None),
        ("peak memory of the survey", survey.peak_resident_bytes as f64 / 1e6, "MB", Some(MAX_MEGABYTES)),
        ("the survey", survey.wall.as_secs_f64(), "s", None),
    ];
    for (what, value, unit, limit) in lines {
        println!("{}", line(what, value, unit, limit));
    }
    Ok(lines.iter().all(|(_, value, _, limit)| keeps(*value, *limit)))
}

/// Returns the minimum of each cost, since other activity on the machine can only increase the costs.
fn minima(costs: &[(f64, f64)]) -> (f64, f64) {
    costs.iter().fold((f64::INFINITY, f64::INFINITY), |minima, cost| (minima.0.min(cost.0), minima.1.min(cost.1)))
}

fn keeps(value: f64, limit: Option<f64>) -> bool {
    limit.is_none_or(|limit| value <= limit)
}

fn line(what: &str, value: f64, unit: &str, limit: Option<f64>) -> String {
    let beside = match limit {
        Some(limit) if !keeps(value, Some(limit)) => format!("ABOVE the limit of {limit}"),
        Some(limit) => format!("limit {limit}"),
        None => String::new(),
    };
    format!("{what:42} {value:8.1} {unit:12} {beside}").trim_end().to_owned()
}

/// Returns the cost in ns of a clock read and of a recorded sample, as measured by the binary itself.
fn recorder_cost(hairpin: &Path) -> Result<(f64, f64)> {
    let mut command = Command::new(hairpin);
    let ran = process::run(command.arg("__recorder-cost"), Duration::from_mins(1))?.succeeded()?;
    costs(&ran.json().context("hairpin __recorder-cost")?)
}

fn costs(told: &Value) -> Result<(f64, f64)> {
    let number = |name: &str| told[name].as_f64().with_context(|| format!("no `{name}` in {told}"));
    Ok((number("clock_read_ns")?, number("sample_ns")?))
}

fn start_ms(hairpin: &Path) -> Result<f64> {
    let mut command = Command::new(hairpin);
    let ran = process::run(command.arg("list"), Duration::from_secs(30))?.succeeded().context("hairpin list")?;
    Ok(ran.wall.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn costs_are_parsed_and_a_missing_cost_is_named() {
        assert_eq!(costs(&json!({"clock_read_ns": 9.5, "sample_ns": 25})).unwrap(), (9.5, 25.0));
        assert!(costs(&json!({"clock_read_ns": 9.5})).unwrap_err().to_string().starts_with("no `sample_ns`"));
    }

    #[test]
    fn the_minimum_of_each_cost_is_used() {
        assert_eq!(minima(&[(9.0, 30.0), (12.0, 19.0)]), (9.0, 19.0));
    }

    #[test]
    fn an_exceeded_limit_is_printed_and_fails() {
        assert!(!keeps(4.1, Some(4.0)) && keeps(4.0, Some(4.0)) && keeps(4.1, None) && !keeps(f64::NAN, Some(4.0)));
        assert!(line("a", 41.0, "ns", Some(40.0)).ends_with("ABOVE the limit of 40"));
        assert!(line("a", 39.0, "ns", Some(40.0)).ends_with("limit 40"));
        assert!(line("a", 39.0, "ns", None).ends_with("ns"));
    }
}
