//! Checks that the crates for all systems compile for other systems than Linux.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

const CRATES: &[&str] =
    &["hairpin-model", "hairpin-link", "hairpin-experiments", "hairpin-analysis", "hairpin-report", "hairpin-socket"];
/// The targets. A target is checked only if its standard library is installed (`rustup target add`).
const TARGETS: &[&str] = &["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// How the check ended.
pub(crate) enum Checked {
    /// The check passed; a line for the summary.
    Passed(String),
    /// The targets without an installed standard library.
    Missing(Vec<&'static str>),
}

pub(crate) fn run(root: &Path) -> Result<Checked> {
    let mut missing = Vec::new();
    for target in TARGETS {
        if !is_installed(target)? {
            missing.push(*target);
            continue;
        }
        let mut command = process::cargo(root);
        command.args(["check", "--quiet", "--locked", "--target", target]);
        command.args(CRATES.iter().flat_map(|name| ["-p", name]));
        if !command.status().context("cannot start cargo")?.success() {
            bail!("the crates for all systems do not compile for {target}");
        }
    }
    if missing.is_empty() {
        return Ok(Checked::Passed(format!("{} crates for {}", CRATES.len(), TARGETS.join(" and "))));
    }
    Ok(Checked::Missing(missing))
}

pub(crate) fn is_installed(target: &str) -> Result<bool> {
    let told = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let told = told.context("cannot start rustc")?;
    let folder = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    let has_core = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("libcore-");
    Ok(std::fs::read_dir(folder).is_ok_and(|entries| entries.flatten().any(has_core)))
}
