//! Writes one short line of figures per round, for a test that replays them.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// The recorded cases: a transport with a long path and one with a short path, on one CPU and on two.
const TRANSPORTS: &[&str] = &["tcp", "pipe"];
const PLACEMENTS: &[&str] = &["same-cpu", "cross-cpu"];

/// Writes a line per measured round of `count` runs.
pub(super) fn write(to: &Path, runs: &Path, count: usize) -> Result<()> {
    let mut text = String::from(
        "# Rounds of `hairpin round-trip`, by `cargo xtask coverage --record`. Each line: number of the run; case (tcp on one\n\
         # CPU, on two; pipe on one, on two); ms since the run began; probe of the client, of the server; ns for waking\n\
         # the other CPU, or 0; p50 and p99 in ns.\n",
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
    std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn figures(round: &Value) -> Option<String> {
    let (case, outcome) = (&round["order"]["case"], &round["outcome"]);
    let place = |names: &[&str], word: &Value| names.iter().position(|name| word == name);
    let case = 2 * place(TRANSPORTS, &case["transport"])? + place(PLACEMENTS, &case["placement"])?;
    let probe = |end: &str| {
        let probe = &outcome[end]["probe_ns"];
        Some((probe["before"].as_f64()? * probe["after"].as_f64()?).sqrt())
    };
    let waking = outcome["ends"][0]["waking_ns"].as_f64().unwrap_or(0.0);
    let latency = |name: &str| outcome["flows"][0]["figures"]["latency_ns"][name].as_f64();
    let started_ms = round["started_ns"].as_u64()? / 1_000_000;
    let (client, server) = (probe("client")?, probe("echo")?);
    Some(format!(
        "{case} {started_ms} {client:.0} {server:.0} {waking:.0} {:.0} {:.0}",
        latency("p50")?,
        latency("p99")?
    ))
}
