//! `cargo xtask overhead`: what the instrument itself costs, beside its promises. It prints and judges nothing:
//! these are durations of one machine in one hour.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::median;
use crate::{process, system};

/// Times that `hairpin list` is started.
const STARTS: usize = 20;

/// Measures and prints.
///
/// # Errors
/// Where the binary cannot be built or run.
pub(crate) fn run(root: &Path) -> Result<()> {
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let (clock_read_ns, sample_ns) = recorder_cost(&hairpin)?;
    print("a clock read", clock_read_ns, "ns", None);
    print("the recorder, both clock reads included", sample_ns, "ns a sample", Some(40.0));
    let starts: Vec<f64> = (0..STARTS).map(|_| start_ms(&hairpin)).collect::<Result<_>>()?;
    print("hairpin list", median(&starts), "ms", Some(30.0));
    let scratch = process::scratch("overhead")?;
    let survey =
        system::run(Command::new(&hairpin).arg("--out").arg(&scratch).stdin(Stdio::null()).stdout(Stdio::null()))
            .context("the survey")?;
    process::remove(&scratch)?;
    print("peak memory of the survey", survey.peak_resident_bytes as f64 / 1e6, "MB", Some(100.0));
    print("the survey", survey.wall.as_secs_f64(), "s", Some(25.0));
    Ok(())
}

fn print(what: &str, value: f64, unit: &str, limit: Option<f64>) {
    println!("{}", line(what, value, unit, limit));
}

fn line(what: &str, value: f64, unit: &str, limit: Option<f64>) -> String {
    let beside = match limit {
        Some(limit) if value > limit => format!("OVER its limit of {limit}"),
        Some(limit) => format!("limit {limit}"),
        None => String::new(),
    };
    format!("{what:42} {value:8.1} {unit:12} {beside}").trim_end().to_owned()
}

/// Cost of a clock read and of a recorded sample, in ns, as the binary's own recorder measures them.
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
    fn costs_are_read_and_a_missing_one_is_named() {
        assert_eq!(costs(&json!({"clock_read_ns": 9.5, "sample_ns": 25})).unwrap(), (9.5, 25.0));
        assert!(costs(&json!({"clock_read_ns": 9.5})).unwrap_err().to_string().starts_with("no `sample_ns`"));
    }

    #[test]
    fn a_limit_that_is_passed_is_said() {
        assert!(line("a", 41.0, "ns", Some(40.0)).ends_with("OVER its limit of 40"));
        assert!(line("a", 39.0, "ns", Some(40.0)).ends_with("limit 40"));
        assert!(line("a", 39.0, "ns", None).ends_with("ns"));
    }
}
