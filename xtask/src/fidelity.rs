//! `cargo xtask fidelity`: Hairpin's figures beside those of a bare loop, in one interleaved run.
//!
//! Every round of a case measures the bare loop, Hairpin, and the bare loop again, in an order that turns from round
//! to round, each with fresh processes. The ratio of a round is Hairpin's p50 by the mean of the bare loop's two; what
//! is judged is the median of these ratios. The bare loop against itself shows what the machine alone can do.

mod judge;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::contract;
use crate::process;
use judge::{Round, Rule, Verdict};

/// A case, in the words of the command line.
#[derive(Clone, Copy)]
struct Combination {
    transport: &'static str,
    waiting: &'static str,
    placement: &'static str,
}

const TRANSPORTS: &[&str] = &["tcp", "udp", "unix-stream", "pipe", "shm"];

/// Spinning together is refused by both: each end would wait for its time slice, not for a message.
const WAYS: &[(&str, &str)] = &[("block", "together"), ("block", "apart"), ("spin", "apart")];

/// Messages of a round: a fraction of a second each, so that the rounds of a case are neighbours in time.
const COUNT: u64 = 4_000;
const COUNT_OF_SPINNING_SHM: u64 = 200_000;
const WARM_UP: u64 = 500;

/// No round takes this long.
const LIMIT: Duration = Duration::from_mins(2);

impl Combination {
    fn all(only: &[String]) -> Result<Vec<Self>> {
        if let Some(unknown) = only.iter().find(|name| !TRANSPORTS.contains(&name.as_str())) {
            bail!("unknown transport `{unknown}` (hint: one of {})", TRANSPORTS.join(", "));
        }
        let wanted = TRANSPORTS.iter().filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == *name));
        let combine = |transport: &'static str| {
            WAYS.iter().map(move |&(waiting, placement)| Self { transport, waiting, placement })
        };
        Ok(wanted.flat_map(|transport| combine(transport)).collect())
    }

    fn count(self) -> u64 {
        if (self.transport, self.waiting) == ("shm", "spin") { COUNT_OF_SPINNING_SHM } else { COUNT }
    }

    fn rule(self) -> Rule {
        match (self.transport, self.waiting, self.placement) {
            (_, "block", "apart") => Rule::WithinBareSpread,
            ("shm", "spin", _) => Rule::Within(0.05),
            _ => Rule::Within(0.03),
        }
    }
}

/// What measures.
struct Programs {
    hairpin: PathBuf,
    bare_loop: PathBuf,
    scratch: PathBuf,
}

/// Measures and prints the table; answers whether every rule holds.
///
/// # Errors
/// Where something cannot be built or run.
pub(crate) fn run(root: &Path, rounds: usize, only: &[String]) -> Result<bool> {
    let combinations = Combination::all(only)?;
    let [hairpin, bare_loop] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "bare-loop")])?;
    let programs = Programs { hairpin, bare_loop, scratch: process::scratch("fidelity")? };
    let mut measured = Vec::new();
    for combination in &combinations {
        let Combination { transport, waiting, placement } = combination;
        println!("{transport} {waiting} {placement}: {rounds} rounds");
        measured.push(
            rounds_of(&programs, *combination, rounds)
                .with_context(|| format!("{transport} {waiting} {placement}"))?,
        );
    }
    process::remove(&programs.scratch)?;
    Ok(print_table(&combinations, &measured))
}

fn rounds_of(programs: &Programs, combination: Combination, rounds: usize) -> Result<Vec<Round>> {
    // Not one of the rounds: it tells the CPUs, and brings the programs' pages into memory.
    let cpus = cpus(&run_hairpin(programs, combination)?, combination.placement)?;
    (0..rounds).map(|number| measure(programs, combination, &cpus, number)).collect()
}

fn print_table(combinations: &[Combination], measured: &[Vec<Round>]) -> bool {
    println!(
        "{:12} {:6} {:9} {:>11} {:>11} {:>7} {:>16} {:>16}  verdict",
        "transport", "wait", "placement", "bare p50 us", "hairpin us", "ratio", "its interval", "bare A/A spread"
    );
    let mut all_hold = true;
    for (combination, rounds) in combinations.iter().zip(measured) {
        let rule = combination.rule();
        let Combination { transport, waiting, placement } = combination;
        let told = judge::judge(rounds, rule);
        all_hold &= told.verdict == Verdict::Holds;
        println!(
            "{transport:12} {waiting:6} {placement:9} {:11.3} {:11.3} {:7.4} {:>16} {:>16}  {}",
            told.bare_ns / 1000.0,
            told.hairpin_ns / 1000.0,
            told.ratio,
            format!("{:.4} - {:.4}", told.interval.0, told.interval.1),
            format!("{:.4} - {:.4}", told.bare_spread.0, told.bare_spread.1),
            told.in_words(rule),
        );
    }
    all_hold
}

