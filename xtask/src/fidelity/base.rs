//! The reference for Hairpin, as run for a case.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use super::build::{self, Build};
use super::combination::{Combination, LIMIT, WARM_UP};
use crate::process;

pub(super) enum Base {
    BareLoop(BareLoop),
    Build(Build),
}

/// The bare loop with its two ends.
pub(super) struct BareLoop {
    pub(super) program: PathBuf,
    /// CPUs of client and echo, in its format.
    pub(super) cpus: String,
    /// Words before its command, if it runs on another host than this program.
    pub(super) enter: Vec<String>,
    /// Arguments that locate its server, if that is on another host than the client.
    pub(super) server: Vec<String>,
}

impl Base {
    /// The p50 of one run and the resolution of its clock; 0 for a build, as two builds read the same clock.
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
