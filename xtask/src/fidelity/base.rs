//! The reference with which Hairpin is compared: a bare loop or another build.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::build::{self, Build};
use super::combination::{Combination, WARM_UP};
use crate::process::{self, Ran};

pub(super) enum Base {
    BareLoop(BareLoop),
    Build(Build),
}

pub(super) struct BareLoop {
    pub(super) program: PathBuf,
    pub(super) way: Vec<String>,
    /// CPUs of client and echo, as an argument of `--cpus`.
    pub(super) cpus: String,
    /// Command prefix, if the bare loop runs on another host than this program.
    pub(super) enter: Vec<String>,
    /// Arguments that locate the server, if the server is on another host than the client.
    pub(super) server: Vec<String>,
}

impl Base {
    /// Returns the command of a round. `place` tells commands that run at the same time apart.
    pub(super) fn command(&self, combination: Combination, number: usize, place: usize) -> Result<Command> {
        match self {
            Self::Build(old) => old.command(combination, number, place),
            Self::BareLoop(bare) => Ok(bare.command(combination)),
        }
    }

    /// Returns the p50 and the clock resolution in ns (0 for a build, which uses the same clock, and if it is not printed).
    pub(super) fn figures(&self, ran: Ran) -> Result<(f64, f64)> {
        match self {
            Self::Build(_) => Ok((build::p50_ns(&build::told(ran)?)?, 0.0)),
            Self::BareLoop(_) => {
                let told = ran.succeeded().context("the bare loop failed")?.json()?;
                let p50_ns = told["p50_ns"].as_f64().context("the bare loop printed no p50_ns")?;
                Ok((p50_ns, told["resolution_ns"].as_f64().unwrap_or(0.0)))
            }
        }
    }
}

impl BareLoop {
    fn command(&self, combination: Combination) -> Command {
        let mut command = process::prefixed(&self.enter, &self.program);
        command.args(&self.way).args(["--transport", combination.transport, "--cpus", &self.cpus]).args(&self.server);
        command.args(["--count", &combination.count().to_string(), "--warmup", &WARM_UP.to_string()]);
        command
    }
}
