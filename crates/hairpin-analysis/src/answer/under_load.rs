//! The answer to probes under load: the latency that the load adds to the median round trip, the queue, the load's
//! goodput, and the probe's losses.

use hairpin_model::answer::{Answer, Pair};
use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::ladder::Kind;
use hairpin_model::ledger::in_words;
use hairpin_model::names::{grouped, joined, shortened};
use hairpin_model::path;
use hairpin_model::phases::{Phase, PhaseFigures, Responsiveness, UnderLoad};
use hairpin_model::quantities::{
    DASH, byte_rate, bytes, count, counted, duration, exact_bytes, number, number_bounds, share,
};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

use super::one_way::{if_invalid, spoken};
use super::ranking::as_fast;
use super::words;
use crate::compare::cases::pointwise;

/// Maximum ratio of idle medians that are reported as one.
const ALIKE: f64 = 1.05;
/// Maximum number of named loads; the table has all.
const MAX_NAMED: usize = 3;

/// The answer; `None` if no such case is usable.
pub(super) fn answer(run: &Run, pairs: &[Pair]) -> Option<Answer> {
    let measured = |row: &&CaseSummary| row.under_load.is_some();
    let rows: Vec<&CaseSummary> = match run.cases.as_slice() {
        [only] if Kind::of(&only.case) == Kind::UnderLoad => vec![only],
        _ => spoken(run, Kind::UnderLoad),
    };
    let rows: Vec<&CaseSummary> = rows.into_iter().filter(measured).collect();
    let sets = grouped(rows.iter().map(|row| (alone(&row.case), *row)));
    let mut headlines = Vec::new();
    let mut details = Vec::new();
    for (_, rows) in &sets {
        let (place, alone) = (place(run, rows[0], sets.len()), sets.len() == 1);
        let set = Set { run, pairs, place, alone, names: Names::of(rows) };
        let mut loaded: Vec<&CaseSummary> = rows.iter().copied().filter(|row| !row.case.loads().is_empty()).collect();
        // Cases without any answer are reported by their losses.
        loaded.retain(|row| row.p50_ns().is_some());
        loaded.sort_by(|a, b| a.p50_ns().unwrap_or(0.0).total_cmp(&b.p50_ns().unwrap_or(0.0)));
        let unloaded = rows.iter().filter(|row| row.case.loads().is_empty()).filter_map(|row| set.without_load(row));
        headlines.extend(set.headline(&loaded));
        details.extend(set.loads(&loaded));
        details.extend(unloaded);
        details.extend(rows.iter().flat_map(|row| set.losses(row)));
    }
    let mut sentences = headlines.into_iter().chain(details);
    let headline = sentences.next()?;
    Some(Answer { headline, sentences: sentences.collect(), ..Answer::default() })
}

/// The probe and its path without its loads: cases that share it differ in their load.
fn alone(case: &Case) -> Case {
    case.without_replicate().with(|case| case.flows.truncate(1))
}

/// ` over home-uplink`, and the probe if there are several.
fn place(run: &Run, row: &CaseSummary, sets: usize) -> String {
    let over = path::over_in_short(&row.case, &run.cases).map(|over| format!(" {over}")).unwrap_or_default();
    let of_path = run.cases.iter().filter(|other| path::alike(&other.case, &row.case));
    let several = sets > 1 && of_path.map(|other| alone(&other.case)).any(|other| other != alone(&row.case));
    let probe = format!(" with the probe {} ({})", row.case.probe_words().join(" "), row.case.ends.in_words());
    format!("{over}{}", if several { probe.as_str() } else { "" })
}

/// The names of the loads of one probe: without the words that all share.
struct Names {
    shared: Vec<String>,
}

impl Names {
    fn of(rows: &[&CaseSummary]) -> Self {
        let all: Vec<Vec<String>> =
            rows.iter().filter(|row| !row.case.loads().is_empty()).map(|row| row.case.load_words()).collect();
        let shared = match all.as_slice() {
            // A single load needs no write size to distinguish it.
            [_] => {
                rows.iter().flat_map(|row| row.case.loads()).map(|flow| exact_bytes(flow.load.size_bytes())).collect()
            }
            [first, others @ ..] => {
                first.iter().filter(|word| others.iter().all(|words| words[1..].contains(word))).cloned().collect()
            }
            [] => Vec::new(),
        };
        Self { shared }
    }

