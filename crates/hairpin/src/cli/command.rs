//! Definition of the command line. Every experiment is a command, whose flags are its settings (knobs).

use clap::builder::PossibleValuesParser;
use clap::builder::UnknownArgumentValueParser;
use clap::{Arg, ArgAction, ArgGroup, Command, value_parser};
use hairpin_experiments::budget::{LENGTHS, ROUND_COUNTS};
use hairpin_experiments::{Experiment, Knob, KnobKind};
use hairpin_model::parse;
use hairpin_model::phases::Phase;
use hairpin_model::tuning::TuneMetric;
use hairpin_report::time_sequence;
use std::ffi::OsString;
use std::path::PathBuf;

use super::clean::SELECTORS;
use super::flags::{self, optional, path, switch, valued};
use super::link::words;
use super::measure::{ALL_ROUNDS, AS, NO_SAMPLES};
use super::serve_echo;
use crate::program::Program;

/// The experiment that `hairpin` without arguments runs.
pub const DEFAULT_EXPERIMENT: &str = "survey";

const AFTER_HELP: &str = "Exit codes: 0 fine; 1 a budget was broken; 2 bad usage or input; \
     3 some rounds failed, or some output could not be written (the rest is \
     reported); 4 a budget is undecided; 5 no usable figure; 130 interrupted by Ctrl-C (results are reported). An invalid case does not change the code; see \
     `valid` in --json. `hairpin link run` exits with the code of its program, or with 125, 126 or 127: see its help.";

pub fn command(program: &Program) -> Command {
    let survey = program.experiment(DEFAULT_EXPERIMENT).expect("the survey is an experiment");
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
    let measuring = program.experiments().map(experiment_command);
    with_knobs(root, survey)
        .subcommands(measuring)
        .subcommands([list(), report(), analyse(), compare(), explain(), tune(), runs(), claims(), words::command()])
        .subcommands([serve(), check(), completions(), man()])
}

fn experiment_command(experiment: &'static Experiment) -> Command {
    let command = Command::new(experiment.name).about(experiment.question).after_help(AFTER_HELP);
    let drop_in =
        valued(AS, "PROGRAM", "Do what the program of a published text does, and print its lines (docs/claims.md)");
    let writes = experiment.knobs.iter().any(|knob| knob.name == "writes");
    with_knobs(command, experiment).args(writes.then(|| drop_in.hide_short_help(true)))
}

fn with_knobs(command: Command, experiment: &'static Experiment) -> Command {
    let knobs = experiment.knobs.iter().map(knob_argument);
    let has_samples = experiment.knobs.iter().any(|knob| knob.name == "keep-samples");
    let no_samples =
        switch(NO_SAMPLES, "Save no raw samples (same as --keep-samples 0)").conflicts_with("keep-samples");
    command
        .args(knobs)
        .args(has_samples.then_some(no_samples))
        .arg(path("out", "DIR", "Folder to save the run in; it must not hold a run yet [default: hairpin-runs/TIME-NAME]"))
        .next_help_heading("Another host")
        .args(other_host().into_iter().chain(over_ssh()).map(|argument| argument.hide_short_help(true)))
        .next_help_heading("Output")
        .args(printing())
        .arg(switch(
            ALL_ROUNDS,
            "Run all planned rounds, even after the announced time, and use them even if other programs disturbed them; \
            HAIRPIN_ALL_ROUNDS=1 does the same",
        ))
        .arg(switch("prove", "Also run the checks of the findings, and report whether they confirm the findings"))
        .arg(switch("quiet", "Show no progress").short('q'))
}

