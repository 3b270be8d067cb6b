//! `cargo xtask stalls`: does `hairpin small-writes` find what it must, on this machine, now?
//!
//! One run with the defaults is held against its promises: its length, the stall of remedy `none`, the gain of each
//! remedy, their order. Then many short runs count how often `nagle-meets-delayed-ack` is named where it stalls, where
//! a remedy is in force, and where an echo half that sleeps 40 ms makes the same mode with Nagle on.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{contract, picture, process, readers};

/// No run takes this long.
const LIMIT: Duration = Duration::from_mins(2);
/// The finding that all this is about.
const CODE: &str = "nagle-meets-delayed-ack";
/// The defaults must be done within this.
const LIMIT_S: f64 = 20.0;
/// The remedies that must not be blamed.
const INNOCENT: &[&str] = &["nodelay", "cork", "more", "one-write"];
/// Requests that Nagle's algorithm could hold, and does not where the echo half sleeps: it acknowledges at once.
const SLEEPING_WRITES: &[&str] = &["100x2", "2x2"];
/// Remedies from slow to fast, and how many times the bytes/ms of `none` each must reach.
const ORDER: &[(&str, f64)] = &[("none", 1.0), ("nodelay", 40.0), ("cork", 200.0), ("one-write", 200.0)];

/// Runs, prints and judges.
///
/// # Errors
/// Where the binary cannot be built or run, or tells no figures.
pub(crate) fn run(root: &Path, runs: usize, keep_picture: bool) -> Result<bool> {
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let scratch = process::scratch("stalls")?;
    let mut holds = with_defaults(&hairpin, &scratch.join("defaults"))?;
    if keep_picture {
        picture_for_the_documents(root, &scratch)?;
    }
    holds &= counted(&hairpin, &scratch, runs)?;
    process::remove(&scratch)?;
    Ok(holds)
}

/// The stall packet by packet, as docs/why-small-writes-stall.md shows it.
fn picture_for_the_documents(root: &Path, scratch: &Path) -> Result<()> {
    let browser = picture::browser().context("chromium is not installed")?;
    let target =
        process::metadata(root)?["target_directory"].as_str().map(PathBuf::from).context("no target folder")?;
    let python = readers::environment(&target)?;
    let report = scratch.join("defaults/report.html");
    let to = root.join("docs/why-small-writes-stall.png");
    picture::keep(&browser, &python, &report, &scratch.join("picture"), "time-sequence", &to)?;
    println!("kept   {}", to.display());
    Ok(())
}

/// The run with the defaults against its promises.
fn with_defaults(hairpin: &Path, out: &PathBuf) -> Result<bool> {
    let (told, wall) = small_writes(hairpin, out, &[])?;
    let seconds = wall.as_secs_f64();
    let mut holds = judged(seconds < LIMIT_S, &format!("the defaults took {seconds:.1} s, limit {LIMIT_S} s"));
    let none_ms = figure(tcp(&told, "none")?, "/exchange_ns/p50")?.0 / 1e6;
    holds &=
        judged((40.0..=50.0).contains(&none_ms), &format!("none takes {none_ms:.1} ms at p50, 40 to 50 promised"));
    let none_per_ms = figure(tcp(&told, "none")?, "/bytes_per_ms")?.0;
    for (remedy, least) in ORDER.iter().chain(&[("more", 200.0)]).skip(1) {
        let times = figure(tcp(&told, remedy)?, "/bytes_per_ms")?.0 / none_per_ms;
        holds &= judged(
            times >= *least,
            &format!("{remedy} moves {times:.0} times the bytes/ms of none, at least {least}"),
        );
    }
    for pair in ORDER.windows(2) {
        let (slow, fast) = (pair[0].0, pair[1].0);
        let (_, _, high) = figure(tcp(&told, slow)?, "/bytes_per_ms")?;
        let (_, low, _) = figure(tcp(&told, fast)?, "/bytes_per_ms")?;
        holds &= judged(high < low, &format!("{slow} up to {high:.4} bytes/ms, {fast} from {low:.4}"));
    }
    Ok(holds)
}

