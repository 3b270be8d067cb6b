//! `cargo xtask ci --only aarch64`: runs the binary and the transports' contract tests on 64-bit ARM, emulated by qemu.
//!
//! Hairpin starts itself as a child process, so `aarch64.sh` registers qemu as the interpreter of aarch64 programs in a
//! user namespace. Contract tests that qemu cannot emulate are skipped, and listed with the prefix `aarch64`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hairpin_testing::{contract, program, works};

use crate::skips::{AllowedSkips, Done};
use crate::{platforms, process, suite};

const TARGET: &str = "aarch64-unknown-linux-musl";

/// C compiler for the target. The C code needs only headers that musl and glibc share.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

const LIMIT: Duration = Duration::from_mins(2);

pub(crate) fn run(root: &Path, target: &Path, scratch: &Path, allowed: &AllowedSkips) -> Result<Done> {
    let enter = enter(root);
    let missing = missing(&enter)?;
    if !missing.is_empty() {
        return Ok(Done::skipped("aarch64", &format!("no {}", missing.join(", "))));
    }
    let binary = binary(root, target, &scratch.join("aarch64"), &enter)?;
    let skipped = contract_of_transports(root, &scratch.join("skips-aarch64"), &enter, allowed)?;
    Ok(Done::Passed(format!("{binary}; contract of the transports, {skipped}")))
}

fn enter(root: &Path) -> Vec<String> {
    let script = root.join("xtask/src/aarch64.sh").to_string_lossy().into_owned();
    ["unshare", "--map-root-user", "--mount", "--net", "sh"].map(str::to_owned).into_iter().chain([script]).collect()
}

fn missing(enter: &[String]) -> Result<Vec<&'static str>> {
    let mut missing: Vec<_> = ["qemu-aarch64", COMPILER].into_iter().filter(|name| program(name).is_err()).collect();
    if !platforms::is_installed(TARGET)? {
        missing.push(TARGET);
    }
    let words: Vec<&str> = enter.iter().map(String::as_str).chain(["true"]).collect();
    if missing.is_empty() && works(&words).is_err() {
        missing.push("binfmt_misc in a user namespace");
    }
    Ok(missing)
}

/// Returns a cargo command for the target. Optimises the transports: emulating unoptimised code would take longer.
fn cargo(root: &Path, words: &[&str]) -> Command {
    let mut command = process::cargo(root);
    command.args(words).args(["--quiet", "--locked", "--target", TARGET]);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    command.env("CC_aarch64_unknown_linux_musl", COMPILER);
    command.args(["--config", "profile.dev.package.hairpin-transports.opt-level=1"]);
    command
}

/// Checks that the binary prints its version and lists its transports, and that it can measure.
fn binary(root: &Path, target: &Path, folder: &Path, enter: &[String]) -> Result<String> {
    let build = ["build", "--package", "hairpin", "--bin", "hairpin"];
    process::run_cargo(&mut cargo(root, &build), &format!("cargo build --target {TARGET} failed"))?;
    let binary: PathBuf = target.join(TARGET).join("debug/hairpin");
    let ran = |arguments: &[&str]| {
        let ran = process::run(process::prefixed(enter, &binary).args(arguments), LIMIT)?.succeeded();
        ran.with_context(|| format!("hairpin {}", arguments.join(" ")))
    };
    let version = ran(&["--version"])?.stdout;
    ran(&["list", "--json"])?.json()?;
    let transports = "tcp,pipe,shm";
    let folder = folder.to_string_lossy();
    let run = ran(&["round-trip", "--transport", transports, "--rounds", "1", "--json", "--out", &folder])?.json()?;
    let mut faults = contract::faults(&run);
    let measured = contract::list(&run, "cases").iter().filter(|case| case["ledger"]["received"].as_u64() > Some(0));
    let names: BTreeSet<_> = measured.filter_map(|case| case["case"]["flows"][0]["transport"].as_str()).collect();
    if names.len() != transports.split(',').count() {
        faults.push(format!("only {names:?} received messages"));
    }
    process::fail_with(&faults).context("hairpin round-trip")?;
    Ok(format!("{} measured {transports}", version.trim()))
}

fn contract_of_transports(root: &Path, list: &Path, enter: &[String], allowed: &AllowedSkips) -> Result<String> {
    let command = || {
        let mut command = cargo(root, &["test", "--package", "hairpin-transports", "--test", "all"]);
        command.arg("--config").arg(format!("target.{TARGET}.runner={enter:?}"));
        command.args(["--", "contract::"]);
        command
    };
    suite::check_selection(command())?;
    suite::run(&mut command(), list, "aarch64 ", allowed)
}
