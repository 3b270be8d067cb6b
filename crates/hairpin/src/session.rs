//! One measurement from its settings to its saved run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use hairpin_engine::Engine;
use hairpin_engine::links::namespace;
use hairpin_experiments::budget::ALPHA_OF_A_LOOK;
use hairpin_experiments::shared::knobs_applied;
use hairpin_experiments::{Done, Experiment, Knobs, Refused, Step};
use hairpin_model::environment::NetworkNamespace;
use hairpin_model::run::FORMAT;
use hairpin_model::trace::End;
use hairpin_model::{Case, Environment, Failure, FailureKind, Host, HostCapabilities, Plan, Run, quantities};
use hairpin_store::RunFolder;

use crate::measure::{Event, Task, run_task};
use crate::program::Program;
use crate::remote::Remote;
use crate::tool;

/// Default folder for run folders, in the current directory.
pub(crate) const RUNS: &str = "hairpin-runs";

/// A measurement: its settings, and [`Session::run`], which performs it.
///
/// ```no_run
/// use hairpin::report::terminal::{self, Look};
/// use hairpin::{Event, Refused, Session};
///
/// fn main() -> Result<(), Refused> {
///     // Must be first: each round runs in a separate process of this program.
///     let program = hairpin::round_main(&[]);
///     let session = Session::new(&program, "round-trip")?
///         .set("transport", "tcp,unix-stream")
///         .set("rounds", "10");
///     let (_folder, run) = session.run(|event| {
///         if let Event::Ended(round) = event {
///             eprintln!("round {} of {}", round.number, round.order.case.label());
///         }
///     })?;
///     print!("{}", terminal::render(&run, &Look { width: 100, colour: false }));
///     Ok(())
/// }
/// ```
///
/// `hairpin list` shows the experiments and their settings (knobs); [`Program::with_experiments`] adds others.
/// [`round_main`](crate::round_main) adds transports.
///
/// A run is saved in a folder after each round, so that a crash loses at most the current round.
/// [`saved::open`](crate::saved::open) reads it again, and [`report`](crate::report) shows it.
///
/// Rounds measure on two CPUs. The process that runs a session should have no other thread that uses CPU time.
pub struct Session<'a> {
    program: &'a Program,
    pub(crate) experiment: &'static Experiment,
    /// Given knobs and their values as text.
    given: Vec<(String, Vec<String>)>,
    /// Seed of all random choices, unless a knob sets another.
    drawn_seed: u64,
    prove: bool,
    all_rounds: bool,
    out: Option<PathBuf>,
    command_line: Vec<String>,
    stop: Arc<AtomicBool>,
    server: Option<&'a Remote>,
    cpu: Option<usize>,
}

impl<'a> Session<'a> {
    /// A measurement with the named experiment and default settings.
    ///
    /// # Errors
    /// If there is no such experiment; the hint has the nearest name.
    pub fn new(program: &'a Program, experiment: &str) -> Result<Self, Refused> {
        Ok(Self {
            program,
            experiment: program.experiment(experiment)?,
            given: Vec::new(),
            drawn_seed: drawn_seed(),
            prove: false,
            all_rounds: false,
            out: None,
            command_line: Vec::new(),
            stop: Arc::default(),
            server: None,
            cpu: None,
        })
    }

