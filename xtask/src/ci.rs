//! `cargo xtask ci`: all checks that a change must pass, in two processes. Prints the name and the time of each step.
//!
//! All steps run even if some fail, so that one run reports all faults. If a tool is missing, its step is skipped;
//! skips that are not in `allowed-skips.toml` fail.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hairpin_testing::program;

use crate::skips::{AllowedSkips, Done};
use crate::{
    aarch64, captures, commands, dist, documents, picture, platforms, process, readers, smoke, suite, tidy, versions,
};

struct State {
    root: PathBuf,
    target: PathBuf,
    scratch: PathBuf,
    allowed: AllowedSkips,
    /// What earlier steps made for others.
    made: BTreeMap<&'static str, PathBuf>,
}

const BINARY: &str = "release build";
const SURVEY: &str = "survey's run";
const SMALL_WRITES: &str = "run of small writes";

impl State {
    fn made(&self, what: &str) -> Result<&Path> {
        self.made.get(what).map(PathBuf::as_path).with_context(|| format!("the {what} is missing"))
    }
}

type Step = (&'static str, fn(&mut State) -> Result<Done>);

const STEPS: &[Step] = &[
    ("fmt", |state| cargo(state, &["fmt", "--all", "--check"], &[])),
    ("clippy", |state| {
        // `--all-targets` omits the lab, which has `test = false`.
        let all = format!("{},{}", suite::SCHEMA, suite::LIBRARIES);
        let of_lab = ["--package", "hairpin", "--test", "lab"];
        for (targets, features) in [(&["--workspace", "--all-targets"][..], all.as_str()), (&of_lab, suite::SCHEMA)] {
            let features = ["--features", features, "--", "-D", "warnings"];
            cargo(state, &[&["clippy", "--quiet", "--locked"], targets, &features].concat(), &[])?;
        }
        Ok(Done::Passed(String::new()))
    }),
    ("tests", |state| suite::ordinary(&state.root, &state.scratch, &state.allowed).map(Done::Passed)),
    ("other tests", |state| {
        suite::others(&state.root, &state.target, &state.scratch, &state.allowed).map(Done::Passed)
    }),
    ("loom", |state| {
        let arguments = ["test", "--release", "--locked", "--package", "hairpin-transports", "--lib", "--", "loom"];
        let mut command = process::cargo(&state.root);
        command.args(arguments).env("RUSTFLAGS", "--cfg loom");
        suite::check_selection(command)?;
        cargo(state, &arguments, &[("RUSTFLAGS", "--cfg loom")])
    }),
    ("fuzz targets", |state| {
        let target = state.target.join("fuzz-check");
        let arguments = ["check", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
        cargo(state, &arguments, &[("RUSTFLAGS", "--cfg fuzzing"), ("CARGO_TARGET_DIR", &target.to_string_lossy())])
    }),
    ("deny", deny),
    ("tidy", |state| tidy::run(&state.root).map(Done::Passed)),
    ("platforms", |state| platforms::run(&state.root)),
    ("aarch64", |state| aarch64::run(&state.root, &state.target, &state.scratch, &state.allowed)),
    ("docs", |state| {
        let arguments = ["doc", "--quiet", "--locked", "--no-deps", "--workspace"];
        cargo(state, &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
    }),
    ("package", |state| {
        // The crate that is published by itself. An uncommitted change is no fault of the package.
        let arguments = ["package", "--quiet", "--locked", "--allow-dirty", "--package", "hairpin-socket"];
        cargo(state, &arguments, &[])
    }),
    ("schema", |state| documents::schemas(&state.root, true).map(Done::Passed)),
    ("release build", release_build),
    ("library", |state| {
        // Without the feature of the command line, as other crates may use the library.
        let arguments = ["clippy", "--quiet", "--locked", "--package", "hairpin", "--lib", "--no-default-features"];
        cargo(state, &[&arguments[..], &["--", "-D", "warnings"]].concat(), &[])?;
        smoke::own_transport(&state.root, &state.scratch.join("own-transport")).map(Done::Passed)
    }),
    ("catalog", |state| documents::catalog(&state.root, state.made(BINARY)?, true).map(Done::Passed)),
    ("commands", |state| commands::run(&state.root, state.made(BINARY)?, true).map(Done::Passed)),
    ("versions", |state| versions::run(&state.root, &state.target, &state.scratch, state.made(BINARY)?)),
    ("unit", |state| {
        if program("systemd-analyze").is_err() {
            return Ok(Done::skipped("systemd-analyze", "it is not installed"));
        }
        // The exposure of the service must not exceed 1.7.
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--threshold=17"]);
        let ran = process::run(command.arg(state.root.join("docs/hairpin-serve.service")), Duration::from_mins(1))?;
        let shown = ran.succeeded()?.stdout;
        Ok(Done::Passed(shown.lines().last().unwrap_or_default().trim_start_matches(['→', ' ']).to_owned()))
    }),
    ("dist", |state| dist::run(&state.root).map(Done::Passed)),
    ("survey", survey),
    ("round trip", |state| {
        smoke::round_trip(state.made(BINARY)?, &state.scratch.join("round-trip"), &state.allowed).map(Done::Passed)
    }),
    ("small writes", small_writes),
    ("readers", read_back),
    ("captures", read_captures),
    ("picture", look),
];

/// Steps that a second process runs concurrently. Many tests wait, which leaves CPU time for these builds.
const SECOND: [&str; 8] =
    ["release build", "library", "commands", "catalog", "versions", "dist", "loom", "platforms"];

/// The second process among the steps of the first. Its text has a line for each of its steps.
const SECOND_PROCESS: &str = "the second process";

struct StepResult {
    name: &'static str,
    fault: bool,
    text: String,
    took: Duration,
}

/// Runs the named steps (default: all) and prints a summary. Returns whether all passed.
pub(crate) fn run(root: &Path, only: &[String]) -> Result<bool> {
    if let Some(unknown) = only.iter().find(|name| !STEPS.iter().any(|(step, _)| step == name)) {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        bail!("unknown step `{unknown}` (hint: one of {})", names.join(", "));
    }
    let target = process::target(root)?;
    let mut state = State {
        root: root.to_path_buf(),
        target,
        scratch: process::scratch("ci")?,
        allowed: AllowedSkips::read(root)?,
        made: BTreeMap::new(),
    };
    let mut second = if only.is_empty() { Some(Second::start(&state.scratch)?) } else { None };
    let is_wanted = |name: &str| match only {
        [] => name == SECOND[0] || !SECOND.contains(&name),
        only => only.iter().any(|wanted| wanted == name),
    };
    let mut lines = Vec::new();
    for step in STEPS.iter().filter(|(name, _)| is_wanted(name)) {
        // The steps from here on measure, so nothing else may run.
        if step.0 == SECOND[0] {
            lines.extend(second.take().map(Second::end).transpose()?);
        }
        lines.push(take(&mut state, step));
    }
    let passed = print_summary(&lines);
    if passed {
        process::remove(&state.scratch)?;
    } else {
        println!("the steps' files are kept in {}", state.scratch.display());
    }
    Ok(passed)
}

/// The second process. Its output is printed after the process has ended.
struct Second {
    running: Child,
    output: PathBuf,
    started: Instant,
}

impl Second {
    fn start(scratch: &Path) -> Result<Self> {
        let output = scratch.join("second");
        let file = File::create(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["ci", "--only", &SECOND.join(",")]);
        command.stdout(file.try_clone().context("cannot share the output")?).stderr(file);
        let running = command.spawn().context("cannot start the second process")?;
        Ok(Self { running, output, started: Instant::now() })
    }

    fn end(mut self) -> Result<StepResult> {
        let status = self.running.wait().context("cannot wait for the second process")?;
        let text = std::fs::read_to_string(&self.output).context("cannot read the second process's output")?;
        println!("== the second process\n{text}");
        let (_, summary) = text.rsplit_once("== summary\n").unwrap_or(("", "no summary"));
        let (totals, steps): (Vec<_>, Vec<_>) = summary.lines().partition(|line| line.contains(" steps, "));
        let took = self.started.elapsed();
        let text = std::iter::once(totals.join("; ")).chain(steps.into_iter().map(|step| format!("  {step}")));
        let text = text.collect::<Vec<_>>().join("\n");
        Ok(StepResult { name: SECOND_PROCESS, fault: !status.success(), text, took })
    }
}

fn take(state: &mut State, (name, step): &Step) -> StepResult {
    println!("== {name}");
    let started = Instant::now();
    let done = step(state);
    let line = line_of(name, done, &state.allowed, started.elapsed());
    println!("{}", line.text);
    line
}

fn line_of(name: &'static str, done: Result<Done>, allowed: &AllowedSkips, took: Duration) -> StepResult {
    let (fault, text) = match done {
        Ok(Done::Passed(text)) => (false, text),
        Ok(Done::Skipped(skip)) => match allowed.not_listed(std::slice::from_ref(&skip)).pop() {
            Some(fault) => (true, fault),
            None => (false, format!("skipped {}: {}", skip.what, skip.reason)),
        },
        Err(why) => (true, format!("{why:#}")),
    };
    StepResult { name, fault, text, took }
}

fn print_summary(lines: &[StepResult]) -> bool {
    println!("== summary");
    for line in lines {
        let outcome = if line.fault { "FAILED" } else { "ok" };
        let shown = if line.name == SECOND_PROCESS { usize::MAX } else { 1 };
        let text = line.text.lines().take(shown).collect::<Vec<_>>().join("\n");
        println!("{outcome:6} {:19} {:7.1} s  {text}", line.name, line.took.as_secs_f64());
    }
    let failed = lines.iter().filter(|line| line.fault).count();
    println!("{} steps, {failed} failed", lines.len());
    failed == 0 && !lines.is_empty()
}

fn cargo(state: &State, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Done> {
    let mut command = process::cargo(&state.root);
    command.args(arguments).envs(environment.iter().copied());
    process::run_cargo(&mut command, &format!("cargo {} failed", arguments[0]))?;
    Ok(Done::Passed(String::new()))
}

/// Checks licences, duplicate versions, sources, and the allowed dependencies between crates (deny.toml).
fn deny(state: &mut State) -> Result<Done> {
    if program("cargo-deny").is_err() {
        return Ok(Done::skipped("cargo-deny", "it is not installed"));
    }
    // The dependency rules apply to the main workspace only.
    let fuzz = ["deny", "--locked", "--manifest-path", "fuzz/Cargo.toml", "check"];
    cargo(state, &[&fuzz[..], &["--deny", "warnings", "licenses", "sources"]].concat(), &[])?;
    // Not `--offline`: the first time, cargo downloads crates for other systems to read their dependencies.
    cargo(state, &["deny", "--locked", "check", "--deny", "warnings", "licenses", "bans", "sources"], &[])
}

fn release_build(state: &mut State) -> Result<Done> {
    let [binary, _] = smoke::release_build(&state.root)?;
    state.made.insert(BINARY, binary);
    Ok(Done::Passed(String::new()))
}

fn survey(state: &mut State) -> Result<Done> {
    let folder = state.scratch.join("survey");
    let line = smoke::survey(state.made(BINARY)?, &folder, &state.allowed)?;
    state.made.insert(SURVEY, folder);
    Ok(Done::Passed(line))
}

fn read_back(state: &mut State) -> Result<Done> {
    let run_folder = state.made(SURVEY)?;
    match readers::environment(&state.target) {
        Ok(python) => readers::read_back(&python, run_folder).map(Done::Passed),
        Err(why) => Ok(Done::skipped("readers", &format!("{why:#}"))),
    }
}

fn small_writes(state: &mut State) -> Result<Done> {
    let folder = state.scratch.join("small-writes");
    let line = smoke::small_writes(state.made(BINARY)?, &folder, &state.allowed)?;
    state.made.insert(SMALL_WRITES, folder);
    Ok(Done::Passed(line))
}

fn read_captures(state: &mut State) -> Result<Done> {
    let folder = state.made(SMALL_WRITES)?;
    let Ok(tshark) = program("tshark") else { return Ok(Done::skipped("tshark", "it is not installed")) };
    captures::compare(&tshark, folder, &smoke::read_run(folder)?).map(Done::Passed)
}

fn look(state: &mut State) -> Result<Done> {
    let Some(browser) = picture::browser() else { return Ok(Done::skipped("chromium", "it is not installed")) };
    let python = match readers::environment(&state.target) {
        Ok(python) => python,
        Err(why) => return Ok(Done::skipped("readers", &format!("{why:#}"))),
    };
    let pictures = state.scratch.join("picture");
    let mut lines = Vec::new();
    for (name, folder) in [("survey", state.made(SURVEY)?), ("small-writes", state.made(SMALL_WRITES)?)] {
        let line = picture::look(&browser, &python, &folder.join("report.html"), &pictures.join(name));
        lines.push(format!("{name}: {}", line.with_context(|| format!("the report of {name}"))?));
    }
    Ok(Done::Passed(lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_is_not_listed_is_a_fault() {
        let line = |done| line_of("step", done, &AllowedSkips::default(), Duration::ZERO);
        let unlisted = line(Ok(Done::skipped("chromium", "it is not installed")));
        assert!(unlisted.fault && unlisted.text.starts_with("chromium was skipped: it is not installed"));
        assert!(!line(Ok(Done::Passed("fine".to_owned()))).fault);
        assert!(line(Err(anyhow::anyhow!("broken"))).fault);
    }

    #[test]
    fn one_fault_and_an_empty_list_of_steps_fail() {
        let line = |fault| StepResult { name: "step", fault, text: String::new(), took: Duration::ZERO };
        assert!(print_summary(&[line(false), line(false)]));
        assert!(!print_summary(&[line(false), line(true)]));
        assert!(!print_summary(&[]));
    }

    #[test]
    fn an_unknown_step_is_refused_with_a_list_of_steps() {
        assert!(SECOND.iter().all(|second| STEPS.iter().any(|(name, _)| name == second)));
        let why = run(Path::new("."), &["clipy".to_owned()]).unwrap_err().to_string();
        assert!(why.starts_with("unknown step `clipy` (hint: one of fmt, clippy, "), "{why}");
    }
}
