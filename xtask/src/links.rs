//! `cargo xtask links`: measures from outside how far the link emulator deviates from a link's profile, and compares
//! the deviations with limits. The programs `link-traffic` and, if installed, `ping` generate the traffic.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::median;
use crate::process;

const LIMIT: Duration = Duration::from_mins(2);

/// Duration of the traffic that fills a queue, in s.
const FULL_S: u64 = 5;

struct Programs<'a> {
    hairpin: &'a Path,
    traffic: &'a Path,
}

/// Result of a trial: the command's output, and Hairpin's record of the link.
struct Outcome {
    printed: String,
    link: Value,
}

pub(crate) fn run(root: &Path) -> Result<bool> {
    let [hairpin, traffic] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "link-traffic")])?;
    let programs = Programs { hairpin: &hairpin, traffic: &traffic };
    let mut holds = added_delay(&programs)?;
    for mbit in [1, 10, 100] {
        holds &= rate(&programs, mbit)?;
    }
    holds &= throughput(&programs)?;
    holds &= ping(&programs)?;
    Ok(holds)
}

/// Measures the added delay: 1000 datagrams per second for 10 s, at a delay of 2 ms.
fn added_delay(programs: &Programs<'_>) -> Result<bool> {
    let outcome = programs.traffic("delay=2ms", &["paced", "10000", "1000"])?;
    let figures = outcome.figures()?;
    let added_us = |name: &str| Ok::<f64, anyhow::Error>((number(&figures, name)? - 2e6) / 1e3);
    let late_us = |name: &str| Ok::<f64, anyhow::Error>(number(&outcome.link["lateness_ns"], name)? / 1e3);
    println!("lateness according to the emulator: p50 {:.1} us, p99 {:.1} us", late_us("p50")?, late_us("p99")?);
    let holds = [
        judge("delay added at 1000 packets/s, p50", added_us("delay_p50_ns")?, "us", Bound::AtMost(60.0)),
        judge("delay added at 1000 packets/s, p99", added_us("delay_p99_ns")?, "us", Bound::AtMost(500.0)),
    ];
    Ok(holds.into_iter().all(|holds| holds))
}

/// Measures the rate: packets of 1500 bytes at 1.5 times the rate, through a queue of 120 ms. The queue fills soon, and
/// does not run empty while the sender is not scheduled.
fn rate(programs: &Programs<'_>, mbit: u64) -> Result<bool> {
    let line = format!("up={mbit}mbit up.queue={}packets delay=1ms", mbit * 10);
    let (offered_kbit, seconds) = ((mbit * 1500).to_string(), FULL_S.to_string());
    let figures = programs.traffic(&line, &["flood", &offered_kbit, &seconds])?.figures()?;
    let off = (number(&figures, "bits_per_s")? / (mbit as f64 * 1e6) - 1.0) * 100.0;
    Ok(judge(&format!("rate of {mbit} Mbit/s, off by"), off.abs(), "%", Bound::AtMost(1.0)))
}

/// Measures the throughput of TCP in packets of 1500 bytes, without a rate limit.
fn throughput(programs: &Programs<'_>) -> Result<bool> {
    let outcome = programs.traffic("delay=0ms", &["stream", "5"])?;
    let gbit = number(&outcome.figures()?, "bits_per_s")? / 1e9;
    let packets = number(&outcome.link["packets"], "in")?;
    let cpu_us = number(&outcome.link["relay"], "cpu_ns")? / 1e3 / packets;
    let holds = [
        judge("TCP without a rate limit", gbit, "Gbit/s", Bound::AtLeast(1.0)),
        judge("the relay's CPU time per packet", cpu_us, "us", Bound::AtMost(10.0)),
    ];
    Ok(holds.into_iter().all(|holds| holds))
}

/// Measures the round-trip times of `ping` at a delay of 47 ms.
fn ping(programs: &Programs<'_>) -> Result<bool> {
    if process::run(Command::new("ping").arg("-V"), LIMIT).is_err() {
        println!("ping: skipped, not installed (hint: apt-get install iputils-ping)");
        return Ok(true);
    }
    let outcome = programs.run("delay=23.5ms", None, &["sh", "-c", "ping -n -i 0.05 -c 200 $HAIRPIN_FAR"])?;
    let times_ms = round_trips_ms(&outcome.printed);
    anyhow::ensure!(times_ms.len() > 100, "ping received {} answers of 200: {}", times_ms.len(), outcome.printed);
    Ok(judge("ping at 47 ms, p50 off by", (median(&times_ms) - 47.0).abs(), "ms", Bound::AtMost(0.3)))
}

/// Parses the times in ping's output: `... time=47.1 ms`.
fn round_trips_ms(printed: &str) -> Vec<f64> {
    let time = |line: &str| line.split_once("time=")?.1.split(' ').next()?.parse().ok();
    printed.lines().filter_map(time).collect()
}

impl Programs<'_> {
    /// Runs `link-traffic` with these arguments across the link, and its server at the far end.
    fn traffic(&self, line: &str, words: &[&str]) -> Result<Outcome> {
        let program = self.traffic.to_str().context("a path in UTF-8")?;
        let command: Vec<&str> = [program].into_iter().chain(words.iter().copied()).collect();
        self.run(line, Some(&format!("exec '{program}' far")), &command)
    }

    fn run(&self, line: &str, far: Option<&str>, words: &[&str]) -> Result<Outcome> {
        let mut command = Command::new(self.hairpin);
        // With --json the command's output goes to standard error.
        command.args(["link", "run", "--json", "--quiet", "--seed", "1", "--link", line]);
        command.args(far.into_iter().flat_map(|far| ["--far", far])).arg("--").args(words);
        let ran = process::run(&mut command, LIMIT)?.succeeded().with_context(|| format!("{words:?} at {line}"))?;
        Ok(Outcome { link: ran.json()?["link"].clone(), printed: ran.stderr })
    }
}

impl Outcome {
    fn figures(&self) -> Result<Value> {
        let line = self.printed.lines().find(|line| line.starts_with('{')).context("link-traffic printed no JSON")?;
        Ok(serde_json::from_str(line)?)
    }
}

fn number(of: &Value, name: &str) -> Result<f64> {
    of[name].as_f64().with_context(|| format!("no `{name}` in {of}"))
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

fn judge(what: &str, value: f64, unit: &str, bound: Bound) -> bool {
    let (holds, promise) = match bound {
        Bound::AtMost(most) => (value <= most, format!("at most {most}")),
        Bound::AtLeast(least) => (value >= least, format!("at least {least}")),
    };
    println!("{what:42} {value:8.2} {unit:8} {promise}{}", if holds { "" } else { ": DOES NOT HOLD" });
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_in_pings_output_are_parsed() {
        let printed = "64 bytes from 10.77.0.2: icmp_seq=1 ttl=64 time=47.1 ms\n\
                       64 bytes from 10.77.0.2: icmp_seq=2 ttl=64 time=46 ms\n--- statistics ---\nrtt min/avg = 1/2 ms";
        assert_eq!(round_trips_ms(printed), [47.1, 46.0]);
    }

    #[test]
    fn values_are_compared_with_their_bounds() {
        assert!(judge("a", 1.0, "us", Bound::AtMost(1.0)) && judge("a", 1.0, "us", Bound::AtLeast(1.0)));
        assert!(!judge("a", 1.1, "us", Bound::AtMost(1.0)) && !judge("a", 0.9, "us", Bound::AtLeast(1.0)));
    }
}
