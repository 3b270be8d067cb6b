//! `cargo xtask jitter`: compares Hairpin's release jitter with the latency that cyclictest (rt-tests) reports.
//!
//! Both run in turn on the same CPU, with the same policy and priority, clock, interval and number of periods. Hairpin
//! sends nothing. Neither holds `/dev/cpu_dma_latency`: cyclictest does by default. The ratio of a pair is that of the
//! two medians; the interval of the median ratio must be within the limits.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;

use crate::figures::{median, median_interval};
use crate::process;

/// Limits of the ratio of medians.
const LIMITS: [f64; 2] = [0.9, 1.1];
const PERIODS: &str = "1000";
const PERIOD_US: &str = "1000";
/// Time limit of one program.
const LIMIT: Duration = Duration::from_secs(60);
/// Scheduling policies: Hairpin's word, and cyclictest's arguments. Hairpin's `fifo` has priority 80.
const POLICIES: &[(&str, &[&str])] = &[("other", &["--policy=other", "-p0"]), ("fifo", &["--policy=fifo", "-p80"])];

/// Measures and prints the table. Returns whether all intervals are within the limits.
pub(crate) fn run(root: &Path, pairs: usize) -> Result<bool> {
    let [hairpin] = process::build_with(root, "release", [("hairpin", "hairpin")], "")?;
    let scratch = process::scratch("jitter")?;
    let measured = POLICIES.iter().map(|(word, arguments)| {
        // The first pair loads the pages of both programs, and shows Hairpin's CPU.
        let (_, cpu) = of_hairpin(&hairpin, word, &scratch)?;
        of_cyclictest(arguments, cpu)?;
        let pair = |number: usize| {
            let cyclictest_first = number.is_multiple_of(2);
            let before = cyclictest_first.then(|| of_cyclictest(arguments, cpu)).transpose()?;
            let (own_ns, _) = of_hairpin(&hairpin, word, &scratch)?;
            let other_ns = before.map_or_else(|| of_cyclictest(arguments, cpu), Ok)?;
            Ok([own_ns, other_ns])
        };
        Ok((*word, (0..pairs).map(pair).collect::<Result<Vec<[f64; 2]>>>()?))
    });
    let measured: Result<Vec<_>> = measured.collect();
    process::remove(&scratch)?;
    println!("{:8} {:>13} {:>13} {:>7}  interval", "policy", "cyclictest us", "hairpin us", "ratio");
    let mut all_hold = true;
    for (policy, pairs) in measured? {
        let column = |place: usize| median(&pairs.iter().map(|pair| pair[place]).collect::<Vec<_>>()) / 1e3;
        let ratios: Vec<f64> = pairs.iter().map(|[own, other]| own / other).collect();
        let (low, high) = median_interval(&ratios);
        let holds = low >= LIMITS[0] && high <= LIMITS[1];
        all_hold &= holds;
        let verdict = if holds { "holds" } else { "outside 0.9 to 1.1" };
        let ratio = median(&ratios);
        println!("{policy:8} {:13.2} {:13.2} {ratio:7.3}  {low:.3} - {high:.3}  {verdict}", column(1), column(0));
    }
    Ok(all_hold)
}

/// Runs Hairpin once. Returns its median release jitter in ns, and the client's CPU.
fn of_hairpin(program: &Path, policy: &str, scratch: &Path) -> Result<(f64, u64)> {
    let mut command = Command::new(program);
    command.args([
        "periodic",
        "--devices",
        "0",
        "--transport",
        "unix-stream",
        "--placement",
        "cross-cpu",
        "--rounds",
        "1",
    ]);
    command.args([
        "--period",
        &format!("{PERIOD_US}us"),
        "--count",
        PERIODS,
        "--scheduling",
        policy,
        "--lock-memory",
    ]);
    command.args(["--timer-slack", TIMER_SLACK, "--json", "--out"]).arg(scratch.join("run"));
    process::remove(&scratch.join("run"))?;
    let run = process::run(&mut command, LIMIT)?.succeeded()?.json()?;
    let cases = contract::list(&run, "cases");
    let [case] = cases else { bail!("{} cases instead of one; skipped: {}", cases.len(), run["skipped"]) };
    let jitter = case["flows"][0]["periodic"]["release_jitter_ns"]["p50"]["value"].as_f64();
    let cpu = run["hosts"][0]["environment"]["cpus_used"][0].as_u64();
    Ok((jitter.context("the case has no release jitter")?, cpu.context("the run names no CPU")?))
}

/// As cyclictest sets it (`PR_SET_TIMERSLACK`). Without effect on `fifo`.
const TIMER_SLACK: &str = "1ns";

/// Runs cyclictest once on this CPU. Returns the median of its latencies in ns.
fn of_cyclictest(policy: &[&str], cpu: u64) -> Result<f64> {
    let mut command = Command::new("cyclictest");
    command.args([
        "-N",
        "-v",
        "-m",
        "-t1",
        "-d0",
        "--default-system",
        "-l",
        PERIODS,
        "-i",
        PERIOD_US,
        "-a",
        &cpu.to_string(),
    ]);
    let output = process::run(command.args(policy), LIMIT)
        .context("cyclictest is in Debian's package rt-tests")?
        .succeeded()?
        .stdout;
    let latencies = latencies_ns(&output);
    if latencies.is_empty() {
        bail!("cyclictest printed no latencies");
    }
    Ok(median(&latencies))
}

/// Returns the latencies of the lines `thread: number: latency`.
fn latencies_ns(output: &str) -> Vec<f64> {
    let latency = |line: &str| {
        let mut parts = line.split(':').map(|part| part.trim().parse::<f64>().ok());
        let (thread, number, latency) = (parts.next()?, parts.next()?, parts.next()?);
        thread.and(number).and(latency).filter(|_| parts.next().is_none())
    };
    output.lines().filter_map(latency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_from_the_lines_of_samples_only() {
        let output =
            "Using 1 cpus.\nThread 0 Interval: 1500\n       0:       0:   42665\n       0:       1:   35266\n";
        assert_eq!(latencies_ns(output), [42_665.0, 35_266.0]);
    }
}
