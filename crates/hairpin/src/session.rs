//! One measurement from its settings to its saved run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use hairpin_analysis::Digest;
use hairpin_engine::Engine;
use hairpin_engine::links::namespace;
use hairpin_engine::placement::Cpus;
use hairpin_experiments::budget::ALPHA_OF_A_LOOK;
use hairpin_experiments::experiments::which;
use hairpin_experiments::shared::knobs_applied;
use hairpin_experiments::{Done, Experiment, Knobs, Refused, Step};
use hairpin_model::environment::NetworkNamespace;
use hairpin_model::run::FORMAT;
use hairpin_model::trace::End;
use hairpin_model::{Case, Environment, Host, HostCapabilities, Plan, Run, Skipped, quantities};
use hairpin_store::RunFolder;

use crate::foreign::ForeignHost;
use crate::measure::{Event, Limits, Measurement, run_interleaved, summarize_run};
use crate::program::Program;
use crate::remote::Remote;

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
    given: Vec<(String, Vec<String>)>,
    /// Seed of all random choices, unless a knob sets another.
    drawn_seed: u64,
    prove: bool,
    all_rounds: bool,
    out: Option<PathBuf>,
    command_line: Vec<String>,
    stop: Arc<AtomicBool>,
    server: Option<&'a Remote>,
    foreign: Option<&'a ForeignHost>,
    cpus: Option<[usize; 2]>,
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
            foreign: None,
            cpus: None,
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

    #[must_use]
    pub fn server(self, server: &'a Remote) -> Self {
        Self { server: Some(server), ..self }
    }

    #[must_use]
    pub fn foreign_server(self, server: &'a ForeignHost) -> Self {
        Self { foreign: Some(server), ..self }
    }

    /// Sets the CPUs of client and server on this host; with a server on another host, the first is used. Default: the
    /// experiment's placement decides.
    #[must_use]
    pub fn cpus(self, client: usize, server: usize) -> Self {
        Self { cpus: Some([client, server]), ..self }
    }

    /// Returns the first cases that the session would measure. If cases have links or kernel settings, and the user
    /// is not root, moves this process into its own namespaces.
    ///
    /// # Errors
    /// If a knob is refused, nothing can be measured here, or the server does not allow the run.
    pub fn cases(&self) -> Result<Vec<Case>, Refused> {
        self.planned().map(|planned| planned.cases)
    }

    /// Returns the announced duration, in ns.
    ///
    /// # Errors
    /// As [`Session::cases`].
    pub fn lasts_ns(&self) -> Result<u64, Refused> {
        self.planned().map(|planned| planned.lasts_ns)
    }

    /// Measures, calling `observe` between rounds, and saves the run, which includes failed rounds.
    ///
    /// # Errors
    /// As [`Session::cases`], and if the folder cannot be created. Nothing was measured then.
    pub fn run(self, mut observe: impl FnMut(Event<'_>)) -> Result<(RunFolder, Run), Refused> {
        let planned = self.planned()?;
        let mut measurement = self.begin(&planned, self.engine()?)?;
        measurement.complete(&mut observe)?;
        Ok(measurement.saved())
    }

    /// Measures this session and `other`, both of one experiment and one seed, with their rounds interleaved in shared
    /// blocks. After 1/6, 1/3 and 2/3 of the maximum time, and at its end, `is_enough` gets both runs and the time in s.
    ///
    /// # Errors
    /// As [`Session::run`], of either session.
    pub fn run_interleaved(
        self,
        other: Self,
        at_most_ns: u64,
        mut is_enough: impl FnMut([&Run; 2], f64) -> bool,
        mut observe: impl FnMut(Event<'_>),
    ) -> Result<[(RunFolder, Run); 2], Refused> {
        // Planned again below, because the other session may need namespaces.
        self.planned()?;
        let (other_planned, planned) = (other.planned()?, self.planned()?);
        let engine = self.engine()?;
        let other_engine = Engine { server_program: other.program.path().map_err(cannot_prepare)?, ..engine.clone() };
        let mut both = [self.begin(&planned, engine)?, other.begin(&other_planned, other_engine)?];
        for (Measurement { run, .. }, planned) in both.iter_mut().zip([&planned, &other_planned]) {
            run.plan.alpha = ALPHA_OF_A_LOOK;
            (run.plan.cases, run.skipped) = (planned.cases.clone(), planned.skipped.clone());
        }
        run_interleaved(&mut both, at_most_ns, &mut is_enough, &mut observe)?;
        Ok(both.map(Measurement::saved))
    }

    fn begin<'p>(&self, planned: &'p Planned, mut engine: Engine) -> Result<Measurement<'p>, Refused> {
        let out = self.out.clone().unwrap_or_else(|| new_folder(self.experiment.name, now_unix_s()));
        let folder = RunFolder::create(&out).map_err(store_error)?;
        engine.link_logs =
            planned.knobs.is_on("keep-link-log").then(|| folder.keep_link_logs()).transpose().map_err(store_error)?;
        let run = self.header(planned, &engine)?;
        folder.write_run(&run).map_err(store_error)?;
        Ok(Measurement {
            experiment: self.experiment,
            experiments: self.program.experiments,
            knobs: &planned.knobs,
            capabilities: &planned.capabilities,
            engine,
            folder,
            prove: self.prove,
            all_rounds: self.all_rounds,
            limits: Limits::default(),
            digest: Digest::new().with_bound(run.plan.bound_ns()),
            run,
        })
    }

    /// Returns the run with its planned cases and no rounds, to check what it can be compared with.
    ///
    /// # Errors
    /// As [`Session::cases`].
    pub fn planned_run(&self) -> Result<Run, Refused> {
        let Planned { capabilities, cases, .. } = self.planned()?;
        let mut run =
            Run { plan: Plan { cases, ..Plan::default() }, cards: capabilities.saved_cards(), ..Run::default() };
        summarize_run(&mut run, &Digest::new(), self.program.experiments);
        Ok(run)
    }

    #[must_use]
    pub fn seeded_like(self, other: &Self) -> Self {
        let seed = other.knobs().and_then(|knobs| knobs.seed()).unwrap_or(self.drawn_seed);
        let given = self.given.into_iter().filter(|(name, _)| name != "seed").collect();
        Self { drawn_seed: seed, given, ..self }
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
        let here = hairpin_engine::engine::capabilities(&self.chosen_cpus()?);
        let given_cpus = self.cpus.filter(|_| self.server.is_none() && self.foreign.is_none());
        let far = self.server.map(Remote::host).or_else(|| self.foreign.map(ForeignHost::host));
        let mut capabilities = HostCapabilities { far, given_cpus, ..here };
        if let Some(foreign) = self.foreign {
            foreign.refuse_experiment(self.experiment.name, self.experiment.repeats)?;
            let controls = capabilities.congestion_controls.clone();
            capabilities.far.iter_mut().for_each(|far| far.congestion_controls.clone_from(&controls));
            for candidate in &mut capabilities.candidates {
                let foreign = hairpin_transports::find(candidate.card.name).and_then(|transport| transport.foreign());
                candidate.card = foreign.map_or_else(|| candidate.card.clone(), |foreign| foreign.card);
            }
        }
        match self.experiment.next(&knobs, &capabilities, &Done::default())? {
            Step::Run { cases, rounds, skipped, forecast } => {
                self.server.map_or(Ok(()), |server| server.allow(&rounds))?;
                Ok(Planned { knobs, capabilities, cases, skipped, lasts_ns: forecast.lasts_ns })
            }
            Step::Done => Err(Refused::new("no transport to measure", "`hairpin list` shows what can run here")),
        }
    }

    /// Creates an engine and starts its clock.
    fn engine(&self) -> Result<Engine, Refused> {
        let program = self.program.path().map_err(cannot_prepare)?;
        let engine = Engine::new(program, Arc::clone(&self.stop)).map_err(cannot_prepare)?;
        Ok(Engine {
            far: self.server.map(Remote::far).or_else(|| self.foreign.map(ForeignHost::far)),
            cpus: self.chosen_cpus()?,
            ..engine
        })
    }

    fn chosen_cpus(&self) -> Result<Cpus, Refused> {
        let cpus = Cpus::choose().map_err(cannot_prepare)?;
        self.cpus.map_or(Ok(cpus.clone()), |given| cpus.at(given))
    }

    /// The run as it is before the first round.
    fn header(&self, planned: &Planned, engine: &Engine) -> Result<Run, Refused> {
        let Planned { knobs, capabilities, .. } = planned;
        let client = Environment {
            network_namespace: namespace::prepared(),
            root: Some(self.program.by_root),
            interface: self
                .server
                .and_then(Remote::interface)
                .or_else(|| self.foreign.and_then(ForeignHost::interface)),
            ..hairpin_engine::environment::read(engine)
        };
        let server =
            self.server.map(|server| Host { role: End::Server, environment: server.about.environment.clone() });
        Ok(Run {
            format: FORMAT,
            tool: self.program.tool.clone(),
            command_line: self.command_line.clone(),
            started_unix_s: now_unix_s(),
            seed: knobs.seed()?,
            plan: Plan {
                experiment: self.experiment.name.to_owned(),
                question: self.experiment.question.to_owned(),
                knobs: knobs_applied(knobs, capabilities)?,
                needs: which::needs(self.experiment, knobs, capabilities),
                period_search: self.experiment.search.and_then(|search| (search.plan)(knobs)),
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
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) lasts_ns: u64,
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
