//! Converts each statement of an answer to a sentence. The first sentence is the headline.

mod choice;
mod exchanges;
mod figures;
mod headline;
mod observers;
mod one_way;
mod periods;
mod under_load;
mod waiting;

use hairpin_model::answer::Unequal;
use hairpin_model::ladder::CaseKind;
use hairpin_model::names::{joined, shortened};
use hairpin_model::quantities::{change, count, counted, duration, factor, message_rate, share};
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, EndKind, Figure, Run, Statement, Waiting, path};

use super::left_out;
use crate::latency_budget;
pub(crate) use choice::{short_name, unmet};
use figures::{if_invalid, latency, name, p50, ranked};

/// Writes the answer into `headline` and `sentences`.
pub fn write_answer(run: &mut Run) {
    (run.answer.headline, run.answer.sentences) = answer(run);
    if let Some(choice) = &mut run.answer.choice {
        choice.answer.clone_from(&run.answer.headline);
    }
}

/// Returns the headline, one sentence of at most 100 characters (empty without an answer), and the other
/// sentences. Ignores saved texts. Omits statements about cases that a damaged run lacks.
pub fn answer(run: &Run) -> (String, Vec<String>) {
    let mut sentences = run.answer.statements.iter().filter_map(|statement| sentence(run, statement));
    let first = sentences.next().unwrap_or_default();
    if first.chars().count() <= headline::MAX_CHARS {
        return (first, sentences.collect());
    }
    let (headline, rest) = headline::headline(&first);
    (headline, Some(rest).filter(|rest| !rest.is_empty()).into_iter().chain(sentences).collect())
}

fn sentence(run: &Run, statement: &Statement) -> Option<String> {
    use Statement as Said;
    let row = |id: &String| run.case(id);
    let rows = |ids: &Vec<String>| ids.iter().filter_map(|id| run.case(id)).collect::<Vec<&CaseSummary>>();
    match statement {
        Said::TooNoisy { disturbed, rounds, first } => Some(format!(
            "Too noisy: {disturbed} of {} were disturbed, the first because {}.",
            counted(*rounds, "round"),
            left_out(first)
        )),
        Said::NothingMeasured => Some("Nothing was measured: no case could be run.".to_owned()),
        Said::NothingUsable => Some(nothing_usable(run)),
        Said::NotRanked { injected_fault: true, .. } => {
            Some("No overall answer: cases with an injected fault are not ranked.".to_owned())
        }
        Said::NotRanked { .. } => Some("No overall answer: no case can be ranked.".to_owned()),
        Said::Unequal { conditions } => Some(unequal(conditions)),
        Said::Single { case } => Some(single(row(case)?)),
        Said::ShortestPeriod => periods::shortest(run),
        Said::Budget { case } => Some(budget(row(case)?)),
        Said::Finding { code, case } => finding(run, code, row(case)?),
        Said::Best { cases, verdict } => best(run, &rows(cases), *verdict),
        Said::BestAtRate { cases, figure, verdict } => choice::best_at_rate(run, *figure, &rows(cases), *verdict),
        Said::RateMissed { cases } => choice::rate_missed(&rows(cases)),
        Said::NeedsNodelay { case, without, figure } => choice::needs_nodelay(row(case)?, row(without)?, *figure),
        Said::Chosen => choice::chosen(run),
        Said::ChosenOptions => choice::options(run),
        Said::ChangesChoice => choice::changes(run),
        Said::BestBlocking { cases, verdict } => fastest(run, &rows(cases), *verdict, " if programs block"),
        Said::NotSeparated { cases } => not_separated(&rows(cases)),
        Said::BestOverPaths { paths } => over_paths(run, &paths.iter().map(rows).collect::<Vec<_>>()),
        Said::Reference { case, ratio, same_conditions } => Some(reference(row(case)?, *ratio, *same_conditions)),
        Said::Remedy { default, best } => Some(exchanges::remedy(row(default)?, row(best)?)),
        Said::NoRemedy { default, have_intervals } => Some(exchanges::no_remedy(row(default)?, *have_intervals)),
        Said::InTwoWrites { default, request, answer } => {
            let [request, answer] = [request, answer].map(|id| id.as_ref().and_then(row));
            Some(exchanges::in_two_writes(row(default)?, request, answer))
        }
        Said::OnlyRemedy { case } => Some(exchanges::only_remedy(row(case)?)),
        Said::FastestRemedies { cases } => exchanges::fastest(&rows(cases)),
        Said::EqualRemedies { cases } => exchanges::equal(&rows(cases)),
        Said::WithoutPauses { case } => exchanges::without_pauses(row(case)?),
        Said::SlowerRemedies { cases } => exchanges::slower(&rows(cases)),
        Said::OtherTransports { cases } => exchanges::other_transports(&rows(cases)),
        Said::OtherPaths { paths } => exchanges::other_paths(&paths.iter().map(rows).collect::<Vec<_>>()),
        Said::Batches { messages, gains } => one_way::batches(run, *messages, gains),
        Said::HowToWait { sleeping, spinning, up_to_per_s } => {
            waiting::how_to_wait(row(sleeping)?, row(spinning)?, *up_to_per_s)
        }
        Said::ObserverCosts { cases } => observers::costs(&rows(cases)),
        Said::LatencyAtRate { case, unbatched } => {
            Some(one_way::latency_at_rate(row(case)?, unbatched.as_ref().and_then(row)))
        }
        Said::CpuTime { case } => Some(format!("It takes {}.", one_way::cpu_time(row(case)?)?)),
        Said::BusyCpu { case: _, cpu } => Some(one_way::busy_cpu(*cpu)),
        Said::BothWays { case } => one_way::both_ways(row(case)?),
        Said::Unfair { case } => one_way::unfair(row(case)?),
        Said::Lost { cases } => one_way::lost(&rows(cases)),
        Said::Knee { case } => one_way::knee(run, row(case)?),
        Said::LostBelowKnee { case } => Some(one_way::lost_below_knee(row(case)?)),
        Said::HighestPower { case } => one_way::highest_power(run, row(case)?),
        Said::NoneDelivered { per_s } => Some(format!("No case delivered 99 % of {}.", message_rate(*per_s))),
        Said::Uneven { case, median_gap, below_half } => one_way::uneven(row(case)?, *median_gap, *below_half),
        Said::Load { case, verdict } => Some(under_load::load(run, row(case)?, *verdict)),
        Said::Loads { cases, least, most } => under_load::loads(run, &rows(cases), &rows(least), &rows(most)),
        Said::LoadGets { case } => under_load::load_gets(run, row(case)?),
        Said::Responsiveness { cases } => under_load::responsiveness(run, &rows(cases)),
        Said::WithoutLoad { case, verdict } => Some(under_load::without_load(run, row(case)?, *verdict)),
        Said::ProbeLost { case, phase } => under_load::probe_lost(run, row(case)?, *phase),
    }
}