/// One round of a case: the bare loop twice and Hairpin once, first, second or third in turn.
fn measure(programs: &Programs, combination: Combination, cpus: &str, number: usize) -> Result<Round> {
    let mut bare = Vec::new();
    let mut hairpin_ns = 0.0;
    for turn in 0..3 {
        if turn == number % 3 {
            hairpin_ns = p50_ns(&run_hairpin(programs, combination)?)?;
        } else {
            bare.push(run_bare_loop(programs, combination, cpus)?);
        }
    }
    let p50 = |told: &Value| told["p50_ns"].as_f64().context("the bare loop told no p50_ns");
    Ok(Round {
        bare_ns: (p50(&bare[0])?, p50(&bare[1])?),
        hairpin_ns,
        resolution_ns: bare[0]["resolution_ns"].as_f64().context("the bare loop told no resolution_ns")?,
    })
}

fn run_bare_loop(programs: &Programs, combination: Combination, cpus: &str) -> Result<Value> {
    let Combination { transport, waiting, .. } = combination;
    let mut command = Command::new(&programs.bare_loop);
    command.args(["--transport", transport, "--waiting", waiting, "--cpus", cpus]);
    command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
    process::run(&mut command, LIMIT)?.succeeded().context("the bare loop")?.json()
}

fn run_hairpin(programs: &Programs, combination: Combination) -> Result<Value> {
    let Combination { transport, waiting, placement } = combination;
    let out = programs.scratch.join("run");
    process::remove(&out)?;
    let mut command = Command::new(&programs.hairpin);
    command.args(["round-trip", "--transport", transport, "--waiting", waiting, "--placement", placement]);
    command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
    command.args(["--rounds", "1", "--json", "--out"]).arg(out);
    process::run(&mut command, LIMIT)?.succeeded().context("hairpin")?.json()
}

/// The p50 of the only case of a run.
fn p50_ns(run: &Value) -> Result<f64> {
    let cases = contract::list(run, "cases");
    let [case] = cases else { bail!("{} cases instead of one; skipped: {}", cases.len(), run["skipped"]) };
    case["latency_ns"]["p50"]["value"].as_f64().context("no p50 in it")
}

/// The CPUs on which Hairpin's client and echo run, as the bare loop takes them.
fn cpus(run: &Value, placement: &str) -> Result<String> {
    let used = run["environment"]["cpus_used"].as_array().map_or(&[][..], Vec::as_slice);
    let used: Vec<u64> = used.iter().filter_map(Value::as_u64).collect();
    match (placement, &used[..]) {
        ("together", [.., echo]) => Ok(format!("{echo},{echo}")),
        ("apart", [client, echo]) => Ok(format!("{client},{echo}")),
        _ => bail!("cannot tell on which CPUs the ends run {placement}: cpus_used is {used:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::tests::{example, with};
    use serde_json::json;

    #[test]
    fn hairpin_s_own_words_are_read() {
        assert!((p50_ns(&example()).unwrap() - 10.0).abs() < 1e-12);
        assert!(p50_ns(&with("/cases", json!([]))).unwrap_err().to_string().contains("0 cases instead of one"));
        assert!(p50_ns(&with("/cases/0/latency_ns/p50", json!(null))).is_err());
        assert_eq!(cpus(&example(), "apart").unwrap(), "0,1");
        assert_eq!(cpus(&example(), "together").unwrap(), "1,1");
        assert!(cpus(&with("/environment/cpus_used", json!([3])), "apart").is_err());
    }

    #[test]
    fn every_case_has_its_rule() {
        let all = Combination::all(&[]).unwrap();
        assert_eq!(all.len(), 15);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::WithinBareSpread).count(), 5);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::Within(0.05)).count(), 1);
        assert_eq!(Combination::all(&["udp".to_owned()]).unwrap().len(), 3);
        assert!(Combination::all(&["utp".to_owned()]).is_err());
    }
}
