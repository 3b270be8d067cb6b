//! The answer to streams: the highest goodput, its cost, its fairness, and its limit.

use hairpin_model::answer::{Answer, Pair};
use hairpin_model::case::{Placement, Waiting};
use hairpin_model::compared_by::ComparedBy;
use hairpin_model::figure::Figure;
use hairpin_model::flow::Direction;
use hairpin_model::ladder::Kind;
use hairpin_model::one_way::Moment;
use hairpin_model::quantities::{byte_rate, byte_rate_bounds, number};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::trace::End;

use super::one_way::{best, by_path, loss, losses, paced, single, spoken, with_interval};
use super::words;
use crate::statistics::location::median;

/// Minimum fairness; below it some connection got visibly less than another.
const FAIR: f64 = 0.95;
/// Minimum CPU use of an end without CPU time to spare.
const BUSY: f64 = 0.98;

/// The answer; `None` if no stream is usable.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    if let [row] = run.cases.as_slice() {
        return (Kind::of(&row.case) == Kind::Streams && row.goodput().is_some()).then(|| of_one(run, row));
    }
    let paths = by_path(&spoken(run, Kind::Streams));
    let mut headlines = Vec::new();
    let mut details = Vec::new();
    for rows in &paths {
        let mut rows: Vec<&CaseSummary> = rows.iter().copied().filter(|row| row.goodput().is_some()).collect();
        rows.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let told = |row: &CaseSummary| (row.goodput(), in_words(row));
        headlines.extend(best("Highest goodput", &rows, (pairs, run.plan.alpha), paths.len() > 1, told));
        if let Some(first) = rows.first() {
            details
                .extend([cpu(first).map(|cpu| format!("It takes {cpu}.")), limit(run, first)].into_iter().flatten());
        }
        details.extend(rows.iter().filter_map(|row| directions(row)));
        details.extend(rows.iter().filter_map(|row| unfair(row)));
        details.extend(paced(run, &rows));
        details.extend(losses(&rows));
    }
    let mut headlines = headlines.into_iter();
    let headline = headlines.next()?;
    Some(Answer { headline, sentences: headlines.chain(details).collect(), ..Answer::default() })
}

/// `tcp block same-cpu up 64 KiB: goodput 5.21 GB/s (95 % interval 5.10-5.32 GB/s), ..., 12 rounds.`
fn of_one(run: &Run, row: &CaseSummary) -> Answer {
    let cpu = cpu(row).map(|cpu| format!(", {cpu}")).unwrap_or_default();
    let headline = single(row, &format!("goodput {}{cpu}", in_words(row)));
    let sentences = [limit(run, row), directions(row), unfair(row), paced(run, &[row]), loss(row)];
    Answer { headline, sentences: sentences.into_iter().flatten().collect(), ..Answer::default() }
}

fn value(row: &CaseSummary) -> f64 {
    row.goodput_bytes_per_s().unwrap_or(f64::NEG_INFINITY)
}

fn in_words(row: &CaseSummary) -> String {
    with_interval(row.compared(ComparedBy::Goodput), byte_rate, byte_rate_bounds)
}

/// `CPU time 0.12 s/GB at the client and 0.21 s/GB at the server`; `None` if both are unknown.
fn cpu(row: &CaseSummary) -> Option<String> {
    let per_gb = row.cpu_seconds_per_gb()?;
    let told = |figure: Option<Figure>, end: &str| Some(format!("{} s/GB at the {end}", number(figure?.value)));
    let both: Vec<String> =
        [told(per_gb.client, "client"), told(per_gb.server, "server")].into_iter().flatten().collect();
    (!both.is_empty()).then(|| format!("CPU time {}", both.join(" and ")))
}

/// The goodput of each direction of a case that goes both ways at once.
fn directions(row: &CaseSummary) -> Option<String> {
    if !row.case.goes_both_ways() {
        return None;
    }
    let of = |way: Direction| {
        let flow = row.flows.iter().find(|flow| flow.flow.direction == way)?;
        Some(byte_rate(flow.one_way.as_ref()?.goodput_bytes_per_s?.finite()?))
    };
    let (up, down) = (of(Direction::Up)?, of(Direction::Down)?);
    Some(format!("{}: {up} client to server, {down} server to client.", words::name(row)))
}

