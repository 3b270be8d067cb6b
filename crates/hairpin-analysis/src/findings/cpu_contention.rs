//! `cpu-contention`: a probe waits for a CPU that a load keeps busy, and not for the path.
//!
//! Why: an end that is woken while its CPU runs something else waits for the scheduler, and its message with it: the tail grows, the
//! median hardly, and no faster path helps. Evidence: how long both ends of the probe could run and did not (`run_delay` of
//! /proc/PID/schedstat), for each message, beside the load and without it; against the mean latency that the load adds. Messages
//! that are due while an end waits wait with it, so at a rate the waits are less than what they add. The counter-experiment is the
//! load on another CPU: where the run has it, it says what goes away. Advice: another CPU, a priority, or fewer wake-ups.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, Evidence, Finding, FindingCard, Severity};
use hairpin_model::phases::PhaseFigures;
use hairpin_model::quantities;
use hairpin_model::round::Measured;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::support::{
    CONFIRMED, Detector, Hit, Hits, blank, evidence, evidence_of, gone, load_elsewhere, rounds_of, sibling_of,
};
use crate::compare::{by_block, difference_by_block, over_points};
use crate::statistics::interval::median_over;
use crate::under_load::{added_ns, added_wait_ns};

pub(super) const DETECTOR: Detector = Detector { card: CARD, detect };

const CARD: FindingCard = FindingCard {
    code: "cpu-contention",
    about: About::Cause,
    what: "messages waited for a CPU that a load kept busy, not for the path",
    why: "the scheduler then makes the tail, and a faster path does not help",
};

/// From this part of the mean latency on it is worth a word.
const LEAST: f64 = 0.1;
/// The waits are at least this part of what is added: the rest are messages that waited behind others.
const LEAST_OF_ADDED: f64 = 0.25;
const CHECK: &str = "run the load on another CPU";

struct Contended {
    added_ns: Figure,
    wait_ns: Figure,
    /// The mean latency without the load, and beside it.
    idle_ns: Figure,
    loaded_ns: Figure,
    /// Waits of both ends for a message without the load, and beside it.
    waited_ns: [Option<Figure>; 2],
    cpus_used: Option<Figure>,
    /// The change of the mean with the load on another CPU, where the run has that.
    elsewhere_ns: Option<Figure>,
}

impl Contended {
    fn explained_ns(&self) -> f64 {
        self.wait_ns.value.min(self.added_ns.value)
    }
}

/// Whether messages of the case waited for a CPU that its load kept busy.
pub(super) fn is_contended(run: &Run, case: &CaseSummary) -> bool {
    contended(run, case).is_some()
}

fn detect(run: &Run) -> Vec<Finding> {
    let hits = Hits::among(run, |case| contended(run, case));
    let Some(first) = hits.first() else { return Vec::new() };
    let contended = &first.with;
    let words = "run the load on another CPU; if the mean latency stays the same, the CPU is not the cause";
    vec![Finding {
        cases: hits.ids(),
        summary: format!("{}{}", summary(first), hits.others()),
        evidence: all_evidence(first),
        advice: "Give the ends that must answer soon a CPU of their own (taskset, cpusets, isolated CPUs), or a real-time \
                 priority (chrt(1)); let the load run elsewhere, or send more with each call. A faster path does not help."
            .to_owned(),
        proved: contended.elsewhere_ns.map(|effect| gone(CHECK, contended.explained_ns(), effect)),
        counter_experiment: load_elsewhere(&first.case.case, words),
        share: first.share,
        ..blank(&CARD, Severity::Warning)
    }]
}

fn summary(first: &Hit<'_, Contended>) -> String {
    let contended = &first.with;
    let elsewhere = contended.elsewhere_ns.map_or_else(String::new, |effect| {
        let mean = quantities::duration(contended.loaded_ns.value + effect.value);
        format!(" With the load on another CPU the mean is {mean}.")
    });
    format!(
        "{}: the probe waits for a CPU that the load keeps busy. The mean latency is {} without the load and {} beside it; \
         both ends wait {} longer for a CPU with each message, {} of the mean, and messages that are due meanwhile wait too.{elsewhere}",
        first.case.label,
        quantities::duration(contended.idle_ns.value),
        quantities::duration_figure(contended.loaded_ns),
        quantities::duration_figure(contended.wait_ns),
        quantities::share(contended.explained_ns() / contended.loaded_ns.value),
    )
}

