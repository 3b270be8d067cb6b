//! The answer to offered loads: the knee of each sweep, the evenness of sends, and the place of losses.

use hairpin_model::answer::{Answer, Pair};
use hairpin_model::arrivals::Arrivals;
use hairpin_model::flow::Load;
use hairpin_model::knee::{Knee, NotDelivered};
use hairpin_model::ladder::{self, Kind};
use hairpin_model::names::grouped;
use hairpin_model::one_way::{PacingFigures, WHOLE};
use hairpin_model::path;
use hairpin_model::quantities::{factor, message_rate, share};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::one_way::{best, causes, loss, single, spoken};
use super::words;
use crate::knees::knees;

/// The answer; `None` if no offered load is usable.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        return (Kind::of(&row.case) == Kind::Offered && row.one_way()?.delivered_share.is_some())
            .then(|| of_one(row));
    }
    let knees = knees(run);
    if knees.is_empty() {
        return of_rates(run, pairs);
    }
    let mut sweeps: Vec<&Knee> = knees.iter().collect();
    let greatest = |knee: &Knee| knee.delivered_per_s.unwrap_or(0.0);
    sweeps.sort_by(|a, b| greatest(b).total_cmp(&greatest(a)));
    let mut sentences: Vec<String> = sweeps.iter().flat_map(|knee| of_sweep(run, knee)).collect();
    let headline = sentences.remove(0);
    let at_knees = sweeps.iter().filter_map(|knee| at(run, knee, knee.delivered_per_s));
    sentences.extend(at_knees.filter_map(uneven));
    Some(Answer { headline, sentences, knees, ..Answer::default() })
}

fn at<'r>(run: &'r Run, knee: &Knee, per_s: Option<f64>) -> Option<&'r CaseSummary> {
    let mut rows = knee.cases.iter().filter_map(|id| run.case(id));
    rows.find(|row| row.case.primary().load.rate_per_s() == per_s)
}

/// The name of a sweep by its transport and ends: the words of its cases without the rate.
fn name(run: &Run, knee: &Knee) -> Option<String> {
    let row = knee.cases.iter().find_map(|id| run.case(id))?;
    let rate = row.case.primary().load.rate_per_s().map(|rate| format!("{rate}/s"))?;
    let words: Vec<String> = ladder::row_words(row).into_iter().filter(|word| *word != rate).collect();
    let over = path::over(&row.case).map(|over| format!(" {over}")).unwrap_or_default();
    Some(format!("{} ({}){over}", words.join(" "), row.case.ends.in_words()))
}

/// The knee in a sentence, and the rate with the highest power in another if it is not the knee.
fn of_sweep(run: &Run, knee: &Knee) -> Vec<String> {
    let Some(name) = name(run, knee) else { return Vec::new() };
    let failed = at(run, knee, knee.not_delivered_per_s).zip(knee.why_not).zip(knee.not_delivered_per_s);
    let failed = failed.map(|((row, why), per_s)| format!("{} {}", message_rate(per_s), why_in_words(row, why)));
    let latency = at(run, knee, knee.delivered_per_s).filter(|row| row.p50_ns().is_some());
    let latency = latency.map(|row| format!(" (one-way latency at p50 {})", words::p50(row))).unwrap_or_default();
    let bracket = match (knee.delivered_per_s, failed) {
        (Some(per_s), Some(failed)) => {
            format!("{name} delivers {}{latency}; at {failed}.", message_rate(per_s))
        }
        (Some(per_s), None) => {
            format!("{name} delivers every rate measured, up to {}{latency}.", message_rate(per_s))
        }
        (None, Some(failed)) => format!("{name} does not deliver the lowest rate measured: at {failed}."),
        (None, None) => return Vec::new(),
    };
    let power = knee.highest_power_per_s.filter(|per_s| Some(*per_s) != knee.delivered_per_s);
    let power = power
        .map(|per_s| format!("Its power (delivered rate over mean latency) is highest at {}.", message_rate(per_s)));
    [Some(bracket), single_rounds(run, knee), power].into_iter().flatten().collect()
}