fn nothing_usable(run: &Run) -> String {
    match run.failed_rounds() {
        0 => "No case has usable figures.".to_owned(),
        failed => format!("No case has usable figures: {} failed.", counted(failed as u64, "round")),
    }
}

/// Returns `Besides the protocol, these differ: encryption: no (tcp), yes (tls and quic).`
fn unequal(conditions: &[Unequal]) -> String {
    let of_value = |(value, transports): &(String, Vec<String>)| format!("{value} ({})", joined(transports));
    let words = conditions.iter().map(|unequal| {
        let values: Vec<String> = unequal.values.iter().map(of_value).collect();
        format!("{}: {}", unequal.condition, values.join(", "))
    });
    format!("Besides the protocol, these differ: {}.", words.collect::<Vec<_>>().join("; "))
}

fn finding(run: &Run, code: &str, row: &CaseSummary) -> Option<String> {
    let finding = run.findings.iter().find(|finding| finding.code == code && finding.cases.contains(&row.id))?;
    let (kind, part) = (CaseKind::of(&row.case), share(finding.share));
    Some(match code {
        "wake-up-dominated" if kind == CaseKind::RoundTrips => {
            let blocks = |id: &String| run.case(id).is_some_and(|row| row.case.ends.waiting == Waiting::Block);
            let blocking = if finding.cases.iter().any(blocks) { "blocking " } else { "" };
            format!(
                "Waking the other CPU is up to {part} of a {blocking}round trip between two CPUs (finding {code})."
            )
        }
        "congestion-control" if kind != CaseKind::Exchanges => {
            format!("{} (finding {code}).", finding.summary.trim_end_matches('.'))
        }
        "link-saturated" => format!("The link's rate limits it (finding {code})."),
        _ => {
            // The share of a finding is the largest share of all its cases.
            let to = if finding.cases.len() > 1 { "up to " } else { "" };
            format!("Finding {code} explains {to}{part} of {}.", kind.words()[1])
        }
    })
}

/// Returns `tcp block same-cpu: p50 13.0 us (95 % interval 12.9-13.1), p99 13.9 us, 120 round trips over 5 rounds.`
fn single(row: &CaseSummary) -> String {
    let rounds = counted(row.rounds, "round");
    let one_way = match CaseKind::of(&row.case) {
        CaseKind::Messages => one_way::rate_and_latency(row),
        CaseKind::Streams => one_way::goodput_and_cost(row),
        CaseKind::Offered => one_way::delivered(row),
        CaseKind::Periods => periodic(row),
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::UnderLoad => None,
    };
    let figures = one_way.map(|figures| format!("{figures}, {rounds}")).or_else(|| {
        row.p50_ns()?;
        let flow = row.primary();
        let p50 = latency(flow.latency_ns.p50);
        let p99 = flow.latency_ns.p99.and_then(Figure::finite);
        let p99 = p99.map(|p99| format!(", p99 {}", duration(p99))).unwrap_or_default();
        let samples = counted(flow.samples, CaseKind::of(&row.case).words()[0]);
        Some(format!("p50 {p50}{p99}, {samples} over {rounds}"))
    });
    match figures {
        Some(figures) => format!("{}: {figures}.{}", name(row), if_invalid(row)),
        None => format!("{}: nothing was measured.", row.label),
    }
}

