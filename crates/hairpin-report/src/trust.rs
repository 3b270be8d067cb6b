//! Texts about limits of trust in the figures: quick runs, machine states, missing intervals, and pairs with
//! different winners at p50 and at p99.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::NoInterval;
use hairpin_model::quantities::{self, counted};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::trace::End;
use hairpin_model::{CaseSummary, Comparison, Figure, Run, ladder, parse};

pub(crate) fn quick(run: &Run) -> Option<String> {
    run.plan.quick.then(|| "Quick run: few rounds over a short time, so intervals are wide.".to_owned())
}

/// What Hairpin's own measuring takes; `None` in runs of earlier versions.
pub(crate) fn recorder(run: &Run) -> Option<String> {
    let cost_ns = run.host(End::Client)?.clock.recorder_cost_ns?;
    Some(format!("Hairpin's recorder takes {} per message.", quantities::duration(cost_ns)))
}

/// Describes the effect of two machine states on the figures; `None` if there was only one.
pub(crate) fn machine_states(run: &Run) -> Option<String> {
    let [fast, slow] = run.machine.states.as_slice() else { return None };
    let in_slow = run.cases.iter().filter(|row| row.state.is_some_and(|state| state.index == 1)).count() as u64;
    let figures = match in_slow {
        0 => "figures are from the other rounds".to_owned(),
        some => {
            format!("figures of {} are from these rounds, as too few others were measured", counted(some, "case"))
        }
    };
    let (times, share) = (slow.probe_ns / fast.probe_ns, quantities::share(slow.share));
    let example = example_of_slowed(run).unwrap_or_default();
    Some(format!("Machine: {times:.2}x slower during {share} of rounds (shared core?); {figures}.{example}"))
}

/// Returns an example: the p50 of the most slowed case in both states. The page and `--csv` show all cases.
fn example_of_slowed(run: &Run) -> Option<String> {
    let in_both = |row: &CaseSummary| {
        let other = row.other_states.first()?;
        let pair = [row.primary().latency_ns.p50?.value, other.latency_ns.p50?.value];
        let [faster, slowed] = if other.index == 1 { pair } else { [pair[1], pair[0]] };
        let times = [faster, slowed].map(quantities::duration);
        let example = format!(" While slower, {} took {} instead of {}.", row.label, times[1], times[0]);
        // Skip a case with equal times, such as one that waits for a timer.
        (times[0] != times[1]).then_some((slowed / faster, example))
    };
    let examples = run.cases.iter().filter_map(in_both);
    examples.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, example)| example)
}

/// Returns a caution if `--until` was not reached, with a case without an interval or with the widest interval.
pub(crate) fn until_missed(run: &Run) -> Option<String> {
    let text = run.plan.knobs.iter().find(|(name, _)| name == "until").and_then(|(_, texts)| texts.first())?;
    let wanted = parse::share(text).ok()?;
    let p50s = run.cases.iter().filter(|row| row.valid).filter_map(|row| Some((row, row.primary().latency_ns.p50?)));
    let half = |p50: &Figure| Some((p50.high? / p50.low?).sqrt() - 1.0);
    if let Some((row, _)) = p50s.clone().find(|(_, p50)| half(p50).is_none()) {
        return Some(format!(
            "--until {text} was not reached: {} has no interval (hint: a longer --at-most)",
            row.label
        ));
    }
    let halves = p50s.filter_map(|(row, p50)| Some((row, half(&p50)?)));
    let (widest, half) = halves.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let share = quantities::share(half);
    let label = &widest.label;
    (half > wanted)
        .then(|| format!("--until {text} was not reached: {label} has +-{share} (hint: a longer --at-most)"))
}

pub(crate) fn without_interval(run: &Run) -> Vec<String> {
    // A search measures most periods once.
    if run.plan.period_search.is_some() {
        return Vec::new();
    }
    let of = |reason: NoInterval| {
        let first = |row: &CaseSummary| row.compared(*ladder::compared_by(&[row]).first()?);
        let is_so = |row: &&CaseSummary| first(row).is_some_and(|figure| figure.why == Some(reason));
        run.cases.iter().filter(is_so).map(|row| row.label.clone()).collect()
    };
    no_interval_lines(of)
}

/// Returns one line per reason, with the first name and the number of further names.
pub(crate) fn no_interval_lines(names_of: impl Fn(NoInterval) -> Vec<String>) -> Vec<String> {
    let line = |reason: &NoInterval| {
        let names = names_of(*reason);
        let (first, rest) = names.split_first()?;
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        Some(format!("No interval for {first}{more}: {}", why_no_interval(*reason)))
    };
    NoInterval::ALL.iter().filter_map(line).collect()
}

pub(crate) fn why_no_interval(reason: NoInterval) -> &'static str {
    match reason {
        NoInterval::TooFewRounds => "fewer than 5 rounds count (hint: omit --rounds, or give more)",
        NoInterval::TooFewInState => {
            "the machine changed its state, with too few rounds in one state (hint: --over 40s)"
        }
        NoInterval::Trend => "it rose or fell throughout the run (hint: --over 40s)",
        NoInterval::SlowVariation => "it varied too slowly for the length of the run (hint: --over 40s)",
        NoInterval::NotConfirmed => "the search confirmed no period (hint: --over)",
        NoInterval::SaysNothing => "the rounds differ too much (hint: --over 40s, on an idle machine)",
    }
}

/// Names the pairs in which one case is faster at p50 and the other case at p99.
pub(crate) fn split_winners(run: &Run) -> Vec<String> {
    let told = |comparison: &Comparison| {
        let p99 = comparison.tails.iter().find(|tail| tail.figure == ComparedBy::P99)?;
        let [slower, faster] = [Verdict::Slower, Verdict::Faster];
        let (at_p50, at_p99) = match (comparison.verdict, p99.verdict) {
            pair if pair == (slower, faster) => (&comparison.baseline, &comparison.candidate),
            pair if pair == (faster, slower) => (&comparison.candidate, &comparison.baseline),
            _ => return None,
        };
        let (at_p50, at_p99) = (run.case(at_p50)?, run.case(at_p99)?);
        Some(format!("{} is faster at p50, {} at p99", at_p50.label, at_p99.label))
    };
    let ranked = run.comparisons.iter().filter(|comparison| comparison.role == Role::Neighbours);
    ranked.filter_map(told).collect()
}
