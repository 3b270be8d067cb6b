//! The command line's words. Every experiment is a command, and its flags derive from its knobs.

use clap::builder::PossibleValuesParser;
use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use hairpin_experiments::{Experiment, Knob, KnobKind, experiments};
use hairpin_report::time_sequence;
use std::ffi::OsString;
use std::path::PathBuf;

use super::clean::SELECTORS;
use super::flags::{switch, valued};
use super::link::words;
use super::measure::NO_SAMPLES;

/// The experiment that `hairpin` without a word runs.
pub const WITHOUT_A_WORD: &str = "survey";

const AFTER_HELP: &str = "Exit codes: 0 fine; 1 a budget or check failed; 2 bad usage or input; \
     3 some rounds failed or not all could be written (the rest is \
     reported); 130 ended by Ctrl-C (reported too). An invalid case does not change the code: --json has its `valid`. \
     `hairpin link run` ends with the code of the program that it runs, or with 125, 126 or 127: see its help.";

/// The whole command line.
#[must_use]
pub fn command() -> Command {
    let survey = experiments::find(WITHOUT_A_WORD).expect("the survey is an experiment");
    let root = Command::new("hairpin")
        .version(crate::tool::version())
        .about("How fast can a transport go here, and what makes it slow?")
        .long_about(
            "How fast can a transport go here, and what makes it slow?\n\n\
             Without a command it surveys this machine: round trips over every local transport, in about 15 s on a quiet \
             machine.",
        )
        .after_help(AFTER_HELP)
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true);
    let measuring = experiments::ALL.iter().map(experiment_command);
    with_knobs(root, survey)
        .subcommands(measuring)
        .subcommand(list())
        .subcommand(report())
        .subcommand(analyse())
        .subcommand(compare())
        .subcommand(runs())
        .subcommand(claims())
        .subcommand(words::command())
        .subcommand(completions())
        .subcommand(man())
}

fn experiment_command(experiment: &'static Experiment) -> Command {
    with_knobs(Command::new(experiment.name).about(experiment.question).after_help(AFTER_HELP), experiment)
}

fn with_knobs(command: Command, experiment: &'static Experiment) -> Command {
    let knobs = experiment.knobs.iter().map(knob_argument);
    let has_samples = experiment.knobs.iter().any(|knob| knob.name == "keep-samples");
    let no_samples = switch(NO_SAMPLES, "Keep no raw samples; a histogram holds all (as --keep-samples 0)")
        .conflicts_with("keep-samples");
    command
        .args(knobs)
        .args(has_samples.then_some(no_samples))
        .arg(folder("out", "Folder to save the run in; it must not hold one yet [default: hairpin-runs/TIME-NAME]"))
        .args(printing())
        .arg(switch(
            "prove",
            "Run the counter-experiment of each finding that has one, and say whether it is confirmed or refuted",
        ))
        .arg(switch("quiet", "Show no progress").short('q'))
}

fn knob_argument(knob: &'static Knob) -> Arg {
    let default = knob.default.join(",");
    let help = match default.as_str() {
        "" => knob.help.to_owned(),
        default => format!("{} [default: {default}]", knob.help),
    };
    let argument = Arg::new(knob.name).long(knob.name).help(help).hide(knob.hidden);
    if knob.kind == KnobKind::Switch {
        return argument.action(ArgAction::SetTrue);
    }
    let action = if knob.repeat || knob.many { ArgAction::Append } else { ArgAction::Set };
    // A wrong sign deserves the knob's own answer, not that of an unknown flag.
    argument.action(action).value_name(knob.value_name).allow_hyphen_values(true)
}

/// How a run is printed on standard output.
fn printing() -> [Arg; 5] {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).conflicts_with("csv");
    let csv = Arg::new("csv").long("csv").num_args(0..=1).require_equals(true).default_missing_value("summary");
    let ladder = Arg::new("ladder").long("ladder").num_args(0..=1).require_equals(true);
    [
        switch("verbose", "Print all findings and notes below the table")
            .short('v')
            .conflicts_with_all(["json", "csv"]),
        switch("all", "Print all figures, findings and notes, not only the first screen")
            .conflicts_with_all(["json", "csv"]),
        json.help("Print the run as one JSON object instead of a table"),
        ladder
            .value_name("WHICH")
            .default_missing_value(time_sequence::MOST_TELLING)
            .conflicts_with_all(["json", "csv"])
            .help(
                "Draw the time sequence (ladder) of one exchange, a traced one, below the table. WHICH: most-telling \
                 (default options, else the longest wait), all, a remedy such as nodelay, or a case in its \
                 words [default: most-telling]",
            ),
        csv.value_name("PART")
            .value_parser(PossibleValuesParser::new(["summary", "samples"]))
            .help("Print CSV instead of a table: the summary of each case, or every raw sample"),
    ]
}

fn folder(name: &'static str, help: &'static str) -> Arg {
    valued(name, "DIR", help).value_parser(value_parser!(PathBuf))
}