fn other_host() -> [Arg; 5] {
    [
        valued(
            "to",
            "TICKET",
            "Run the server on another host, where `hairpin serve` printed this ticket. @FILE reads it from a file; \
            HAIRPIN_TO may contain it instead. Other users can read a ticket on the command line. \
            ssh://[USER@]HOST[:PORT] starts a server over ssh. round-trip also measures a server that is not Hairpin's: \
            http://, https://HOST[:PORT]/PATH and others (docs/protocols.md)",
        ),
        path(
            "ca",
            "FILE",
            "With --to https://: the certificate of the authority that signed the server's [default: those of the system]",
        ),
        valued(
            "fallback",
            "TRANSPORT",
            "With --to: if UDP is blocked, use this transport instead, for instance tcp, and report it",
        ),
        binding(
            "With --to, local address or interface of the client, and its ports: ADDRESS, eth0, :40000-40999, eth0:40000-40999",
        ),
        valued(
            "cpu",
            "CLIENT,SERVER",
            "The CPUs of both ends instead of --placement; with --to, the CPU of the client [default: the first]",
        )
        .value_parser(|text: &str| text.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()),
    ]
}

fn over_ssh() -> [Arg; 2] {
    [
        valued(
            "server-port",
            "PORT",
            "With ssh://: the server's data port (TCP and UDP); 0 for any free one [default: 7420, else any free one]",
        )
        .value_parser(value_parser!(u16)),
        optional(
            "copy-binary",
            "FILE",
            "",
            "With ssh://: copy this program, or FILE, to ~/.cache/hairpin on the host, and serve with the copy. \
            It must be linked statically [default: use `hairpin` on the host; if it has none, ask]",
        ),
    ]
}

/// Knobs that only `--help` shows.
const DETAILS: &[&str] =
    &["sysctl", "cpu-idle", "keep-samples", "keep-link-log", "allow-unmet-options", "port", "replicate", "seed"];

fn knob_argument(knob: &'static Knob) -> Arg {
    let default = knob.default.join(",");
    let help = match default.as_str() {
        "" => knob.help.to_owned(),
        default => format!("{} [default: {default}]", knob.help),
    };
    let argument = Arg::new(knob.name).long(knob.name).help(help).hide(knob.hidden);
    let argument = match knob.name {
        "transport" => argument.short('t'),
        "timeout" => argument.help_heading("Length"),
        name if [ROUND_COUNTS, LENGTHS].concat().contains(&name) => argument.help_heading("Length"),
        name if DETAILS.contains(&name) => argument.help_heading("Details").hide_short_help(true),
        _ => argument,
    };
    if knob.kind == KnobKind::Switch {
        return argument.action(ArgAction::SetTrue);
    }
    let action = if knob.repeat || knob.many { ArgAction::Append } else { ArgAction::Set };
    // A negative value gets the setting's own error instead of one about an unknown flag.
    argument.action(action).value_name(knob.value_name).allow_hyphen_values(true)
}

fn printing() -> [Arg; 5] {
    const NOT_TABLES: [&str; 2] = ["json", "csv"];
    [
        switch("verbose", "Print all findings and notes below the table").short('v').conflicts_with_all(NOT_TABLES),
        switch("all", "Print all figures, findings and notes, not only the first screen")
            .conflicts_with_all(NOT_TABLES),
        switch("json", "Print the run as one JSON object instead of a table").conflicts_with("csv"),
        optional(
            "ladder",
            "WHICH",
            time_sequence::MOST_TELLING,
            "Draw the time sequence (ladder) of one traced exchange below the table. WHICH: most-telling \
            (default options, else the longest wait), all, a remedy such as nodelay, or the label of a \
            case [default: most-telling]",
        )
        .conflicts_with_all(NOT_TABLES),
        optional(
            "csv",
            "PART",
            "summary",
            "Print CSV instead of a table: the summary of each case, or every raw sample",
        )
        .value_parser(PossibleValuesParser::new(["summary", "samples"])),
    ]
}

