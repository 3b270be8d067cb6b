//! `cargo xtask diagnose`: checks that Hairpin names an injected cause first, and never an absent cause.
//!
//! Runs the trials ([`trials::ALL`]) many times in turn, and counts which cause each run names first. The confusion
//! table has a row per trial and a column per cause. Causes that explain less than 1 % are not counted; findings about
//! the run or the machine are not causes. If an injection lets a control loop miss deadlines, the finding `deadline-misses` must
//! name the same cause.

mod states;
mod trials;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;
use serde_json::Value;

use self::trials::{Place, Trial, TrialKind};
use crate::process;

const LIMIT: Duration = Duration::from_mins(2);
const PROVE_LIMIT: Duration = Duration::from_mins(6);
const MIN_SHARE: f64 = 0.01;
/// Minimum share of runs that name the injected cause first, over all injections and for each injection; and maximum
/// share of a decoy's runs that name the imitated cause first.
const MIN_POOLED: f64 = 0.95;
const MIN_EACH: f64 = 17.0 / 20.0;
const MAX_MISTAKEN: f64 = 1.0 / 20.0;
/// Minimum share of an injection's runs in which the counter-experiment confirms the cause.
const MIN_CONFIRMED: f64 = 0.95;
const NOTHING: &str = "nothing";

/// How often each cause was named first in the runs of a trial.
type Named = BTreeMap<String, usize>;

struct First {
    code: String,
    is_confirmed: bool,
    /// Whether `deadline-misses`, if found, names this cause.
    explains_misses: bool,
}

/// Runs the trials whose cause contains `only`, or whose experiment it is, and prints the table. Returns whether all limits hold. With `prove`,
/// also runs the counter-experiments of injections. With `states`, the trials are of states of exchanges.
pub(crate) fn run(root: &Path, runs: usize, only: Option<&str>, prove: bool, states: bool) -> Result<bool> {
    let (all, named_first): (_, fn(&Value) -> Option<First>) =
        if states { (states::ALL, longest_state) } else { (trials::ALL, named_first) };
    let is_of = |trial: &Trial, word| trial.cause.contains(word) || trial.words().next() == Some(word);
    let mut chosen: Vec<&Trial> = all.iter().filter(|trial| only.is_none_or(|word| is_of(trial, word))).collect();
    if let Some(reason) = why_no_quota(&chosen)? {
        let (skipped, rest) = chosen.into_iter().partition(|trial| matches!(trial.place, Place::WithQuota(_)));
        chosen = rest;
        let skipped: Vec<&Trial> = skipped;
        skipped.iter().for_each(|trial| println!("skipped {} {}: {reason}", trial.cause, trial.arguments));
    }
    if chosen.is_empty() {
        bail!(
            "no trial for cause or experiment `{}` (hint: the lists are trials.rs and states.rs in xtask/src/diagnose)",
            only.unwrap_or_default()
        );
    }
    let [hairpin] = process::build_release(root, [("hairpin", "hairpin")])?;
    let scratch = process::scratch("diagnose")?;
    let started = Instant::now();
    let mut named = vec![Named::new(); chosen.len()];
    let mut confirmed = vec![0; chosen.len()];
    for number in 0..runs {
        for (place, trial) in chosen.iter().enumerate() {
            let prove = prove && trial.kind == TrialKind::Injection;
            let first = told_by(&hairpin, &scratch, trial, prove, named_first)?;
            let right = |first: &First| first.code == trial.cause && first.is_confirmed;
            confirmed[place] += usize::from(first.as_ref().is_some_and(right));
            let is_told = |first: &First| trial.kind == TrialKind::Decoy || first.explains_misses;
            let code = first.filter(is_told).map_or_else(|| NOTHING.to_owned(), |first| first.code);
            *named[place].entry(code).or_default() += 1;
        }
        println!("{} of {runs}, {:.0} s", number + 1, started.elapsed().as_secs_f64());
    }
    process::remove(&scratch)?;
    let results: Vec<(&Trial, Named)> = chosen.into_iter().zip(named).collect();
    println!("\n{}", table(all, &results));
    let (verdicts, holds) = judge_all(&results, runs);
    println!("{verdicts}");
    let mut all_hold = holds;
    let injections =
        results.iter().zip(confirmed).filter(|((trial, _), _)| prove && trial.kind == TrialKind::Injection);
    for ((trial, _), count) in injections {
        let is_met = count as f64 >= MIN_CONFIRMED * runs as f64;
        all_hold &= is_met;
        let word = if is_met { "holds " } else { "MISSED" };
        println!("{word} {} confirmed by its counter-experiment in {count} of {runs}", trial.cause);
    }
    Ok(all_hold)
}

