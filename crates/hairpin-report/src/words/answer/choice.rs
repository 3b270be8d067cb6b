//! Sentences about cases at a given rate, and about the transport chosen for given needs.

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::names::{joined, shortened};
use hairpin_model::quantities::{DASH, bounds, duration, exact_bytes, exact_duration, factor, message_rate, share};
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Choice, JudgedCase, MessageCost, Needs, Run, UnmetNeed, WouldChange, path};

use super::figures::with_interval;

const MAX_NAMED: usize = 3;

/// Returns `tcp nodelay=on (blocking, two CPUs)`: a name without size and rate, which all cases share.
pub(crate) fn short_name(row: &CaseSummary) -> String {
    let options = row.case.primary().options.iter().map(|(name, value)| format!(" {name}={value}"));
    format!("{}{} ({})", row.case.marked_transport(), options.collect::<String>(), row.case.ends.in_words())
}

pub(super) fn best_at_rate(
    run: &Run,
    figure: ComparedBy,
    rows: &[&CaseSummary],
    verdict: Option<Verdict>,
) -> Option<String> {
    let first = *rows.first()?;
    let rate = first.case.primary().load.rate_per_s().map(message_rate).unwrap_or_default();
    let over = path::over_in_short(&first.case, &run.cases).map(|over| format!(" {over}")).unwrap_or_default();
    let latency = with_interval(first.compared(figure), duration, bounds);
    let best = format!("{figure} from the due time at {rate}{over}: {} at {latency}", short_name(first));
    let brief = |row: &&CaseSummary| {
        let latency = row.compared(figure).map_or_else(|| DASH.to_owned(), |latency| duration(latency.value));
        format!("{} at {latency}", short_name(row))
    };
    let others: Vec<String> = rows[1..].iter().map(brief).collect();
    Some(match verdict {
        Some(Verdict::Faster) => format!("Lowest {best}."),
        Some(_) => format!("Lowest {best}; alike: {}.", shortened(&others, MAX_NAMED)),
        None => format!("Lowest {best}. No winner is named: it has no interval, or other cases are unusable."),
    })
}

pub(super) fn rate_missed(rows: &[&CaseSummary]) -> Option<String> {
    let names: Vec<String> = rows.iter().map(|row| short_name(row)).collect();
    (!names.is_empty())
        .then(|| format!("Not ranked, because the rate was not reached: {}.", shortened(&names, MAX_NAMED)))
}

pub(super) fn needs_nodelay(row: &CaseSummary, without: &CaseSummary, figure: ComparedBy) -> Option<String> {
    let [with, slower] = [row, without].map(|row| row.compared(figure));
    let (with, slower) = (with?.finite()?, slower?.finite()?);
    let transport = &row.case.primary().transport;
    Some(format!("{transport} needs nodelay: {figure} {} without it, {} with it.", duration(slower), duration(with)))
}

/// Returns `one-way p99 3.10 us at 5.00 k messages/s of 200 B`.
fn figures(run: &Run, needs: &Needs, choice: &Choice, case: &JudgedCase) -> String {
    let latency =
        with_interval(run.case(&case.case).and_then(|row| row.compared(choice.ranked_by)), duration, bounds);
    let what = if needs.reply { "round-trip" } else { "one-way" };
    let lost =
        case.delivered_share.filter(|share| *share < 1.0).map(|arrived| format!(", {} lost", share(1.0 - arrived)));
    format!(
        "{what} {} {latency} at {} of {}{}",
        choice.ranked_by,
        message_rate(needs.rate_per_s),
        exact_bytes(needs.size_bytes),
        lost.unwrap_or_default()
    )
}

pub(super) fn chosen(run: &Run) -> Option<String> {
    let (needs, choice) = (run.plan.needs.as_ref()?, run.answer.choice.as_ref()?);
    let named = |case: &JudgedCase| run.case(&case.case).map(short_name);
    let unusable = choice.cases.iter().filter(|case| case.unmet.contains(&UnmetNeed::Usable)).count();
    let unusable = match unusable {
        0 => String::new(),
        some => format!(" {some} of {} cases are unusable.", choice.cases.len()),
    };
    let Some(case) = choice.chosen() else {
        let closest = choice.cases.first()?;
        let unmet: Vec<String> = closest.unmet.iter().map(|need| unmet(*need, needs, choice, closest)).collect();
        let unmet = unmet.join(", ");
        return Some(format!("No case meets these needs. Closest: {}, {unmet}.{unusable}", named(closest)?));
    };
    let (name, figures) = (named(case)?, figures(run, needs, choice, case));
    let met = choice.cases.iter().filter(|case| case.unmet.is_empty()).count();
    Some(match choice.alike.len() {
        0 if met == 1 && choice.cases.len() > 1 && unusable.is_empty() => {
            format!("Only {name} meets these needs: {figures}.")
        }
        0 => format!("Use {name}: {figures}.{}{unusable}", not_separated(run, choice)),
        others => {
            let names: Vec<String> = choice.best().iter().skip(1).filter_map(named).collect();
            let names = shortened(&names, MAX_NAMED - 1);
            format!(
                "These {} are alike here; {name} takes the least CPU time: {figures}. The others: {names}.{unusable}",
                others + 1
            )
        }
    })
}

