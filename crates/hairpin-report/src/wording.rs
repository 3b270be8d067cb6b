//! Sentences for the terminal and the page.

use hairpin_model::finding::Severity;
use hairpin_model::ledger::{in_words, is_of_the_namespace};
use hairpin_model::names::{distinct, grouped};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::{self, counted};
use hairpin_model::round::{Purpose, RoundRecord};
use hairpin_model::run::State;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{
    Case, CaseSummary, Comparison, Effective, FailureKind, Figure, Finding, Load, PeriodSearchPlan, Plan,
    PlannedTraffic, Run, Skipped, Tool, finding_keys as keys, path,
};

use crate::hosts;
use crate::links;

pub(crate) fn partial(run: &Run) -> Option<String> {
    let of = format!(
        "{} of {} were measured",
        quantities::count(timed_rounds(run) + evidence_rounds(run)),
        counted(run.plan.rounds_ordered, "round")
    );
    match run.state {
        State::Complete => None,
        State::Interrupted => Some(format!("PARTIAL RUN: stopped by Ctrl-C or SIGTERM; {of}.")),
        State::Running => Some(match not_saved(run) {
            Some(cause) => format!("PARTIAL RUN: not all was saved: {cause}; {of}."),
            None => format!("PARTIAL RUN: still running, or killed; {of}."),
        }),
    }
}

fn not_saved(run: &Run) -> Option<String> {
    let (first, more) = run.unsaved.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
    Some(format!("{}{more}", first.cause))
}

fn timed_rounds(run: &Run) -> u64 {
    run.cases.iter().map(|row| row.rounds).sum()
}

fn evidence_rounds(run: &Run) -> u64 {
    let measured = |purpose| run.rounds.iter().filter(|round| round.measured_as(purpose).is_some()).count() as u64;
    measured(Purpose::Traced) + measured(Purpose::Untraced) + measured(Purpose::Stamped)
}

/// Returns `30 rounds`, or `78 timed rounds and 54 evidence rounds`.
pub(crate) fn rounds(run: &Run) -> String {
    match evidence_rounds(run) {
        0 => counted(timed_rounds(run), "round"),
        evidence => {
            format!("{} and {}", counted(timed_rounds(run), "timed round"), counted(evidence, "evidence round"))
        }
    }
}

pub(crate) fn cautions(run: &Run) -> Vec<String> {
    let mut cautions = links::cautions(run);
    if let Some(cause) = not_saved(run).filter(|_| run.state != State::Running) {
        cautions.push(format!("Not all was saved: {cause}."));
    }
    if only_failure(run).is_some() {
        return cautions;
    }
    let failed = run.failed_rounds() as u64;
    cautions.extend((failed > 0).then(|| format!("{} failed; see the causes below.", counted(failed, "round"))));
    match run.cases.iter().filter(|row| !row.valid && !never_measured(row)).count() as u64 {
        0 => {}
        1 => cautions.push("1 case is invalid (marked with !): do not use its figures.".to_owned()),
        many => cautions.push(format!("{many} cases are invalid (marked with !): do not use their figures.")),
    }
    match run.cases.iter().filter(|row| never_measured(row)).count() as u64 {
        0 => {}
        1 => cautions.push("1 case was not measured (no figures).".to_owned()),
        many => cautions.push(format!("{many} cases were not measured (no figures).")),
    }
    cautions
}

/// Whether a case is invalid only because the run ended before any of its rounds completed or failed.
pub(crate) fn never_measured(row: &CaseSummary) -> bool {
    !row.valid && row.rounds == 0 && row.failed_rounds.is_empty()
}

/// The code of the finding on which [`busy`] is based.
pub(crate) const NOISY_CODE: &str = "noisy-machine";

/// Returns a caution if a finding warns that other programs used the machine.
pub(crate) fn busy(run: &Run) -> Option<String> {
    let grave = |finding: &&Finding| finding.code == NOISY_CODE && finding.severity != Severity::Note;
    let finding = run.findings.iter().find(grave)?;
    // Evidence saved by earlier versions has a text but no key.
    let earlier = || finding.evidence.iter().find(|piece| piece.what == "rounds disturbed").map(|piece| piece.value);
    let share = finding.figure(keys::DISTURBED).or_else(earlier).map(|share| share.value);
    let of = share.filter(|share| (0.0..=1.0).contains(share)).map_or_else(String::new, |share| {
        let timed = timed_rounds(run);
        // The product is a small number, so the cast is safe.
        let disturbed = (share * timed as f64).round() as u64;
        format!(" in {} of {}", quantities::count(disturbed), counted(timed, "timed round"))
    });
    Some(format!("Other programs were active{of} (finding {NOISY_CODE}): figures may differ on an idle machine."))
}

