//! Measured runs, one figure of a case in a run, and comparisons of runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hairpin_testing::contract;
use serde_json::Value;

use crate::{figures, process};

pub(super) const LIMIT: Duration = Duration::from_mins(5);

/// Measures into the folder, or analyses an existing run again. Returns the run.
pub(super) fn run_in(hairpin: &Path, out: &Path, measure: &mut Command) -> Result<Value> {
    if out.join("run.json").exists() {
        process::run(Command::new(hairpin).arg("analyse").arg(out), LIMIT)?.succeeded()?;
        return process::run(Command::new(hairpin).args(["report", "--json"]).arg(out), LIMIT)?.json_of(&[5]);
    }
    // Removes the files of an interrupted run, which would block this run.
    process::remove(out)?;
    measure.args(["--keep-samples", "0", "--quiet", "--json", "--out"]).arg(out);
    process::run(measure, LIMIT)?.json_of(&[5])
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    /// Probe time in the state of the machine in which the figures were measured.
    pub(super) probe_ns: f64,
    /// Time to wake another CPU, if messages wake one.
    pub(super) waking_ns: Option<f64>,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// Standard deviation over rounds of the figure's logarithm; `None` if rounds do not list the figure.
    pub(super) deviation: Option<f64>,
}

/// Reads one figure of a case of a run; `None` if it is missing.
pub(super) fn repeat(run: &Value, case: &Value, figure: &str, told: &Value) -> Option<Repeat> {
    let state = case["state"]["index"].as_u64()?;
    let points = contract::list(case, "round_points").iter().filter(|point| point["state"].as_u64() == Some(state));
    let key = match figure {
        "rate" => "rate_per_s",
        "goodput" => "goodput_bytes_per_s",
        "p50" => "p50_ns",
        _ => "p99_ns",
    };
    let logarithms: Vec<f64> = points.filter_map(|point| Some(point[key].as_f64()?.ln())).collect();
    let is_woken = case["case"]["ends"]["placement"] == "cross-cpu" && case["case"]["ends"]["waiting"] != "spin";
    Some(Repeat {
        waking_ns: run["machine"]["waking_ns"].as_f64().filter(|_| is_woken),
        probe_ns: contract::list(&run["machine"], "states").get(state as usize)?["probe_ns"].as_f64()?,
        value: told["value"].as_f64()?,
        interval: told["low"].as_f64().zip(told["high"].as_f64()),
        deviation: deviation(&logarithms),
    })
}

pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| figures::median(&values))
}

pub(super) fn deviation(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// A row of `hairpin compare --json`.
#[derive(serde::Deserialize)]
pub(super) struct Row {
    pub(super) case: String,
    pub(super) figure: String,
    pub(super) verdict: String,
    pub(super) smallest_detectable: Option<f64>,
}

impl Row {
    pub(super) fn is_different(&self) -> bool {
        matches!(self.verdict.as_str(), "faster" | "slower")
    }
}

pub(super) fn compared(hairpin: &Path, before: &Path, after: &Path) -> Result<Vec<Row>> {
    let mut command = Command::new(hairpin);
    command.arg("compare").args([before, after]).args(["--allow-unlike", "--json"]);
    let mut told = process::run(&mut command, LIMIT)?.json_of(&[5])?;
    serde_json::from_value(told["rows"].take()).context("the rows of hairpin compare --json")
}

impl std::fmt::Display for Row {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} of {}", self.figure, self.case)
    }
}
