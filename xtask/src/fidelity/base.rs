//! What Hairpin is held against, as it is run for a case.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::build::{self, Build};
use super::combination::{Combination, LIMIT, WARM_UP};
use crate::process;

/// The base of a case.
pub(super) enum Base {
    /// The bare loop.
    BareLoop(BareLoop),
    /// Another build.
    Build(Build),
}

/// The bare loop with its two ends.
pub(super) struct BareLoop {
    pub(super) program: PathBuf,
    /// The CPUs of client and echo, as it takes them.
    pub(super) cpus: String,
    /// The words before its command, where it runs on another host than this program.
    pub(super) enter: Vec<String>,
    /// What tells where its server is, where that is on another host than the client.
    pub(super) server: Vec<String>,
}

impl Base {
    /// The p50 of one run, and the least difference that its clock shows where that is a reason for a difference: two builds
    /// read the same clock.
    ///
    /// # Errors
    /// Where it fails, or does not tell its figures.
    pub(super) fn run(&self, combination: Combination, number: usize) -> Result<(f64, f64)> {
        match self {
            Self::Build(old) => Ok((build::p50_ns(&old.run(combination, number)?)?, 0.0)),
            Self::BareLoop(bare) => {
                let told = bare.run(combination)?;
                let figure =
                    |name: &str| told[name].as_f64().with_context(|| format!("the bare loop told no {name}"));
                Ok((figure("p50_ns")?, figure("resolution_ns")?))
            }
        }
    }
}

impl BareLoop {
    fn run(&self, combination: Combination) -> Result<Value> {
        let Combination { transport, waiting, .. } = combination;
        let mut command = process::after(&self.enter, &self.program);
        command.args(["--transport", transport, "--waiting", waiting, "--cpus", &self.cpus]).args(&self.server);
        command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
        process::run(&mut command, LIMIT)?.succeeded().context("the bare loop")?.json()
    }
}