    /// Sets a knob, like `--NAME VALUE` on the command line; the value of a switch is `on`. Several values are
    /// separated by commas, or set by several calls. Values are checked when the run is planned.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<String>) -> Self {
        match self.given.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => values.push(value.into()),
            None => self.given.push((name.to_owned(), vec![value.into()])),
        }
        self
    }

    /// Also runs the checks of the findings.
    #[must_use]
    pub fn prove(self, prove: bool) -> Self {
        Self { prove, ..self }
    }

    /// Runs all planned rounds, even after the announced time, and uses their figures even if other programs disturbed
    /// them.
    #[must_use]
    pub fn all_rounds(self, all_rounds: bool) -> Self {
        Self { all_rounds, ..self }
    }

    /// Sets the folder in which to save the run. It must not contain a run. Default: a new folder in `hairpin-runs`,
    /// named after the time and the experiment.
    #[must_use]
    pub fn save_in(self, folder: impl Into<PathBuf>) -> Self {
        Self { out: Some(folder.into()), ..self }
    }

    /// Sets the command line that the run records.
    #[must_use]
    pub fn command_line(self, words: Vec<String>) -> Self {
        Self { command_line: words, ..self }
    }

    /// Sets a flag that ends the run early when the flag becomes true.
    /// [`interrupt::raised_by_user`](crate::interrupt::raised_by_user) returns a flag that Ctrl-C sets.
    #[must_use]
    pub fn stop_on(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self }
    }

    /// Runs the servers of all rounds on another host.
    #[must_use]
    pub fn server(self, server: &'a Remote) -> Self {
        Self { server: Some(server), ..self }
    }

    /// Sets the CPU of the ends on this host. Default: the experiment's placement decides.
    #[must_use]
    pub fn cpu(self, cpu: usize) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    /// Returns the first cases that the session would measure. If cases have links or kernel settings, and the user
    /// is not root, moves this process into its own namespaces.
    ///
    /// # Errors
    /// If a knob is refused, nothing can be measured here, or the server does not allow the run.
    pub fn cases(&self) -> Result<Vec<Case>, Refused> {
        self.planned().map(|planned| planned.cases)
    }

    /// Measures, calling `observe` between rounds, and saves the run, which includes failed rounds.
    ///
    /// # Errors
    /// As [`Session::cases`], and if the folder cannot be created. Nothing was measured then.
    pub fn run(self, mut observe: impl FnMut(Event<'_>)) -> Result<(RunFolder, Run), Refused> {
        let planned = self.planned()?;
        let mut engine = self.engine()?;
        let out = self.out.clone().unwrap_or_else(|| new_folder(self.experiment.name, now_unix_s()));
        let folder = RunFolder::create(&out).map_err(store_error)?;
        engine.link_logs =
            planned.knobs.is_on("keep-link-log").then(|| folder.keep_link_logs()).transpose().map_err(store_error)?;
        let header = self.header(&planned, &engine)?;
        folder.write_run(&header).map_err(store_error)?;
        let task = Task {
            experiment: self.experiment,
            experiments: self.program.experiments,
            knobs: &planned.knobs,
            capabilities: &planned.capabilities,
            engine: &engine,
            folder: &folder,
            prove: self.prove,
            all_rounds: self.all_rounds,
        };
        let mut run = run_task(&task, header, &mut observe)?;
        save(&folder, &mut run);
        Ok((folder, run))
    }

    pub(crate) fn knobs(&self) -> Result<Knobs, Refused> {
        let mut given = self.given.clone();
        if !given.iter().any(|(name, _)| name == "seed") {
            given.push(("seed".to_owned(), vec![self.drawn_seed.to_string()]));
        }
        Knobs::from_given(self.experiment.knobs, given)
    }

    /// Plans the run, before any file is created, so that invalid knobs leave no files behind.
    pub(crate) fn planned(&self) -> Result<Planned, Refused> {
        let planned = self.planned_here(self.knobs()?)?;
        let needs_namespace = |case: &Case| case.is_emulated() || !case.sysctls.is_empty();
        if !planned.cases.iter().any(needs_namespace) {
            return Ok(planned);
        }
        let home =
            namespace::prepare().map_err(|why| Refused::from(why).while_reading("cannot make network namespaces"))?;
        // Plans again: in its own namespaces, the process may be able to run other cases.
        if home == NetworkNamespace::Original { Ok(planned) } else { self.planned_here(planned.knobs) }
    }

    fn planned_here(&self, knobs: Knobs) -> Result<Planned, Refused> {
        let here = hairpin_engine::engine::capabilities().map_err(cannot_prepare)?;
        let capabilities = HostCapabilities { far: self.server.map(Remote::host), ..here };
        match self.experiment.next(&knobs, &capabilities, &Done::default())? {
            Step::Run { cases, rounds, .. } => {
                self.server.map_or(Ok(()), |server| server.allow(&rounds))?;
                Ok(Planned { knobs, capabilities, cases })
            }
            Step::Done => Err(Refused::new("no transport to measure", "`hairpin list` shows what can run here")),
        }
    }

    /// Creates an engine and starts its clock.
    fn engine(&self) -> Result<Engine, Refused> {
        let program = self.program.path().map_err(cannot_prepare)?;
        let engine = Engine::new(program, Arc::clone(&self.stop)).map_err(cannot_prepare)?;
        let cpus = self.cpu.map_or(Ok(engine.cpus.clone()), |cpu| engine.cpus.only(cpu))?;
        Ok(Engine { far: self.server.map(Remote::far), cpus, ..engine })
    }

    /// The run as it is before the first round.
    fn header(&self, planned: &Planned, engine: &Engine) -> Result<Run, Refused> {
        let Planned { knobs, capabilities, .. } = planned;
        let client = Environment {
            network_namespace: namespace::prepared(),
            root: self.program.by_root,
            interface: self.server.and_then(Remote::interface),
            ..hairpin_engine::environment::read(engine)
        };
        let server =
            self.server.map(|server| Host { role: End::Server, environment: server.about.environment.clone() });
        Ok(Run {
            format: FORMAT,
            tool: tool::this(),
            command_line: self.command_line.clone(),
            started_unix_s: now_unix_s(),
            seed: knobs.seed()?,
            plan: Plan {
                experiment: self.experiment.name.to_owned(),
                question: self.experiment.question.to_owned(),
                knobs: knobs_applied(knobs, capabilities)?,
                quick: knobs.is_on("quick"),
                alpha: if knobs.is_given("until") { ALPHA_OF_A_LOOK } else { Plan::default().alpha },
                ..Plan::default()
            },
            hosts: std::iter::once(Host { role: End::Client, environment: client }).chain(server).collect(),
            cards: capabilities.saved_cards(),
            ..Run::default()
        })
    }
}

