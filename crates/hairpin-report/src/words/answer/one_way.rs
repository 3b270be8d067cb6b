//! Sentences about one-way loads: messages, streams and offered loads.

use hairpin_model::answer::BusyCpu;
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::flow::Direction;
use hairpin_model::knee::NotDelivered;
use hairpin_model::ladder::{self, CaseKind, row_name};
use hairpin_model::ledger::in_words;
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{
    bit_rate, byte_rate, byte_rate_bounds, count, counted, factor, message_rate, message_rate_bounds, number, share,
};
use hairpin_model::summary::Verdict;
use hairpin_model::{BatchGain, CaseSummary, Figure, Knee, Ledger, Run, path};

use super::figures::{latency, name, p50, ranked, times, with_interval};
use crate::charts::axis::extremes;

const MAX_NAMED: usize = 3;

/// Names the best of these cases, which is the first: `Highest goodput over wan: tcp (blocking, same CPU) at ...`.
pub(super) fn best(run: &Run, kind: CaseKind, rows: &[&CaseSummary], verdict: Option<Verdict>) -> Option<String> {
    let first = *rows.first()?;
    let what = match kind {
        CaseKind::Messages => "Highest message rate".to_owned(),
        CaseKind::Streams if first.case.goes_both_ways() => "Highest goodput, both ways together".to_owned(),
        CaseKind::Streams => "Highest goodput".to_owned(),
        _ => format!("Lowest one-way latency at {}", offered(first)),
    };
    let mut others = run.cases.iter().filter(|row| CaseKind::of(&row.case) == kind && row.can_be_ranked());
    let several_paths = others.any(|row| row.case.path.link != first.case.path.link);
    let over = path::over(&first.case).filter(|_| several_paths || first.case.crosses_a_network());
    let over = over.map(|over| format!(" {over}")).unwrap_or_default();
    let told = |row: &&CaseSummary| {
        let figure = match kind {
            CaseKind::Messages => rate(row),
            CaseKind::Streams => goodput(row),
            _ => format!("p50 {}", latency(row.primary().latency_ns.p50)),
        };
        format!("{} at {figure}", name(row))
    };
    let named: Vec<String> = rows.iter().map(told).collect();
    Some(ranked(verdict, &[&what; 3].map(|what| format!("{what}{over}")), &named, MAX_NAMED))
}

fn rate(row: &CaseSummary) -> String {
    with_interval(row.compared(ComparedBy::Rate), message_rate, |_, low, high| message_rate_bounds(low, high))
}

fn goodput(row: &CaseSummary) -> String {
    let unit = |bytes_per_s| goodput_of(row, bytes_per_s);
    with_interval(row.goodput(), unit, |_, low, high| byte_rate_bounds(low, high))
}

fn goodput_of(row: &CaseSummary, bytes_per_s: f64) -> String {
    let bytes = byte_rate(bytes_per_s);
    if row.case.crosses_a_network() { format!("{} = {bytes}", bit_rate(8.0 * bytes_per_s)) } else { bytes }
}

fn goodput_of_way(row: &CaseSummary, way: Direction) -> Option<String> {
    let flow = row.flows.iter().find(|flow| flow.flow.direction == way)?;
    Some(goodput_of(row, flow.one_way.as_ref()?.goodput_bytes_per_s?.finite()?))
}

fn offered(row: &CaseSummary) -> String {
    row.case.primary().load.rate_per_s().map(message_rate).unwrap_or_default()
}

pub(super) fn rate_and_latency(row: &CaseSummary) -> Option<String> {
    row.compared(ComparedBy::Rate)?;
    let p50 = row.p50_ns().map(|_| format!(", one-way latency at p50 {}", p50(row))).unwrap_or_default();
    Some(format!("{}{p50}", rate(row)))
}

pub(super) fn goodput_and_cost(row: &CaseSummary) -> Option<String> {
    row.goodput()?;
    let cpu_time = cpu_time(row).map(|cpu_time| format!(", {cpu_time}")).unwrap_or_default();
    Some(format!("goodput {}{cpu_time}", goodput(row)))
}