    /// `tcp up congestion=cubic`.
    fn name(&self, row: &CaseSummary) -> String {
        let words = row.case.load_words();
        let kept = words.iter().enumerate().filter(|(place, word)| *place == 0 || !self.shared.contains(word));
        let kept: Vec<&str> = kept.map(|(_, word)| word.trim_start_matches("under ")).collect();
        kept.join(" ")
    }
}

struct Set<'r> {
    run: &'r Run,
    pairs: &'r [Pair],
    place: String,
    /// Whether there is no other set.
    alone: bool,
    names: Names,
}

fn figures(row: &CaseSummary) -> Option<&UnderLoad> {
    row.under_load.as_ref()
}

fn idle(row: &CaseSummary) -> Option<String> {
    Some(duration(figures(row)?.phases.idle.probe.latency_ns.p50?.finite()?))
}

/// The idle median, or the range if there are several.
fn idle_of_all(rows: &[&CaseSummary]) -> String {
    let of = |row: &&CaseSummary| figures(row)?.phases.idle.probe.latency_ns.p50?.finite();
    let (low, high) = rows
        .iter()
        .filter_map(of)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), idle| (low.min(idle), high.max(idle)));
    if high <= ALIKE * low {
        return duration(f64::midpoint(low, high));
    }
    let [low, high] = [low, high].map(duration);
    format!("{low} to {high}")
}

fn added(row: &CaseSummary) -> Option<Figure> {
    figures(row)?.added_ns.p50.filter(|added| added.value.is_finite())
}

