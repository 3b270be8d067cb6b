//! The measurement commands: one for each experiment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ArgMatches;
use clap::parser::ValueSource;
use hairpin_engine::links::namespace;
use hairpin_engine::{Engine, RunFolder};
use hairpin_experiments::budget::ALPHA_OF_A_LOOK;
use hairpin_experiments::shared::knobs_applied;
use hairpin_experiments::{Done, Experiment, KnobKind, Knobs, Refused, Step, evidence, experiments};
use hairpin_model::answer::Answer;
use hairpin_model::capabilities::HostCapabilities;
use hairpin_model::case::Case;
use hairpin_model::environment::{Environment, NetworkNamespace};
use hairpin_model::machine::Machine;
use hairpin_model::quantities;
use hairpin_model::run::{FORMAT, Host, Plan, Run, State};
use hairpin_model::trace::End;
use hairpin_report::time_sequence;

use super::exit::{Exit, Stopped};
use super::output;
use super::report::{PAGE, show, write_page};
use super::two_hosts::Session;
use crate::measure::{Task, carry_out};
use crate::progress::Progress;
use crate::{interrupt, tool};

/// Folder for run folders, in the current folder, unless the user names one.
pub(super) const RUNS: &str = "hairpin-runs";

/// Maximum of printed errors in saving: a full disk fails every later round.
const MAX_UNSAVED: usize = 3;

/// Short for `--keep-samples 0`.
pub(super) const NO_SAMPLES: &str = "no-samples";

/// Runs an experiment, saves it and reports it.
///
/// # Errors
/// The knobs are invalid, or a run folder cannot be created: nothing was measured.
pub fn run(name: &str, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let asked = Request::read(name, matches)?;
    let mut bench = Bench::prepare(matches)?;
    let cases = asked.check(&mut bench)?;
    if let Some(which) = matches.get_one::<String>("ladder") {
        asked.check_ladder(which, &cases, &bench)?;
    }
    let engine = bench.engine()?;
    let folder = RunFolder::create(&folder(matches, name, now_unix_s())).map_err(Stopped::usage)?;
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command_line = hairpin_hosts::ticket::redacted(&words);
    let mut run = measured(&asked, &bench, &engine, &folder, command_line, matches.get_flag("quiet"))?;
    let page = save(&folder, &mut run);
    let printed = show(&folder, &run, matches);
    match &page {
        Ok(()) => output::note(&format!(
            "\nRun folder  {}\nReport      {}",
            shown(folder.path()),
            shown(&folder.path().join(PAGE))
        )),
        Err(error) => output::error(error),
    }
    for failure in run.unsaved.iter().take(MAX_UNSAVED) {
        output::error(&failure.cause);
    }
    if run.unsaved.len() > MAX_UNSAVED {
        output::error(&format!("not all was saved: {} more errors like these", run.unsaved.len() - MAX_UNSAVED));
    }
    printed?;
    Ok(match run.state {
        State::Interrupted => Exit::Interrupted,
        _ if run.failed_rounds() > 0 || !run.unsaved.is_empty() || page.is_err() => Exit::RoundsFailed,
        _ => Exit::Fine,
    })
}

/// An experiment and its knobs.
pub(super) struct Request {
    experiment: &'static Experiment,
    knobs: Knobs,
    seed: u64,
    prove: bool,
}

impl Request {
    /// Reads the flags of the experiment of that name.
    pub(super) fn read(name: &str, matches: &ArgMatches) -> Result<Self, Stopped> {
        let experiment = experiments::find(name).map_err(Stopped::usage)?;
        let (knobs, seed) = knobs(experiment, matches)?;
        Ok(Self { experiment, knobs, seed, prove: matches.get_flag("prove") })
    }

    /// Plans the first cases before any file is created, so that bad knobs leave nothing behind. If they have links or
    /// kernel settings, prepares the process to enter their namespaces.
    pub(super) fn check(&self, bench: &mut Bench) -> Result<Vec<Case>, Stopped> {
        let cases = self.first_cases(bench)?;
        let has_own_namespace = |case: &Case| case.is_emulated() || !case.sysctls.is_empty();
        if cases.iter().any(has_own_namespace) && bench.make_way_to_links()? {
            return self.first_cases(bench);
        }
        Ok(cases)
    }

    fn first_cases(&self, bench: &Bench) -> Result<Vec<Case>, Stopped> {
        match self.experiment.next(&self.knobs, &bench.capabilities, &Done::default()).map_err(Stopped::usage)? {
            Step::Run { cases, rounds, .. } => {
                bench.session.as_ref().map_or(Ok(()), |session| session.allow(&rounds))?;
                Ok(cases)
            }
            Step::Done => {
                Err(Stopped::usage("no transport to measure (hint: `hairpin list` shows what can run here)"))
            }
        }
    }