/// The accepted knobs, the capabilities of the host, and the first cases.
pub(crate) struct Planned {
    pub(crate) knobs: Knobs,
    pub(crate) capabilities: HostCapabilities,
    pub(crate) cases: Vec<Case>,
}

/// Merges the samples and saves the summary. Failures are recorded in the run.
fn save(folder: &RunFolder, run: &mut Run) {
    // After a failed write the disk may be full, and merging needs space.
    if run.unsaved.is_empty()
        && let Err(error) = folder.merge_samples(&mut run.rounds)
    {
        let cause = format!("the samples stay in one file per round: {error}");
        run.unsaved.push(Failure::new(FailureKind::Other, cause, ""));
    }
    if let Err(error) = folder.write_run(run) {
        let cause = format!("the summary was not saved: {error}");
        folder.note_not_saved(run.unsaved.first().map_or(&cause, |first| &first.cause));
        run.unsaved.push(Failure::new(FailureKind::Other, cause, ""));
    }
}

/// Converts an error of the store, whose text already contains its hint.
fn store_error(error: impl std::fmt::Display) -> Refused {
    Refused::new(error.to_string(), "")
}

fn cannot_prepare(error: impl std::fmt::Display) -> Refused {
    let hint = "/proc and the CPU affinity of this process are needed";
    Refused::new(format!("cannot prepare to measure: {error}"), hint)
}

/// Seconds since 1970-01-01 UTC.
pub(crate) fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A random seed, short enough to type.
pub(crate) fn drawn_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20) ^ u64::from(std::process::id())) % 1_000_000_007
}

/// A folder that does not exist yet, named after the time.
pub(crate) fn new_folder(name: &str, unix_s: u64) -> PathBuf {
    let digits: String = quantities::utc(unix_s).chars().filter(char::is_ascii_digit).collect();
    let stem = format!("{}-{}-{name}", &digits[..8], digits.get(8..14).unwrap_or(&digits[8..]));
    let parent = Path::new(RUNS);
    let candidates = std::iter::once(stem.clone()).chain((2..1000).map(|again| format!("{stem}-{again}")));
    let free = candidates.map(|name| parent.join(name)).find(|path| !path.exists());
    free.unwrap_or_else(|| parent.join(stem))
}
