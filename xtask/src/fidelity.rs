//! `cargo xtask fidelity`: Hairpin's figures beside those of a bare loop, in one interleaved run.
//!
//! Every round of a case measures the bare loop, Hairpin, and the bare loop again, in an order that turns from round
//! to round, each with fresh processes. The ratio of a round is Hairpin's p50 by the mean of the bare loop's two; what
//! is judged is the median of these ratios. The bare loop against itself shows what the machine alone can do.
//!
//! With `--against BINARY` another build of Hairpin stands in place of the bare loop, and this one must not be worse.

mod build;
mod combination;
mod judge;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use build::Build;
use combination::{Combination, LIMIT, WARM_UP};
use judge::{Round, Verdict};

/// What Hairpin is held against.
enum Base {
    /// The bare loop, and the CPUs on which Hairpin ran the case: those of client and echo.
    BareLoop { program: PathBuf, cpus: String },
    /// Another build.
    Build(Build),
}

/// Measures and prints the table; answers whether every rule holds. `against` is another build of Hairpin, else it is the
/// bare loop.
///
/// # Errors
/// Where something cannot be built or run.
pub(crate) fn run(root: &Path, rounds: usize, only: &[String], against: Option<&Path>) -> Result<bool> {
    let combinations = Combination::all(only)?;
    let [hairpin, bare_loop] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "bare-loop")])?;
    let scratch = process::scratch("fidelity")?;
    let hairpin = Build::probe(&hairpin, &scratch)?;
    let old = against.map(|program| Build::probe(program, &scratch)).transpose()?;
    let mut measured = Vec::new();
    for combination in &combinations {
        let Combination { transport, waiting, placement } = combination;
        println!("{transport} {waiting} {placement}: {rounds} rounds");
        measured.push(
            rounds_of(&hairpin, old.as_ref(), &bare_loop, *combination, rounds)
                .with_context(|| format!("{transport} {waiting} {placement}"))?,
        );
    }
    process::remove(&scratch)?;
    Ok(print_table(&combinations, &measured, against.is_some()))
}

fn rounds_of(
    hairpin: &Build,
    old: Option<&Build>,
    bare_loop: &Path,
    combination: Combination,
    rounds: usize,
) -> Result<Vec<Round>> {
    // Not one of the rounds: it tells the CPUs, and brings the programs' pages into memory.
    let first = hairpin.run(combination, 0)?;
    let base = match old {
        Some(old) => {
            old.run(combination, 0)?;
            Base::Build(old.clone())
        }
        None => Base::BareLoop { program: bare_loop.to_owned(), cpus: cpus(&first, combination.placement)? },
    };
    (0..rounds).map(|number| measure(hairpin, &base, combination, number)).collect()
}

fn print_table(combinations: &[Combination], measured: &[Vec<Round>], against: bool) -> bool {
    let (base, candidate) = if against { ("old", "new") } else { ("bare", "hairpin") };
    println!(
        "{:12} {:6} {:9} {:>11} {:>11} {:>7} {:>16} {:>16}  verdict",
        "transport",
        "wait",
        "placement",
        format!("{base} p50 us"),
        format!("{candidate} us"),
        "ratio",
        "its interval",
        format!("{base} A/A spread")
    );
    let mut all_hold = true;
    for (combination, rounds) in combinations.iter().zip(measured) {
        let rule = if against { combination.rule_against() } else { combination.rule() };
        let Combination { transport, waiting, placement } = combination;
        let told = judge::judge(rounds, rule);
        all_hold &= told.verdict == Verdict::Holds;
        println!(
            "{transport:12} {waiting:6} {placement:9} {:11.3} {:11.3} {:7.4} {:>16} {:>16}  {}",
            told.base_ns / 1000.0,
            told.hairpin_ns / 1000.0,
            told.ratio,
            format!("{:.4} - {:.4}", told.interval.0, told.interval.1),
            format!("{:.4} - {:.4}", told.base_spread.0, told.base_spread.1),
            told.in_words(rule),
        );
    }
    all_hold
}

/// One round of a case: the base twice and Hairpin once, first, second or third in turn.
fn measure(hairpin: &Build, base: &Base, combination: Combination, number: usize) -> Result<Round> {
    let mut of_base = Vec::new();
    let mut hairpin_ns = 0.0;
    for turn in 0..3 {
        if turn == number % 3 {
            hairpin_ns = build::p50_ns(&hairpin.run(combination, number)?)?;
        } else {
            of_base.push(measure_base(base, combination, number)?);
        }
    }
    let [(first_ns, resolution_ns), (second_ns, _)] = of_base[..] else { bail!("the base runs twice a round") };
    Ok(Round { base_ns: (first_ns, second_ns), hairpin_ns, resolution_ns })
}

/// The p50 of one run of the base, and the least difference that its clock shows where that is a reason for a difference:
/// two builds read the same clock.
fn measure_base(base: &Base, combination: Combination, number: usize) -> Result<(f64, f64)> {
    match base {
        Base::Build(old) => Ok((build::p50_ns(&old.run(combination, number)?)?, 0.0)),
        Base::BareLoop { program, cpus } => {
            let told = run_bare_loop(program, combination, cpus)?;
            let figure = |name: &str| told[name].as_f64().with_context(|| format!("the bare loop told no {name}"));
            Ok((figure("p50_ns")?, figure("resolution_ns")?))
        }
    }
}

fn run_bare_loop(program: &Path, combination: Combination, cpus: &str) -> Result<Value> {
    let Combination { transport, waiting, .. } = combination;
    let mut command = Command::new(program);
    command.args(["--transport", transport, "--waiting", waiting, "--cpus", cpus]);
    command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
    process::run(&mut command, LIMIT)?.succeeded().context("the bare loop")?.json()
}

/// The CPUs on which Hairpin's client and echo run, as the bare loop takes them.
fn cpus(run: &Value, placement: &str) -> Result<String> {
    let used = run["hosts"][0]["environment"]["cpus_used"].as_array().map_or(&[][..], Vec::as_slice);
    let used: Vec<u64> = used.iter().filter_map(Value::as_u64).collect();
    match (placement, &used[..]) {
        ("same-cpu", [.., echo]) => Ok(format!("{echo},{echo}")),
        ("cross-cpu", [client, echo]) => Ok(format!("{client},{echo}")),
        _ => bail!("cannot tell on which CPUs the ends run {placement}: cpus_used is {used:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_testing::contract::{example, with};
    use serde_json::json;

    #[test]
    fn the_cpus_of_both_ends_are_read() {
        assert_eq!(cpus(&example(), "cross-cpu").unwrap(), "0,1");
        assert_eq!(cpus(&example(), "same-cpu").unwrap(), "1,1");
        assert!(cpus(&with("/hosts/0/environment/cpus_used", json!([3])), "cross-cpu").is_err());
    }
}