    /// Refuses a ladder for something that is not among the cases, before anything is measured.
    fn check_ladder(&self, which: &str, cases: &[Case], bench: &Bench) -> Result<(), Stopped> {
        let traces = self.knobs.is_on("trace");
        if !traces && self.experiment.knobs.iter().any(|knob| knob.name == "trace") {
            let why = "--ladder draws a traced exchange, but --trace off traces none (hint: omit one of them)";
            return Err(Stopped::usage(why));
        }
        let is_traced = |case: &Case| traces && evidence::is_traced(case, &bench.capabilities);
        time_sequence::check(which, cases.iter().map(|case| (case, is_traced(case)))).map_err(Stopped::usage)
    }
}

/// State shared by all runs of this process: what can run here, and the user's stop flag.
pub(super) struct Bench {
    capabilities: HostCapabilities,
    stop: Arc<AtomicBool>,
    program: PathBuf,
    /// Network namespace of rounds over the loopback.
    namespace: NetworkNamespace,
    /// Whether root started this process: in its own namespaces it acts as root in any case.
    by_root: bool,
    may_enter_links: bool,
    /// Session with the run's server, if that is on another host.
    session: Option<Session>,
    /// CPU of the ends here, if the user chose one.
    cpu: Option<usize>,
}

impl Bench {
    /// Reads what can run here, catches Ctrl-C, and opens the session with a server on another host, if requested.
    pub(super) fn prepare(matches: &ArgMatches) -> Result<Self, Stopped> {
        let mut bench = Self {
            capabilities: hairpin_engine::engine::capabilities().map_err(unready)?,
            stop: interrupt::raised_by_user().map_err(unready)?,
            program: std::env::current_exe().map_err(unready)?,
            namespace: NetworkNamespace::Original,
            by_root: hairpin_engine::environment::is_root(),
            may_enter_links: false,
            session: None,
            cpu: matches.get_one::<usize>("cpu").copied(),
        };
        bench.session = Session::asked(matches, &bench.stop)?;
        bench.capabilities.far = bench.session.as_ref().map(Session::host);
        if bench.cpu.is_some() && bench.session.is_none() {
            return Err(Stopped::usage(
                "--cpu places the one end that is here (hint: use it with --to or HAIRPIN_TO, else --placement)",
            ));
        }
        Ok(bench)
    }

    /// Host of the server, if it is another one.
    pub(super) fn host(&self) -> Option<&str> {
        self.capabilities.far.as_ref().map(|far| far.name.as_str())
    }

    /// Prepares this process to enter links, once. Returns whether what can run here may have changed: an ordinary
    /// user's process is then in its own namespaces, where it acts as root.
    fn make_way_to_links(&mut self) -> Result<bool, Stopped> {
        if self.may_enter_links {
            return Ok(false);
        }
        let home =
            namespace::prepare().map_err(|why| Stopped::usage(format!("cannot make network namespaces: {why}")))?;
        self.may_enter_links = true;
        if home.is_original() {
            return Ok(false);
        }
        self.namespace = NetworkNamespace::Own;
        let far = self.capabilities.far.take();
        self.capabilities = HostCapabilities { far, ..hairpin_engine::engine::capabilities().map_err(unready)? };
        Ok(true)
    }

    /// An engine for one run; its clock starts now.
    pub(super) fn engine(&self) -> Result<Engine, Stopped> {
        let engine = Engine::new(self.program.clone(), Arc::clone(&self.stop)).map_err(unready)?;
        let cpus = self.cpu.map_or(Ok(engine.cpus.clone()), |cpu| engine.cpus.only(cpu)).map_err(Stopped::usage)?;
        Ok(Engine { far: self.session.as_ref().map(Session::far), cpus, ..engine })
    }

