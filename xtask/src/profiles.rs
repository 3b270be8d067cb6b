//! `cargo xtask profiles`: measures the effect of the compiler's optimisation on a message rate.
//!
//! In each round, an optimised and an unoptimised build run the same experiment, in alternating order. Prints the
//! median of the rounds' ratios, without a verdict.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::{median, median_interval};
use crate::process;

/// The cases: 1 and 64 messages of 64 B per call, between two CPUs, with congestion control `cubic`.
const CASES: [(&str, &[&str]); 3] = [
    ("TCP 64 B", &["--transport", "tcp", "--batch", "1", "--option", "congestion=cubic"]),
    ("TCP 64 B, 64 in a write", &["--transport", "tcp", "--batch", "64", "--option", "congestion=cubic"]),
    ("UDP 64 B", &["--transport", "udp", "--batch", "1"]),
];

/// Figures read from a run.
const FIGURES: [(&str, &str, f64); 2] =
    [("received_per_s", "messages/s", 1.0), ("latency_ns.p50", "us one way", 1e-3)];

/// Builds both programs, measures, and prints the results.
pub(crate) fn run(root: &Path, rounds: usize) -> Result<bool> {
    let [optimised] = process::build_release(root, [("hairpin", "hairpin")])?;
    let unoptimised = process::build_debug(root, "hairpin")?;
    let scratch = process::scratch("profiles")?;
    println!("{rounds} interleaved rounds; intervals contain the median with a probability of at least 95 %");
    for (place, (name, arguments)) in CASES.into_iter().enumerate() {
        let mut values = vec![[Vec::new(), Vec::new()]; FIGURES.len()];
        for round in 0..rounds {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let program = [&unoptimised, &optimised][which];
                let told = measure(program, arguments, &scratch.join(format!("{place}-{round}-{which}")))
                    .with_context(|| format!("{name}: {}", program.display()))?;
                for ((figure, ..), values) in FIGURES.iter().zip(&mut values) {
                    values[which].push(figure_of(&told, figure)?);
                }
            }
        }
        for ((_, unit, scale), [unoptimised, optimised]) in FIGURES.iter().zip(&values) {
            println!("{}", line(name, unit, *scale, unoptimised, optimised));
        }
    }
    process::remove(&scratch)?;
    Ok(true)
}

/// Runs one round of a case with one build.
fn measure(program: &PathBuf, arguments: &[&str], folder: &Path) -> Result<Value> {
    let mut command = Command::new(program);
    command.args(["message-rate", "--placement", "cross-cpu", "--rounds", "1", "--duration", "500ms", "--json"]);
    let ran = process::run(command.args(arguments).arg("--out").arg(folder), Duration::from_mins(2))?;
    ran.succeeded()?.json()
}

/// Returns the figure at a path of names in the only case.
fn figure_of(run: &Value, path: &str) -> Result<f64> {
    let case = &run["cases"][0];
    let figure = path.split('.').fold(case, |value, name| &value[name]);
    figure["value"].as_f64().with_context(|| format!("no `{path}` in the case"))
}

fn line(name: &str, unit: &str, scale: f64, unoptimised: &[f64], optimised: &[f64]) -> String {
    let ratios: Vec<f64> = optimised.iter().zip(unoptimised).map(|(one, other)| one / other).collect();
    let (low, high) = median_interval(&ratios);
    format!(
        "{name:24} {unit:12} unoptimised {:>12.1}  optimised {:>12.1}  ratio {:.3} ({low:.3}-{high:.3})",
        median(unoptimised) * scale,
        median(optimised) * scale,
        median(&ratios),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_is_found_and_a_missing_figure_is_named() {
        let run = json!({"cases": [{"received_per_s": {"value": 5.0}, "latency_ns": {"p50": {"value": 7.0}}}]});
        assert_eq!(figure_of(&run, "received_per_s").unwrap(), 5.0);
        assert_eq!(figure_of(&run, "latency_ns.p50").unwrap(), 7.0);
        assert_eq!(figure_of(&run, "latency_ns.p99").unwrap_err().to_string(), "no `latency_ns.p99` in the case");
    }

    #[test]
    fn the_ratio_is_the_median_of_ratios_and_not_the_ratio_of_medians() {
        let told = line("TCP", "messages/s", 1.0, &[1.0, 2.0, 4.0], &[3.0, 2.0, 4.0]);
        assert!(
            told.contains("unoptimised          2.0  optimised          3.0  ratio 1.000 (1.000-3.000)"),
            "{told}"
        );
    }
}
