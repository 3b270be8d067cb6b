//! `hairpin compare --run WORDS --run WORDS`: measures two commands with interleaved rounds until the budgets are
//! decided.

use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;
use hairpin_analysis::{Budget, choices_that_differ, compare_interleaved};
use hairpin_experiments::budget::{ALPHA_OF_A_LOOK, ROUND_COUNTS};
use hairpin_model::run::State;
use hairpin_model::{ComparisonReport, Decision, Look, Run, Unlike};

use super::compare::{budgets_of, cautions_of, differences, finish, nothing_in_common, report};
use super::exit::{Exit, Stopped};
use super::measure::{Ends, NO_SAMPLES, session_of, shown, was_saved};
use super::progress::Progress;
use super::{command, output};
use crate::program::Program;
use crate::session::Session;

/// Measures both commands, and reports the comparison as for saved runs.
///
/// # Errors
/// If a command or a budget is invalid, or the commands differ in more than one choice. Nothing was measured then.
pub(super) fn run(program: &Program, matches: &ArgMatches) -> Result<Exit, Stopped> {
    let budgets = budgets_of(matches)?;
    let at_most_ns = *matches.get_one::<u64>("at-most").expect("it has a default");
    let path = matches.get_one::<PathBuf>("binary-b");
    let build = path.map(|path| program.other_build(path)).transpose().map_err(Stopped::usage)?;
    let words: Vec<&String> = matches.get_many("run").unwrap_or_default().collect();
    let (one, other) = (words[0], words[words.len() - 1]);
    if if build.is_some() { one != other } else { words.len() != 2 } {
        let why = "--run is needed twice, or once with --binary-b (hint: the first is the baseline)";
        return Err(Stopped::usage(why));
    }
    let stop = Ends::stop()?;
    let baseline = session(program, one)?.stop_on(&stop);
    let candidate = session(build.as_ref().unwrap_or(program), other)?.stop_on(&stop).seeded_like(&baseline);
    let choice = difference([&baseline, &candidate])?;
    let differs = path.zip(build.as_ref()).map_or(choice, |(path, build)| {
        let [baseline, candidate] = [program.tool.version.clone(), format!("{} {}", shown(path), build.tool.version)];
        Some(Unlike { what: "program".to_owned(), baseline, candidate })
    });
    let compared = |runs: [&Run; 2], names: [String; 2]| {
        let compared = compare_interleaved(runs[0], runs[1], ALPHA_OF_A_LOOK);
        let mut unlike = differences(&runs[..1], &runs[1..]);
        unlike.retain(|one| !one.what.starts_with("tool: "));
        let cautions = names.iter().zip(runs).flat_map(|(name, run)| cautions_of(name, run)).collect();
        let report = report(names.clone(), &compared, unlike, Budget::check_all(&budgets, &compared));
        ComparisonReport { differs: differs.clone(), cautions, ..report }
    };
    output::note(&format!(
        "2 interleaved runs, at most {} s, or until all is decided",
        at_most_ns.div_ceil(1_000_000_000)
    ));
    let (mut progress, mut looks) = (Progress::new(false), Vec::new());
    let is_enough = |runs: [&Run; 2], after_s| {
        let verdict = compared(runs, Default::default()).decision();
        looks.push(Look { after_s, bound: ALPHA_OF_A_LOOK, verdict });
        !matches!(verdict, Decision::Undecided | Decision::Unusable)
    };
    let ran = baseline.run_interleaved(candidate, at_most_ns, is_enough, |event| progress.on(event));
    progress.finish();
    let [(folder, run), (other_folder, other_run)] = ran.map_err(Stopped::usage)?;
    let are_complete = [was_saved(&folder, &run), was_saved(&other_folder, &other_run)];
    let runs = [&run, &other_run];
    let names = [folder, other_folder].map(|folder| shown(folder.path()));
    let report = ComparisonReport { looks, ..compared(runs, names) };
    let exit = finish(&report, matches, are_complete == [true; 2])?;
    Ok(if runs.iter().any(|run| run.state == State::Interrupted) { Exit::Interrupted } else { exit })
}

fn session<'a>(program: &'a Program, text: &str) -> Result<Session<'a>, Stopped> {
    let refused = |why: &str| Stopped::usage(format!("--run `{text}`: {why}"));
    const NO_COMMAND: &str = "it does not measure (hint: begin with a command such as round-trip)";
    let words = shlex::split(text).ok_or_else(|| refused("a quote is not closed (hint: close it, or escape it)"))?;
    let words: Vec<String> = std::iter::once("hairpin".to_owned()).chain(words).collect();
    let matches = command::command(program).try_get_matches_from(&words).map_err(|error| {
        let said = error.to_string();
        refused(said.lines().next().and_then(|line| line.strip_prefix("error: ")).unwrap_or(NO_COMMAND))
    })?;
    let experiment = matches.subcommand().filter(|(name, _)| program.experiment(name).is_ok());
    let (name, flags) = experiment.ok_or_else(|| refused(NO_COMMAND))?;
    let session = session_of(program, name, flags).map_err(|stopped| refused(&stopped.to_string()))?;
    let is_knob =
        |id: &str| session.experiment.knobs.iter().any(|knob| knob.name == id) && !ROUND_COUNTS.contains(&id);
    let mut given = flags.ids().filter(|id| flags.value_source(id.as_str()) == Some(ValueSource::CommandLine));
    if let Some(id) = given.find(|id| !is_knob(id.as_str()) && *id != "out" && *id != NO_SAMPLES) {
        let hint = "compare sets the number of rounds, and saves both runs of this host";
        return Err(refused(&format!("--{id} cannot be used here (hint: {hint})")));
    }
    let out = flags.get_one::<PathBuf>("out");
    Ok(out.into_iter().fold(session.command_line(words), |session, folder| session.save_in(folder)))
}

/// Returns the one choice in which the commands differ. Refuses commands whose cases cannot be paired.
fn difference(sessions: [&Session<'_>; 2]) -> Result<Option<Unlike>, Stopped> {
    let [one, other] = sessions.map(|session| session.experiment.name);
    if one != other {
        return Err(Stopped::usage(format!("{one} and {other} are different experiments (hint: use one for both)")));
    }
    let [one, other] = sessions.map(Session::planned_run);
    let (one, other) = (one.map_err(Stopped::usage)?, other.map_err(Stopped::usage)?);
    let compared = compare_interleaved(&one, &other, ALPHA_OF_A_LOOK);
    let alone = compared.only_in_baseline.iter().chain(&compared.only_in_candidate).next();
    Err(Stopped::usage(match alone {
        _ if compared.cases.is_empty() => nothing_in_common(&choices_that_differ(&[&one], &[&other])),
        Some(case) => format!("only one command has the case {case} (hint: the commands may differ in one choice)"),
        None => return Ok(compared.differs),
    }))
}
