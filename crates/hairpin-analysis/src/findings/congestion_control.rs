//! `congestion-control`: large messages over TCP under a congestion control that paces.
//!
//! BBR spreads segments over time by its estimate of the bottleneck (draft-ietf-ccwg-bbr, pacing), and loopback has no bottleneck.
//! Evidence: the effective option; and if the run has the same case under another congestion control, the difference. An
//! emulated link has a bottleneck, so there only a measured difference is reported.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::{OTHER_CONTROL, OTHER_CONTROL_BY_GOODPUT};
use hairpin_model::options::OptionName;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    CaseSummary, CounterExperiment, Evidence, Finding, FindingCard, Protocol, Proved, Run, finding_keys as keys,
};

use super::support::{
    CANNOT_TELL, CONFIRMED, Change, REFUTED, change, change_of_goodput, check_result, counter_experiment, evidence,
    evidence_of, with_option, with_share,
};

pub(crate) const CARD: FindingCard = FindingCard {
    code: "congestion-control",
    about: About::Cause,
    what: "large messages over TCP with a congestion control that paces, such as bbr",
    why: "pacing spreads segments over time, so bulk figures show the pacing and not the limit of TCP",
};

/// Congestion controls that pace by their own model.
const PACING_NAMES: &[&str] = &["bbr", "bbr1", "bbr2", "bbr3"];
/// Minimum message size of either direction, in bytes; smaller messages leave in one burst of segments.
const MIN_MESSAGE_BYTES: u64 = 16 * 1024;
/// Minimum bytes per call of a load without answers. The minimum is lower because the connection is never idle.
const MIN_STREAM_BYTES: u64 = 4 * 1024;

/// The same case under another congestion control.
struct Other<'r> {
    name: String,
    case: &'r CaseSummary,
    change: Change,
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let pacing = granted_control(case).filter(|name| applies(run, case) && PACING_NAMES.contains(name))?;
    let other = find_other_control(run, case);
    if case.case.is_emulated() && other.is_none() {
        return None;
    }
    let change = other.as_ref().map(|other| other.change);
    let saved =
        change.filter(|change| change.verdict == Verdict::Faster).map_or(0.0, |change| change.saved_share().value);
    let shapes = change.is_some_and(|change| change.verdict != Verdict::CannotTell);
    let finding = with_share(&CARD, if shapes { Severity::Warning } else { Severity::Note }, saved);
    let finding = Finding {
        counter_experiment: Some(experiment(case, pacing)),
        share: saved.max(0.0),
        ..finding.with(keys::PACING, pacing).with_if(goes_one_way(case), keys::ONE_WAY)
    };
    let Some(other) = other else { return Some(finding) };
    let finding =
        Finding { evidence: all_evidence(case, pacing, &other), proved: Some(proved(case, &other)), ..finding };
    Some(
        finding
            .with(keys::OTHER_CONTROL, other.name.as_str())
            .with(keys::VERDICT, other.change.verdict.word())
            .with(keys::DIFFERENCE, other.change.difference_ns.value),
    )
}

fn goes_one_way(case: &CaseSummary) -> bool {
    let load = &case.case.primary().load;
    load.is_one_way() && load.rate_per_s().is_none()
}

fn all_evidence(case: &CaseSummary, pacing: &str, other: &Other<'_>) -> Vec<Evidence> {
    let one_way = goes_one_way(case);
    let (over, with) = if one_way { (keys::TIME_OVER, keys::GOODPUT_WITH) } else { (keys::P50_OVER, keys::P50_WITH) };
    let figure = |name: &str, of: &CaseSummary| {
        let flow = of.primary();
        let figure = if one_way { flow.one_way.as_ref()?.goodput_bytes_per_s } else { flow.latency_ns.p50 };
        Some(evidence(with, figure?).of(name))
    };
    let ratio = evidence_of(case, over, other.change.ratio).of(format!("{} over {pacing}", other.name));
    [Some(ratio), figure(pacing, case), figure(&other.name, other.case)].into_iter().flatten().collect()
}

fn proved(case: &CaseSummary, other: &Other<'_>) -> Proved {
    let verdict = match other.change.verdict {
        Verdict::Faster => CONFIRMED,
        Verdict::Slower => REFUTED,
        Verdict::CannotTell | Verdict::Unlike => CANNOT_TELL,
    };
    check_result(kind(case), verdict, other.change.difference_ns)
}

fn kind(case: &CaseSummary) -> &'static str {
    if goes_one_way(case) { OTHER_CONTROL_BY_GOODPUT } else { OTHER_CONTROL }
}

fn applies(run: &Run, case: &CaseSummary) -> bool {
    let of_tcp = run.cards.get(&case.case.primary().transport).is_some_and(|card| card.protocol == Protocol::Tcp);
    let load = &case.case.primary().load;
    let is_large = if goes_one_way(case) {
        load.size_bytes().saturating_mul(load.batch()) >= MIN_STREAM_BYTES
    } else {
        load.size_bytes().max(load.reply_size_bytes()) >= MIN_MESSAGE_BYTES
    };
    case.valid && of_tcp && is_large && case.case.replicate == 0
}

/// Returns the congestion control granted to the first end that has the option; both ends request the same one.
fn granted_control(case: &CaseSummary) -> Option<&str> {
    let mut granted = case
        .ends
        .iter()
        .flat_map(|end| &end.effective_options)
        .filter(|option| option.name == OptionName::Congestion);
    granted.next().map(|option| option.before.as_str())
}