    /// Whether the user interrupted it.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Carries out the experiment, with each round saved in the folder; prints only the progress.
pub(super) fn measured(
    asked: &Request,
    bench: &Bench,
    engine: &Engine,
    folder: &RunFolder,
    command_line: Vec<String>,
    quiet: bool,
) -> Result<Run, Stopped> {
    let Request { experiment, knobs, seed, prove } = asked;
    let environment = Environment {
        network_namespace: bench.namespace,
        root: bench.by_root,
        interface: bench.session.as_ref().and_then(Session::interface),
        ..hairpin_engine::environment::read(engine)
    };
    let run = Run {
        format: FORMAT,
        tool: tool::this(),
        command_line,
        started_unix_s: now_unix_s(),
        duration_ns: 0,
        state: State::Running,
        seed: *seed,
        plan: plan(experiment, knobs, &bench.capabilities).map_err(Stopped::usage)?,
        hosts: [(End::Client, Some(environment)), (End::Server, bench.session.as_ref().map(Session::environment))]
            .into_iter()
            .filter_map(|(role, environment)| Some(Host { role, environment: environment? }))
            .collect(),
        cards: bench.capabilities.saved_cards(),
        machine: Machine::default(),
        cases: Vec::new(),
        comparisons: Vec::new(),
        findings: Vec::new(),
        skipped: Vec::new(),
        answer: Answer::default(),
        unsaved: Vec::new(),
        rounds: Vec::new(),
    };
    folder.write_run(&run).map_err(Stopped::usage)?;
    let mut progress = Progress::new(quiet);
    let link_logs = knobs.is_on("keep-link-log").then(|| folder.files().clone());
    let engine = &Engine { link_logs, ..engine.clone() };
    let task = Task { experiment, knobs, capabilities: &bench.capabilities, engine, folder, prove: *prove };
    let run = carry_out(&task, run, &mut progress);
    progress.finish();
    run.map_err(Stopped::usage)
}

/// Merges the samples and saves the summary and the page. Failures of the first two are recorded in the run; failure of
/// the page is the error.
pub(super) fn save(folder: &RunFolder, run: &mut Run) -> Result<(), String> {
    // After a failed write, merging would only need more room.
    if run.unsaved.is_empty()
        && let Err(error) = folder.merge_samples(&mut run.rounds)
    {
        let cause = format!("the samples stay in one file per round: {error}");
        run.unsaved.push(hairpin_model::round::Failure { cause, hint: String::new() });
    }
    if let Err(error) = folder.write_run(run) {
        let cause = format!("the summary was not saved: {error}");
        folder.note_not_saved(run.unsaved.first().map_or(&cause, |first| &first.cause));
        run.unsaved.push(hairpin_model::round::Failure { cause, hint: String::new() });
    }
    write_page(run, folder)
}

/// Seconds since 1970-01-01 UTC.
pub(super) fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn unready(error: impl std::fmt::Display) -> Stopped {
    Stopped::usage(format!(
        "cannot prepare to measure: {error} (hint: /proc and the CPU affinity of this process are needed)"
    ))
}

fn plan(experiment: &Experiment, knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Plan, Refused> {
    Ok(Plan {
        experiment: experiment.name.to_owned(),
        question: experiment.question.to_owned(),
        knobs: knobs_applied(knobs, capabilities)?,
        quick: knobs.is_on("quick"),
        alpha: if knobs.is_given("until") { ALPHA_OF_A_LOOK } else { Plan::default().alpha },
        ..Plan::default()
    })
}

/// The given knobs, and the seed: the user's, or one drawn from the time.
fn knobs(experiment: &'static Experiment, matches: &ArgMatches) -> Result<(Knobs, u64), Stopped> {
    let mut given = Vec::new();
    for knob in experiment.knobs {
        if matches.value_source(knob.name) != Some(ValueSource::CommandLine) {
            continue;
        }
        let texts = match knob.kind {
            KnobKind::Switch => vec!["on".to_owned()],
            _ => matches.get_many::<String>(knob.name).unwrap_or_default().cloned().collect(),
        };
        given.push((knob.name, texts));
    }
    if matches.try_get_one(NO_SAMPLES).is_ok_and(|is_given| is_given == Some(&true)) {
        given.push(("keep-samples", vec!["0".to_owned()]));
    }
    if !given.iter().any(|(name, _)| *name == "seed") {
        given.push(("seed", vec![drawn_seed().to_string()]));
    }
    let knobs = Knobs::from_given(experiment.knobs, given).map_err(Stopped::usage)?;
    let seed = knobs.seed().map_err(Stopped::usage)?;
    Ok((knobs, seed))
}

/// A random seed, short enough to type.
pub(super) fn drawn_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20) ^ u64::from(std::process::id())) % 1_000_000_007
}

/// The folder that the user named, or a new one named after the time.
pub(super) fn folder(matches: &ArgMatches, name: &str, unix_s: u64) -> PathBuf {
    if let Some(path) = matches.get_one::<PathBuf>("out") {
        return path.clone();
    }
    let digits: String = quantities::utc(unix_s).chars().filter(char::is_ascii_digit).collect();
    let stem = format!("{}-{}-{name}", &digits[..8], digits.get(8..14).unwrap_or(&digits[8..]));
    let parent = Path::new(RUNS);
    let candidates = std::iter::once(stem.clone()).chain((2..1000).map(|again| format!("{stem}-{again}")));
    let free = candidates.map(|name| parent.join(name)).find(|path| !path.exists());
    free.unwrap_or_else(|| parent.join(stem))
}
