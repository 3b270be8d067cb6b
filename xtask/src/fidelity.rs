//! `cargo xtask fidelity`: compares Hairpin's figures with the figures of a bare loop, in interleaved rounds.
//!
//! Every round of a case runs Hairpin once and the bare loop twice, each in new processes. They run in turns of a few milliseconds,
//! while the others are stopped, so that the machine's states are the same for all; between two hosts, they run one after the other.
//! The order rotates from round to round. The ratio of a round is Hairpin's p50 divided by the mean p50 of the bare loop's two runs; the verdict
//! uses the median of these ratios. The ratio between the bare loop's two runs shows the machine's own variation.
//!
//! With `--against BINARY`, another build of Hairpin replaces the bare loop, and this build must not be slower.
//!
//! With `--two-hosts`, client and server are in two network namespaces, connected by a veth pair. Hairpin's server is
//! `hairpin serve`, and Hairpin and the bare loop use the same CPUs.
//!
//! With `--waits`, the ways to wait other than block and spin are compared: poll, epoll and spin-then-block with a loop in C, uring
//! with a loop on the crate io-uring, and async with a client and a server on tokio.
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
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{process, suite};
use base::{BareLoop, Base};
use build::Build;
use combination::{Cases, Combination, LIMIT};
use judge::{Round, Verdict};
use two_hosts::TwoHosts;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The build profile: release or dist
    #[arg(long, default_value = "release")]
    profile: String,
    /// Interleaved rounds of each case
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Measure only these transports, or with --waits only these ways to wait
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Compare with this build of hairpin instead of the bare loop; the new build must not be slower
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// Run client and server in two network namespaces connected by a veth pair (tcp and udp)
    #[arg(long, conflicts_with = "against")]
    two_hosts: bool,
    /// Compare the transports of protocol libraries with the plainest programs with these libraries
    #[arg(long, conflicts_with_all = ["against", "two_hosts"])]
    libraries: bool,
    /// Compare the ways to wait over tcp other than block and spin with the plainest loops that wait so
    #[arg(long, conflicts_with_all = ["against", "two_hosts", "libraries"])]
    waits: bool,
}

pub(crate) fn run(root: &Path, asked: &Options) -> Result<bool> {
    let features = if asked.waits || asked.libraries { suite::LIBRARIES } else { "" };
    let [hairpin] = process::build(root, &asked.profile, [("hairpin", "hairpin")])?;
    // Separately: one build of both would add tokio's runtime to Hairpin's libraries.
    let [bare_loop] = process::build_with(root, &asked.profile, [("xtask", "bare-loop")], features)?;
    let scratch = process::scratch("fidelity")?;
    let outcome = if asked.libraries {
        libraries::measure(hairpin, bare_loop, &scratch, asked.rounds, &asked.only)
    } else {
        measure_all(root, [&hairpin, &bare_loop], asked, &scratch)
    };
    process::remove(&scratch)?;
    outcome
}

/// Measures the rounds of each case, and prints its line. Returns whether all rules hold.
fn measure_all(root: &Path, [hairpin, bare_loop]: [&Path; 2], asked: &Options, scratch: &Path) -> Result<bool> {
    let cases = match asked {
        Options { waits: true, .. } => Cases::Waits,
        Options { two_hosts: true, .. } => Cases::BetweenHosts,
        _ => Cases::OnOneHost,
    };
    let combinations = Combination::all(&asked.only, cases)?;
    let hairpin = Build::probe(hairpin, scratch)?;
    let old = asked.against.as_ref().map(|program| Build::probe(program, scratch)).transpose()?;
    let hosts = asked.two_hosts.then(|| TwoHosts::new(&hairpin, scratch)).transpose()?;
    let waits = scratch.join("bare-wait");
    if asked.waits {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(&waits).arg(root.join("xtask/programs/bare-wait.c"));
        process::run(&mut cc, LIMIT)?.succeeded().context("cannot build bare-wait.c")?;
    }
    let contestants = |combination: &Combination| match (&old, &hosts) {
        (Some(old), _) => prepare_builds(&hairpin, old, *combination),
        (None, Some(hosts)) => hosts.contestants(&hairpin, bare_loop, *combination),
        (None, None) => prepare_bare_loop(&hairpin, [bare_loop, &waits], *combination),
    };
    print_header(old.is_some());
    let mut all_hold = true;
    for combination in &combinations {
        let Combination { transport, waiting, placement } = combination;
        let measured = contestants(combination).and_then(|(hairpin, base)| {
            (0..asked.rounds).map(|number| measure(&hairpin, &base, *combination, number)).collect::<Result<Vec<_>>>()
        });
        let measured = measured.with_context(|| format!("{transport} {waiting} {placement}"))?;
        all_hold &= print(*combination, &measured, old.is_some());
    }
    Ok(all_hold)
}