fn saved_run(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn list() -> Command {
    Command::new("list")
        .about("List transports, experiments, remedies, findings and options, and what can run here")
        .arg(switch("json", "Print the lists as one JSON object"))
}

fn report() -> Command {
    Command::new("report")
        .about("Show a saved run, even one that was killed, and write its report.html again")
        .arg(saved_run("RUN", "The run folder [default: the latest in hairpin-runs]").required(false))
        .args(printing())
        .arg(path("html", "FILE", "Write the page to FILE instead of the run folder"))
}

fn analyse() -> Command {
    Command::new("analyse")
        .about("Compute the figures and findings of a saved run again from its samples, and save them")
        .arg(saved_run("RUN", "The run folder"))
        .args(printing())
}

fn compare() -> Command {
    Command::new("compare")
        .about(
            "Compare saved runs case by case, or measure two commands interleaved and compare them; they may differ in one choice",
        )
        .override_usage(
            "hairpin compare [OPTIONS] BEFORE AFTER\n       hairpin compare [OPTIONS] BEFORE... --against AFTER...\n       \
             hairpin compare [OPTIONS] --run WORDS --run WORDS\n       hairpin compare [OPTIONS] --run WORDS --binary-b PATH",
        )
        .after_help(AFTER_HELP)
        .arg(
            saved_run("RUN", "Run folders: BEFORE and AFTER, or only BEFORE if --against gives AFTER")
                .required(false)
                .required_unless_present("run")
                .num_args(1..),
        )
        .arg(
            valued("run", "WORDS", "Measure this command, for instance 'round-trip --transport tcp'. Twice: the first is the \
                 baseline; they differ in one choice. No shell interprets the words")
                .action(ArgAction::Append)
                .conflicts_with_all(["RUN", "against", "allow-unlike", "phase"]),
        )
        .arg(path("binary-b", "PATH", "With --run: measure the second with this build of hairpin").conflicts_with("RUN"))
        .arg(
            valued("at-most", "TIME", "With --run: the maximum time; looks after 1/6, 1/3, 2/3 and all of it")
                .conflicts_with("RUN")
                .default_value("60s")
                .value_parser(|text: &str| parse::duration_ns(text).map_err(|refused| refused.to_string())),
        )
        .arg(
            valued("undecided", "WORD", "Exit with 4 (fail) or 0 (pass) if a budget is undecided [default: fail]")
                .value_parser(PossibleValuesParser::new(["fail", "pass"])),
        )
        .arg(path("markdown", "FILE", "Also write the comparison to FILE as Markdown tables, for a pull request"))
        .arg(
            path(
                "against",
                "AFTER",
                "Run folders of the second side. With three or more per side, intervals are over runs, not rounds",
            )
            .num_args(1..),
        )
        .arg(
            valued("budget", "BUDGET", "Exit with 1 if a figure got worse by more than this, for instance p99=+5% or goodput=-5%, \
                    or is worse than this: p99<=5ms, rate>=20k; may be repeated")
                .action(ArgAction::Append)
                .value_delimiter(','),
        )
        .arg(
            valued("phase", "PHASE", "Compare this phase of under-load runs with each other, or with a round-trip run")
                .value_parser(PossibleValuesParser::new(Phase::WORDS.iter().copied().filter(|word| *word != "ramp"))),
        )
        .arg(switch("allow-unlike", "Compare even if machine, settings, tool, plan or link differ"))
        .arg(switch("json", "Print the comparison as one JSON object"))
}

fn explain() -> Command {
    Command::new("explain")
        .about("Explain why a program is slow: a command, what runs already, or a capture of packets")
        .override_usage(
            "hairpin explain [OPTIONS] -- COMMAND...\n       hairpin explain [OPTIONS] --port N | --pid PID\n       \
             hairpin explain [OPTIONS] FILE",
        )
        .arg(
            Arg::new("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("A pcap or pcapng file, captured at either end, at both, or between them"),
        )
        .arg(flags::program("A program and its arguments, or sh -c '...' to start several; they run unchanged"))
        .group(ArgGroup::new("subject").args(["FILE", "COMMAND", "port", "pid"]).required(true))
        .arg(valued("port", "N", "Watch all TCP connections and UDP sockets of this port").value_parser(value_parser!(u16)))
        .arg(
            valued("pid", "PID", "Watch a program that runs already, and what it starts")
                .value_parser(value_parser!(u32)),
        )
        .arg(
            valued("for", "TIME", "With --port or --pid: how long to watch")
                .default_value("10s")
                .value_parser(|text: &str| parse::duration_ns(text).map_err(|refused| refused.to_string())),
        )
        .arg(
            switch("own-network", "Run COMMAND in a network of its own, with only loopback: packets without root")
                .requires("COMMAND")
                .conflicts_with("link"),
        )
        .args(words::of_link().map(|argument| match argument.get_id().as_str() {
            "link" => argument.requires("COMMAND"),
            _ => argument.requires("link"),
        }))
        .arg(switch("quiet", "With --link: print no address and no seed").short('q'))
        .arg(switch("all", "Print all causes, connections and states, as --json does").conflicts_with("json"))
        .arg(path("html", "FILE", "Also write a page to FILE, with the longest exchange packet by packet"))
        .arg(switch("json", "Print the explanation as one JSON object"))
        .after_help(
            "COMMAND's output goes to standard error; the explanation goes to standard output. The exit code is COMMAND's. What \
            COMMAND leaves running is ended. Packets need CAP_NET_RAW (root) or --own-network; without them, samples of sockets \
            are the evidence.",
        )
}

fn tune() -> Command {
    Command::new("tune")
        .about("Run a program again and again with one change at a time, and say which one makes it faster")
        .override_usage("hairpin tune [OPTIONS] -- COMMAND...")
        .arg(flags::program("A program that ends by itself, and its arguments; it runs unchanged").required(true))
        .arg(
            valued(
                "change",
                "CHANGE",
                "Try this change instead of those that the causes suggest: options such as nodelay=on,rcvbuf=1MiB, affinity=0, \
                scheduling=batch, timer-slack=1us, or with --own-network or --link a setting such as net.ipv4.tcp_sack=0; may be repeated",
            )
            .action(ArgAction::Append),
        )
        .arg(
            valued("metric", "WORD", "What is compared: exchange (mean duration), time (of the command), output (--match) [default: exchange, without exchanges time]")
                .value_parser(PossibleValuesParser::new(TuneMetric::WORDS)),
        )
        .arg(valued("match", "REGEX", "With --metric output: the first group of the last match in COMMAND's output, a number; less is better"))
        .arg(
            valued("runs", "N", "Runs of each arm: without a change twice, with the supervisor alone, with each change")
                .default_value("6")
                .value_parser(value_parser!(u64).range(2..=1000)),
        )
        .arg(switch("own-network", "Run COMMAND in a network of its own, with only loopback").conflicts_with("link"))
        .args(words::of_link().map(|argument| match argument.get_id().as_str() {
            "link" => argument,
            "seed" => argument.help("Seed of the order of the runs, and of the link's random choices [default: random]"),
            _ => argument.requires("link"),
        }))
        .arg(switch("json", "Print the result as one JSON object"))
        .arg(switch("quiet", "Show no progress").short('q'))
        .after_help(
            "COMMAND's output goes to standard error. Options are set at connect(2) and listen(2) of all its TCP sockets; its own \
            setsockopt(2) of them has no effect meanwhile.",
        )
}

fn runs() -> Command {
    Command::new("runs")
        .about("List saved runs with date, question and answer, newest first; --clean removes runs")
        .arg(
            Arg::new("FOLDER")
                .value_parser(value_parser!(PathBuf))
                .help("The folder that holds the run folders [default: hairpin-runs]"),
        )
        .arg(switch("json", "Print the runs as one JSON object, with skipped entries and the reasons"))
        .arg(
            switch("clean", "Remove runs selected by --older-than, --larger-than and --keep, after asking")
                .requires("selectors")
                .conflicts_with("json"),
        )
        .group(ArgGroup::new("selectors").args(SELECTORS).multiple(true).requires("clean"))
        .arg(valued("older-than", "AGE", "With --clean: only runs started longer ago than this, for instance 30d or 12h"))
        .arg(valued("larger-than", "SIZE", "With --clean: only runs larger than this, for instance 100MiB"))
        .arg(
            valued("keep", "NUMBER", "With --clean: keep the newest NUMBER of all runs in the folder")
                .value_parser(value_parser!(usize)),
        )
        .arg(switch("yes", "With --clean: do not ask").requires("clean"))
        .after_help(
            "--clean removes a run if all given conditions hold and it is not being written. It removes only your own \
            folders with only the files of a run, and follows no symbolic links.",
        )
}

fn claims() -> Command {
    let json = || switch("json", "Print the claims as one JSON object");
    let ids = |default: &'static str| Arg::new("ID").num_args(0..).help(default);
    let file = || path("file", "FILE", "Use the claims of this file (docs/claims.md) instead of the built-in ones");
    let no_csv = || {
        let instead = "claims are printed by --json; `hairpin report RUN --csv` prints each of their runs";
        let refuse = UnknownArgumentValueParser::suggest(instead);
        Arg::new("csv").long("csv").num_args(0).value_parser(refuse).hide(true)
    };
    let seed = valued("seed", "NUMBER", "Seed of every run [default: random, and recorded]");
    let rounds = valued("rounds", "NUMBER", "Number of rounds of each case [default: as each claim defines]");
    let run = Command::new("run")
        .about("Test claims on this machine, or with --to on the path to another host: published figure, measured figure and a verdict for each")
        .after_help(AFTER_HELP)
        .arg(ids("Claims such as B1, or a letter for all claims of a text").conflicts_with("all"))
        .arg(switch("all", "Test all claims that can be tested; prints the total time first"))
        .arg(switch("quick", "Fewer rounds, and no rows of other settings: about 10 minutes for all").conflicts_with("rounds"))
        .arg(valued("link", "LINK", "Test what claims say about paths on this emulated link").conflicts_with("to"))
        .arg(file())
        .arg(seed.value_parser(value_parser!(u64)))
        .arg(rounds.value_parser(value_parser!(u64).range(1..=10_000)))
        .arg(path("out", "DIR", "Folder for the runs and claims.json; an interrupted one is continued [default: hairpin-runs/TIME-claims]"))
        .args(other_host())
        .args(over_ssh())
        .arg(json())
        .arg(switch("quiet", "Show no progress").short('q'))
        .arg(no_csv());
    let result =
        |name: &'static str, help: &'static str| Arg::new(name).value_parser(value_parser!(PathBuf)).help(help);
    let compare = Command::new("compare")
        .about("Print the claims whose verdicts differ from a reference, and what may be why")
        .arg(result("REFERENCE", "claims.json or its folder, of another machine or version").required(true))
        .arg(result("RESULT", "What is compared with it [default: the latest verdicts here]"));
    Command::new("claims")
        .about("Show what published texts claim about transports, with the latest verdicts of this machine")
        .args_conflicts_with_subcommands(true)
        .arg(ids("Claims such as B1, or a letter for all claims of a text [default: all]"))
        .arg(file())
        .arg(no_csv())
        .arg(json())
        .subcommand(run)
        .subcommand(compare)
}

fn serve() -> Command {
    Command::new("serve")
        .about("Serve rounds of clients on other hosts, and print the ticket that they need")
        .arg(valued(
            "bind",
            "ADDRESS",
            "Address and port of TCP and UDP to listen on [default: 127.0.0.1:7420, this host only; 0.0.0.0 opens it over IPv4, :: over both]",
        ))
        .arg(valued(
            "advertise",
            "HOST",
            "Name or address of this host in the ticket, with the port if a NAT changes it [default: as --bind]",
        ))
        .arg(valued("for", "TIME", "End after this time; the ticket expires then [default: the ticket expires after 7 days]"))
        .arg(switch("once", "End after the first run of a client, and revoke the ticket"))
        .arg(switch(
            "until-input-closes",
            "End when standard input closes, for instance because an ssh connection ended",
        ))
        .arg(switch("quiet", "Print the ticket and errors only").short('q'))
        .arg(valued(
            "limit",
            "LIMITS",
            "Limits of the ticket: rate=100mbit,turn=60s,daily-bytes=10GiB,sessions=1,wait=30s (for other rounds)",
        ))
        .arg(valued("ticket", "NAME", "Print the ticket of this name, which stays the same at each start").conflicts_with("once"))
        .arg(
            valued("tickets", "FILE", "Accept only the tickets named in this file, a line each: NAME [LIMITS] [from=RANGE,...]. SIGHUP reloads it")
                .conflicts_with_all(["ticket", "limit", "once", "for"]),
        )
        .arg(valued("allow", "RANGES", "Accept only clients of these addresses: 10.0.0.0/8,2001:db8::/32 [default: all]"))
        .arg(switch("describe-host", "Give clients also the kernel's exact version, boot id, mitigations, user and load"))
        .arg(valued("metrics", "ADDRESS:PORT", "Serve counters over HTTP in the format of OpenMetrics"))
        .arg(
            valued("cpu", "NUMBER", "CPU of the server in rounds [default: the second, if there is one]")
                .value_parser(value_parser!(usize)),
        )
        .args(serve_echo::flags().map(|flag| flag.help_heading("Echo servers for other clients")))
        .arg(switch("list", "List tickets and sessions, also while the server runs, and exit"))
        .arg(switch("json", "Print a JSON object for each event, one per line"))
        .arg(valued("revoke", "ID", "Revoke this ticket, also while the server runs, and exit").exclusive(true))
        .after_help(
            "The ticket contains a secret that allows anyone to run rounds here. It is printed once, and stored with \
            the server's key in $XDG_STATE_HOME/hairpin (or ~/.local/state/hairpin), which only you can read.",
        )
}

fn check() -> Command {
    Command::new("check")
        .about("Show what the server of a ticket allows, and whether TCP and UDP reach it")
        .arg(Arg::new("TICKET").help(
            "The ticket; @FILE reads it from a file [default: HAIRPIN_TO]. ssh://[USER@]HOST[:PORT] starts a server",
        ))
        .args(over_ssh())
        .arg(binding(
            "Local address or interface to use, and its ports: ADDRESS, eth0, :40000-40999, eth0:40000-40999",
        ))
        .arg(switch("json", "Print one JSON object"))
        .arg(switch("quiet", "Print the result and errors only").short('q'))
}

fn binding(help: &'static str) -> Arg {
    valued("bind", "WHERE", help)
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a shell's completion script")
        .arg(Arg::new("SHELL").required(true).value_parser(value_parser!(clap_complete::Shell)).help("The shell"))
}

fn man() -> Command {
    Command::new("man")
        .about("Print the manual page of the program or of one of its commands")
        .arg(Arg::new("COMMAND").num_args(0..).help("The command, for instance `link run` [default: the program]"))
}

/// Returns `--ladder=WORD` if the unknown word follows a `--ladder` without a value, which needs the equals sign.
pub fn meant_ladder(arguments: &[OsString], unknown: &str) -> Option<String> {
    let follows = |pair: &[OsString]| pair[0] == "--ladder" && pair[1] == unknown;
    arguments.windows(2).any(follows).then(|| format!("--ladder={unknown}"))
}

#[cfg(test)]
mod tests {
    use hairpin_experiments::experiments;

    use super::*;

    fn built_in() -> Command {
        command(&Program::at("hairpin", &[]))
    }

    #[test]
    fn a_word_after_a_bare_ladder_is_its_value() {
        let given = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let meant = meant_ladder(&given(&["hairpin", "small-writes", "--ladder", "nodelay"]), "nodelay");
        assert_eq!(meant.as_deref(), Some("--ladder=nodelay"));
        assert_eq!(meant_ladder(&given(&["hairpin", "small-writes", "--prove", "nodelay"]), "nodelay"), None);
    }

    #[test]
    fn the_command_line_is_consistent() {
        built_in().debug_assert();
    }

    #[test]
    fn no_example_is_wider_than_a_narrow_terminal() {
        let (mut commands, mut examples) = (vec![built_in()], 0);
        while let Some(command) = commands.pop() {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("  ")) {
                examples += 1;
                assert!(line.chars().count() <= 78, "{}: {line}", command.get_name());
            }
            commands.extend(command.get_subcommands().cloned());
        }
        assert!(examples > 4, "found {examples}");
    }

    #[test]
    fn every_experiment_is_a_command_and_every_knob_a_flag() {
        let command = built_in();
        for experiment in experiments::ALL {
            let own = command.find_subcommand(experiment.name).expect("every experiment is a command");
            for knob in experiment.knobs {
                assert!(own.get_arguments().any(|argument| argument.get_long() == Some(knob.name)), "{}", knob.name);
            }
        }
    }
}