fn all_evidence(first: &Hit<'_, Contended>) -> Vec<Evidence> {
    let contended = &first.with;
    let of = |what: &str, value: Option<Figure>, unit: &str| evidence_of(first.case, what, value, unit);
    let [idle, loaded] = contended.waited_ns;
    let optional = [
        of("waits of both ends for a CPU for each message, without the load", idle, "ns"),
        of("the same beside the load", loaded, "ns"),
        of("latency that the load adds, mean", Some(contended.added_ns), "ns"),
        of("mean latency beside the load", Some(contended.loaded_ns), "ns"),
        of("CPUs that all ends keep busy beside the load", contended.cpus_used, "CPUs"),
        of("change of the mean with the load on another CPU", contended.elsewhere_ns, "ns"),
    ];
    let longer = evidence(format!("longer waits beside the load, {}", first.case.label), contended.wait_ns, "ns");
    std::iter::once(longer).chain(optional.into_iter().flatten()).collect()
}

fn contended(run: &Run, case: &CaseSummary) -> Option<(f64, Contended)> {
    if case.case.replicate != 0 || case.case.loads().is_empty() {
        return None;
    }
    let phases = &case.under_load.as_ref()?.phases;
    let mean = |phase: &PhaseFigures| phase.probe.latency_ns.mean;
    let rounds: Vec<&Measured> = rounds_of(run, &case.id).into_iter().map(|(_, measured)| measured).collect();
    let over = |values: Vec<f64>| median_over(&values, over_points(case, run.plan.alpha));
    let contended = Contended {
        added_ns: over(rounds.iter().filter_map(|measured| added_ns(measured, |latency| latency.mean)).collect())?,
        wait_ns: over(rounds.iter().filter_map(|measured| added_wait_ns(measured)).collect())?,
        idle_ns: mean(&phases.idle)?,
        loaded_ns: mean(&phases.loaded)?,
        waited_ns: [phases.idle.cpu.probe_waited_ns, phases.loaded.cpu.probe_waited_ns],
        cpus_used: phases.loaded.cpu.used,
        elsewhere_ns: elsewhere_ns(run, case),
    };
    let share = contended.explained_ns() / contended.loaded_ns.value;
    // Other programs make an end wait too, now in one phase and now in the other.
    let is_certain = contended.wait_ns.low.is_none_or(|low| low > 0.0);
    let is_most = contended.wait_ns.value >= LEAST_OF_ADDED * contended.added_ns.value;
    if !(share >= LEAST && is_most && is_certain) {
        return None;
    }
    let proved =
        contended.elsewhere_ns.map(|effect| (gone(CHECK, contended.explained_ns(), effect).verdict, effect.value));
    let saved = proved.filter(|(verdict, _)| verdict == CONFIRMED).map_or(0.0, |(_, effect)| -effect);
    Some((share.max((saved / contended.loaded_ns.value).min(1.0)), contended))
}

/// The change of the mean latency beside the load with the load on another CPU, where the run has that case.
fn elsewhere_ns(run: &Run, case: &CaseSummary) -> Option<Figure> {
    let [_, elsewhere] = *load_elsewhere(&case.case, "")?.pair?;
    let elsewhere = sibling_of(run, &elsewhere)?;
    let [own, other] = [case, elsewhere].map(|case| {
        let rounds = rounds_of(run, &case.id).into_iter();
        by_block(rounds.map(|(round, measured)| (round.order.block, measured.flow().figures.latency_ns.mean)))
    });
    let over = over_points(case, run.plan.alpha);
    let (effect, _) = difference_by_block(&own, &other, over)?;
    Some(effect.figure(over.alpha))
}
