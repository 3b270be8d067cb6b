//! The reference with which Hairpin is compared: a bare loop or another build.

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

/// The bare loop, and the location of its two ends.
pub(super) struct BareLoop {
    pub(super) program: PathBuf,
    /// CPUs of client and echo, as an argument of `--cpus`.
    pub(super) cpus: String,
    /// Command prefix, if the bare loop runs on another host than this program.
    pub(super) enter: Vec<String>,
    /// Arguments that locate the server, if the server is on another host than the client.
    pub(super) server: Vec<String>,
}

impl Base {
    /// Runs the base once. Returns the p50 and the clock resolution in ns (0 for a build, which uses the same clock).
    pub(super) fn run(&self, combination: Combination, number: usize) -> Result<(f64, f64)> {
        match self {
            Self::Build(old) => Ok((build::p50_ns(&old.run(combination, number)?)?, 0.0)),
            Self::BareLoop(bare) => {
                let told = bare.run(combination)?;
                let figure =
                    |name: &str| told[name].as_f64().with_context(|| format!("the bare loop printed no {name}"));
                Ok((figure("p50_ns")?, figure("resolution_ns")?))
            }
        }
    }
}

impl BareLoop {
    fn run(&self, combination: Combination) -> Result<Value> {
        let Combination { transport, waiting, .. } = combination;
        let mut command = process::prefixed(&self.enter, &self.program);
        command.args(["--transport", transport, "--waiting", waiting, "--cpus", &self.cpus]).args(&self.server);
        command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
        process::run(&mut command, LIMIT)?.succeeded().context("the bare loop failed")?.json()
    }
}
