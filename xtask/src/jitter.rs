//! `cargo xtask jitter`: compares Hairpin's release jitter with the latency that cyclictest (rt-tests) reports.
//!
//! Both run on the same CPU, with the same policy and priority, clock, interval and number of periods, and in turns: while one
//! runs, the processes of the other are stopped, as the wake-ups of a machine change within a second. Hairpin sends nothing.
//! Neither holds `/dev/cpu_dma_latency`: cyclictest does by default. The ratio of a pair is that of the two medians; the
//! interval of the median ratio must be within the limits.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::figures::{median, median_interval};
use crate::process::{self, Ran};
use crate::reported::{cpus_used, only_case};

const LIMITS: [f64; 2] = [0.9, 1.1];
/// Number of periods in which each program runs. Hairpin also counts those in which it is stopped, cyclictest does not.
const PERIODS: u64 = 5000;
const PERIOD_US: &str = "1000";
/// Time of a turn: 10 periods, of which the first is late. This program wakes as often as cyclictest's main thread, which lowers
/// the latency of any loop there by 4 to 9 %.
const TURN: Duration = Duration::from_millis(10);
/// Time limit of a pair.
const LIMIT: Duration = Duration::from_secs(60);
/// Scheduling policies: Hairpin's word, and cyclictest's arguments. Hairpin's `fifo` has priority 80. Any `-p` makes cyclictest
/// use SCHED_FIFO.
const POLICIES: &[(&str, &[&str])] = &[("other", &["--policy=other"]), ("fifo", &["--policy=fifo", "-p80"])];

/// Measures and prints the table. Returns whether all intervals are within the limits.
pub(crate) fn run(root: &Path, pairs: usize) -> Result<bool> {
    let [hairpin] = process::build_with(root, "release", [("hairpin", "hairpin")], "")?;
    let scratch = process::scratch("jitter")?;
    let measured = POLICIES.iter().map(|(word, arguments)| {
        let out = |name: &str| scratch.join(format!("{word}-{name}"));
        let of_pair = |cpu: u64, number: usize| {
            let hairpin = hairpin_command(&hairpin, word, 2 * PERIODS, &out(&number.to_string()));
            let mut commands = [hairpin, cyclictest(arguments, cpu)];
            commands.rotate_left(number % 2);
            let mut ran = process::run_in_turns(&mut commands, TURN, LIMIT)?;
            ran.rotate_left(number % 2);
            Ok([of_hairpin(ran.remove(0))?.0, of_cyclictest(ran.remove(0))?])
        };
        // A short run shows Hairpin's CPU.
        let (_, cpu) = of_hairpin(process::run(&mut hairpin_command(&hairpin, word, 1, &out("cpu")), LIMIT)?)?;
        Ok((*word, (0..pairs).map(|number| of_pair(cpu, number)).collect::<Result<Vec<[f64; 2]>>>()?))
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

fn hairpin_command(program: &Path, policy: &str, periods: u64, out: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["periodic", "--devices", "0", "--transport", "unix-stream", "--placement", "cross-cpu"]);
    command.args(["--rounds", "1", "--period", &format!("{PERIOD_US}us"), "--count", &periods.to_string()]);
    // The kernel's default, which cyclictest keeps. Without effect on `fifo`.
    command.args(["--scheduling", policy, "--lock-memory", "--timer-slack", "50us", "--json", "--out"]).arg(out);
    command
}

/// Returns the median release jitter in ns, and the client's CPU.
fn of_hairpin(ran: Ran) -> Result<(f64, u64)> {
    let run = ran.succeeded()?.json()?;
    let jitter = only_case(&run)?["flows"][0]["periodic"]["release_jitter_ns"]["p50"]["value"].as_f64();
    let cpu = cpus_used(&run, "client").first().copied();
    Ok((jitter.context("the case has no release jitter")?, cpu.context("the run names no CPU")?))
}

fn cyclictest(policy: &[&str], cpu: u64) -> Command {
    let mut command = Command::new("cyclictest");
    command.args(["-N", "-v", "-m", "-t1", "-d0", "--default-system", "-i", PERIOD_US]);
    command.args(["-l", &PERIODS.to_string(), "-a", &cpu.to_string()]).args(policy);
    command
}

/// Returns the median of the latencies in ns.
fn of_cyclictest(ran: Ran) -> Result<f64> {
    let latencies = latencies_ns(&ran.succeeded()?.stdout);
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