impl Set<'_> {
    /// The place, if there are several.
    fn elsewhere(&self) -> &str {
        if self.alone { "" } else { &self.place }
    }

    /// The headline on these loads, the lowest latency first.
    fn headline(&self, loaded: &[&CaseSummary]) -> Option<String> {
        match loaded {
            [] => None,
            [only] => Some(self.of_one(only)),
            [first, ..] => Some(self.of_several(first, loaded)),
        }
    }

    /// `The load (tcp up congestion=cubic) adds 173 ms (95 % interval 171-176) to the median round trip of 10.3 ms, and
    /// the queue holds 213 KiB.`
    fn of_one(&self, row: &CaseSummary) -> String {
        let queue = queue(row).map(|queue| format!(", and the queue holds {queue}")).unwrap_or_default();
        let said = effect(row, &self.names.name(row), &self.place);
        format!("{said}{queue}.{}", if_invalid(row))
    }

    /// The loads that add least and most, if a difference was found.
    fn of_several(&self, first: &CaseSummary, loaded: &[&CaseSummary]) -> String {
        let idle = idle_of_all(loaded);
        if loaded.iter().any(|row| added(row).and_then(Figure::interval).is_none()) {
            let each: Vec<String> =
                loaded.iter().map(|row| format!("{} beside {}", words::p50(row), self.names.name(row))).collect();
            let (place, each) = (&self.place, shortened(&each, MAX_NAMED));
            let known: Vec<&CaseSummary> =
                loaded.iter().copied().filter(|row| added(row).and_then(Figure::interval).is_some()).collect();
            let known = if known.is_empty() {
                "What each adds has no interval yet, so they are not ordered".to_owned()
            } else {
                format!("Added where there is an interval: {}", self.told(&known))
            };
            return format!("Median round trip{place}: {idle} idle, {each}. {known}.");
        }
        let to = format!("to the median round trip of {idle}{}", self.place);
        let alpha = self.run.plan.alpha;
        let least: Vec<&CaseSummary> =
            std::iter::once(first).chain(as_fast(first, loaded, self.pairs, alpha)).collect();
        let is_least = |row: &CaseSummary| least.iter().any(|other| other.id == row.id);
        let Some(last) = loaded.last().filter(|row| !is_least(row)) else {
            return format!("Added {to}, no difference found: {}.", self.told(loaded));
        };
        let is_most = |row: &&CaseSummary| row.id == last.id || pointwise(row, last, alpha) != Verdict::Slower;
        let most: Vec<&CaseSummary> = loaded.iter().copied().filter(|row| !is_least(row)).filter(is_most).collect();
        format!("Least added {to}: {}; most: {}.", self.told(&least), self.told(&most))
    }

    /// For each: `9.13 ms (95 % interval 9.01-9.40) by tcp up congestion=bbr`.
    fn told(&self, rows: &[&CaseSummary]) -> String {
        let each = |row: &&CaseSummary| {
            let (added, name) = (added(row), self.names.name(row));
            match added.filter(|added| added.excludes(0.0)) {
                Some(_) => format!("{} by {name}", words::with_interval(added)),
                None => format!("no difference found with {name}"),
            }
        };
        let each: Vec<String> = rows.iter().map(each).collect();
        shortened(&each, MAX_NAMED)
    }

    /// The goodput of a single load, and the responsiveness under each; the table has the goodput of several.
    fn loads(&self, loaded: &[&CaseSummary]) -> Option<String> {
        let rpm = |row: &CaseSummary| figures(row)?.responsiveness_rpm.clone();
        let told = |rpm: &Responsiveness| {
            let interval = rpm.figure.interval().map_or_else(String::new, |(low, high)| {
                format!(" (95 % interval {})", number_bounds(rpm.figure.value, low, high))
            });
            format!("{} round trips per minute{interval}", number(rpm.figure.value))
        };
        let elsewhere = self.elsewhere();
        if let [row] = loaded {
            let goodput = figures(row)?.phases.loaded.load.goodput_bytes_per_s.and_then(Figure::finite);
            let gets = goodput.map(|goodput| format!("gets {}", byte_rate(goodput)));
            let rpm = rpm(row).map(|rpm| format!("responsiveness is {}, by {}", told(&rpm), rpm.draft));
            let said: Vec<String> = gets.into_iter().chain(rpm).collect();
            return (!said.is_empty()).then(|| format!("The load{elsewhere} {}.", joined(&said)));
        }
        let each: Vec<(String, Responsiveness)> =
            loaded.iter().filter_map(|row| Some((self.names.name(row), rpm(row)?))).collect();
        let (_, first) = each.first()?;
        let beside: Vec<String> = each.iter().map(|(name, rpm)| format!("{} beside {name}", told(rpm))).collect();
        Some(format!("Responsiveness{elsewhere}, by {}: {}.", first.draft, shortened(&beside, MAX_NAMED)))
    }

    /// The difference between the phases without a load.
    fn without_load(&self, row: &CaseSummary) -> Option<String> {
        let added = added(row)?;
        let (idle, loaded, place) = (idle(row)?, words::p50(row), self.elsewhere());
        let invalid = if_invalid(row);
        Some(match added.interval() {
            None => format!(
                "Without a load{place}: median round trip {idle}, later {loaded}, without an interval.{invalid}"
            ),
            Some(_) if added.excludes(0.0) => format!(
                "Without a load{place} the median round trip of {idle} changed by {}.{invalid}",
                words::with_interval(Some(added))
            ),
            Some(_) => format!(
                "Without a load{place} no difference was found: median round trip {idle}, later {loaded}.{invalid}"
            ),
        })
    }

    /// The probe's losses in each phase.
    fn losses(&self, row: &CaseSummary) -> Vec<String> {
        let Some(figures) = figures(row) else { return Vec::new() };
        let beside = if row.case.loads().is_empty() {
            "without a load".to_owned()
        } else {
            format!("beside {}", self.names.name(row))
        };
        let of_phase = |(phase, of): (Phase, &PhaseFigures)| {
            let ledger = &of.probe.ledger;
            let missing = ledger.sent.checked_sub(ledger.received).filter(|missing| *missing > 0)?;
            let causes = ledger.lost.iter().filter(|(_, lost)| **lost > 0);
            let causes = causes.map(|(cause, lost)| format!("{} ({})", count(*lost), in_words(cause)));
            let late = (ledger.late > 0).then(|| format!("{} (late)", count(ledger.late)));
            let unexplained = (ledger.unexplained != 0).then(|| format!("{} (unexplained)", ledger.unexplained));
            let causes: Vec<String> = causes.chain(late).chain(unexplained).collect();
            let (lost, sent) = (share(missing as f64 / ledger.sent as f64), counted(ledger.sent, "message"));
            let place = self.elsewhere();
            Some(format!(
                "The probe lost {lost} of {sent} in the {phase} phase {beside}{place}: {}.",
                joined(&causes)
            ))
        };
        figures.phases.each().into_iter().filter_map(of_phase).collect()
    }
}