fn told_by(
    hairpin: &Path,
    scratch: &Path,
    trial: &Trial,
    prove: bool,
    named_first: fn(&Value) -> Option<First>,
) -> Result<Option<First>> {
    let out = scratch.join("run");
    let mut command = match trial.place {
        Place::Here => Command::new(hairpin),
        Place::BehindQueue(queue) => behind(queue, hairpin),
        Place::WithQuota(percent) => with_quota(percent, hairpin),
        Place::BesideBusyLoop(cpu) => beside_busy_loop(cpu, hairpin),
    };
    command.args(trial.words()).args(["--json", "--quiet", "--out"]).arg(&out);
    command.args(prove.then_some("--prove"));
    let limit = if prove { PROVE_LIMIT } else { LIMIT };
    let about = || format!("hairpin {}", trial.arguments);
    let told = process::run(&mut command, limit).and_then(|ran| ran.json_of(&[3, 5]));
    process::remove(&out)?;
    told.map(|told| named_first(&told)).with_context(about)
}

/// Returns a command that runs the program in a new network namespace whose loopback device has this queue discipline.
fn behind(queue: &str, hairpin: &Path) -> Command {
    let script = format!("ip link set lo up && tc qdisc add dev lo root {queue} && exec \"$@\"");
    process::prefixed(&["unshare", "--net", "sh", "-c", &script, "sh"], hairpin)
}

fn beside_busy_loop(cpu: usize, hairpin: &Path) -> Command {
    let script = "taskset -c \"$0\" sh -c 'while :; do :; done' & trap \"kill $!\" EXIT; \"$@\"";
    process::prefixed(&["sh", "-c", script, &cpu.to_string()], hairpin)
}

/// Returns why no control group with a quota can be made here; `None` if it can, or if no trial needs it.
fn why_no_quota(trials: &[&Trial]) -> Result<Option<String>> {
    if !trials.iter().any(|trial| matches!(trial.place, Place::WithQuota(_))) {
        return Ok(None);
    }
    let ran = process::run(&mut with_quota(50, Path::new("true")), LIMIT)?;
    Ok((ran.code != Some(0)).then(|| format!("no control group with a CPU quota: {}", ran.stderr.trim())))
}

/// Returns a command that runs the program in a new control group (version 1 or 2) with this CPU quota. Needs root.
fn with_quota(percent: u32, hairpin: &Path) -> Command {
    process::prefixed(&["sh", "-c", include_str!("with_quota.sh"), "sh", &percent.to_string()], hairpin)
}

fn named_first(told: &Value) -> Option<First> {
    let is_cause = |finding: &&Value| {
        finding["about"] == "cause" && finding["share"].as_f64().is_some_and(|share| share >= MIN_SHARE)
    };
    let first = contract::list(told, "findings").iter().find(is_cause)?;
    let is_confirmed = first["proved"]["verdict"] == "confirmed";
    let misses = contract::list(told, "findings").iter().find(|finding| finding["code"] == "deadline-misses");
    let explains_misses = misses.is_none_or(|misses| misses["facts"]["cause"] == first["code"]);
    Some(First { code: first["code"].as_str()?.to_owned(), is_confirmed, explains_misses })
}

/// Returns the state in which the exchanges of the first case spent most time.
fn longest_state(told: &Value) -> Option<First> {
    let states = contract::list(contract::list(told, "cases").first()?.get("trace")?, "states");
    Some(First { code: states.first()?["state"].as_str()?.to_owned(), is_confirmed: false, explains_misses: true })
}

