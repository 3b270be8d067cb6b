//! Runs a contestant, and returns the rate at its receiver.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::case::{Case, MESSAGE_BYTES, Unit};
use super::contestant::{Contestant, Program};
use super::namespace::CONGESTION;
use super::peer;
use crate::reported::{cpus_used, only_case};
use crate::{cpus, process};

/// Measured time and warm-up of a run, in ms.
const MEASURED_MS: u64 = 1000;
const WARM_UP_MS: u64 = 200;

const LIMIT: Duration = Duration::from_secs(30);

pub(super) struct Place {
    hairpin: PathBuf,
    bare_loop: PathBuf,
    out: PathBuf,
    /// CPUs of sender and receiver in Hairpin's last run; before the first run, the first two allowed CPUs.
    cpus: (u64, u64),
}

impl Place {
    /// Uses the programs in the folder `programs`, and saves runs of Hairpin below `scratch`.
    pub(super) fn new(programs: &Path, scratch: &Path) -> Result<Self> {
        Ok(Self {
            hairpin: programs.join("hairpin"),
            bare_loop: programs.join("bare-loop"),
            out: scratch.join("run"),
            cpus: cpus::first_two()?,
        })
    }

    /// Runs a contestant. Returns the messages or bytes per second at the receiver.
    pub(super) fn rate(&mut self, case: &Case, contestant: &Contestant) -> Result<f64> {
        let words = contestant.arguments.split_whitespace();
        let (commands, port) = match contestant.program {
            Program::Hairpin => return self.hairpin_rate(case.unit, contestant.arguments),
            Program::BareLoop => return self.bare_rate(case.unit, contestant.arguments),
            Program::Sockperf => (peer::sockperf(words), peer::SOCKPERF_PORT),
            Program::Iperf3 => (peer::iperf3(words), peer::IPERF3_PORT),
        };
        let is_udp = case.name.starts_with("udp");
        let (datagrams, bytes) = peer::rates(&commands, port, is_udp, self.cpus, Duration::from_millis(MEASURED_MS))?;
        Ok(match case.unit {
            _ if is_udp => datagrams,
            Unit::Messages => bytes / MESSAGE_BYTES,
            Unit::Bytes => bytes,
        })
    }

    fn hairpin_rate(&mut self, unit: Unit, arguments: &str) -> Result<f64> {
        process::remove(&self.out)?;
        let mut command = Command::new(&self.hairpin);
        command.args(arguments.split_whitespace());
        if !arguments.contains("--waiting") {
            command.args(["--waiting", "block"]);
        }
        command.args(["--placement", "cross-cpu", "--rounds", "1", "--json"]);
        let omitted = if arguments.starts_with("bulk") { "--omit" } else { "--warmup" };
        command.args(["--duration", &format!("{MEASURED_MS}ms"), omitted, &format!("{WARM_UP_MS}ms")]);
        let run = process::run(command.arg("--out").arg(&self.out), LIMIT)?.succeeded()?.json()?;
        self.cpus = cpus_of(&run)?;
        rate_of(&run, unit)
    }

    fn bare_rate(&self, unit: Unit, arguments: &str) -> Result<f64> {
        let mut command = Command::new(&self.bare_loop);
        command.arg("rates").args(arguments.split_whitespace());
        command.args(["--cpus", &format!("{},{}", self.cpus.0, self.cpus.1), "--congestion", CONGESTION]);
        command.args(["--duration-ms", &MEASURED_MS.to_string(), "--warmup-ms", &WARM_UP_MS.to_string()]);
        let told = process::run(&mut command, LIMIT)?.succeeded()?.json()?;
        let name = match unit {
            Unit::Messages => "received_per_s",
            Unit::Bytes => "bytes_per_s",
        };
        told[name].as_f64().with_context(|| format!("the bare loop printed no {name}"))
    }
}

fn rate_of(run: &Value, unit: Unit) -> Result<f64> {
    let case = only_case(run)?;
    let name = match unit {
        Unit::Messages => "received_per_s",
        Unit::Bytes => "goodput_bytes_per_s",
    };
    let rate = case[name]["value"].as_f64().with_context(|| format!("the case has no {name}"))?;
    if case["valid"] != true {
        bail!("Hairpin's round is not valid: {}", case["why_invalid"]);
    }
    Ok(rate)
}

fn cpus_of(run: &Value) -> Result<(u64, u64)> {
    let used = cpus_used(run, "client");
    let [client, server] = used[..] else { bail!("cannot find the CPUs of the ends: cpus_used is {used:?}") };
    Ok((client, server))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_testing::contract::{example, with};
    use serde_json::json;

    /// Returns a run with the rates that `message-rate` and `bulk` print.
    fn run() -> Value {
        let mut run = example();
        run["cases"][0]["received_per_s"] = json!({"value": 3.5e6, "low": 3.4e6, "high": null});
        run["cases"][0]["goodput_bytes_per_s"] = json!({"value": 9e9, "low": null, "high": null});
        run
    }

    #[test]
    fn the_rates_of_a_run_are_read() {
        assert_eq!(rate_of(&run(), Unit::Messages).unwrap(), 3.5e6);
        assert_eq!(rate_of(&run(), Unit::Bytes).unwrap(), 9e9);
        assert_eq!(rate_of(&example(), Unit::Messages).unwrap_err().to_string(), "the case has no received_per_s");
        let none = with("/cases", json!([]));
        assert!(rate_of(&none, Unit::Bytes).unwrap_err().to_string().starts_with("0 cases instead of one"));
    }

    #[test]
    fn an_invalid_round_is_refused() {
        let mut run = run();
        run["cases"][0]["valid"] = json!(false);
        run["cases"][0]["why_invalid"] = json!(["a counter moved"]);
        assert!(rate_of(&run, Unit::Bytes).unwrap_err().to_string().ends_with("not valid: [\"a counter moved\"]"));
    }

    #[test]
    fn the_cpus_of_a_run_are_read() {
        assert_eq!(cpus_of(&example()).unwrap(), (0, 1));
        assert!(cpus_of(&with("/hosts/0/environment/cpus_used", json!([3]))).is_err());
    }
}
