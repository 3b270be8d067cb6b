//! `hairpin compare --run WORDS --run WORDS`: measures two commands with interleaved rounds until the budgets are
//! decided.

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;
use hairpin_analysis::{Budget, choices_that_differ, compare_interleaved, of_phase};
use hairpin_engine::ends::start::TICKET_VARIABLE;
use hairpin_experiments::budget::{ALPHA_OF_A_LOOK, MAX_UNTIL_NS};
use hairpin_model::phases::Phase;
use hairpin_model::run::State;
use hairpin_model::{ComparisonReport, Decision, Look, Run, Unlike, parse, quantities};

use super::compare::{budgets_of, cautions_of, differences, finish, nothing_in_common, report};
use super::exit::{Exit, Stopped};
use super::measure::{NO_SAMPLES, session_of, shown};
use super::progress::Progress;
use super::report::write_page;
use super::{command, output};
use crate::interrupt;
use crate::program::Program;
use crate::session::Session;

/// Flags that fix the number of rounds, which the looks decide.
const FIXES_ROUNDS: &[&str] = &["rounds", "over", "quick", "until", "at-most"];

/// Measures both commands, and reports the comparison as for saved runs.
///
/// # Errors
/// If a command or a budget is invalid, or the commands differ in more than one choice. Nothing was measured then.
pub(super) fn run(program: &Program, matches: &ArgMatches) -> Result<Exit, Stopped> {
    let budgets = budgets_of(matches)?;
    let phase: Option<Phase> = matches.get_one::<String>("phase").and_then(|word| word.parse().ok());
    let at_most = matches.get_one::<String>("at-most").map_or(Ok(MAX_UNTIL_NS), |text| {
        parse::duration_ns(text).map_err(|refused| Stopped::usage(refused.while_reading("--at-most")))
    })?;
    let path = matches.get_one::<PathBuf>("binary-b");
    let build = path.map(|path| program.other_build(path)).transpose().map_err(Stopped::usage)?;
    let words: Vec<&String> = matches.get_many("run").unwrap_or_default().collect();
    let words = match (words[..].try_into(), &build) {
        (Ok(both), _) => both,
        (Err(_), Some(_)) if words.len() == 1 => [words[0]; 2],
        _ => {
            return Err(Stopped::usage(
                "--run is needed twice, or once with --binary-b (hint: the first is the baseline)",
            ));
        }
    };
    if std::env::var_os(TICKET_VARIABLE).is_some() {
        let hint = "unset it; runs between hosts can be saved first";
        return Err(Stopped::usage(format!(
            "--run measures on this host, but {TICKET_VARIABLE} is set (hint: {hint})"
        )));
    }
    let stop = interrupt::raised_by_user()
        .map_err(|error| Stopped::usage(format!("cannot prepare for signals: {error}")))?;
    let baseline = session(program, words[0])?.stop_on(&stop);
    let candidate = session(build.as_ref().unwrap_or(program), words[1])?.stop_on(&stop).seeded_like(&baseline);
    let differs = refuse_unlike([&baseline, &candidate])?;
    let differs = match (&build, differs) {
        (Some(build), None) => {
            let baseline = format!("{} {}", program.tool.name, program.tool.version);
            let candidate = format!("{} {}", shown(path.expect("given")), build.tool.version);
            Some(Unlike { what: "program".to_owned(), baseline, candidate })
        }
        (Some(_), Some(other)) => {
            let why = format!("the commands differ in the program and in {}", other.what);
            return Err(Stopped::usage(format!("{why} (hint: with --binary-b, give --run once)")));
        }
        (None, differs) => differs,
    };
    let names = ["A", "B"].map(str::to_owned);
    let compared = |runs: [&Run; 2], names: [String; 2]| {
        let of_phase = runs.map(|run| phase.map_or_else(|| run.clone(), |phase| of_phase(run, phase)));
        let compared = compare_interleaved(&of_phase[0], &of_phase[1], ALPHA_OF_A_LOOK);
        let mut unlike = differences(&of_phase[..1], &of_phase[1..]);
        unlike.retain(|one| build.is_none() || !one.what.starts_with("tool: "));
        let cautions = names.iter().zip(runs).flat_map(|(name, run)| cautions_of(name, run)).collect();
        let report = report(names.clone(), &compared, unlike, Budget::check_all(&budgets, &compared));
        ComparisonReport { differs: differs.clone(), cautions, ..report }
    };
    let quiet = matches.get_flag("quiet");
    if !quiet {
        let at_most = quantities::duration_argument(at_most);
        output::note(&format!("2 interleaved runs, at most {at_most}; ends as soon as all is decided (4 looks)"));
    }
    let mut progress = Progress::new(quiet);
    let mut looks: Vec<Look> = Vec::new();
    let is_enough = |runs: &[Run; 2], after_s| {
        let verdict = compared([&runs[0], &runs[1]], names.clone()).decision();
        looks.push(Look { after_s, bound: ALPHA_OF_A_LOOK, verdict });
        !matches!(verdict, Decision::Undecided | Decision::Unusable)
    };
    let ran = baseline.run_interleaved(candidate, at_most, is_enough, |event| progress.on(event));
    progress.finish();
    let runs = ran.map_err(Stopped::usage)?;
    let mut is_complete = true;
    for (folder, run) in &runs {
        let failures = run.unsaved.iter().map(|failure| failure.cause.clone());
        for error in failures.take(1).chain(write_page(run, folder).err()) {
            output::error(&error);
            is_complete = false;
        }
        is_complete &= run.failed_rounds() == 0;
    }
    let names = runs.each_ref().map(|(folder, _)| shown(folder.path()));
    let report = ComparisonReport { looks, ..compared(runs.each_ref().map(|(_, run)| run), names) };
    let exit = finish(&report, matches, is_complete)?;
    Ok(if runs.iter().any(|(_, run)| run.state == State::Interrupted) { Exit::Interrupted } else { exit })
}

