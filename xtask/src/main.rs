//! The project's development commands (chores), run as `cargo xtask NAME`; one file each.
//!
//! xtask depends on no shipped crate: it runs the built programs, as users do.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and figures are far below 2^53 and not negative"
)]

mod aarch64;
mod captures;
mod catalog;
mod ci;
mod commands;
mod coverage;
mod cpus;
mod diagnose;
mod dist;
mod documents;
mod explain;
mod fidelity;
mod figures;
mod fresh;
mod jitter;
mod leaks;
mod lines;
mod links;
mod observer;
mod overhead;
mod picture;
mod platforms;
mod process;
mod rates;
mod readers;
mod reported;
mod skips;
mod smoke;
mod source;
mod suite;
mod system;
mod tidy;
mod versions;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all checks that a change must pass
    Ci {
        /// Run only these steps, by name; steps after `release build` also need `release build`
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Run README's two commands in a fresh Debian as an ordinary user; print times and ignored tests
    Fresh(fresh::Options),
    /// Check conventions that rustfmt, clippy and cargo-deny do not check
    Tidy,
    /// Count the lines of code of each crate, without tests, comments and blank lines
    Lines,
    /// Write docs/catalog.md from `hairpin list`
    Catalog {
        /// Only compare, and fail if the file is stale
        #[arg(long)]
        check: bool,
    },
    /// Write docs/schemas, the JSON schemas of the commands' output, from the Rust types
    Schema {
        /// Only compare, and fail if a file is stale
        #[arg(long)]
        check: bool,
    },
    /// Create docs/ranking.png, the README's picture, from the report of a saved survey
    Ranking {
        /// The run's folder
        run: PathBuf,
    },
    /// Run every command in the documents; experiments measure one round
    Commands {
        /// End experiments after 3 s, and install nothing
        #[arg(long)]
        brief: bool,
    },
    /// Build a tar.gz with a static binary, manual pages and completions, and test it in an empty root
    Dist,
    /// Compare the release jitter of control loops with that of cyclictest (rt-tests)
    Jitter {
        /// Runs of each program and policy, in turn
        #[arg(long, default_value_t = 13)]
        pairs: usize,
    },
    /// Compare Hairpin's figures with the figures of a bare loop or of another build
    Fidelity(fidelity::Options),
    /// Compare Hairpin's one-way rates with the rates of a bare loop, sockperf and iperf3
    Rates(rates::Options),
    /// Check that intervals cover the true values, and that comparisons give the right verdicts
    Coverage(coverage::Options),
    /// Measure the cost of Hairpin's own instrumentation
    Overhead,
    /// Compare what two clock reads per message cost in Hairpin's loop and in a bare loop
    Observer {
        #[arg(long, default_value_t = 11)]
        rounds: usize,
    },
    /// Start and end a link many times: measure the time, and check that nothing remains
    Leaks {
        /// Number of starts
        #[arg(default_value_t = 1000)]
        starts: usize,
        /// Run as this user (requires root)
        #[arg(long, value_name = "UID")]
        as_user: Option<u32>,
    },
    /// Measure from outside how far the link emulator deviates from a link's profile
    Links,
    /// Check that Hairpin names an injected cause first: a confusion table of injections and decoys
    Diagnose {
        /// Number of runs of each injection and each decoy
        #[arg(long, default_value_t = 20)]
        runs: usize,
        /// Run only trials of causes whose code contains this text, or of this experiment
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// Also run the counter-experiments of injections, and count how many confirm the cause
        #[arg(long)]
        prove: bool,
        /// Run the trials of the states of exchanges (docs/states.md) instead: the longest state must be the injected one
        #[arg(long, conflicts_with = "prove")]
        states: bool,
    },
    /// Check that `hairpin explain` names the cause of small slow programs, and no wrong cause of their fixed forms
    Explain {
        /// Number of runs of each form
        #[arg(long, default_value_t = 20)]
        runs: usize,
        /// Run only programs whose cause contains this text
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
    },
}

fn main() -> ExitCode {
    let outcome = root().and_then(|root| run(&root, Arguments::parse().chore));
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a chore. Returns whether its checks hold.
fn run(root: &Path, chore: Chore) -> Result<bool> {
    let says = |line: String| {
        println!("{line}");
        true
    };
    match chore {
        Chore::Ci { only } => ci::run(root, &only),
        Chore::Fresh(asked) => fresh::run(root, &asked),
        Chore::Tidy => tidy::run(root).map(says),
        Chore::Lines => lines::run(root).map(says),
        Chore::Catalog { check } => {
            let [binary] = process::build_release(root, [("hairpin", "hairpin")])?;
            documents::catalog(root, &binary, check).map(says)
        }
        Chore::Schema { check } => documents::schemas(root, check).map(says),
        Chore::Ranking { run } => picture::ranking(root, &run).map(says),
        Chore::Commands { brief } => {
            let [binary] = process::build_release(root, [("hairpin", "hairpin")])?;
            commands::run(root, &binary, brief).map(says)
        }
        Chore::Dist => dist::run(root).map(says),
        Chore::Jitter { pairs } => jitter::run(root, pairs),
        Chore::Fidelity(asked) => fidelity::run(root, &asked),
        Chore::Rates(asked) => rates::run(root, &asked),
        Chore::Coverage(asked) => coverage::run(root, &asked),
        Chore::Overhead => overhead::run(root),
        Chore::Observer { rounds } => observer::run(root, rounds),
        Chore::Leaks { starts, as_user } => leaks::run(root, starts, as_user),
        Chore::Links => links::run(root),
        Chore::Explain { runs, only } => explain::run(root, runs, only.as_deref()),
        Chore::Diagnose { runs, only, prove, states } => diagnose::run(root, runs, only.as_deref(), prove, states),
    }
}

/// Returns why `words` (`xtask`, then a chore and its flags) is not a valid command line; `None` if it is valid.
fn parse_error(words: &[&str]) -> Option<String> {
    Arguments::try_parse_from(words).err().map(|why| why.to_string())
}

/// Returns the root of the workspace: the nearest folder with a Cargo.lock above this package or the current folder.
fn root() -> Result<PathBuf> {
    let here = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(package) => PathBuf::from(package),
        None => std::env::current_dir().context("cannot find the current folder")?,
    };
    let found = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    found.map(Path::to_path_buf).context("no Cargo.lock here or above (hint: run xtask inside the repository)")
}
