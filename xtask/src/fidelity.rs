//! `cargo xtask fidelity`: compares Hairpin's figures with the figures of a bare loop, in interleaved rounds.
//!
//! Every round of a case runs Hairpin once and the bare loop twice, each in new processes. The order rotates from round
//! to round. The ratio of a round is Hairpin's p50 divided by the mean p50 of the bare loop's two runs; the verdict
//! uses the median of these ratios. The ratio between the bare loop's two runs shows the machine's own variation.
//!
//! With `--against BINARY`, another build of Hairpin replaces the bare loop, and this build must not be slower.
//!
//! With `--two-hosts`, client and server are in two network namespaces, connected by a veth pair. Hairpin's server is
//! `hairpin serve`, and Hairpin and the bare loop use the same CPUs.
//!
//! With `--libraries`, protocol libraries are measured, and plain programs with these libraries replace the bare loop.

mod base;
mod build;
mod combination;
mod hosts;
mod judge;
mod libraries;
mod two_hosts;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;
use base::{BareLoop, Base};
use build::Build;
use combination::Combination;
use judge::{Round, Verdict};
use two_hosts::TwoHosts;

pub(crate) enum Against {
    BareLoop,
    /// The bare loop, with client and server on two hosts.
    BareLoopBetweenHosts,
    /// Another build of Hairpin.
    Build(PathBuf),
    /// Plain programs with the protocol libraries.
    Libraries,
}

/// Measures and prints the table. Returns whether all rules hold.
pub(crate) fn run(root: &Path, profile: &str, rounds: usize, only: &[String], against: &Against) -> Result<bool> {
    if matches!(against, Against::Libraries) {
        return libraries::run(root, profile, rounds, only);
    }
    let combinations = Combination::all(only, matches!(against, Against::BareLoopBetweenHosts))?;
    let [hairpin, bare_loop] = process::build(root, profile, [("hairpin", "hairpin"), ("xtask", "bare-loop")])?;
    let scratch = process::scratch("fidelity")?;
    let measured = measure_all(&combinations, [&hairpin, &bare_loop], against, rounds, &scratch);
    process::remove(&scratch)?;
    Ok(print_table(&combinations, &measured?, matches!(against, Against::Build(_))))
}

/// Measures the rounds of each case.
fn measure_all(
    combinations: &[Combination],
    [hairpin, bare_loop]: [&Path; 2],
    against: &Against,
    rounds: usize,
    scratch: &Path,
) -> Result<Vec<Vec<Round>>> {
    let hairpin = Build::probe(hairpin, scratch)?;
    let (old, hosts) = match against {
        Against::BareLoop | Against::Libraries => (None, None),
        Against::BareLoopBetweenHosts => (None, Some(TwoHosts::new(&hairpin, scratch)?)),
        Against::Build(program) => (Some(Build::probe(program, scratch)?), None),
    };
    let contestants = |combination| match (&old, &hosts) {
        (Some(old), _) => prepare_builds(&hairpin, old, combination),
        (None, Some(hosts)) => hosts.contestants(&hairpin, bare_loop, combination),
        (None, None) => prepare_bare_loop(&hairpin, bare_loop, combination),
    };
    let rounds_of = |combination: &Combination| {
        let Combination { transport, waiting, placement } = combination;
        let (hairpin, base) = contestants(*combination)?;
        let cpus = if let Base::BareLoop(bare) = &base { format!(" on CPUs {}", bare.cpus) } else { String::new() };
        println!("{transport} {waiting} {placement}{cpus}: {rounds} rounds");
        (0..rounds).map(|number| measure(&hairpin, &base, *combination, number)).collect::<Result<Vec<_>>>()
    };
    let measured = combinations.iter().map(|combination| {
        let Combination { transport, waiting, placement } = combination;
        rounds_of(combination).with_context(|| format!("{transport} {waiting} {placement}"))
    });
    measured.collect()
}

/// Prepares this build and another build. Each build runs once before the rounds, to load its pages into memory.
fn prepare_builds(hairpin: &Build, old: &Build, combination: Combination) -> Result<(Build, Base)> {
    hairpin.run(combination, 0)?;
    old.run(combination, 0)?;
    Ok((hairpin.clone(), Base::Build(old.clone())))
}

/// Prepares this build and the bare loop. Runs the build once before the rounds to find its CPUs for the bare loop.
fn prepare_bare_loop(hairpin: &Build, bare_loop: &Path, combination: Combination) -> Result<(Build, Base)> {
    let cpus = build::cpus(&hairpin.run(combination, 0)?, combination.placement)?;
    let bare = BareLoop { program: bare_loop.to_owned(), cpus, enter: Vec::new(), server: Vec::new() };
    Ok((hairpin.clone(), Base::BareLoop(bare)))
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
        "interval",
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

/// Measures one round of a case: the base twice and Hairpin once. Hairpin's position rotates with `number`.
fn measure(hairpin: &Build, base: &Base, combination: Combination, number: usize) -> Result<Round> {
    let mut of_base = Vec::new();
    let mut hairpin_ns = 0.0;
    for turn in 0..3 {
        if turn == number % 3 {
            hairpin_ns = build::p50_ns(&hairpin.run(combination, number)?)?;
        } else {
            of_base.push(base.run(combination, number)?);
        }
    }
    let [(first_ns, resolution_ns), (second_ns, _)] = of_base[..] else { bail!("the base did not run twice") };
    Ok(Round { base_ns: (first_ns, second_ns), hairpin_ns, resolution_ns })
}