fn saved_run(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn list() -> Command {
    Command::new("list")
        .about("Transports, experiments, remedies, findings and options, with what can run here")
        .arg(switch("json", "Print them as one JSON object"))
        .arg(Arg::new("markdown").long("markdown").action(ArgAction::SetTrue).hide(true))
}

fn report() -> Command {
    Command::new("report")
        .about("Show a saved run, also one that was killed, and make its report.html anew")
        .arg(saved_run("RUN", "The run folder"))
        .args(printing())
        .arg(
            valued("html", "FILE", "Write the page there instead of into the run folder")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn analyse() -> Command {
    Command::new("analyse")
        .about("Compute a saved run's figures, summaries and findings anew from its samples, and save them")
        .arg(saved_run("RUN", "The run folder"))
        .args(printing())
}

fn compare() -> Command {
    Command::new("compare")
        .about(
            "Compare saved runs of like configuration, case by case: one run against one, or several against several",
        )
        .override_usage(
            "hairpin compare [OPTIONS] BEFORE AFTER\n       hairpin compare [OPTIONS] BEFORE... --against AFTER...",
        )
        .arg(
            saved_run("RUN", "Run folders: BEFORE and AFTER, or all BEFORE where --against names those AFTER")
                .num_args(1..),
        )
        .arg(
            valued(
                "against",
                "AFTER",
                "Run folders to compare with those before; from three a side on, the runs are the sample",
            )
            .num_args(1..)
            .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("budget")
                .long("budget")
                .value_name("FIGURE=+SHARE")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("Exit with 1 where a figure got worse by more, for instance p99=+5%; may be repeated"),
        )
        .arg(switch("allow-unlike", "Compare although machine, settings, tool, plan or link differ"))
        .arg(switch("json", "Print the comparison as one JSON object"))
}

fn runs() -> Command {
    Command::new("runs")
        .about("List saved runs with date, question and answer, the newest first; --clean removes some")
        .arg(
            Arg::new("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help("The folder that holds the run folders [default: hairpin-runs]"),
        )
        .arg(switch("json", "Print them as one JSON object, with what was skipped and why"))
        .arg(
            switch("clean", "Remove the runs that the next three select, after asking; those being written stay")
                .requires("selectors")
                .conflicts_with("json"),
        )
        .group(ArgGroup::new("selectors").args(SELECTORS).multiple(true).requires("clean"))
        .arg(valued("older-than", "AGE", "With --clean: only runs begun longer ago, for instance 30d or 12h"))
        .arg(valued("larger-than", "SIZE", "With --clean: only runs that take more, for instance 100MiB"))
        .arg(
            valued("keep", "NUMBER", "With --clean: never the newest NUMBER of all runs in the folder")
                .value_parser(value_parser!(usize)),
        )
        .arg(switch("yes", "With --clean: do not ask").requires("clean"))
        .after_help(
            "A run is removed where all that is given holds. Only a folder of yours with nothing but the files of a run in \
             it is removed, and no link is followed.",
        )
}

fn claims() -> Command {
    let json = || switch("json", "Print them as one JSON object");
    let ids = || Arg::new("ID").num_args(0..).help("Claims such as B1, or texts by their letter; without it all");
    let no_csv = || {
        let instead = "claims are printed by --json; `hairpin report RUN --csv` prints each of their runs";
        let refuse = UnknownArgumentValueParser::suggest(instead);
        Arg::new("csv").long("csv").num_args(0).value_parser(refuse).hide(true)
    };
    let seed = valued("seed", "NUMBER", "Seed of every run; without it one is drawn and recorded");
    let rounds = valued("rounds", "NUMBER", "Rounds of each case instead of those that each run has");
    let run = Command::new("run")
        .about("Test claims here: published against measured, and a verdict on each")
        .after_help(AFTER_HELP)
        .arg(ids())
        .arg(seed.value_parser(value_parser!(u64)))
        .arg(rounds.value_parser(value_parser!(u64).range(1..=10_000)))
        .arg(folder("out", "Folder for the runs and claims.json [default: hairpin-runs/TIME-claims]"))
        .arg(json())
        .arg(switch("quiet", "Show no progress").short('q'))
        .arg(no_csv());
    Command::new("claims")
        .about("What published texts claim of transports, and what of it can be tested")
        .args_conflicts_with_subcommands(true)
        .arg(ids())
        .arg(no_csv())
        .arg(json())
        .subcommand(run)
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a shell's completion script")
        .arg(Arg::new("SHELL").required(true).value_parser(value_parser!(clap_complete::Shell)).help("The shell"))
}

fn man() -> Command {
    Command::new("man").about("Print the manual page of the program or of one of its commands").arg(
        Arg::new("COMMAND").num_args(0..).help(
            "The command, with its own command where it has some (link run); the program itself where none is given",
        ),
    )
}

/// `--ladder=WORD` where a word that nothing takes stands behind a bare `--ladder`, whose value needs the sign.
#[must_use]
pub fn meant_ladder(arguments: &[OsString], unknown: &str) -> Option<String> {
    let follows = |pair: &[OsString]| pair[0] == "--ladder" && pair[1] == unknown;
    arguments.windows(2).any(follows).then(|| format!("--ladder={unknown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_behind_a_bare_ladder_was_meant_for_it() {
        let given = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let meant = meant_ladder(&given(&["hairpin", "small-writes", "--ladder", "nodelay"]), "nodelay");
        assert_eq!(meant.as_deref(), Some("--ladder=nodelay"));
        assert_eq!(meant_ladder(&given(&["hairpin", "small-writes", "--prove", "nodelay"]), "nodelay"), None);
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_experiment_and_every_knob_is_a_word() {
        let command = command();
        for experiment in experiments::ALL {
            let own = command.find_subcommand(experiment.name).expect("every experiment is a command");
            for knob in experiment.knobs {
                assert!(own.get_arguments().any(|argument| argument.get_long() == Some(knob.name)), "{}", knob.name);
            }
        }
    }
}
