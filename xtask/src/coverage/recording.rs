//! Writes one short line of figures per round, for a test that replays them.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The recorded cases: TCP and pipe, each on one CPU and on two.
const TRANSPORTS: &[&str] = &["tcp", "pipe"];
const PLACEMENTS: &[&str] = &["same-cpu", "cross-cpu"];

/// Writes one line for each measured round of `count` runs.
pub(super) fn write(to: &Path, runs: &Path, count: usize) -> Result<()> {
    let mut text = String::from(
        "# Rounds of `hairpin round-trip`, by `cargo xtask coverage --record`. Each line: number of the run; case (tcp on one\n\
         # CPU, on two; pipe on one, on two); ms since the run began; time of the probe of the machine in ns (before\n\
         # and after the round, geometric mean) at the client, at the server; ns for waking the other CPU, or 0; p50 and\n\
         # p99 in ns.\n",
    );
    for run in 0..count {
        let path = runs.join(run.to_string()).join("rounds.jsonl");
        let rounds = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for line in rounds.lines() {
            let round: Value = serde_json::from_str(line).with_context(|| format!("{}: {line}", path.display()))?;
            if let Some(figures) = figures(&round) {
                let _ = writeln!(text, "{run} {figures}");
            }
        }
    }
    if text.lines().all(|line| line.starts_with('#')) {
        bail!("no round of {} is of tcp or pipe", runs.display());
    }
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn figures(round: &Value) -> Option<String> {
    let (case, outcome) = (&round["order"]["case"], &round["outcome"]);
    let place = |names: &[&str], word: &Value| names.iter().position(|name| word == name);
    let case =
        2 * place(TRANSPORTS, &case["flows"][0]["transport"])? + place(PLACEMENTS, &case["ends"]["placement"])?;
    let probe = |end: usize| {
        let probe = &outcome["ends"][end]["probe_ns"];
        Some((probe["before"].as_f64()? * probe["after"].as_f64()?).sqrt())
    };
    let waking = outcome["ends"][0]["waking_ns"].as_f64().unwrap_or(0.0);
    let latency = |name: &str| outcome["flows"][0]["figures"]["latency_ns"][name].as_f64();
    let started_ms = round["started_ns"].as_u64()? / 1_000_000;
    let (client, server) = (probe(0)?, probe(1)?);
    Some(format!(
        "{case} {started_ms} {client:.0} {server:.0} {waking:.0} {:.0} {:.0}",
        latency("p50")?,
        latency("p99")?
    ))
}
