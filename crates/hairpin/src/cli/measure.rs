//! The commands that measure: one for each experiment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ArgMatches;
use clap::parser::ValueSource;
use hairpin_engine::{Engine, RunFolder};
use hairpin_experiments::{Experiment, KnobKind, Knobs, Step, experiments};
use hairpin_model::run::{FORMAT, Plan, Run, State};
use hairpin_report::quantities;

use super::exit::{Exit, Stopped};
use super::output;
use super::report::{show, write_page};
use crate::measure::{Task, carry_out};
use crate::progress::Progress;
use crate::{interrupt, tool};

/// Runs an experiment, saves it and reports it.
///
/// # Errors
/// Bad knobs, or a run folder that cannot be made: nothing has been measured then.
pub fn run(name: &str, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let experiment = experiments::find(name).map_err(Stopped::usage)?;
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (knobs, seed) = knobs(experiment, matches)?;
    let ground = hairpin_engine::engine::ground().map_err(unready)?;
    // Asked once before anything is made, so that bad knobs leave nothing behind.
    if let Step::Done = experiment.next(&knobs, &ground, &[]).map_err(Stopped::usage)? {
        return Err(Stopped::usage("there is nothing to measure (hint: `hairpin list` shows what can run here)"));
    }
    let stop = interrupt::raised_by_user().map_err(unready)?;
    let program = std::env::current_exe().map_err(unready)?;
    let engine = Engine::new(program, stop).map_err(unready)?;
    let folder = folder(matches, name, started_unix_s)?;
    let run = Run {
        format: FORMAT,
        tool: tool::this(),
        command_line: arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        started_unix_s,
        duration_ns: 0,
        state: State::Running,
        seed,
        plan: plan(experiment, &knobs),
        environment: hairpin_engine::environment::read(&engine),
        cases: Vec::new(),
        comparisons: Vec::new(),
        findings: Vec::new(),
        skipped: Vec::new(),
        unsaved: Vec::new(),
        rounds: Vec::new(),
    };
    folder.write_run(&run).map_err(Stopped::usage)?;
    let mut progress = Progress::new(matches.get_flag("quiet"));
    let task = Task {
        experiment,
        knobs: &knobs,
        ground: &ground,
        engine: &engine,
        folder: &folder,
        prove: matches.get_flag("prove"),
    };
    let run = carry_out(&task, run, &mut progress);
    progress.finish();
    finish(&folder, run.map_err(Stopped::usage)?, matches)
}

/// Saves and reports: whatever of it fails, the rest is done, and what was measured is shown.
fn finish(folder: &RunFolder, mut run: Run, matches: &ArgMatches) -> Result<Exit, Stopped> {
    if let Err(error) = folder.write_run(&run) {
        let cause = format!("the summary was not saved: {error}");
        run.unsaved.push(hairpin_model::round::Failure { cause, hint: String::new() });
    }
    let page = write_page(&run, &folder.path().join(PAGE));
    let printed = show(folder, &run, matches);
    match &page {
        Ok(()) => output::note(&format!(
            "\nRun folder  {}\nReport      {}",
            shown(folder.path()),
            shown(&folder.path().join(PAGE))
        )),
        Err(error) => output::error(error),
    }
    for failure in &run.unsaved {
        output::error(&failure.cause);
    }
    printed?;
    Ok(match run.state {
        State::Interrupted => Exit::Interrupted,
        _ if run.failed_rounds() > 0 || !run.unsaved.is_empty() || page.is_err() => Exit::RoundsFailed,
        _ => Exit::Fine,
    })
}

/// The page's name in the run folder.
pub const PAGE: &str = "report.html";

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn unready(error: impl std::fmt::Display) -> Stopped {
    Stopped::usage(format!(
        "cannot prepare to measure: {error} (hint: /proc and the CPU affinity of this process are needed)"
    ))
}

fn plan(experiment: &dyn Experiment, knobs: &Knobs) -> Plan {
    Plan {
        experiment: experiment.name().to_owned(),
        question: experiment.question().to_owned(),
        knobs: knobs.pairs(),
        rounds_ordered: 0,
        cases: Vec::new(),
    }
}

/// The knobs as given, and the seed: the user's, or one drawn from the time.
fn knobs(experiment: &'static dyn Experiment, matches: &ArgMatches) -> Result<(Knobs, u64), Stopped> {
    let mut given = Vec::new();
    for knob in experiment.knobs() {
        if matches.value_source(knob.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        let texts = match knob.kind {
            KnobKind::Switch => vec!["on".to_owned()],
            _ => matches.get_many::<String>(knob.name).unwrap_or_default().cloned().collect(),
        };
        given.push((knob.name, texts));
    }
    if !given.iter().any(|(name, _)| *name == "seed") {
        given.push(("seed", vec![drawn_seed().to_string()]));
    }
    let knobs = Knobs::from_given(experiment, given).map_err(Stopped::usage)?;
    let seed = knobs.whole("seed").map_err(Stopped::usage)?.unwrap_or_default();
    Ok((knobs, seed))
}

/// A seed short enough to type again.
fn drawn_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20) ^ u64::from(std::process::id())) % 1_000_000_007
}

/// The folder the user named, or a new one named after the time.
fn folder(matches: &ArgMatches, name: &str, unix_s: u64) -> Result<RunFolder, Stopped> {
    if let Some(path) = matches.get_one::<PathBuf>("out") {
        return RunFolder::create(path).map_err(Stopped::usage);
    }
    let digits: String = quantities::utc(unix_s).chars().filter(char::is_ascii_digit).collect();
    let stem = format!("{}-{}-{name}", &digits[..8], digits.get(8..14).unwrap_or(&digits[8..]));
    let parent = Path::new("hairpin-runs");
    let candidates = std::iter::once(stem.clone()).chain((2..1000).map(|again| format!("{stem}-{again}")));
    let free = candidates.map(|name| parent.join(name)).find(|path| !path.exists());
    RunFolder::create(&free.unwrap_or_else(|| parent.join(stem))).map_err(Stopped::usage)
}