fn find_other_control<'r>(run: &'r Run, case: &'r CaseSummary) -> Option<Other<'r>> {
    let without = |case: &CaseSummary| {
        let options = case.case.primary().options.clone().without(OptionName::Congestion);
        case.case.clone().with(|case| case.primary_mut().options = options)
    };
    let alike = |other: &CaseSummary| without(other) == without(case);
    let others = run.cases.iter().filter(|other| other.id != case.id && alike(other));
    others
        .filter_map(|other| {
            let name = granted_control(other).filter(|name| !PACING_NAMES.contains(name))?;
            let change =
                if goes_one_way(case) { change_of_goodput(run, case, other) } else { change(run, case, other) };
            Some(Other { name: name.to_owned(), case: other, change: change? })
        })
        .max_by(|a, b| a.change.saved_share().value.total_cmp(&b.change.saved_share().value))
}

fn experiment(of: &CaseSummary, pacing: &str) -> CounterExperiment {
    let case = &of.case;
    let under = |name| with_option(case, OptionName::Congestion, name);
    // The case may use the host's default congestion control, so both cases name a congestion control.
    let named = counter_experiment(kind(of), [under(pacing), under("cubic")]);
    CounterExperiment { pair: Some(Box::new([case.clone(), under("cubic")])), ..named }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Options};

    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::{Fixture, granted, one_way_losses, repeated, shows, verdict};

    fn case(size: u64, options: &str) -> Case {
        let options = Options::parse(options).unwrap();
        Case::ping_pong("tcp").with(|changed| {
            changed.primary_mut().load.set_sizes(size, 4);
            changed.primary_mut().options = options;
        })
    }

    fn measure(fixture: &mut Fixture, case: &Case, control: &str, latency: u64) {
        let latencies: Vec<u64> = (0..8).map(|k| latency + latency / 400 * k).collect();
        fixture.rounds_with(case, &latencies, |measured| {
            measured.ends[0].options = vec![granted(OptionName::Congestion, control)];
        });
    }

    #[test]
    fn a_paced_bulk_case_without_an_alternative_is_a_note_with_the_command() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(65_536, "nodelay=on"), "bbr", 100_000);
        let found = fixture.findings("congestion-control");
        assert_eq!((found.len(), found[0].severity, &found[0].proved), (1, Severity::Note, &None));
        let cases = [case(65_536, "nodelay=on,congestion=bbr"), case(65_536, "nodelay=on,congestion=cubic")];
        assert_eq!(repeated(&found[0]), cases);
    }

    #[test]
    fn a_load_without_answers_is_judged_by_its_goodput_and_not_by_its_queue() {
        let stream = |options: &str| {
            let options = Options::parse(options).unwrap();
            one_way_losses::messages("tcp").with(|case| {
                case.primary_mut().load.set_sizes(65_536, 0);
                case.primary_mut().options = options;
            })
        };
        let round = |control: &'static str, bytes: u64| {
            move |measured: &mut hairpin_model::round::Measured| {
                one_way_losses::counts(&[], 0.0)(measured);
                measured.primary_mut().received.as_mut().unwrap().bytes_after_first = bytes;
                measured.ends[0].options = vec![granted(OptionName::Congestion, control)];
            }
        };
        let (bbr, cubic) = (stream(""), stream("congestion=cubic"));
        let fixture =
            one_way_losses::interleaved(&[(&bbr, &round("bbr", 1_000_000)), (&cubic, &round("cubic", 2_500_000))]);
        let found = fixture.findings("congestion-control");
        assert_eq!(
            [keys::OTHER_CONTROL, keys::VERDICT].map(|key| found[0].word(key)),
            [Some("cubic"), Some("faster")]
        );
        assert!(found[0].has(keys::ONE_WAY) && shows(&found[0], keys::TIME_OVER, 1.0 / 2.5), "{found:?}");
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!((proved.verdict.as_str(), proved.effect.value), ("confirmed", -6e11));
        assert!((found[0].share - 0.6).abs() < 1e-9, "{}", found[0].share);
    }

    /// Findings on a case that takes 100 us, and `cubic_ns` with the other congestion control.
    fn found_beside(cubic_ns: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(65_536, ""), "bbr", 100_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", cubic_ns);
        fixture.findings("congestion-control")
    }

    #[test]
    fn the_other_congestion_control_confirms_the_cause() {
        let found = found_beside(40_000);
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Warning, 1));
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "confirmed");
        assert!((proved.effect.value / -60_000.0 - 1.0).abs() < 0.02, "{:?}", proved.effect);
        assert!((found[0].share - 0.6).abs() < 0.01);
    }

    #[test]
    fn no_difference_is_a_note_that_says_so() {
        let found = found_beside(100_000);
        assert_eq!((found[0].severity, verdict(&found[0])), (Severity::Note, "cannot-tell"));
    }

    #[test]
    fn over_a_link_only_a_measured_difference_is_reported() {
        let over_link = |options| over("rate=10mbit delay=10ms", case(65_536, options));
        let mut fixture = Fixture::new();
        measure(&mut fixture, &over_link(""), "bbr", 100_000_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", 40_000);
        assert_eq!(fixture.findings("congestion-control"), []);
        let mut fixture = Fixture::new();
        measure(&mut fixture, &over_link(""), "bbr", 100_000_000);
        measure(&mut fixture, &over_link("congestion=cubic"), "cubic", 40_000_000);
        let found = fixture.findings("congestion-control");
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!((found[0].share - 0.6).abs() < 0.01, "{}", found[0].share);
    }

    #[test]
    fn small_messages_cubic_and_other_transports_are_not_findings() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(16_383, ""), "bbr", 10_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", 40_000);
        let unix = case(65_536, "").with(|changed| changed.primary_mut().transport = "unix-stream".to_owned());
        measure(&mut fixture, &unix, "bbr", 40_000);
        assert_eq!(fixture.findings("congestion-control"), []);
    }
}