/// Losses at rates that count as delivered because their median rounds lost less; `None` if negligible.
fn single_rounds(run: &Run, knee: &Knee) -> Option<String> {
    let is_delivered = |row: &&CaseSummary| row.case.primary().load.rate_per_s() <= knee.delivered_per_s;
    let rows = knee.cases.iter().filter_map(|id| run.case(id)).filter(is_delivered);
    let lost_share = |row: &CaseSummary| {
        let ledger = &row.primary().ledger;
        ledger.sent.saturating_sub(ledger.received) as f64 / ledger.sent.max(1) as f64
    };
    let most = rows.map(|row| (lost_share(row), row)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let rate = message_rate(most.1.case.primary().load.rate_per_s()?);
    (most.0 > 1.0 - WHOLE).then(|| format!("Single rounds lost more: {} of all messages at {rate}.", share(most.0)))
}

/// Why an offered load was not delivered, after `at 64.0 k messages/s`.
fn why_in_words(row: &CaseSummary, why: NotDelivered) -> String {
    let ledger = &row.primary().ledger;
    match why {
        NotDelivered::Lost => {
            let lost = share(ledger.sent.saturating_sub(ledger.received) as f64 / ledger.sent.max(1) as f64);
            format!("{lost} was lost: {}", causes(row).unwrap_or_default())
        }
        NotDelivered::SenderBehind => {
            let sent = row.one_way().and_then(|one_way| one_way.sent_per_s);
            sent.map_or_else(
                || "the sender fell behind".to_owned(),
                |sent| format!("the sender reached {}", message_rate(sent.value)),
            )
        }
        NotDelivered::ReceiverBehind if row.case.is_emulated() => {
            "messages arrived more slowly than they were sent: they waited in the link's queue".to_owned()
        }
        NotDelivered::ReceiverBehind if row.case.host().is_some() => {
            "messages arrived more slowly than they were sent: they waited in the network or at the receiver"
                .to_owned()
        }
        NotDelivered::ReceiverBehind => "the receiver fell behind, so that messages waited in buffers".to_owned(),
    }
}

/// Loads at one rate each: the faster case at the same rate.
fn of_rates(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    let rows = spoken(run, Kind::Offered);
    let rate = |row: &CaseSummary| row.case.primary().load.rate_per_s().unwrap_or(f64::NAN);
    let loads = grouped(rows.iter().map(|row| ((rate(row).to_bits(), &row.case.path.link), *row)));
    let mut headlines = Vec::new();
    for (_, rows) in &loads {
        let mut ranked: Vec<&CaseSummary> =
            rows.iter().copied().filter(|row| ladder::is_delivered(row) && row.p50_ns().is_some()).collect();
        ranked.sort_by(|a, b| a.p50_ns().unwrap_or(f64::INFINITY).total_cmp(&b.p50_ns().unwrap_or(f64::INFINITY)));
        let of_rate = message_rate(rate(rows[0]));
        let what = format!("Lowest one-way latency at {of_rate}");
        let p50 = |row: &CaseSummary| {
            let p50 = row.primary().latency_ns.p50;
            (p50, format!("p50 {}", words::with_interval(p50)))
        };
        let lowest = best(&what, &ranked, (pairs, run.plan.alpha), false, p50);
        headlines.push(lowest.unwrap_or_else(|| format!("No case delivered 99 % of {of_rate}.")));
    }
    let details = rows.iter().flat_map(|row| [uneven(row), loss(row)]).flatten();
    let mut sentences = headlines.into_iter().chain(details);
    Some(Answer { headline: sentences.next()?, sentences: sentences.collect(), ..Answer::default() })
}

fn of_one(row: &CaseSummary) -> Answer {
    let one_way = row.one_way();
    let delivered = one_way.and_then(|one_way| one_way.delivered_per_s).map(|rate| message_rate(rate.value));
    let offered = row.case.primary().load.rate_per_s().map(message_rate).unwrap_or_default();
    let part = one_way.and_then(|one_way| one_way.delivered_share).map(|part| share(part.value)).unwrap_or_default();
    let latency = row
        .p50_ns()
        .map(|_| format!(", one-way latency at p50 {}", words::with_interval(row.primary().latency_ns.p50)));
    let figures = format!(
        "{} of {offered} delivered ({part}){}",
        delivered.unwrap_or_else(|| "none".to_owned()),
        latency.unwrap_or_default()
    );
    let sentences = [uneven(row), loss(row)].into_iter().flatten().collect();
    Answer { headline: single(row, &figures), sentences, ..Answer::default() }
}

/// Minimum deviation of the median gap to report, as a share.
const MEDIAN_OFF: f64 = 0.01;
/// Minimum share of gaps below half of the requested gap to report.
const BELOW_HALF: f64 = 0.02;

/// The deviation of the sends from even gaps, if they should be even.
fn uneven(row: &CaseSummary) -> Option<String> {
    let Load::Offered { arrivals, .. } = row.case.primary().load else { return None };
    if arrivals == Arrivals::Poisson {
        return None;
    }
    let PacingFigures { method, nominal_ns, gap_ns, share_below_half } = row.one_way()?.pacing?;
    let median = gap_ns.p50.map(|gap| gap.value / nominal_ns).filter(|ratio| (ratio - 1.0).abs() > MEDIAN_OFF);
    let below = share_below_half.map(|below| below.value).filter(|below| *below > BELOW_HALF);
    let median = median.map(|ratio| format!("the median gap was {} of that asked for", factor(ratio)));
    let below = below.map(|below| format!("{} of gaps were below half of that asked for", share(below)));
    let off: Vec<String> = median.into_iter().chain(below).collect();
    (!off.is_empty()).then(|| format!("{}: pacing ({method}) was off: {}.", words::name(row), off.join(", ")))
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;

    use super::*;
    use crate::fixture::Fixture;
    use crate::fixture::links::{between_hosts, over};

    #[test]
    fn the_place_of_waiting_messages_is_named_if_known() {
        let told = |case: Case| {
            let mut fixture = Fixture::new();
            fixture.rounds_of(&case, &[10_000; 6]);
            why_in_words(&fixture.run().cases[0], NotDelivered::ReceiverBehind)
        };
        assert!(told(Case::ping_pong("udp")).starts_with("the receiver fell behind"));
        assert!(told(over("delay=1ms", Case::ping_pong("udp"))).ends_with("in the link's queue"));
        assert!(told(between_hosts(Case::ping_pong("udp"))).ends_with("in the network or at the receiver"));
    }
}
