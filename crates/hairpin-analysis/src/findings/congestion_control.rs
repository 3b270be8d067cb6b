//! `congestion-control`: large messages over TCP under a congestion control that paces.
//!
//! Why: BBR spreads segments over time by its estimate of the bottleneck (draft-ietf-ccwg-bbr, pacing). A loopback has
//! no bottleneck, so bulk and batched figures depend on the default of the machine and not on the transport. Evidence:
//! the effective option; and if the run has the same case under another congestion control, the difference. A link has
//! a bottleneck to estimate, so only a measured difference is reported. Advice: set it for the connection, or state it
//! with the figure.

use hairpin_model::card::Protocol;
use hairpin_model::case::Case;
use hairpin_model::finding::{About, CounterExperiment, Evidence, Finding, FindingCard, Proved, Severity};
use hairpin_model::options::{OptionName, Options};
use hairpin_model::quantities;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

use super::support::{Change, Hits, change, change_of_goodput, counter_experiment, evidence, with_option};

pub(super) const CARD: FindingCard = FindingCard {
    code: "congestion-control",
    about: About::Cause,
    what: "large messages over TCP with a congestion control that paces, such as bbr",
    why: "pacing spreads segments over time, so bulk figures show the pacing and not the limit of TCP",
};

/// Congestion controls that pace by their own model.
const PACING: &[&str] = &["bbr", "bbr1", "bbr2", "bbr3"];
/// Minimum message size of either direction, in bytes; smaller messages leave in one burst of segments.
const MIN_MESSAGE_BYTES: u64 = 16 * 1024;
/// Minimum bytes per call of a load without answers, which never lets the connection idle.
const MIN_STREAM_BYTES: u64 = 4 * 1024;

/// The same case under another congestion control.
struct Other<'r> {
    name: String,
    case: &'r CaseSummary,
    change: Change,
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| {
        let pacing = effective(case).filter(|name| concerns(run, case) && PACING.contains(name))?;
        let other = other(run, case);
        if case.case.is_emulated() && other.is_none() {
            return None;
        }
        let share = match &other {
            Some(other) if other.change.verdict == Verdict::Faster => other.change.saved_share().value,
            _ => 0.0,
        };
        Some((share, (pacing, other)))
    });
    let Some(first) = hits.first() else { return Vec::new() };
    // Report the strongest measured difference, or an unmeasured case if there is none.
    let told = hits.0.iter().find(|hit| hit.with.1.is_some()).unwrap_or(first);
    let (pacing, other) = (told.with.0, told.with.1.as_ref());
    let proved = other.map(proved);
    let shapes = other.is_some_and(|other| other.change.verdict != Verdict::CannotTell);
    let severity = if shapes { Severity::Warning } else { Severity::Note };
    vec![Finding {
        summary: summary(told.case, pacing, other, hits.0.len()),
        evidence: other.map_or_else(Vec::new, |other| all_evidence(told.case, pacing, other)),
        advice: format!(
            "State the congestion control with every bulk figure. On short paths with little loss, try cubic for \
             the connection (TCP_CONGESTION) or the machine (net.ipv4.tcp_congestion_control). Across the \
             internet {pacing} may be the better choice."
        ),
        counter_experiment: Some(experiment(&told.case.case, pacing)),
        proved,
        share: told.share.max(0.0),
        ..hits.finding(&CARD, severity)
    }]
}

fn summary(case: &CaseSummary, pacing: &str, other: Option<&Other<'_>>, cases: usize) -> String {
    let more = if cases > 1 { format!(" {cases} cases ran with {pacing}.") } else { String::new() };
    let Some(other) = other else {
        let load = if goes_one_way(case) { "at full speed" } else { "with large messages" };
        return format!(
            "{} ran with {pacing}, which paces: {load} the figures may show the pacing and not the limit of TCP.{more}",
            case.label
        );
    };
    let (name, change) = (&other.name, &other.change);
    let figure = if goes_one_way(case) { "goodput" } else { "p50" };
    match change.verdict {
        Verdict::CannotTell => {
            format!(
                "{} ran with {pacing}, which paces. With {name} no difference in {figure} was found.{more}",
                case.label
            )
        }
        verdict if goes_one_way(case) => format!(
            "{} ran with {pacing}, which paces. With {name} it is {verdict}: {} the goodput.{more}",
            case.label,
            quantities::factor(1.0 / change.ratio.value)
        ),
        verdict => format!(
            "{} ran with {pacing}, which paces. With {name} it is {verdict} by {} (ratio {:.2}).{more}",
            case.label,
            quantities::duration(change.difference_ns.value.abs()),
            change.ratio.value
        ),
    }
}

/// Whether the case is judged by its throughput: its latency is that of the queue it fills.
fn goes_one_way(case: &CaseSummary) -> bool {
    let load = &case.case.primary().load;
    load.is_one_way() && load.rate_per_s().is_none()
}