pub(super) fn delivered(row: &CaseSummary) -> Option<String> {
    let one_way = row.one_way()?;
    let part = share(one_way.delivered_share?.value);
    let delivered = one_way.delivered_per_s.map_or_else(|| "none".to_owned(), |rate| message_rate(rate.value));
    let latency = row
        .p50_ns()
        .map(|_| format!(", one-way latency at p50 {}", latency(row.primary().latency_ns.p50)))
        .unwrap_or_default();
    Some(format!("{delivered} of {} delivered ({part}){latency}", offered(row)))
}

/// Returns `With 64 messages per call instead of one: tcp 24.1x (95 % interval 23.0-25.2), udp not separated.`
pub(super) fn batches(run: &Run, messages: u64, gains: &[BatchGain]) -> Option<String> {
    let told = |gain: &BatchGain| {
        let gained = gain.ratio.map_or_else(|| "not separated".to_owned(), times);
        Some(format!("{} {gained}", run.case(&gain.case)?.case.primary().transport))
    };
    let gains: Vec<String> = gains.iter().filter_map(told).collect();
    (!gains.is_empty()).then(|| format!("With {messages} messages per call instead of one: {}.", gains.join(", ")))
}

pub(super) fn latency_at_rate(row: &CaseSummary, unbatched: Option<&CaseSummary>) -> String {
    let beside = unbatched.map(|one| format!(", and {} with one message per call", p50(one))).unwrap_or_default();
    format!("One-way latency at p50: {} of {}{beside}.", p50(row), row_name(row))
}

/// Returns `CPU time 0.12 s/GB at the client and 0.21 s/GB at the server`; `None` if both are unknown.
pub(super) fn cpu_time(row: &CaseSummary) -> Option<String> {
    let per_gb = row.cpu_seconds_per_gb()?;
    let told = |figure: Option<Figure>, end: &str| Some(format!("{} s/GB at the {end}", number(figure?.value)));
    let both = [told(per_gb.client, "client"), told(per_gb.server, "server")];
    let both: Vec<String> = both.into_iter().flatten().collect();
    (!both.is_empty()).then(|| format!("CPU time {}", both.join(" and ")))
}

pub(super) fn busy_cpu(cpu: BusyCpu) -> String {
    let whose = match cpu {
        BusyCpu::Shared => "The CPU of both ends",
        BusyCpu::Sender => "The sender's CPU",
        BusyCpu::Receiver => "The receiver's CPU",
    };
    format!("{whose} was busy throughout: it limits the goodput.")
}

pub(super) fn both_ways(row: &CaseSummary) -> Option<String> {
    let (up, down) = (goodput_of_way(row, Direction::Up)?, goodput_of_way(row, Direction::Down)?);
    Some(format!("{}: {up} client to server, {down} server to client.", name(row)))
}

pub(super) fn unfair(row: &CaseSummary) -> Option<String> {
    let flow = row.case.primary();
    Some(format!(
        "{}: the {} {} share the path unevenly, fairness index {} of 1 (Jain).",
        name(row),
        flow.wires(),
        if flow.streams > 1 { "streams" } else { "connections" },
        number(row.one_way()?.fairness?.value)
    ))
}

pub(super) fn lost(rows: &[&CaseSummary]) -> Option<String> {
    let [row] = rows else { return several_lost(rows) };
    let ledger = row.ledger();
    let (lost, sent) = (share(ledger.missing_share()), counted(ledger.sent, "message"));
    Some(format!("{}: {lost} of {sent} lost: {}.", name(row), causes(&ledger)))
}

/// Returns `udp lost 0.90 % to 66 % of its messages in 6 cases: receive buffer full.`
fn several_lost(rows: &[&CaseSummary]) -> Option<String> {
    let transport = &rows.first()?.case.primary().transport;
    let (least, most) = extremes(rows.iter().map(|row| row.ledger().missing_share()))?;
    let (least, most) = (share(least), share(most));
    let range = if least == most { most } else { format!("{least} to {most}") };
    let of_case = |row: &&CaseSummary| {
        let ledger = row.ledger();
        let lost = ledger.lost.iter().filter(|(_, lost)| **lost > 0).map(|(cause, _)| in_words(cause));
        lost.chain((ledger.unexplained != 0).then(|| "unexplained".to_owned())).collect::<Vec<_>>()
    };
    let causes = distinct(rows.iter().flat_map(of_case));
    Some(format!("{transport} lost {range} of its messages in {} cases: {}.", rows.len(), joined(&causes)))
}