/// How often the finding is named, run after run.
fn counted(hairpin: &Path, scratch: &Path, runs: usize) -> Result<bool> {
    let remedies = format!("none,{}", INNOCENT.join(","));
    let short = ["--transport", "tcp", "--rounds", "2", "--exchanges", "4", "--warmup", "1"];
    let sleeping = ["--remedy", "none", "--plant", "sleep=40ms/1"];
    let (mut on_none, mut on_others, mut on_sleeping) = (0, 0, 0);
    for number in 0..runs {
        let folder = |name: &str| scratch.join(format!("{name}-{number}"));
        let (told, _) = small_writes(hairpin, &folder("short"), &[&short[..], &["--remedy", &remedies]].concat())?;
        let blamed = blamed(&told);
        on_none += usize::from(blamed.iter().any(|remedy| remedy == "none"));
        on_others += usize::from(blamed.iter().any(|remedy| remedy != "none"));
        let mut is_named = false;
        for writes in SLEEPING_WRITES {
            let arguments = [&short[..], &sleeping, &["--writes", writes]].concat();
            let (told, _) = small_writes(hairpin, &folder(&format!("sleeping-{writes}")), &arguments)?;
            is_named |= names_it(&told);
        }
        on_sleeping += usize::from(is_named);
    }
    let mut holds = judged(on_none == runs, &format!("{CODE} named on none in {on_none} of {runs} runs"));
    holds &= judged(on_others == 0, &format!("on {} in {on_others} of {runs}", INNOCENT.join(", ")));
    holds &=
        judged(on_sleeping == 0, &format!("on an echo half that sleeps 40 ms, Nagle on, in {on_sleeping} of {runs}"));
    Ok(holds)
}

fn judged(holds: bool, what: &str) -> bool {
    println!("{} {what}", if holds { "holds " } else { "MISSED" });
    holds
}

fn small_writes(hairpin: &Path, out: &PathBuf, arguments: &[&str]) -> Result<(Value, Duration)> {
    let mut command = Command::new(hairpin);
    command.arg("small-writes").args(arguments).args(["--json", "--quiet", "--out"]).arg(out);
    let ran = process::run(&mut command, LIMIT)?.succeeded().context("hairpin small-writes")?;
    Ok((ran.json()?, ran.wall))
}

/// The case of that remedy over tcp.
fn tcp<'v>(told: &'v Value, remedy: &str) -> Result<&'v Value> {
    let wanted = |case: &&Value| case["case"]["transport"] == "tcp" && case["case"]["remedy"] == remedy;
    contract::list(told, "cases").iter().find(wanted).with_context(|| format!("no case tcp {remedy}"))
}

/// A figure of a case: its value and its bounds.
fn figure(case: &Value, pointer: &str) -> Result<(f64, f64, f64)> {
    let figure = case.pointer(pointer).with_context(|| format!("no {pointer}"))?;
    let part = |name: &str| figure[name].as_f64();
    match (part("value"), part("low"), part("high")) {
        (Some(value), Some(low), Some(high)) => Ok((value, low, high)),
        _ => bail!("{pointer} has no interval: {figure}"),
    }
}

fn names_it(told: &Value) -> bool {
    contract::list(told, "findings").iter().any(|finding| finding["code"] == CODE)
}

/// The remedies of the cases that the finding names.
fn blamed(told: &Value) -> Vec<String> {
    let named = contract::list(told, "findings").iter().filter(|finding| finding["code"] == CODE);
    let ids: Vec<&Value> = named.flat_map(|finding| contract::list(finding, "cases")).collect();
    let cases = contract::list(told, "cases").iter().filter(|case| ids.contains(&&case["id"]));
    cases.filter_map(|case| case["case"]["remedy"].as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told() -> Value {
        json!({
            "cases": [
                {"id": "a", "case": {"transport": "tcp", "remedy": "none"},
                 "bytes_per_ms": {"value": 4.5, "low": 4.4, "high": 4.6}},
                {"id": "b", "case": {"transport": "tcp", "remedy": "nodelay"},
                 "bytes_per_ms": {"value": 344.0, "low": null, "high": null}}
            ],
            "findings": [{"code": "nagle-meets-delayed-ack", "cases": ["a"]}, {"code": "drift", "cases": ["b"]}]
        })
    }

    #[test]
    fn the_remedies_that_are_blamed_are_those_of_the_finding_s_cases() {
        assert_eq!(blamed(&told()), ["none"]);
        assert!(names_it(&told()));
        assert!(!names_it(&json!({"findings": [{"code": "drift", "cases": []}]})));
    }

    #[test]
    fn a_figure_without_an_interval_is_an_error() {
        assert_eq!(figure(tcp(&told(), "none").unwrap(), "/bytes_per_ms").unwrap(), (4.5, 4.4, 4.6));
        assert!(figure(tcp(&told(), "nodelay").unwrap(), "/bytes_per_ms").is_err());
        assert!(tcp(&told(), "cork").is_err());
    }
}
