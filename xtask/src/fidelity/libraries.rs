//! `cargo xtask fidelity --libraries`: compares transports of protocol libraries with the plainest programs with these libraries.
//!
//! A round of a case runs Hairpin and each reference once, in new processes and in an order that rotates. A case is round trips of
//! 4 B on one CPU or two, or one-way messages of 256 B or 128 KiB on two, each sent at once. The compared figure is the
//! p50, or the mean time per message.
//!
//! Each asynchronous library has two references: on a minimal loop like Hairpin's own, and on tokio. Hairpin has no runtime between
//! the library and the socket, so a ratio below 1 is expected against tokio, and never a fault.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::build;
use super::judge::{self, Round, Rule, Verdict};
use crate::process;
use crate::reported::only_case;

const TRANSPORTS: &[&str] =
    &["tls", "tcp-streams", "websocket", "http1", "rest", "http2", "grpc", "grpc-stream", "quic", "quic-datagram"];

/// Libraries that block; the others have futures.
const BLOCKING: &[&str] = &["tls", "websocket"];

/// Makes glibc copy without `rep movsb`, in Hairpin and in the references. On AMD CPUs this instruction takes several times as long
/// for some alignments of source and destination: where the buffers happened to be changed the figures of 128 KiB over TLS by a
/// factor of 1.8.
const COPIES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1000000000");

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    transport: &'static str,
    load: Load,
    placement: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    RoundTrip,
    /// 256 B: h2 takes many smaller frames for an attack when they arrive faster than they are read.
    Messages,
    Bulk,
}

const LOADS: &[(Load, &str)] = &[
    (Load::RoundTrip, "same-cpu"),
    (Load::RoundTrip, "cross-cpu"),
    (Load::Messages, "cross-cpu"),
    (Load::Bulk, "cross-cpu"),
];

impl Load {
    fn arguments(self) -> (&'static str, &'static str) {
        match self {
            Self::RoundTrip => {
                ("round-trip --size 4 --reply-size 4 --count 2000 --warmup 300", "--size 0 --count 2000 --warmup 300")
            }
            Self::Messages => (
                "message-rate --size 256 --batch 1 --duration 200ms --warmup 50ms",
                "--size 256 --duration-ms 200 --warmup-ms 50",
            ),
            Self::Bulk => (
                "bulk --write-size 128KiB --duration 200ms --omit 50ms",
                "--size 131072 --duration-ms 200 --warmup-ms 50",
            ),
        }
    }

    /// The p50 of round trips, or the mean time per message, from Hairpin's run in ns.
    fn of_hairpin(self, run: &Value) -> Result<f64> {
        if self == Self::RoundTrip {
            return build::p50_ns(run);
        }
        Ok(1e9 / only_case(run)?["received_per_s"]["value"].as_f64().context("the case has no received_per_s")?)
    }

    fn of_reference(self, told: &Value) -> Result<f64> {
        let figure = |name: &str| told[name].as_f64().with_context(|| format!("the reference printed no {name}"));
        if self == Self::RoundTrip { figure("p50_ns") } else { Ok(1e9 / figure("received_per_s")?) }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::RoundTrip => "round trip",
            Self::Messages => "256 B",
            Self::Bulk => "128 KiB",
        })
    }
}

impl Case {
    fn all(only: &[String]) -> Result<Vec<Self>> {
        if let Some(unknown) = only.iter().find(|name| !TRANSPORTS.contains(&name.as_str())) {
            bail!("unknown transport `{unknown}` (hint: one of {})", TRANSPORTS.join(", "));
        }
        let wanted = TRANSPORTS.iter().filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == *name));
        let cases =
            wanted.flat_map(|transport| LOADS.iter().map(|&(load, placement)| Self { transport, load, placement }));
        // A message is one datagram.
        Ok(cases.filter(|case| (case.transport, case.load) != ("quic-datagram", Load::Bulk)).collect())
    }

    fn references(self) -> &'static [&'static str] {
        if BLOCKING.contains(&self.transport) { &["none"] } else { &["loop", "tokio"] }
    }
}

struct Programs {
    hairpin: PathBuf,
    reference: PathBuf,
    out: PathBuf,
}

pub(super) fn measure(
    hairpin: PathBuf,
    reference: PathBuf,
    scratch: &Path,
    rounds: usize,
    only: &[String],
) -> Result<bool> {
    let cases = Case::all(only)?;
    let programs = Programs { hairpin, reference, out: scratch.join("run") };
    print_header();
    let outcome = cases.iter().map(|case| programs.measure(*case, rounds)).collect::<Result<Vec<bool>>>();
    Ok(outcome?.into_iter().all(|holds| holds))
}