fn all_evidence(case: &CaseSummary, pacing: &str, other: &Other<'_>) -> Vec<Evidence> {
    if goes_one_way(case) {
        let goodput = |name: &str, of: &CaseSummary| {
            let goodput = of.primary().one_way.as_ref()?.goodput_bytes_per_s?;
            Some(evidence(format!("goodput with {name}"), goodput, "bytes/s"))
        };
        let what = format!("time of 10^9 bytes, {} over {pacing}, {}", other.name, case.label);
        let ratio = evidence(what, other.change.ratio, "ratio");
        return [Some(ratio), goodput(pacing, case), goodput(&other.name, other.case)]
            .into_iter()
            .flatten()
            .collect();
    }
    let p50 = |name: &str, of: &CaseSummary| {
        of.primary().latency_ns.p50.map(|p50| evidence(format!("p50 with {name}"), p50, "ns"))
    };
    let what = format!("{} over {pacing}, p50 of {}", other.name, case.label);
    let ratio = evidence(what, other.change.ratio, "ratio");
    [Some(ratio), p50(pacing, case), p50(&other.name, other.case)].into_iter().flatten().collect()
}

fn proved(other: &Other<'_>) -> Proved {
    let verdict = match other.change.verdict {
        Verdict::Faster => "confirmed",
        Verdict::Slower => "refuted",
        Verdict::CannotTell | Verdict::Unlike => "cannot-tell",
    };
    let effect = other.change.difference_ns;
    let what = if goes_one_way(other.case) { ", by the time of 10^9 bytes" } else { "" };
    Proved { check: format!("use {}{what}", other.name), verdict: verdict.to_owned(), effect, unit: "ns".to_owned() }
}

fn concerns(run: &Run, case: &CaseSummary) -> bool {
    let of_tcp = run.cards.get(&case.case.primary().transport).is_some_and(|card| card.protocol == Protocol::Tcp);
    let load = &case.case.primary().load;
    let is_large = if goes_one_way(case) {
        load.size_bytes().saturating_mul(load.batch()) >= MIN_STREAM_BYTES
    } else {
        load.size_bytes().max(load.reply_size_bytes()) >= MIN_MESSAGE_BYTES
    };
    case.valid && of_tcp && is_large && case.case.replicate == 0
}

/// The congestion control granted to the client (or, if it sends nothing large, to the server: both ends request the
/// same).
fn effective(case: &CaseSummary) -> Option<&str> {
    let mut granted = case
        .ends
        .iter()
        .flat_map(|end| &end.effective_options)
        .filter(|option| option.name == OptionName::Congestion);
    granted.next().map(|option| option.before.as_str())
}

fn other<'r>(run: &'r Run, case: &'r CaseSummary) -> Option<Other<'r>> {
    let alike = |other: &CaseSummary| {
        let without = |case: &CaseSummary| {
            let mut case = case.case.clone();
            case.primary_mut().options = without_congestion(&case.primary().options);
            case
        };
        without(other) == without(case)
    };
    let others = run.cases.iter().filter(|other| other.id != case.id && alike(other));
    others
        .filter_map(|other| {
            let name = effective(other).filter(|name| !PACING.contains(name))?;
            let change =
                if goes_one_way(case) { change_of_goodput(run, case, other) } else { change(run, case, other) };
            Some(Other { name: name.to_owned(), case: other, change: change? })
        })
        .max_by(|a, b| a.change.saved_share().value.total_cmp(&b.change.saved_share().value))
}

fn without_congestion(options: &Options) -> Options {
    let others = options.iter().filter(|(name, _)| *name != OptionName::Congestion);
    others.fold(Options::default(), |all, (name, value)| all.with(name, value))
}

fn experiment(case: &Case, pacing: &str) -> CounterExperiment {
    let under = |name| with_option(case, OptionName::Congestion, name);
    // The case may have its congestion control from the host.
    let named = counter_experiment("use cubic for the same case", [under(pacing), under("cubic")]);
    CounterExperiment { pair: Some(Box::new([case.clone(), under("cubic")])), ..named }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::links::over;
    use crate::fixture::{Fixture, granted, one_way_losses};

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
        assert_eq!(found[0].counter_experiment.as_ref().unwrap().repeat.cases, cases);
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
        assert!(found[0].summary.contains("With cubic it is faster: 2.50x the goodput"), "{}", found[0].summary);
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!((proved.verdict.as_str(), proved.effect.value), ("confirmed", -6e11));
        assert!((found[0].share - 0.6).abs() < 1e-9, "{}", found[0].share);
    }

    #[test]
    fn the_other_congestion_control_proves_it() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(65_536, ""), "bbr", 100_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", 40_000);
        let found = fixture.findings("congestion-control");
        assert_eq!((found.len(), found[0].severity, found[0].cases.len()), (1, Severity::Warning, 1));
        let proved = found[0].proved.as_ref().unwrap();
        assert_eq!(proved.verdict, "confirmed");
        assert!((proved.effect.value / -60_000.0 - 1.0).abs() < 0.02, "{:?}", proved.effect);
        assert!((found[0].share - 0.6).abs() < 0.01);
    }

    #[test]
    fn no_difference_is_a_note_that_says_so() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(65_536, ""), "bbr", 100_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", 100_000);
        let found = fixture.findings("congestion-control");
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(found[0].proved.as_ref().unwrap().verdict, "cannot-tell");
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
    fn small_messages_cubic_and_other_transports_are_no_finding() {
        let mut fixture = Fixture::new();
        measure(&mut fixture, &case(16_383, ""), "bbr", 10_000);
        measure(&mut fixture, &case(65_536, "congestion=cubic"), "cubic", 40_000);
        let unix = case(65_536, "").with(|changed| changed.primary_mut().transport = "unix-stream".to_owned());
        measure(&mut fixture, &unix, "bbr", 40_000);
        assert_eq!(fixture.findings("congestion-control"), []);
    }
}