/// Returns the table: a row per trial, a column per cause (with the cause's letter), and a column for no cause.
fn table(all: &[Trial], results: &[(&Trial, Named)]) -> String {
    let mut causes: Vec<&str> = all.iter().map(|trial| trial.cause).collect();
    causes.dedup();
    let letter = |place: usize| char::from(b'A' + u8::try_from(place).expect("fewer causes than letters"));
    let columns: Vec<&str> = causes.iter().copied().chain([NOTHING]).collect();
    let header: String = (0..causes.len()).map(|place| format!("{:>4}", letter(place))).collect();
    let mut text = format!("{:36}{header}   -   (rows: trials; columns: cause named first)\n", "");
    for (trial, named) in results {
        let place = causes.iter().position(|cause| *cause == trial.cause).unwrap_or(0);
        let kind = if trial.kind == TrialKind::Injection { "injected" } else { "decoy" };
        let cells: String = columns
            .iter()
            .map(|column| named.get(*column).map_or("   .".to_owned(), |count| format!("{count:>4}")))
            .collect();
        let _ = writeln!(text, "{} {:25}{kind:9}{cells}   {}", letter(place), trial.cause, trial.arguments);
    }
    text
}

/// Returns a line per limit with the result, and whether all limits hold.
fn judge_all(results: &[(&Trial, Named)], runs: usize) -> (String, bool) {
    let of_kind = |kind: TrialKind| results.iter().filter(move |(trial, _)| trial.kind == kind);
    let right = |(trial, named): &(&Trial, Named)| named.get(trial.cause).copied().unwrap_or(0);
    let (injections, named): (usize, usize) =
        (of_kind(TrialKind::Injection).count() * runs, of_kind(TrialKind::Injection).map(right).sum());
    let mut lines = Vec::new();
    let mut holds = true;
    let mut judge = |is_met: bool, line: String| {
        holds &= is_met;
        lines.push(format!("{} {line}", if is_met { "holds " } else { "MISSED" }));
    };
    let share = named as f64 / injections.max(1) as f64;
    judge(
        injections == 0 || share >= MIN_POOLED,
        format!("{named} of {injections} injections named first ({:.1} %), at least 95 %", share * 100.0),
    );
    for result in of_kind(TrialKind::Injection) {
        let count = right(result);
        judge(count as f64 >= MIN_EACH * runs as f64, format!("{} named first in {count} of {runs}", result.0.cause));
    }
    for result in of_kind(TrialKind::Decoy) {
        let count = right(result);
        judge(
            count as f64 <= MAX_MISTAKEN * runs as f64,
            format!("decoy: {} named first in {count} of {runs}", result.0.cause),
        );
    }
    (lines.join("\n"), holds)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    /// Returns the findings about causes in docs/catalog.md.
    fn causes_of_the_catalog() -> BTreeSet<String> {
        let catalog = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/catalog.md");
        let text = std::fs::read_to_string(catalog).unwrap();
        let findings = text.split("\n## Findings\n").nth(1).unwrap().split("\n## ").next().unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows = findings.lines().map(cells).filter(|cells| cells.get(2).is_some_and(|about| about == "cause"));
        rows.map(|cells| cells[1].trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn exactly_the_findings_about_causes_have_an_injection_and_a_decoy() {
        let causes = causes_of_the_catalog();
        assert!(causes.len() > 5, "{causes:?}");
        for kind in [TrialKind::Injection, TrialKind::Decoy] {
            let tried: BTreeSet<String> =
                trials::ALL.iter().filter(|trial| trial.kind == kind).map(|trial| trial.cause.to_owned()).collect();
            assert_eq!(tried, causes, "{kind:?}");
        }
    }

    #[test]
    fn every_state_has_an_injection_and_a_decoy_or_a_reason_why_there_is_none() {
        let document = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/states.md");
        let text = std::fs::read_to_string(document).unwrap();
        let section =
            |title: &str| text.split(&format!("\n## {title}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = |title: &str| -> BTreeSet<String> {
            let first = section(title).lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
            first.map(str::to_owned).collect()
        };
        let (states, without) = (rows("States"), rows("States without an injection"));
        for kind in [TrialKind::Injection, TrialKind::Decoy] {
            let of_kind = states::ALL.iter().filter(|trial| trial.kind == kind);
            let tried: BTreeSet<String> = of_kind.map(|trial| trial.cause.to_owned()).collect();
            assert_eq!(tried.union(&without).cloned().collect::<BTreeSet<_>>(), states, "{kind:?}");
            assert_eq!(tried.intersection(&without).count(), 0, "{kind:?}");
        }
    }

    #[test]
    fn the_longest_state_of_the_first_case_counts() {
        let told = json!({"cases": [{"trace": {"states": [{"state": "delayed-ack"}, {"state": "nagle"}]}}, {}]});
        assert_eq!(longest_state(&told).unwrap().code, "delayed-ack");
        for nothing in [json!({"cases": [{"trace": {}}]}), json!({"cases": []}), json!({"cases": [{"trace": null}]})]
        {
            assert!(longest_state(&nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn the_first_finding_about_a_cause_counts() {
        let finding = |code: &str, about: &str, share: f64| json!({"code": code, "about": about, "share": share});
        let told = |findings: &[Value]| json!({ "findings": findings });
        let noisy = finding("noisy-machine", "run", 0.9);
        let refuted = finding("nagle-waits", "cause", 0.0);
        let stalled = finding("echo-stalled", "cause", 0.01);
        assert!(named_first(&told(&[noisy.clone(), refuted.clone()])).is_none());
        let first = named_first(&told(&[noisy, refuted, stalled.clone()])).unwrap();
        assert_eq!((first.code.as_str(), first.is_confirmed), ("echo-stalled", false));
        let mut proved = stalled;
        proved["proved"] = json!({"verdict": "confirmed"});
        assert!(named_first(&told(&[proved.clone()])).unwrap().is_confirmed);
        for (cause, explains) in [("echo-stalled", true), ("disturbed", false)] {
            let misses =
                json!({"code": "deadline-misses", "about": "traffic", "share": 0.1, "facts": {"cause": cause}});
            assert_eq!(named_first(&told(&[proved.clone(), misses])).unwrap().explains_misses, explains, "{cause}");
        }
    }

    #[test]
    fn one_run_beyond_a_limit_misses_the_limit() {
        let trial = |kind| Trial { cause: "echo-stalled", kind, arguments: "round-trip", place: Place::Here };
        let (injected, decoy) = (trial(TrialKind::Injection), trial(TrialKind::Decoy));
        let named =
            |right: usize| Named::from([("echo-stalled".to_owned(), right), (NOTHING.to_owned(), 20 - right)]);
        let holds = |injected_right: usize, mistaken: usize| {
            let results = [(&injected, named(injected_right)), (&decoy, named(mistaken))];
            judge_all(&results, 20).1
        };
        assert!(holds(19, 1));
        assert!(!holds(18, 1), "90 % of all injections");
        assert!(!holds(19, 2));
        // One of ten injections may fail more often than the average.
        let many = |weak: usize| {
            let mut results: Vec<(&Trial, Named)> = (0..9).map(|_| (&injected, named(20))).collect();
            results.push((&injected, named(weak)));
            judge_all(&results, 20).1
        };
        assert!(many(17) && !many(16));
    }

    #[test]
    fn an_argument_in_quotes_keeps_its_spaces() {
        let trial = Trial {
            cause: "a",
            kind: TrialKind::Decoy,
            arguments: "round-trip --link 'delay=2ms loss=3%' --count 9",
            place: Place::Here,
        };
        assert_eq!(trial.words().collect::<Vec<_>>(), ["round-trip", "--link", "delay=2ms loss=3%", "--count", "9"]);
    }

    #[test]
    fn the_table_has_a_row_with_counts_for_each_trial() {
        let trial =
            Trial { cause: "cold-start", kind: TrialKind::Injection, arguments: "round-trip", place: Place::Here };
        let named = Named::from([("cold-start".to_owned(), 18), (NOTHING.to_owned(), 2)]);
        let text = table(trials::ALL, &[(&trial, named)]);
        let row = text.lines().nth(1).unwrap();
        assert!(row.starts_with("B cold-start               injected    .  18   ."), "{row:?}");
        assert!(row.ends_with("   2   round-trip"), "{row:?}");
    }
}