/// Returns `1200 (receive buffer full) and 3 (unexplained)`.
pub(super) fn causes(ledger: &Ledger) -> String {
    let lost = ledger.lost.iter().filter(|(_, lost)| **lost > 0);
    let lost = lost.map(|(cause, lost)| format!("{} ({})", count(*lost), in_words(cause)));
    let late = (ledger.late > 0).then(|| format!("{} (late)", count(ledger.late)));
    let unexplained = (ledger.unexplained != 0).then(|| format!("{} (unexplained)", ledger.unexplained));
    joined(&lost.chain(late).chain(unexplained).collect::<Vec<_>>())
}

fn knee_of<'r>(run: &'r Run, row: &CaseSummary) -> Option<&'r Knee> {
    run.answer.knees.iter().find(|knee| knee.cases.contains(&row.id))
}

/// Names a sweep by the words of a case without the rate, and by its ends.
fn sweep(row: &CaseSummary) -> String {
    let rate = row.case.primary().load.rate_per_s().map(|rate| format!("{rate}/s"));
    let words: Vec<String> = ladder::row_words(row).into_iter().filter(|word| Some(word) != rate.as_ref()).collect();
    let over = path::over(&row.case).map(|over| format!(" {over}")).unwrap_or_default();
    format!("{} ({}){over}", words.join(" "), row.case.ends.in_words())
}

pub(super) fn knee(run: &Run, row: &CaseSummary) -> Option<String> {
    let (knee, name) = (knee_of(run, row)?, sweep(row));
    let at = |per_s: f64| {
        let mut rows = knee.cases.iter().filter_map(|id| run.case(id));
        rows.find(|row| row.case.primary().load.rate_per_s() == Some(per_s))
    };
    let failed = knee
        .not_delivered_per_s
        .and_then(|per_s| Some(format!("{} {}", message_rate(per_s), why_not(at(per_s)?, knee.why_not?))));
    let delivered = knee.delivered_per_s.map(|per_s| {
        let latency = at(per_s).filter(|row| row.p50_ns().is_some());
        let latency = latency.map(|row| format!(" (one-way latency at p50 {})", p50(row))).unwrap_or_default();
        format!("{}{latency}", message_rate(per_s))
    });
    match (delivered, failed) {
        (Some(delivered), Some(failed)) => Some(format!("{name} delivers {delivered}; at {failed}.")),
        (Some(delivered), None) => Some(format!("{name} delivers every rate measured, up to {delivered}.")),
        (None, Some(failed)) => Some(format!("{name} does not deliver the lowest rate measured: at {failed}.")),
        (None, None) => None,
    }
}

/// Explains why an offered load was not delivered. The text follows `at 64.0 k messages/s`.
fn why_not(row: &CaseSummary, why: NotDelivered) -> String {
    let ledger = &row.primary().ledger;
    match why {
        NotDelivered::Lost => format!("{} was lost: {}", share(ledger.missing_share()), causes(&row.ledger())),
        NotDelivered::SenderBehind => match row.one_way().and_then(|one_way| one_way.sent_per_s) {
            Some(sent) => format!("the sender reached {}", message_rate(sent.value)),
            None => "the sender fell behind".to_owned(),
        },
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

pub(super) fn lost_below_knee(row: &CaseSummary) -> String {
    let lost = share(row.primary().ledger.missing_share());
    format!("Single rounds lost more: {lost} of all messages at {}.", offered(row))
}

pub(super) fn highest_power(run: &Run, row: &CaseSummary) -> Option<String> {
    let per_s = knee_of(run, row)?.highest_power_per_s?;
    Some(format!("Its power (delivered rate over mean latency) is highest at {}.", message_rate(per_s)))
}

pub(super) fn uneven(row: &CaseSummary, median_gap: Option<f64>, below_half: Option<f64>) -> Option<String> {
    let method = row.one_way()?.pacing?.method;
    let median = median_gap.map(|ratio| format!("the median gap was {} of the requested gap", factor(ratio)));
    let below = below_half.map(|below| format!("{} of gaps were below half of the requested gap", share(below)));
    let off: Vec<String> = median.into_iter().chain(below).collect();
    (!off.is_empty()).then(|| format!("{}: pacing ({method}) was off: {}.", name(row), off.join(", ")))
}