/// The effect of a load on the median round trip.
fn effect(row: &CaseSummary, load: &str, place: &str) -> String {
    let (idle, loaded) = (idle(row).unwrap_or_else(|| DASH.to_owned()), words::p50(row));
    let trip = format!("the median round trip of {idle}{place}");
    let Some((added, _)) = added(row).and_then(|added| Some((added, added.interval()?))) else {
        return format!(
            "Median round trip{place}: {idle} idle, {loaded} beside the load ({load}); what it adds has no interval"
        );
    };
    let changed = |by: Figure| words::with_interval(Some(by));
    match added {
        _ if !added.excludes(0.0) => {
            format!("No difference found: median round trip{place} {idle} idle, {loaded} beside the load ({load})")
        }
        _ if added.value < 0.0 => format!("The load ({load}) saves {} of {trip}", changed(added.falling(|ns| -ns))),
        _ => format!("The load ({load}) adds {} to {trip}", changed(added)),
    }
}

/// The median depth of the queue under load.
fn queue(row: &CaseSummary) -> Option<String> {
    Some(bytes(figures(row)?.phases.loaded.queue_bytes?.p50.finite()?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hairpin_model::flow::{Direction, Flow, FlowRole, WRITE_BYTES};
    use hairpin_model::ledger::Ledger;
    use hairpin_model::options::Options;
    use hairpin_model::phases::QueueBytes;

    use super::super::answer;
    use super::*;
    use crate::fixture::Fixture;
    use crate::fixture::links::over;

    const MS: u64 = 1_000_000;

    /// A case, its loaded median in ms, and the interval of the added latency.
    type Given = (Case, f64, Option<(f64, f64)>);

    /// A probe of 64 B over UDP in a closed loop next to a stream over TCP with these options; `None`: no load.
    fn probed(options: Option<&str>) -> Case {
        let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        case.primary_mut().load.set_sizes(64, 64);
        case.flows.extend(options.map(|options| Flow {
            options: Options::parse(options).unwrap(),
            ..Flow::stream("tcp", WRITE_BYTES, Direction::Up).in_role(FlowRole::Load)
        }));
        case
    }

    /// Twelve rounds of each case with that loaded median; the idle median is 10.3 ms, and the difference has the given
    /// interval, if any.
    fn run_of(cases: &[Given]) -> Run {
        let mut fixture = Fixture::new();
        for (case, loaded_ms, _) in cases {
            let steps = [2.0, 5.0, 0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 0.0, 3.0, 1.0, 4.0];
            // Fixture latencies.
            let rounds = steps.map(|step| (loaded_ms * (1.0 + step / 1000.0) * MS as f64) as u64);
            fixture.rounds_of(case, &rounds);
        }
        let mut run = fixture.run();
        for (row, (case, loaded_ms, bounds_ms)) in run.cases.iter_mut().zip(cases) {
            let ns = |ms: f64| ms * MS as f64;
            let added = ns(loaded_ms - 10.3);
            let under_load = row.under_load.as_mut().unwrap();
            under_load.phases.idle.probe.latency_ns.p50 = Some(Figure::bare(ns(10.3)));
            under_load.added_ns.p50 =
                Some(bounds_ms.map_or(Figure::bare(added), |(low, high)| Figure::new(added, ns(low), ns(high))));
            if !case.loads().is_empty() {
                under_load.phases.loaded.load.goodput_bytes_per_s = Some(Figure::bare(1.2e6));
                under_load.phases.loaded.queue_bytes =
                    Some(QueueBytes { p50: Figure::bare(loaded_ms * 1024.0), max: 262_144.0 });
            }
        }
        run
    }

    fn answer_of(cases: &[Given]) -> Answer {
        answer(&run_of(cases))
    }

    fn linked(options: &str) -> Case {
        over("delay=5ms", probed(Some(options)))
    }

    #[test]
    fn one_load_adds_what_its_interval_says_and_nothing_is_claimed_without_one() {
        let said = |loaded_ms, bounds| answer_of(&[(linked("congestion=cubic"), loaded_ms, bounds)]);
        let adds = said(183.3, Some((171.0, 176.0)));
        let headline = "The load (tcp up congestion=cubic) adds 173 ms (95 % interval 171-176) to the median round trip of \
                        10.3 ms over delay=5ms, and the queue holds 183 KiB.";
        assert_eq!((adds.headline.as_str(), adds.sentences), (headline, vec!["The load gets 1.20 MB/s.".to_owned()]));
        let none = "No difference found: median round trip over delay=5ms 10.3 ms idle, 10.4 ms beside the load (tcp up \
                    congestion=cubic), and the queue holds 10.4 KiB.";
        assert_eq!(said(10.4, Some((-0.2, 0.4))).headline, none);
        let less = "The load (tcp up congestion=cubic) saves 1.30 ms (95 % interval 1.20-1.40) of the median round trip \
                    of 10.3 ms over delay=5ms, and the queue holds 9 KiB.";
        assert_eq!(said(9.0, Some((-1.4, -1.2))).headline, less);
        let unsure = "Median round trip over delay=5ms: 10.3 ms idle, 184 ms beside the load (tcp up congestion=cubic); \
                      what it adds has no interval, and the queue holds 183 KiB.";
        assert_eq!(said(183.3, None).headline, unsure);
    }

    #[test]
    fn the_loads_that_add_least_and_most_are_named_if_a_difference_was_found() {
        let cubic = || (linked("congestion=cubic"), 183.3, Some((171.0, 176.0)));
        let bbr = || (linked("congestion=bbr"), 20.3, Some((9.0, 11.0)));
        let two = answer_of(&[cubic(), bbr()]);
        let headline = "Least added to the median round trip of 10.3 ms over delay=5ms: 10.0 ms (95 % interval 9.0-11.0) by \
                        tcp up congestion=bbr; most: 173 ms (95 % interval 171-176) by tcp up congestion=cubic.";
        assert_eq!(two.headline, headline);
        assert!(two.sentences.is_empty(), "the table has the rest: {two:?}");
        assert_eq!(two.pairs.first().map(|pair| pair.verdict), Some(Verdict::Slower), "one ladder");
        let alike = answer_of(&[cubic(), (linked("congestion=reno"), 183.3, Some((171.0, 176.0)))]);
        let headline = "Added to the median round trip of 10.3 ms over delay=5ms, no difference found: 173 ms (95 % interval \
                        171-176) by tcp up congestion=cubic and 173 ms (95 % interval 171-176) by tcp up congestion=reno.";
        assert_eq!(alike.headline, headline);
        let three = answer_of(&[cubic(), bbr(), (linked("congestion=reno"), 20.3, Some((9.0, 11.0)))]);
        let least = "10.0 ms (95 % interval 9.0-11.0) by tcp up congestion=bbr and 10.0 ms (95 % interval 9.0-11.0) by tcp up \
                     congestion=reno; most: 173 ms";
        assert!(three.headline.contains(least), "{three:?}");
    }

    #[test]
    fn without_an_interval_no_load_is_named_the_best() {
        let unsure = answer_of(&[(linked("congestion=cubic"), 183.3, None), (linked("congestion=bbr"), 20.3, None)]);
        let headline = "Median round trip over delay=5ms: 10.3 ms idle, 20.4 ms beside tcp up congestion=bbr and 184 ms \
                        beside tcp up congestion=cubic. What each adds has no interval yet, so they are not ordered.";
        assert_eq!(unsure.headline, headline);
        let sure = (linked("congestion=cubic"), 183.3, Some((171.0, 176.0)));
        let half = answer_of(&[sure, (linked("congestion=bbr"), 20.3, None)]).headline;
        let known = "Added where there is an interval: 173 ms (95 % interval 171-176) by tcp up congestion=cubic.";
        assert!(half.ends_with(known), "{half}");
    }

    #[test]
    fn without_a_load_the_difference_of_the_phases_is_reported() {
        let said = |bounds| answer_of(&[(over("delay=5ms", probed(None)), 10.4, bounds)]).headline;
        assert_eq!(
            said(Some((-0.1, 0.3))),
            "Without a load no difference was found: median round trip 10.3 ms, later 10.4 ms."
        );
        let changed = "Without a load the median round trip of 10.3 ms changed by 100 us (95 % interval 50-150).";
        assert_eq!(said(Some((0.05, 0.15))), changed);
        let beside = answer_of(&[
            (linked("congestion=cubic"), 183.3, Some((171.0, 176.0))),
            (over("delay=5ms", probed(None)), 10.4, Some((-0.1, 0.3))),
        ]);
        assert!(beside.headline.starts_with("The load (tcp up congestion=cubic) adds 173 ms"), "{beside:?}");
        assert!(beside.sentences[1].starts_with("Without a load no difference was found"), "{beside:?}");
    }

    #[test]
    fn losses_of_the_probe_have_phases_and_causes_and_responsiveness_its_draft() {
        let mut run = run_of(&[(linked("congestion=cubic"), 183.3, Some((171.0, 176.0)))]);
        let figures = run.cases[0].under_load.as_mut().unwrap();
        let lost = BTreeMap::from([("link-queue".to_owned(), 3)]);
        figures.phases.loaded.probe.ledger = Ledger { sent: 500, received: 497, lost, ..Ledger::default() }.closed();
        figures.phases.recovering.probe.ledger = Ledger { sent: 200, received: 199, ..Ledger::default() }.closed();
        figures.responsiveness_rpm =
            Some(Responsiveness { figure: Figure::new(311.0, 305.0, 320.0), draft: "draft-09".to_owned() });
        let expected = [
            "The load gets 1.20 MB/s and responsiveness is 311 round trips per minute (95 % interval 305-320), by draft-09.",
            "The probe lost 0.60 % of 500 messages in the loaded phase beside tcp up congestion=cubic: 3 (link: queue).",
            "The probe lost 0.50 % of 200 messages in the recovering phase beside tcp up congestion=cubic: 1 (unexplained).",
        ];
        assert_eq!(answer(&run).sentences, expected);
        let mut run = run_of(&[
            (linked("congestion=cubic"), 183.3, Some((171.0, 176.0))),
            (linked("congestion=bbr"), 20.3, Some((9.0, 11.0))),
        ]);
        for (row, rpm) in run.cases.iter_mut().zip([311.0, 2_300.0]) {
            let figure = Figure::new(rpm, rpm - 6.0, rpm + 9.0);
            row.under_load.as_mut().unwrap().responsiveness_rpm =
                Some(Responsiveness { figure, draft: "draft-09".to_owned() });
        }
        let expected = "Responsiveness, by draft-09: 2300 round trips per minute (95 % interval 2294-2309) beside tcp up \
                        congestion=bbr and 311 round trips per minute (95 % interval 305-320) beside tcp up \
                        congestion=cubic.";
        assert_eq!(answer(&run).sentences, [expected]);
    }

    #[test]
    fn each_path_has_its_own_loads_and_invalid_figures_say_so() {
        let codel = over("delay=5ms codel=5ms/100ms", probed(Some("congestion=cubic")));
        let cases = [(linked("congestion=cubic"), 183.3, Some((171.0, 176.0))), (codel, 20.3, Some((9.0, 11.0)))];
        let both = answer_of(&cases);
        assert!(both.headline.contains("10.3 ms over delay=5ms, and the queue holds 183 KiB"), "{both:?}");
        let second = "The load (tcp up) adds 10.0 ms (95 % interval 9.0-11.0) to the median round trip of 10.3 ms over \
                      delay=5ms codel=5ms/100ms, and the queue holds 20.3 KiB.";
        assert_eq!(both.sentences[0].replace(" congestion=cubic", ""), second);
        assert_eq!(both.sentences[1], "The load over delay=5ms gets 1.20 MB/s.");
        let mut run = run_of(&cases[..1]);
        run.cases[0].valid = false;
        assert!(answer(&run).headline.ends_with("183 KiB. Do not use these figures: see below."));
    }
}