/// Names the cases that the run does not separate from the chosen one.
fn not_separated(run: &Run, choice: &Choice) -> String {
    let names = choice.not_separated.iter().filter_map(|id| run.case(id).map(short_name));
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return String::new();
    }
    format!(" By {}, not separated from it in this run: {}.", choice.ranked_by, shortened(&names, MAX_NAMED))
}

/// Returns what a case lacks, in a word or two: `p99 above 1 ms`.
pub(crate) fn unmet(need: UnmetNeed, needs: &Needs, choice: &Choice, case: &JudgedCase) -> String {
    match need {
        UnmetNeed::Usable => "unusable".to_owned(),
        UnmetNeed::Rate => "rate not reached".to_owned(),
        UnmetNeed::NoLoss => {
            format!("lost {}", case.delivered_share.map_or_else(|| "some".to_owned(), |arrived| share(1.0 - arrived)))
        }
        UnmetNeed::Latency => match (case.latency_ns, needs.p99_ns) {
            (Some(_), Some(bound_ns)) => format!("{} above {}", choice.ranked_by, exact_duration(bound_ns)),
            _ => "no latency".to_owned(),
        },
    }
}

pub(super) fn options(run: &Run) -> Option<String> {
    let (needs, choice) = (run.plan.needs.as_ref()?, run.answer.choice.as_ref()?);
    let (options, cost) = (choice.options.as_ref()?, choice.cost?);
    let set: Vec<String> = options.socket.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let set = if set.is_empty() { "default socket options".to_owned() } else { set.join(", ") };
    let MessageCost { client_ns, server_ns } = cost;
    let time = |ns: Option<f64>| ns.map_or_else(|| DASH.to_owned(), duration);
    let [client, server] = if needs.reply { ["client", "server"] } else { ["sender, with its pacing,", "receiver"] };
    let paid = format!("{} at the {server} and {} at the {client}", time(server_ns), time(client_ns));
    let paid = paid.trim_end_matches(',');
    Some(format!("Options: {}, {set}. CPU time per message: {paid}.", options.waiting.in_words()))
}

pub(super) fn changes(run: &Run) -> Option<String> {
    let choice = run.answer.choice.as_ref()?;
    let parts: Vec<String> =
        choice.would_change.iter().filter_map(|change| would_change(run, choice, change)).collect();
    (!parts.is_empty()).then(|| format!("What would change this: {}.", parts.join("; ")))
}

fn would_change(run: &Run, choice: &Choice, change: &WouldChange) -> Option<String> {
    Some(match change {
        WouldChange::CpuTime { case } => {
            let of = |id: &str| choice.cases.iter().find(|case| case.case == *id);
            let (cheap, chosen) = (of(case)?, choice.chosen()?);
            let ratio = factor(chosen.cost.total_ns()? / cheap.cost.total_ns()?);
            let latency = cheap.latency_ns.map_or_else(|| DASH.to_owned(), duration);
            let name = short_name(run.case(case)?);
            format!("CPU time before latency ({name} takes {ratio} less, at {} {latency})", choice.ranked_by)
        }
        WouldChange::LossTolerated { transports } => {
            format!("tolerated loss (--may-lose adds {}, not measured)", joined(transports))
        }
        WouldChange::HigherRate { per_s } => format!("a rate near {}, which fills a CPU", message_rate(*per_s)),
        WouldChange::LargerMtu { mtu_bytes } => {
            format!("a larger MTU (a message does not fit a packet of {})", exact_bytes(u64::from(*mtu_bytes)))
        }
        WouldChange::OtherPlacement { placements } => {
            let flags: Vec<String> = placements.iter().map(|place| format!("--placement {place}")).collect();
            format!("another placement ({}, not measured)", joined(&flags))
        }
    })
}
