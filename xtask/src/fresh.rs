//! `cargo xtask fresh`: runs README's two commands on a clone of a commit, in separate namespaces with a debootstrap
//! root that has only a base Debian, a Rust toolchain, a C linker and git. The times do not include downloads.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use hairpin_testing::program;

use crate::{process, suite};

const SCRIPT: &str = include_str!("fresh.sh");
const PROGRAMS: [&str; 4] = ["debootstrap", "unshare", "git", "ip"];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(long, default_value = "HEAD")]
    commit: String,
    /// Run as root instead of an ordinary user
    #[arg(long)]
    root: bool,
    /// Forbid user namespaces, as some distributions do
    #[arg(long)]
    without_namespaces: bool,
    /// Load the machine during the tests: two busy loops per CPU, and a process that writes files
    #[arg(long)]
    busy: bool,
    /// Run only the tests
    #[arg(long)]
    only_tests: bool,
    /// Number of test runs; only the first run builds the tests
    #[arg(long, default_value_t = 1)]
    times: u32,
}

/// Runs the commands and prints each with its time and exit code. Returns whether all commands passed.
pub(crate) fn run(root: &Path, asked: &Options) -> Result<bool> {
    for name in PROGRAMS {
        program(name).map_err(anyhow::Error::msg)?;
    }
    let answer = |command: &mut Command| -> Result<String> {
        let ran = process::run(command.current_dir(root), Duration::from_mins(1))?.succeeded();
        Ok(ran.with_context(|| format!("{command:?}"))?.stdout.trim().to_owned())
    };
    let toolchain = answer(Command::new("rustc").args(["--print", "sysroot"]))?;
    let commit =
        answer(Command::new("git").args(["rev-parse", "--verify", &format!("{}^{{commit}}", asked.commit)]))?;
    let readme = answer(Command::new("git").arg("show").arg(format!("{commit}:README.md")))?;
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let registry = format!("{}/registry", home.context("HOME is not set")?);
    let place = process::scratch("fresh")?;
    // unshare(1) ends with this process, and all in its namespaces with it.
    let mut command = Command::new("setpriv");
    command.args("--pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL sh -c".split(' '));
    command.args([SCRIPT, "fresh"]).arg(&place).arg(root).arg(toolchain).arg(registry);
    command.env("COMMIT", commit);
    command.env("AS", if asked.root { "root" } else { "user" }).env("BUSY", asked.busy.to_string());
    command.env("NAMESPACES", (!asked.without_namespaces).to_string());
    command.env("RUN", if asked.only_tests { "" } else { "cargo run --release" });
    command.env("TESTS", format!("cargo {}", suite::command(&readme)?.join(" ")));
    command.env("TIMES", asked.times.to_string());
    let mut running = command.stdout(Stdio::piped()).spawn().context("cannot start unshare")?;
    let mut codes = Vec::new();
    for line in BufReader::new(running.stdout.take().context("the output is not a pipe")?).lines() {
        let line = line.context("cannot read the script's output")?;
        println!("{line}");
        if line.starts_with("cargo ") {
            codes.extend(line.split('\t').nth(2).map(str::to_owned));
        }
    }
    let status = running.wait().context("cannot wait for the script")?;
    process::remove(&place)?;
    Ok(status.success() && !codes.is_empty() && codes.iter().all(|code| code == "0"))
}