pub(crate) fn cut(run: &Run) -> Option<String> {
    let cut = counted(Some(run.plan.rounds_cut).filter(|cut| *cut > 0)?, "planned round");
    let is_unreached = run
        .rounds
        .last()
        .and_then(RoundRecord::failure)
        .is_some_and(|failure| failure.kind == FailureKind::Unreachable);
    let why =
        if is_unreached { "the server did not answer" } else { "the machine is slower than planned, or too noisy" };
    Some(format!("{cut} were not run: {why}."))
}

/// Returns one line per A/A pair: the difference found between two identical cases. True if no difference was found.
pub(crate) fn calibrations(run: &Run) -> Vec<(bool, String)> {
    let pairs = run.comparisons.iter().filter(|comparison| comparison.role == Role::AgainstItself);
    let calibrated = |pair: &Comparison| {
        pair.verdict == Verdict::CannotTell && pair.ratio.low.is_some() && !is_too_noisy(&pair.ratio)
    };
    pairs.map(|pair| (calibrated(pair), calibration(run, pair))).collect()
}

/// Whether the interval of a ratio exceeds +-10 %, so that finding no difference says nothing.
pub(crate) fn is_too_noisy(ratio: &Figure) -> bool {
    ratio.low.is_some_and(|low| low < 0.9) || ratio.high.is_some_and(|high| high > 1.1)
}

fn calibration(run: &Run, pair: &Comparison) -> String {
    let name = run.case(&pair.baseline).map_or_else(|| pair.baseline.clone(), |row| row.label.clone());
    let difference = match (pair.ratio.low, pair.ratio.high) {
        (Some(low), Some(high)) => format!("{} .. {}", quantities::change(low), quantities::change(high)),
        _ => quantities::change(pair.ratio.value),
    };
    let found = match pair.verdict {
        Verdict::CannotTell if pair.ratio.low.is_none() => {
            let rounds = counted(pair.blocks, "paired round");
            format!(": {difference}; {rounds} are too few for an interval")
        }
        Verdict::CannotTell if is_too_noisy(&pair.ratio) => format!(": too noisy to tell ({difference})"),
        Verdict::CannotTell => format!(": no difference found ({difference})"),
        verdict => {
            format!(": {} ({difference}). Ignore smaller differences in this run", verdict.in_words(pair.figure))
        }
    };
    format!("A/A: {name} measured twice{found}")
}

pub(crate) fn skipped(run: &Run) -> Vec<(String, Vec<String>)> {
    let name = |skip: &Skipped| skip.case.clone().unwrap_or_else(|| skip.transport.clone());
    grouped(run.skipped.iter().map(|skip| (skip.reason.clone(), name(skip))))
}

/// Returns the number of failed rounds with their cause, if every round of a run failed for the same cause.
pub(crate) fn only_failure(run: &Run) -> Option<String> {
    let has_failed = |row: &CaseSummary| row.rounds == 0 && !row.failed_rounds.is_empty();
    match failures(run).as_slice() {
        [(_, times, cause)] if run.cases.iter().all(has_failed) => Some(format!("{times} failed: {cause}")),
        _ => None,
    }
}

/// Returns failed rounds as case, number of rounds, and cause. Rounds of all cases whose causes differ only in
/// numbers are grouped, with the first cause.
pub(crate) fn failures(run: &Run) -> Vec<(String, String, String)> {
    let failed = run.cases.iter().flat_map(|row| row.failed_rounds.iter().map(move |cause| (row, cause)));
    let by_kind = failed.map(|(row, cause)| (without_numbers(cause), (row.label.as_str(), cause)));
    let told = |(_, rounds): (String, Vec<(&str, &String)>)| {
        let label = match distinct(rounds.iter().map(|(label, _)| *label)).as_slice() {
            [only] => (*only).to_owned(),
            labels => format!("{} and {}", labels[0], counted(labels.len() as u64 - 1, "other case")),
        };
        let first = rounds[0].1;
        let differ = rounds.iter().any(|(_, cause)| *cause != first);
        let times = counted(rounds.len() as u64, "round");
        (label, times, if differ { format!("the first, {first}") } else { first.clone() })
    };
    grouped(by_kind).into_iter().map(told).collect()
}