/// Prepares this build and another build. Each build runs once before the rounds, to load its pages into memory.
fn prepare_builds(hairpin: &Build, old: &Build, combination: Combination) -> Result<(Build, Base)> {
    hairpin.run(combination)?;
    old.run(combination)?;
    Ok((hairpin.clone(), Base::Build(old.clone())))
}

/// Prepares this build and a bare loop. Runs the build once before the rounds to find its CPUs for the bare loop.
fn prepare_bare_loop(
    hairpin: &Build,
    [bare_loop, waits]: [&Path; 2],
    combination: Combination,
) -> Result<(Build, Base)> {
    let cpus = build::cpus(&hairpin.run(combination)?, combination.placement)?;
    let (program, way) = match combination.waiting {
        "uring" => (bare_loop, "library --runtime uring".to_owned()),
        "async" => (bare_loop, "library --runtime tokio".to_owned()),
        waiting @ ("block" | "spin") => (bare_loop, format!("--waiting {waiting}")),
        waiting => (waits, format!("--waiting {waiting}")),
    };
    let way = way.split(' ').map(str::to_owned).collect();
    let bare = BareLoop { program: program.to_owned(), way, cpus, enter: Vec::new(), server: Vec::new() };
    Ok((hairpin.clone(), Base::BareLoop(bare)))
}

fn print_header(is_build: bool) {
    let (base, candidate) = if is_build { ("old", "new") } else { ("bare", "hairpin") };
    println!(
        "{:12} {:15} {:9} {:>11} {:>11} {:>7} {:>16} {:>16}  verdict",
        "transport",
        "wait",
        "placement",
        format!("{base} p50 us"),
        format!("{candidate} us"),
        "ratio",
        "interval",
        format!("{base} A/A spread")
    );
}

fn print(combination: Combination, rounds: &[Round], is_build: bool) -> bool {
    let rule = if is_build { combination.rule_against() } else { combination.rule() };
    let Combination { transport, waiting, placement } = combination;
    let told = judge::judge(rounds, rule);
    println!(
        "{transport:12} {waiting:15} {placement:9} {:11.3} {:11.3} {:7.4} {:>16} {:>16}  {}",
        told.base_ns / 1000.0,
        told.hairpin_ns / 1000.0,
        told.ratio,
        format!("{:.4} - {:.4}", told.interval.0, told.interval.1),
        format!("{:.4} - {:.4}", told.base_spread.0, told.base_spread.1),
        told.in_words(rule),
    );
    told.verdict == Verdict::Holds
}

/// Time of a turn: the machine's disturbances last longer, and the first messages of a turn are few of all.
const TURN: Duration = Duration::from_millis(5);

/// Measures one round of a case: the base twice and Hairpin once. Hairpin's position rotates with `number`.
fn measure(hairpin: &Build, base: &Base, combination: Combination, number: usize) -> Result<Round> {
    let place = number % 3;
    let command = |turn| match turn == place {
        true => hairpin.command(combination, number, turn),
        false => base.command(combination, number, turn),
    };
    let mut commands = (0..3).map(command).collect::<Result<Vec<Command>>>()?;
    let mut ran = if hairpin.has_both_ends() {
        process::run_in_turns(&mut commands, TURN, LIMIT)?
    } else {
        commands.iter_mut().map(|command| process::run(command, LIMIT)).collect::<Result<_>>()?
    };
    let hairpin_ns = build::p50_ns(&build::told(ran.remove(place))?)?;
    let of_base = ran.into_iter().map(|ran| base.figures(ran)).collect::<Result<Vec<_>>>()?;
    let [(first_ns, resolution_ns), (second_ns, _)] = of_base[..] else { bail!("the base did not run twice") };
    Ok(Round { base_ns: (first_ns, second_ns), hairpin_ns, resolution_ns })
}