/// Returns `3 of 3 000 deadlines missed, response p50 71.0 us, p99 99.0 us, release jitter p50 55.0 us`.
fn periodic(row: &CaseSummary) -> Option<String> {
    let loops = row.primary().periodic.as_ref().filter(|loops| loops.periods > 0)?;
    let time = |figure: Option<Figure>| duration(figure.map_or(f64::NAN, |figure| figure.value));
    let p99 = loops.response_ns.p99.map(|p99| format!(", p99 {}", duration(p99.value))).unwrap_or_default();
    let run = if loops.longest_miss_run > 1 {
        format!(" (up to {} in a row)", loops.longest_miss_run)
    } else {
        String::new()
    };
    Some(format!(
        "{} of {} deadlines missed{run}, response time p50 {}{p99}, release jitter p50 {}",
        count(loops.misses),
        count(loops.periods),
        time(loops.response_ns.p50),
        time(loops.release_jitter_ns.p50),
    ))
}

/// Returns `tcp (blocking, two CPUs): of the slowest 1 %, 82 % is waiting for a CPU at the server.`
fn budget(row: &CaseSummary) -> String {
    let verdict = row.budget.as_ref().and_then(latency_budget::verdict);
    format!("{}: {}.", name(row), verdict.unwrap_or_else(|| "too few round trips were sampled".to_owned()))
}

fn best(run: &Run, rows: &[&CaseSummary], verdict: Option<Verdict>) -> Option<String> {
    let kind = CaseKind::of(&rows.first()?.case);
    if kind == CaseKind::RoundTrips {
        fastest(run, rows, verdict, "")
    } else {
        one_way::best(run, kind, rows, verdict)
    }
}

fn not_separated(rows: &[&CaseSummary]) -> Option<String> {
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let one = "More rounds are needed to separate the best from";
    (!names.is_empty()).then(|| format!("{one} {}.", shortened(&names, 2)))
}

fn fastest(run: &Run, rows: &[&CaseSummary], verdict: Option<Verdict>, who: &str) -> Option<String> {
    let first = *rows.first()?;
    let of_processes = first.case.ends.kind == EndKind::Processes && first.server().is_some();
    // A server on another host is always another process.
    let says_between = of_processes && first.case.host().is_none() && who.is_empty();
    let between = if says_between { " between two processes" } else { "" };
    let path = path::over_in_short(&first.case, &run.cases).map(|over| format!(" {over}"));
    let path = path.unwrap_or_else(|| if who.is_empty() { " here".to_owned() } else { String::new() });
    let placed = |row: &&CaseSummary| format!("{} at p50 {}", name(row), latency(row.primary().latency_ns.p50));
    let names: Vec<String> = rows.iter().map(placed).collect();
    let words = ["Fastest round trip", "Fastest round trips", "Lowest p50"];
    Some(ranked(verdict, &words.map(|what| format!("{what}{between}{path}{who}")), &names, 2))
}

/// Names the fastest case over each path, with all cases that do not differ from it.
fn over_paths(run: &Run, paths: &[Vec<&CaseSummary>]) -> Option<String> {
    let fastest = |rows: &Vec<&CaseSummary>| rows.first().map(|row| name(row));
    let who = fastest(paths.first()?)?;
    let one_for_all = paths.iter().filter_map(fastest).all(|name| name == who);
    let of_path = |rows: &Vec<&CaseSummary>| {
        let row = *rows.first()?;
        let over = path::over_in_short(&row.case, &run.cases).unwrap_or_else(|| "without a link".to_owned());
        let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
        let whose = match names.as_slice() {
            _ if one_for_all => String::new(),
            [one] => format!(" with {one}"),
            several => format!(" (not separated: {})", shortened(several, 2)),
        };
        Some(format!("{} {over}{whose}", p50(row)))
    };
    let times = joined(&paths.iter().filter_map(of_path).collect::<Vec<_>>());
    Some(if one_for_all {
        format!("p50 of a round trip with {who}: {times}.")
    } else {
        format!("Fastest round trip, by p50: {times}.")
    })
}

/// Ratios below this are printed in percent, so that a small difference does not become 1.00x.
const MIN_FACTOR: f64 = 1.1;

fn reference(row: &CaseSummary, ratio: f64, same_conditions: bool) -> String {
    let how = if same_conditions {
        "under the same conditions".to_owned()
    } else {
        format!("({})", row.case.ends.in_words())
    };
    let more = if ratio < MIN_FACTOR { change(ratio) } else { factor(ratio) };
    format!("{} {how}: {} ({more}).", row.case.marked_transport(), p50(row))
}
