//! Checks that the crates for all systems compile for other systems than Linux.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::skips::Done;

const CRATES: &[&str] =
    &["hairpin-model", "hairpin-link", "hairpin-experiments", "hairpin-analysis", "hairpin-report", "hairpin-socket"];
/// The targets. A target is checked only if its standard library is installed (`rustup target add`).
const TARGETS: &[&str] = &["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

pub(crate) fn run(root: &Path) -> Result<Done> {
    let mut missing = Vec::new();
    for target in TARGETS {
        if !is_installed(target)? {
            missing.push(*target);
            continue;
        }
        let mut command = process::cargo(root);
        command.args(["check", "--quiet", "--locked", "--target", target]);
        command.args(CRATES.iter().flat_map(|name| ["-p", name]));
        process::run_cargo(&mut command, &format!("the crates for all systems do not compile for {target}"))?;
    }
    if missing.is_empty() {
        return Ok(Done::Passed(format!("{} crates for {}", CRATES.len(), TARGETS.join(" and "))));
    }
    Ok(Done::skipped("platforms", &format!("no standard library of {}", missing.join(", "))))
}

pub(crate) fn is_installed(target: &str) -> Result<bool> {
    let told = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let told = told.context("cannot start rustc")?;
    let folder = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let has_core = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libcore-");
    Ok(std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(has_core)))
}