impl Programs {
    /// Measures a case and prints a line for each reference. Returns whether the rule holds for all.
    fn measure(&self, case: Case, rounds: usize) -> Result<bool> {
        let measured = self.rounds(case, rounds);
        let measured = measured.with_context(|| format!("{} {} {}", case.transport, case.load, case.placement))?;
        let holds = case.references().iter().zip(measured).map(|(reference, rounds)| print(case, reference, &rounds));
        Ok(holds.collect::<Vec<bool>>().into_iter().all(|holds| holds))
    }

    /// Measures the rounds of a case with each reference. The first run only loads the program and finds its CPUs.
    fn rounds(&self, case: Case, rounds: usize) -> Result<Vec<Vec<Round>>> {
        let cpus = build::cpus(&self.hairpin(case, 0)?, case.placement)?;
        let references = case.references();
        let mut measured = vec![Vec::new(); references.len()];
        for number in 0..rounds {
            let (mut hairpin_ns, mut references_ns) = (0.0, vec![0.0; references.len()]);
            for turn in 0..=references.len() {
                match (turn + number) % (references.len() + 1) {
                    0 => hairpin_ns = case.load.of_hairpin(&self.hairpin(case, number)?)?,
                    place => references_ns[place - 1] = self.reference(case, references[place - 1], &cpus)?,
                }
            }
            for (rounds, ns) in measured.iter_mut().zip(references_ns) {
                rounds.push(Round { base_ns: (ns, ns), hairpin_ns, resolution_ns: 0.0 });
            }
        }
        Ok(measured)
    }

    fn hairpin(&self, case: Case, number: usize) -> Result<Value> {
        process::remove(&self.out)?;
        let mut command = Command::new(&self.hairpin);
        command.env(COPIES.0, COPIES.1);
        command.args(case.load.arguments().0.split(' '));
        command.args(["--transport", case.transport, "--placement", case.placement]);
        command.args("--waiting block --ends processes --cpu-idle deep --rounds 1 --no-samples --json".split(' '));
        command.args(["--seed", &number.to_string()]).arg("--out").arg(&self.out);
        build::told(process::run(&mut command, LIMIT)?)
    }

    fn reference(&self, case: Case, runtime: &str, cpus: &str) -> Result<f64> {
        let mut command = Command::new(&self.reference);
        command.env(COPIES.0, COPIES.1);
        command.args(["library", "--transport", case.transport, "--runtime", runtime, "--cpus", cpus]);
        command.args(case.load.arguments().1.split(' '));
        let ran = process::run(&mut command, LIMIT)?.succeeded();
        case.load.of_reference(&ran.with_context(|| format!("the reference on {runtime} failed"))?.json()?)
    }
}

fn print_header() {
    println!(
        "{:13} {:10} {:9} {:9} {:>11} {:>10} {:>7} {:>16}  verdict",
        "transport", "load", "placement", "runtime", "plain us", "hairpin us", "ratio", "interval"
    );
}

fn print(case: Case, reference: &str, rounds: &[Round]) -> bool {
    let told = judge::judge(rounds, Rule::Library);
    let Case { transport, load, placement } = case;
    println!(
        "{transport:13} {load:10} {placement:9} {reference:9} {:11.3} {:10.3} {:7.4} {:>16}  {}",
        told.base_ns / 1000.0,
        told.hairpin_ns / 1000.0,
        told.ratio,
        format!("{:.4} - {:.4}", told.interval.0, told.interval.1),
        told.in_words(Rule::Library),
    );
    told.verdict == Verdict::Holds
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_testing::contract::{example, with};
    use serde_json::json;

    #[test]
    fn every_transport_has_its_cases_and_references() {
        let all = Case::all(&[]).unwrap();
        assert_eq!(all.len(), 10 * 4 - 1);
        assert_eq!(Case::all(&["quic-datagram".to_owned()]).unwrap().len(), 3);
        assert!(Case::all(&["tcp".to_owned()]).unwrap_err().to_string().starts_with("unknown transport `tcp`"));
        let references: usize = all.iter().map(|case| case.references().len()).sum();
        assert_eq!(references, 2 * 4 + 2 * 31);
    }

    #[test]
    fn a_rate_is_compared_as_the_time_per_message() {
        let mut run = example();
        run["cases"][0]["received_per_s"] = json!({"value": 2e6});
        assert_eq!(Load::Messages.of_hairpin(&run).unwrap(), 500.0);
        assert_eq!(Load::Bulk.of_reference(&json!({"received_per_s": 1e4})).unwrap(), 100_000.0);
        assert_eq!(Load::RoundTrip.of_hairpin(&example()).unwrap(), build::p50_ns(&example()).unwrap());
        assert!(Load::Bulk.of_hairpin(&with("/cases", json!([]))).is_err());
        assert!(Load::RoundTrip.of_reference(&json!({})).is_err());
    }
}