fn unfair(row: &CaseSummary) -> Option<String> {
    let fairness = row.one_way()?.fairness.filter(|fairness| fairness.value < FAIR)?;
    Some(format!(
        "{}: the {} streams share unevenly, fairness index {} of 1 (Jain).",
        words::name(row),
        row.case.primary().wires(),
        number(fairness.value)
    ))
}

/// The limit of a case's goodput, if known: a busy CPU, or the link.
fn limit(run: &Run, row: &CaseSummary) -> Option<String> {
    busy(row).or_else(|| link(run, row))
}

/// Ends that spin always keep their CPU busy.
fn busy(row: &CaseSummary) -> Option<String> {
    if row.case.ends.waiting == Waiting::Spin {
        return None;
    }
    let over_time = row.primary().over_time.as_ref()?;
    let moments = || over_time.moments.iter().filter(|moment| moment.at_ns > over_time.measured_from_ns);
    let used = |of: fn(&Moment) -> Option<f64>| median(&moments().filter_map(of).collect::<Vec<_>>());
    let (client, server) = (used(|moment| moment.client_cpu), used(|moment| moment.server_cpu));
    let sender = if row.case.primary().direction == Direction::Up { End::Client } else { End::Server };
    let (sends, receives) = if sender == End::Client { (client, server) } else { (server, client) };
    let is_busy = |used: &f64| *used >= BUSY;
    let whose = match (row.case.ends.placement, sends.zip(receives)) {
        (Placement::SameCpu, Some((sends, receives))) if is_busy(&(sends + receives)) => "The CPU of both ends",
        (Placement::SameCpu, _) => return None,
        _ if receives.as_ref().is_some_and(is_busy) => "The receiver's CPU",
        _ if sends.as_ref().is_some_and(is_busy) => "The sender's CPU",
        _ => return None,
    };
    Some(format!("{whose} was busy throughout: it limits the goodput."))
}

/// The code of the finding that the answer quotes.
const LINK_SATURATED: &str = "link-saturated";

fn link(run: &Run, row: &CaseSummary) -> Option<String> {
    let found =
        |code: &str| run.findings.iter().any(|finding| finding.code == code && finding.cases.contains(&row.id));
    found(LINK_SATURATED).then(|| format!("The link's rate limits it (finding {LINK_SATURATED})."))
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;
    use hairpin_model::flow::Flow;
    use hairpin_model::one_way::OverTime;

    use super::*;
    use crate::fixture::Fixture;

    fn row(placement: Placement, waiting: Waiting, cpu: [f64; 2]) -> CaseSummary {
        let case = Case::of(Flow::stream("tcp", 65_536, Direction::Up)).with(|case| {
            (case.ends.placement, case.ends.waiting) = (placement, waiting);
        });
        let mut fixture = Fixture::new();
        fixture.rounds_of(&case, &[1000; 6]);
        let mut row = fixture.run().cases.remove(0);
        let moment =
            |at_ns| Moment { at_ns, client_cpu: Some(cpu[0]), server_cpu: Some(cpu[1]), ..Moment::default() };
        let over_time = OverTime { measured_from_ns: 1, moments: vec![moment(2), moment(3)] };
        row.primary_mut().over_time = Some(over_time);
        row
    }

    #[test]
    fn a_busy_cpu_is_the_limit_unless_it_busy_polls() {
        let limit = |placement, waiting, cpu| busy(&row(placement, waiting, cpu));
        let says = |whose: &str| Some(format!("{whose} was busy throughout: it limits the goodput."));
        let (apart, block) = (Placement::CrossCpu, Waiting::Block);
        assert_eq!(limit(apart, block, [0.6, 0.99]), says("The receiver's CPU"));
        assert_eq!(limit(apart, block, [0.99, 0.6]), says("The sender's CPU"));
        assert_eq!(limit(apart, block, [0.6, 0.9]), None);
        assert_eq!(limit(Placement::SameCpu, block, [0.4, 0.59]), says("The CPU of both ends"));
        assert_eq!(limit(Placement::SameCpu, block, [0.4, 0.5]), None);
        assert_eq!(limit(apart, Waiting::Spin, [1.0, 1.0]), None);
    }
}
