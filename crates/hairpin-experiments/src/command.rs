//! Converts cases back to the command-line flags that plan them.

use hairpin_model::{Repeat, Run, path, shell};

use crate::experiment::Experiment;
use crate::knob::{Knob, KnobKind};

/// Order of flags in commands; `*` marks the place of all other flags.
const FLAG_ORDER: &str = "transport waiting placement ends * option sysctl link cpu-idle injected-fault replicate warmup over \
                     idle ramp duration recovery seed";

/// Program name if the run has no recorded command line.
const PROGRAM: &str = "hairpin";

/// Flags of a run between two hosts that select the server and place the ends.
const ENDPOINT_FLAGS: &[&str] = &["--to", "--ca", "--bind", "--cpu", "--server-port"];

/// Fills in the commands of a run's counter-experiments, with the run's program, seed, phases and server.
pub fn fill_in(run: &mut Run, experiments: impl Iterator<Item = &'static Experiment> + Clone) {
    let program = run.command_line.first().and_then(|path| path.rsplit('/').next()).unwrap_or(PROGRAM).to_owned();
    let is_between_hosts = run.cases.iter().any(|row| row.case.host().is_some());
    let endpoint_flags = if is_between_hosts { ENDPOINT_FLAGS } else { &["--cpu"] };
    let server_flags = flags_given(endpoint_flags, &run.command_line);
    for finding in &mut run.findings {
        let Some(experiment) = &mut finding.counter_experiment else { continue };
        let first = finding.cases.first().and_then(|id| run.rounds.iter().find(|round| round.case_id == *id));
        let phases = first.and_then(|round| round.order.phases);
        let (seed, cards) = (Some(run.seed), run.cards.clone());
        let repeat = Repeat { phases, seed, cards, ..experiment.repeat.clone() };
        if let Some(command) = words(&program, &repeat, experiments.clone()) {
            experiment.command = shell::command(&[command, server_flags.clone()].concat());
        }
    }
}

/// Returns the words of the command that repeats these cases; `None` if no experiment repeats them.
///
/// Each knob takes the values of all cases, so the command may run a few more combinations than there are cases.
pub fn words(
    program: &str,
    repeat: &Repeat,
    mut experiments: impl Iterator<Item = &'static Experiment>,
) -> Option<Vec<String>> {
    let case = repeat.cases.first()?;
    let experiment = experiments.find(|experiment| (experiment.repeats)(case))?;
    let mut knobs: Vec<&Knob> = experiment.knobs.iter().collect();
    let place = |name: &str| FLAG_ORDER.split_whitespace().position(|known| known == name);
    knobs.sort_by_key(|knob| place(knob.name).or_else(|| place("*")));
    let flags = knobs.into_iter().flat_map(|knob| flags(knob, (knob.print)(repeat)));
    Some([program, experiment.name].map(str::to_owned).into_iter().chain(flags).collect())
}

fn flags(knob: &Knob, values: Vec<String>) -> Vec<String> {
    let flag = format!("--{}", knob.name);
    match values.first() {
        None => Vec::new(),
        Some(_) if knob.kind == KnobKind::Switch => vec![flag],
        Some(_) if knob.many => vec![flag, values.join(",")],
        Some(_) if knob.repeat => values.into_iter().flat_map(|value| [flag.clone(), value]).collect(),
        Some(first) => vec![flag, first.clone()],
    }
}

/// Copies these flags from a run's command line. If `--to` is absent, an environment variable names the
/// server, for the new command too.
fn flags_given(flags: &[&str], command_line: &[String]) -> Vec<String> {
    let value_of = |flag: &str| {
        command_line.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(flag)? {
            "" => command_line.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        })
    };
    let printed = |flag: &str| {
        let value = value_of(flag)?;
        let value = if flag == "--to" { path::server_in_command(value) } else { value };
        Some([flag, value].map(str::to_owned))
    };
    flags.iter().filter_map(|flag| printed(flag)).flatten().collect()
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, CounterExperiment, Finding};

    use super::*;
    use crate::experiments;

    fn printed(line: &str) -> String {
        shell::command(&flags_given(ENDPOINT_FLAGS, &shell::words(line)))
    }

    #[test]
    fn a_command_names_the_server_like_the_run_and_hides_the_ticket() {
        assert_eq!(printed("hairpin bulk --to @lab.ticket --rounds 2"), "--to @lab.ticket");
        assert_eq!(printed("hairpin bulk '--to=@my lab' --cpu 3"), "--to '@my lab' --cpu 3");
        assert_eq!(
            printed("hairpin --server-port=5000 --to ssh://me@lab:22"),
            "--to ssh://me@lab:22 --server-port 5000"
        );
        assert_eq!(printed("hairpin --bind eth1 --to @lab.ticket"), "--to @lab.ticket --bind eth1");
        assert_eq!(printed("hairpin --to 192.0.2.7:7420#..."), "--to @FILE");
        assert_eq!(printed("hairpin bulk"), "", "an environment variable names the server");
        assert_eq!(printed("hairpin bulk --to"), "");
    }

    #[test]
    fn the_command_names_the_program_of_the_run_and_its_own_experiment() {
        static OWN: &[Experiment] =
            &[Experiment { name: "own", repeats: |case| case.primary().transport == "own", ..experiments::ALL[0] }];
        let command = |transport: &str, line: &[&str]| {
            let repeat = Repeat::of(vec![Case::ping_pong(transport)]);
            let experiment = CounterExperiment { repeat, ..CounterExperiment::default() };
            let mut run = Run {
                command_line: line.iter().map(|word| (*word).to_owned()).collect(),
                findings: vec![Finding { counter_experiment: Some(experiment), ..Finding::default() }],
                ..Run::default()
            };
            fill_in(&mut run, OWN.iter().chain(experiments::ALL));
            let command = run.findings.remove(0).counter_experiment.unwrap().command;
            let all: Vec<&str> = command.split_whitespace().collect();
            let cpus = all.iter().skip_while(|word| **word != "--cpu");
            all.iter().take(2).chain(cpus).copied().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(command("own", &["/opt/bin/measure-own", "own"]), "measure-own own");
        assert_eq!(command("tcp", &["/opt/bin/measure-own", "own"]), "measure-own round-trip");
        assert_eq!(command("tcp", &[]), "hairpin round-trip");
        let placed = ["hairpin", "survey", "--to", "@lab", "--cpu", "1,0"];
        assert_eq!(command("tcp", &placed), "hairpin round-trip --cpu 1,0", "these are on one host");
    }
}
