//! `cargo xtask observer`: compares what two clock reads per message cost in Hairpin's loop with what they cost in a bare
//! loop, as the ratio of the rates with and without them.
//!
//! In each round both loops run without and with the clock reads, in alternating order, between the same two CPUs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hairpin_testing::contract;
use serde_json::Value;

use crate::figures::{median, median_interval};
use crate::{cpus, process};

const TRANSPORTS: [&str; 3] = ["tcp", "udp", "unix-stream"];
/// Measured time and warm-up of each loop, in ms.
const MEASURED_MS: u64 = 500;
const WARM_UP_MS: u64 = 100;
const LIMIT: Duration = Duration::from_mins(1);

/// Measures and prints a line for each transport. Returns whether the intervals of both loops overlap.
pub(crate) fn run(root: &Path, rounds: usize) -> Result<bool> {
    let [hairpin, bare_loop] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "bare-loop")])?;
    let scratch = process::scratch("observer")?;
    println!("rate with two clock reads / rate without, {rounds} rounds; intervals contain the median at 95 %");
    let mut all_agree = true;
    for transport in TRANSPORTS {
        let (mut own, mut bare) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            own.push(hairpin_ratio(&hairpin, transport, &scratch.join(format!("{transport}-{round}")))?);
            let mut rates = [0.0; 2];
            for turn in 0..2 {
                let clock = (round + turn) % 2;
                rates[clock] = bare_rate(&bare_loop, transport, ["off", "on"][clock])?;
            }
            bare.push(rates[1] / rates[0]);
        }
        let (line, agree) = compared(transport, &own, &bare);
        println!("{line}");
        all_agree &= agree;
    }
    process::remove(&scratch)?;
    Ok(all_agree)
}

fn hairpin_ratio(hairpin: &Path, transport: &str, out: &Path) -> Result<f64> {
    let mut command = Command::new(hairpin);
    command.args(["observer", "--transport", transport, "--observer", "clock", "--rounds", "1", "--json", "--out"]);
    command.arg(out).args(["--duration", &format!("{MEASURED_MS}ms"), "--warmup", &format!("{WARM_UP_MS}ms")]);
    ratio_of(&process::run(&mut command, LIMIT)?.succeeded()?.json()?)
}

fn ratio_of(run: &Value) -> Result<f64> {
    let costs = contract::list(run, "cases").iter().flat_map(|case| contract::list(case, "observer"));
    let clock =
        costs.filter(|cost| cost["observer"] == "clock").find_map(|cost| cost["rate_against_none"]["value"].as_f64());
    clock.context("the run has no cost of the observer `clock`")
}

fn bare_rate(bare_loop: &Path, transport: &str, clock: &str) -> Result<f64> {
    let (sender, receiver) = cpus::first_two()?;
    let mut command = Command::new(bare_loop);
    command.args(["rates", "--transport", transport, "--clock", clock, "--cpus", &format!("{sender},{receiver}")]);
    command.args(["--duration-ms", &MEASURED_MS.to_string(), "--warmup-ms", &WARM_UP_MS.to_string()]);
    let told = process::run(&mut command, LIMIT)?.succeeded()?.json()?;
    told["received_per_s"].as_f64().context("the bare loop printed no received_per_s")
}

/// Returns a line with both ratios, and whether their intervals overlap.
fn compared(transport: &str, own: &[f64], bare: &[f64]) -> (String, bool) {
    let [(own_low, own_high), (bare_low, bare_high)] = [own, bare].map(median_interval);
    let agree = own_low <= bare_high && bare_low <= own_high;
    let line = format!(
        "{transport:12} hairpin {:.3} ({own_low:.3}-{own_high:.3})  bare loop {:.3} ({bare_low:.3}-{bare_high:.3})  {}",
        median(own),
        median(bare),
        if agree { "agree" } else { "DIFFER" },
    );
    (line, agree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cost_of_the_clock_is_found() {
        let cost = |observer: &str, value: f64| json!({"observer": [{"observer": observer, "rate_against_none": {"value": value}}]});
        let run = json!({"cases": [{}, cost("none", 1.0), cost("clock", 0.9)]});
        assert_eq!(ratio_of(&run).unwrap(), 0.9);
        assert!(ratio_of(&json!({"cases": [{}]})).is_err());
    }

    #[test]
    fn intervals_that_do_not_overlap_differ() {
        assert!(compared("tcp", &[0.9, 0.92], &[0.91, 0.95]).1);
        let (line, agree) = compared("tcp", &[0.9, 0.91], &[0.95, 0.97]);
        assert!(!agree && line.ends_with("bare loop 0.960 (0.950-0.970)  DIFFER"), "{line}");
    }
}