/// Removes numbers from a cause, because numbers such as ports differ between rounds.
fn without_numbers(cause: &str) -> String {
    cause.split(|letter: char| letter.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("#")
}

/// Returns one line per case under load with rounds that do not count. True if the case is invalid.
pub(crate) fn loads_left_out(run: &Run) -> Vec<(bool, String)> {
    let line = |row: &CaseSummary| {
        let left_out = &row.under_load.as_ref()?.rounds_left_out;
        let first = left_out.first()?;
        let (rounds, does) =
            (counted(left_out.len() as u64, "round"), if left_out.len() == 1 { "does" } else { "do" });
        let more = if left_out.len() > 1 { format!("; and {} more", left_out.len() - 1) } else { String::new() };
        Some((!row.valid, format!("{}: {rounds} {does} not count ({first}{more})", row.label)))
    };
    run.cases.iter().filter_map(line).collect()
}

/// Returns the cases without usable figures, with the reason: `is invalid: messages were lost`.
pub(crate) fn invalid(run: &Run) -> Vec<(String, String)> {
    // `only_failure` is reported elsewhere.
    if only_failure(run).is_some() {
        return Vec::new();
    }
    let why = |row: &CaseSummary| match row.why_invalid.as_slice() {
        _ if never_measured(row) => "was not measured".to_owned(),
        [] => "is invalid: no reason was recorded".to_owned(),
        reasons => format!("is invalid: {}", reasons.join("; ")),
    };
    run.cases.iter().filter(|row| !row.valid).map(|row| (row.label.clone(), why(row))).collect()
}

pub(crate) fn no_curve(run: &Run) -> String {
    let measured: Vec<&CaseSummary> =
        run.cases.iter().filter(|row| !row.primary().curve.is_empty() && !row.valid).collect();
    match measured.as_slice() {
        [] => "No percentile curve: no round was measured.".to_owned(),
        [row] if run.cases.len() == 1 => format!(
            "No percentile curve: do not use the figures of {}, as {}.",
            row.label,
            row.why_invalid.join("; ")
        ),
        rows => format!(
            "No percentile curve: {} measured, none with usable figures. See the reasons below.",
            if rows.len() == 1 { "1 case was".to_owned() } else { format!("{} cases were", rows.len()) }
        ),
    }
}

/// Returns one line per case that has lost, late, duplicated or unaccounted messages, with the losses by cause.
pub(crate) fn ledger_lines(run: &Run) -> Vec<String> {
    let line = |row: &CaseSummary| {
        let ledger = row.ledger();
        let mut parts: Vec<String> = ledger
            .lost
            .iter()
            .map(|(cause, lost)| {
                let of_all = is_of_the_namespace(cause) && !row.case.is_emulated();
                let whose = if of_all { "; counter of the whole network namespace" } else { "" };
                format!("{} lost ({}{whose})", quantities::count(*lost), in_words(cause))
            })
            .collect();
        parts.extend((ledger.late > 0).then(|| format!("{} late", quantities::count(ledger.late))));
        parts.extend((ledger.duplicated > 0).then(|| format!("{} duplicated", quantities::count(ledger.duplicated))));
        match ledger.unexplained {
            0 => {}
            missing @ 1.. => {
                parts.push(format!("{} missing without a cause", quantities::count(missing.unsigned_abs())))
            }
            extra => {
                let copies = row.path.relay.as_ref().map_or(0, |link| link.packets.not_messages());
                let why = if ledger.may_count_copies(copies) {
                    " (the counter of full receive buffers also counts copies made by the link)"
                } else {
                    ""
                };
                parts.push(format!("{} too many{why}", quantities::count(extra.unsigned_abs())));
            }
        }
        parts.extend(hosts::ways(&ledger));
        let of = format!("of {} sent", quantities::count(ledger.sent));
        (!parts.is_empty()).then(|| format!("{}: {of}, {}", row.label, parts.join(", ")))
    };
    run.cases.iter().filter_map(line).collect()
}

/// Returns notes on effective options: NODELAY and congestion control of TCP, and every option that differs from the
/// requested value. True if the kernel did not grant the requested value.
pub(crate) fn option_notes(run: &Run) -> Vec<(bool, String)> {
    let mut notes = Vec::new();
    let of_rows =
        || run.cases.iter().flat_map(|row| row.client().effective_options.iter().map(move |one| (row, one)));
    let options = || of_rows().map(|(row, option)| (row.case.primary().transport.as_str(), option));
    let is_left_off =
        |option: &Effective| option.name == OptionName::Nodelay && option.asked.is_none() && option.before == "off";
    let left_off = distinct(options().filter(|(_, option)| is_left_off(option)).map(|(transport, _)| transport));
    if !left_off.is_empty() {
        let names = left_off.join(", ");
        // For exchanges, the remedy determines NODELAY.
        let of_exchanges = run.cases.iter().all(|row| row.case.primary().load.exchange().is_some());
        let how = if of_exchanges { ", except with the remedies that set it" } else { " (nodelay=on sets it)" };
        notes.push((false, format!("TCP_NODELAY is off, the kernel's default, on {names}{how}")));
    }
    let congestion = options().filter(|(_, option)| option.name == OptionName::Congestion);
    let mut by_name = grouped(congestion.map(|(transport, option)| (&option.before, transport)));
    by_name.sort_unstable();
    for (name, transports) in by_name {
        notes.push((false, format!("congestion control on {}: {name}", distinct(transports).join(", "))));
    }
    notes.extend(run.cases.iter().flat_map(option_notes_of));
    notes
}

fn option_notes_of(row: &CaseSummary) -> Vec<(bool, String)> {
    let mut notes = Vec::new();
    for end in &row.ends {
        for option in &end.effective_options {
            if let Some(what) = option_note(option) {
                notes.push((!option.met, format!("{} at the {}: {what}", row.label, end.role)));
            }
        }
        if !end.differing_options.is_empty() {
            let names = end.differing_options.join(", ");
            notes.push((true, format!("{} at the {}: differs between rounds: {names}", row.label, end.role)));
        }
    }
    notes
}

fn option_note(option: &Effective) -> Option<String> {
    let Effective { name, asked, before, after, met } = option;
    let changed = if before == after { String::new() } else { format!(", {after} after the round") };
    match asked {
        Some(asked) if !met => Some(format!("{name}={asked} was NOT granted: {before} in force{changed}")),
        Some(asked) if asked != before || before != after => {
            Some(format!("{name}={asked} requested, {before} in force{changed}"))
        }
        // Only the saved run shows options that the kernel changed without a request, such as quickack.
        _ => None,
    }
}

/// Returns the command that repeats a run, with the seed, without `--out` (which would name a used folder), and with
/// a file in place of a ticket.
pub(crate) fn repeated(command_line: &[String], seed: u64) -> String {
    let is_flag = |word: &str, flag: &str| word == flag || word.starts_with(&format!("{flag}="));
    let is_value_of_out = |place: usize| place > 0 && command_line[place - 1] == "--out";
    let kept =
        command_line.iter().enumerate().filter(|(place, word)| !is_flag(word, "--out") && !is_value_of_out(*place));
    let server = |place: usize, word: &str| match word.strip_prefix("--to=") {
        Some(to) => format!("--to={}", path::server_in_command(to)),
        None if place > 0 && command_line[place - 1] == "--to" => path::server_in_command(word).to_owned(),
        None => word.to_owned(),
    };
    let mut words: Vec<String> = kept.map(|(place, word)| server(place, word)).collect();
    if !words.iter().any(|word| is_flag(word, "--seed")) {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    hairpin_model::shell::command(&words)
}

/// Returns the forecast of a run: `26 cases, 208 rounds, about 19 s`; for one-way loads also `sends about 32 MiB`.
pub fn announcement(plan: &Plan, cases: &[Case]) -> String {
    if let Some(search) = &plan.period_search {
        return searching(search);
    }
    let quick = if plan.quick { "quick run: " } else { "" };
    let at_most = if plan.alpha < Plan::default().alpha { "at most " } else { "" };
    let (needs, cases) = (needs_of_ends(cases), counted(cases.len() as u64, "case"));
    let rounds = counted(plan.rounds, "round");
    let sends = match plan.sends {
        PlannedTraffic { bytes: 0, at_full_speed_s: 0.0 } => String::new(),
        PlannedTraffic { bytes, at_full_speed_s: 0.0 } => {
            format!("; sends about {}", quantities::bytes(bytes as f64))
        }
        PlannedTraffic { bytes, at_full_speed_s } => {
            let bytes = if bytes == 0 { String::new() } else { format!("{}, and ", quantities::bytes(bytes as f64)) };
            format!("; sends {bytes}at full speed for {:.0} s", at_full_speed_s.ceil())
        }
    };
    format!("{quick}{cases}, {at_most}{rounds}, about {:.0} s{sends}{needs}", plan.seconds.ceil())
}

const MIN_ANNOUNCED_CONNECTIONS: u32 = 100;

fn needs_of_ends(cases: &[Case]) -> String {
    let round_trips = || cases.iter().filter(|case| matches!(case.primary().load, Load::PingPong { .. }));
    let many = || round_trips().filter(|case| case.primary().connections >= MIN_ANNOUNCED_CONNECTIONS);
    let memory_bytes = |case: &Case| {
        let load = &case.primary().load;
        let message_bytes = load.size_bytes().max(load.reply_size_bytes());
        let each = case.ends.waiting.bytes_per_connection(message_bytes);
        each.saturating_mul(case.primary().connections.into())
    };
    let needs = many().map(Case::descriptors).max().zip(many().map(memory_bytes).max());
    let needs = needs.map(|(descriptors, memory_bytes)| {
        let memory = quantities::bytes(memory_bytes as f64);
        format!("\nEach end needs up to {descriptors} descriptors, and about {memory} for its connections")
    });
    let more_threads = |case: &Case| case.ends.waiting.more_threads(case.primary().connections);
    let threads = grouped(round_trips().map(|case| (case.ends.waiting, more_threads(case))));
    let threads = threads.into_iter().filter_map(|(waiting, more)| {
        let most = more.into_iter().max().filter(|most| *most > 0)?;
        Some(format!("{} with {waiting}", most + 1))
    });
    let threads: Vec<String> = threads.collect();
    let threads = (!threads.is_empty()).then(|| format!("\nThreads of an end: {}", threads.join(", ")));
    [needs, threads].into_iter().flatten().collect()
}

fn searching(search: &PeriodSearchPlan) -> String {
    let (limit, periods) = (quantities::exact_share(search.max_misses), search.confirming_periods);
    let [shortest, longest, most] =
        [search.shortest_ns, search.longest_ns, search.max_confirmation_ns].map(quantities::exact_duration);
    let costs = [1_000_000, 10_000_000].map(|period_ns| {
        format!(
            "{} at {}",
            quantities::duration(periods as f64 * period_ns as f64),
            quantities::exact_duration(period_ns)
        )
    });
    format!(
        "Searches periods from {shortest} to {longest}; each confirmation takes at most {most}.\n\
         To show less than {limit} of misses takes {} periods without a miss: {}",
        quantities::count(periods),
        costs.join(", ")
    )
}

pub(crate) fn tool_of(tool: &Tool) -> String {
    let mut line = format!("{} {}", tool.name, tool.version);
    let notes: Vec<String> = tool
        .commit
        .iter()
        .map(|commit| format!("commit {commit}"))
        .chain((!tool.build.is_empty()).then(|| format!("{} build", tool.build)))
        .collect();
    if !notes.is_empty() {
        line.push_str(&format!(" ({})", notes.join(", ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::repeated;

    #[test]
    fn a_repeating_command_names_a_file_in_place_of_a_ticket() {
        let told = |line: &str| repeated(&hairpin_model::shell::words(line), 7);
        let redacted = "hairpin bulk --to 192.0.2.7:7420#... --out run";
        assert_eq!(told(redacted), "hairpin bulk --to @FILE --seed 7");
        assert_eq!(told("hairpin bulk --to=192.0.2.7:7420#..."), "hairpin bulk --to=@FILE --seed 7");
        assert_eq!(told("hairpin bulk --to @lab.ticket"), "hairpin bulk --to @lab.ticket --seed 7");
        assert_eq!(told("hairpin bulk --to ssh://lab"), "hairpin bulk --to ssh://lab --seed 7");
    }
}
