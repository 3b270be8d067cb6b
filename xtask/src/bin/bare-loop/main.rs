//! Hand-written reference loops: they make Hairpin's system calls and clock reads in two processes (fork), and use no
//! crate of the workspace. `cargo xtask fidelity` runs round trips, `cargo xtask rates` one-way traffic.
//!
//! A round trip prints one line of JSON: `{"p50_ns", "p99_ns", "min_ns", "mean_ns", "samples", "ns_per_tick",
//! "resolution_ns"}`.
#![expect(unsafe_code, reason = "makes system calls directly, without code of Hairpin")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]
#![expect(clippy::inline_always, reason = "the loop must only make system calls")]
#![expect(clippy::cast_precision_loss, reason = "nanoseconds and counts are far below 2^53")]

mod calls;
mod clock;
mod extras;
#[cfg(feature = "libraries")]
mod library;
mod one_way;
mod options;
mod pair;
mod system;
mod wires;

use std::process::ExitCode;

use options::{Options, RateOptions};
use wires::End;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("rates") => RateOptions::parse(&arguments[1..]).and_then(|asked| {
            one_way::measure(&asked).map_err(|why| format!("cannot measure {}: {why}", asked.transport))
        }),
        #[cfg(feature = "libraries")]
        Some("library") => library::Options::parse(&arguments[1..])
            .and_then(|asked| library::measure(&asked).map_err(|why| format!("cannot measure a library: {why}"))),
        _ => Options::parse(&arguments)
            .and_then(|asked| measure(&asked).map_err(|why| format!("cannot measure {}: {why}", asked.transport))),
    };
    match outcome {
        Ok(json) => {
            println!("{json}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("bare-loop: {why}");
            ExitCode::from(2)
        }
    }
}

fn measure(asked: &Options) -> std::io::Result<String> {
    let ticks = match asked.transport.as_str() {
        "shm" => {
            let (client, echo) = wires::shared_lines(asked.spin)?;
            in_pair(asked, client, echo)?
        }
        "pipe" => {
            let (client, echo) = wires::pipes(asked.spin)?;
            in_pair(asked, client, echo)?
        }
        transport => {
            let (client, echo) = wires::sockets(transport, asked.spin, &asked.server)?;
            in_pair(asked, client, echo)?
        }
    };
    Ok(figures(ticks, clock::ns_per_tick(50_000_000), clock::resolution_ticks()))
}

/// Measures with both ends. Returns the round-trip times in ticks, in order of time.
fn in_pair(asked: &Options, client: impl End + 'static, echo: impl End + 'static) -> std::io::Result<Vec<u64>> {
    if asked.extras.dynamic {
        let [client, echo]: [Box<dyn End>; 2] = std::hint::black_box([Box::new(client), Box::new(echo)]);
        return pair::round_trips(asked, client, echo);
    }
    pair::round_trips(asked, client, echo)
}

/// Returns the figures as JSON. A percentile is the sample at its rank.
fn figures(mut ticks: Vec<u64>, ns_per_tick: f64, resolution_ticks: u64) -> String {
    ticks.sort_unstable();
    let samples = ticks.len();
    let at = |percent: usize| ticks[(samples * percent).div_ceil(100).max(1) - 1] as f64 * ns_per_tick;
    let mean = ticks.iter().sum::<u64>() as f64 / samples as f64 * ns_per_tick;
    format!(
        r#"{{"p50_ns": {:.1}, "p99_ns": {:.1}, "min_ns": {:.1}, "mean_ns": {mean:.1}, "samples": {samples}, "ns_per_tick": {ns_per_tick:.9}, "resolution_ns": {:.1}}}"#,
        at(50),
        at(99),
        ticks[0] as f64 * ns_per_tick,
        resolution_ticks as f64 * ns_per_tick,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_at_their_rank() {
        let json = figures((1..=200).rev().collect(), 0.5, 2);
        assert!(json.starts_with(r#"{"p50_ns": 50.0, "p99_ns": 99.0, "min_ns": 0.5, "mean_ns": 50.2"#), "{json}");
        assert!(json.ends_with(r#""resolution_ns": 1.0}"#), "{json}");
        assert!(figures(vec![7], 1.0, 0).contains(r#""p50_ns": 7.0, "p99_ns": 7.0"#));
    }
}