/// A session of a command in shell words.
fn session<'a>(program: &'a Program, text: &str) -> Result<Session<'a>, Stopped> {
    let refused = |why: &str, hint: &str| Stopped::usage(format!("--run `{text}`: {why} (hint: {hint})"));
    let words = shlex::split(text).ok_or_else(|| refused("a quote is not closed", "close it, or escape it"))?;
    let words = words.iter().map(String::as_str).skip_while(|word| *word == "hairpin");
    let all = std::iter::once("hairpin").chain(words);
    let matches = command::command(program).try_get_matches_from(all).map_err(|error| {
        let said = error.to_string();
        let said = said.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        refused(
            if error.use_stderr() { said } else { "it does not measure" },
            "give a command that measures, and its flags",
        )
    })?;
    let experiment = matches.subcommand().filter(|(name, _)| program.experiment(name).is_ok());
    let (name, flags) =
        experiment.ok_or_else(|| refused("it does not measure", "begin with a command such as round-trip"))?;
    let session = session_of(program, name, flags).map_err(|stopped| stopped.of(&format!("--run `{text}`")))?;
    let given =
        flags.ids().map(|id| id.as_str()).filter(|id| flags.value_source(id) == Some(ValueSource::CommandLine));
    let is_knob = |id: &str| session.experiment.knobs.iter().any(|knob| knob.name == id);
    for id in given {
        if FIXES_ROUNDS.contains(&id) {
            return Err(refused(&format!("--{id} fixes the number of rounds"), "use --at-most of compare"));
        }
        if !is_knob(id) && !["out", NO_SAMPLES].contains(&id) {
            let hint = "omit it; both runs are of this host and saved, and `hairpin report` shows them";
            return Err(refused(&format!("--{id} cannot be used here"), hint));
        }
    }
    let session = session.command_line(
        std::iter::once("hairpin").map(str::to_owned).chain(shlex::split(text).unwrap_or_default()).collect(),
    );
    Ok(match flags.get_one::<PathBuf>("out") {
        Some(folder) => session.save_in(folder),
        None => session,
    })
}

/// Refuses commands whose cases cannot be paired. Returns the one choice in which they differ.
fn refuse_unlike(sessions: [&Session<'_>; 2]) -> Result<Option<Unlike>, Stopped> {
    let [one, other] = sessions.map(|session| session.experiment.name);
    if one != other {
        return Err(Stopped::usage(format!("{one} and {other} are different experiments (hint: use one for both)")));
    }
    let seeds = sessions.map(|session| session.knobs().and_then(|knobs| knobs.seed()));
    if let [Ok(one), Ok(other)] = seeds
        && one != other
    {
        return Err(Stopped::usage(format!(
            "the seeds {one} and {other} differ (hint: give --seed in the first command; it holds for both)"
        )));
    }
    let [baseline, candidate] = sessions.map(Session::planned_run);
    let (baseline, candidate) = (baseline.map_err(Stopped::usage)?, candidate.map_err(Stopped::usage)?);
    let compared = compare_interleaved(&baseline, &candidate, ALPHA_OF_A_LOOK);
    if compared.cases.is_empty() {
        return Err(Stopped::usage(nothing_in_common(&choices_that_differ(&[&baseline], &[&candidate]))));
    }
    let alone = compared.only_in_baseline.iter().chain(&compared.only_in_candidate).next();
    match alone {
        Some(case) => Err(Stopped::usage(format!(
            "only one command has the case {case} (hint: both need the same cases, except for one choice)"
        ))),
        None => Ok(compared.differs),
    }
}
