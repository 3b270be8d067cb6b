//! Accumulates the rounds of a run, one by one, and computes summaries at any time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use hairpin_model::samples::latency_histogram;
use hairpin_model::{Case, CaseSummary, Measured, RoundRecord, SampledRound, Samples, SavedCards};
use hdrhistogram::Histogram;

use crate::exceedances::Exceedances;
use crate::latency_budget::TripsOfCase;
use crate::states::States;
use crate::{exchanges, lateness, observer_costs, summary, valid_rounds};

/// One histogram of latencies per case, two for a control loop: its memory grows with the number of cases (about 270 KB each, twice that if
/// rounds are omitted), not with the number of messages.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    bound_ns: Option<u64>,
    cases: BTreeMap<String, DigestOfCase>,
}

#[derive(Clone, Debug, Default)]
struct DigestOfCase {
    latencies: Latencies,
    /// Latencies in the idle phase of a case under load.
    idle: Latencies,
    /// Release jitter of a control loop.
    jitter: Latencies,
    trips: Option<TripsOfCase>,
    exceedances: Exceedances,
}

/// The latencies of a case, separate for counted and omitted rounds.
#[derive(Clone, Debug, Default)]
struct Latencies {
    counted: Option<Histogram<u64>>,
    left_out: Option<Histogram<u64>>,
    /// By round number: values and counts of the latencies of rounds that may turn out to be late. They are judged once
    /// all rounds of the case are known.
    uncertain: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Latencies {
    fn add(&mut self, (round, measured): (&RoundRecord, &Measured), latencies: &Histogram<u64>) {
        let is_left_out = valid_rounds::omission_reason(measured).is_some();
        if !is_left_out && lateness::may_be_late(round, measured) {
            let values = latencies.iter_recorded();
            let values = values.map(|recorded| (recorded.value_iterated_to(), recorded.count_at_value()));
            self.uncertain.insert(round.number, values.collect());
            return;
        }
        let of = if is_left_out { &mut self.left_out } else { &mut self.counted };
        merge(of.get_or_insert_with(latency_histogram), latencies);
    }

    /// The latencies of the counted rounds; those of all rounds if `all_shown`. `omitted` has the numbers of the omitted
    /// rounds.
    fn shown(&self, omitted: &BTreeSet<u32>, all_shown: bool) -> Option<Cow<'_, Histogram<u64>>> {
        let left_out = self.left_out.as_ref().filter(|_| all_shown);
        let uncertain = || self.uncertain.iter().filter(|(number, _)| all_shown || !omitted.contains(number));
        let mut all = self.counted.as_ref().or(left_out).map(Cow::Borrowed);
        if let (Some(_), Some(left_out)) = (&self.counted, left_out) {
            merge(all.as_mut()?.to_mut(), left_out);
        }
        for (_, values) in uncertain() {
            let all = all.get_or_insert_with(|| Cow::Owned(latency_histogram())).to_mut();
            values.iter().for_each(|(value, count)| all.saturating_record_n(*value, *count));
        }
        all
    }
}

fn merge(all: &mut Histogram<u64>, latencies: &Histogram<u64>) {
    if all.add(latencies).is_err() {
        // The layout differs from `latency_histogram`: add value by value.
        for recorded in latencies.iter_recorded() {
            all.saturating_record_n(recorded.value_iterated_to(), recorded.count_at_value());
        }
    }
}

impl Digest {
    pub fn new() -> Self {
        Self::default()
    }

    /// Also counts the messages whose latency is above this bound.
    #[must_use]
    pub fn with_bound(self, bound_ns: Option<u64>) -> Self {
        Self { bound_ns, ..self }
    }

    /// Adds a round. Ignores failed and interrupted rounds and their samples.
    pub fn add(&mut self, record: &RoundRecord, samples: Option<&Samples>) {
        let (Some(measured), Some(samples)) = (record.measured(), samples) else { return };
        let case = self.cases.entry(record.case_id.clone()).or_default();
        case.latencies.add((record, measured), &samples.latency);
        if let Some(bound_ns) = self.bound_ns {
            case.exceedances.add(samples, bound_ns);
        }
        if let Some(idle) = samples.phases.as_ref().and_then(|phases| phases.others.idle.as_ref()) {
            case.idle.add((record, measured), &idle.latency);
        }
        if let Some(jitter) = samples.lateness.as_ref().filter(|_| measured.primary().periodic.is_some()) {
            case.jitter.add((record, measured), jitter);
        }
    }

    pub fn add_trips(&mut self, record: &RoundRecord, sampled: &SampledRound) {
        self.cases.entry(record.case_id.clone()).or_default().trips.get_or_insert_default().add(record, sampled);
    }

    /// Summarizes each case: cases of `plan_order` first (measured or not), then other cases in order of appearance.
    ///
    /// `cards` and `rounds` belong to the run; `states` holds the machine's states during its rounds. Intervals have
    /// the confidence 1 - `alpha`. A case without samples has an empty curve and no modes.
    pub fn summaries(
        &self,
        plan_order: &[Case],
        cards: &SavedCards,
        rounds: &[RoundRecord],
        states: &States,
        alpha: f64,
    ) -> Vec<CaseSummary> {
        let by_case = valid_rounds::by_case(rounds);
        let mut seen = BTreeSet::new();
        let mut summaries: Vec<CaseSummary> = plan_order
            .iter()
            .map(|case| (case.id(), case))
            .chain(rounds.iter().map(|round| (round.case_id.clone(), &round.order.case)))
            .filter(|(id, _)| seen.insert(id.clone()))
            .map(|(id, case)| {
                let rounds = by_case.get(id.as_str()).map_or(&[][..], Vec::as_slice);
                let judged = valid_rounds::judged(rounds.iter().copied());
                let all_shown = valid_rounds::too_few_valid(&judged);
                let omitted = judged.iter().filter(|judged| judged.why.is_some()).map(|judged| judged.round.number);
                let omitted: BTreeSet<u32> = omitted.collect();
                let none = DigestOfCase::default();
                let digest = self.cases.get(&id).unwrap_or(&none);
                let histograms = [&digest.latencies, &digest.idle, &digest.jitter];
                let histograms = histograms.map(|of| of.shown(&omitted, all_shown));
                let reliable = cards.reliable(&case.primary().transport);
                let histograms = histograms.each_ref().map(Option::as_deref);
                let budget = digest.trips.as_ref().and_then(|trips| trips.budget(rounds, alpha));
                let exceeds = self.bound_ns.and_then(|bound_ns| digest.exceedances.exceeds(bound_ns, alpha));
                let mut summary = summary::summary((case, reliable), id, rounds, histograms, states, alpha);
                summary.primary_mut().exceeds = exceeds;
                CaseSummary { budget, ..summary }
            })
            .collect();
        exchanges::fill_speed_ups(&mut summaries, alpha);
        observer_costs::fill(&mut summaries, alpha);
        summaries
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::upgrade::earlier_cards;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{Fixture, back_to_back, control_loop, paced};

    #[test]
    fn summaries_follow_the_order_of_the_plan_and_other_cases_come_last() {
        let (tcp, udp, pipe) = (Case::ping_pong("tcp"), Case::ping_pong("udp"), Case::ping_pong("pipe"));
        let mut fixture = Fixture::new();
        fixture.rounds_of(&udp, &[10_000]);
        fixture.rounds_of(&pipe, &[5_000]);
        let summaries = Digest::new().summaries(
            &[tcp, pipe, Case::ping_pong("pipe")],
            &earlier_cards(),
            &fixture.rounds,
            &States::default(),
            0.05,
        );
        let order: Vec<&str> = summaries.iter().map(|summary| summary.case.primary().transport.as_str()).collect();
        assert_eq!(order, ["tcp", "pipe", "udp"]);
        assert!(!summaries[0].valid && summaries[0].rounds == 0, "planned but never run");
    }

    #[test]
    fn interrupted_and_failed_rounds_do_not_count() {
        let case = Case::ping_pong("tcp");
        let mut fixture = Fixture::new();
        fixture.round(&case, 0, &back_to_back(&[], &[1000; 50]));
        fixture.round_with(&case, 1, &back_to_back(&[], &[9000; 50]), |measured| measured.interrupted = true);
        fixture.failed(&case, 2, "the server is gone");
        let failed_ns = fixture.rounds[2].started_ns;
        let run = fixture.run();
        let summary = &run.cases[0];
        assert_eq!((summary.rounds, summary.primary().samples, summary.round_points.len()), (1, 50, 1));
        assert_eq!(summary.primary().curve.last().map(|point| point.latency_ns), Some(1000.0));
        assert_eq!(summary.failed_rounds, ["round 2: the server is gone (hint: none)"]);
        assert_eq!(summary.failed_rounds_started_ns, [failed_ns]);
        assert!(summary.valid);
    }

    #[test]
    fn a_round_point_counts_the_messages_that_did_not_arrive() {
        let case = Case::ping_pong("udp");
        let mut fixture = Fixture::new();
        fixture.round(&case, 0, &back_to_back(&[], &[1000; 50]));
        fixture.round_with(&case, 1, &back_to_back(&[], &[1000; 50]), |measured| {
            let ledger = &mut measured.flows[0].ledger;
            (ledger.sent, ledger.received, ledger.late) = (53, 50, 1);
        });
        let lost: Vec<u64> = fixture.run().cases[0].round_points.iter().map(|point| point.lost).collect();
        assert_eq!(lost, [0, 3]);
    }

    #[test]
    fn a_p9999_needs_ten_samples_above_it() {
        let figures = |jitters_ns: &[(u64, u64)]| {
            let mut fixture = Fixture::new();
            fixture.round_with(&control_loop(), 0, &paced(1_000_000, jitters_ns), |measured| {
                measured.primary_mut().periodic = Some(hairpin_model::PeriodicCounts::default());
            });
            let figures = fixture.run().cases[0].primary().periodic.clone().unwrap();
            [figures.release_jitter_p9999_ns, figures.response_p9999_ns]
        };
        let jitters_ns: Vec<(u64, u64)> = (0..100_000).map(|k| (if k < 11 { 8_000 } else { 500 }, 100)).collect();
        assert_eq!(figures(&jitters_ns).map(|p9999| p9999.map(|ns| (ns / 100.0).round())), [Some(80.0), Some(81.0)]);
        assert_eq!(figures(&jitters_ns[1..]), [None; 2]);
    }

    proptest! {
        #[test]
        fn two_rounds_equal_one_with_all_messages(a in proptest::collection::vec(1_u64..1_000_000_000, 1..50),
                                                 b in proptest::collection::vec(1_u64..1_000_000_000, 1..50)) {
            let case = Case::ping_pong("tcp");
            let (mut parts, mut whole) = (Fixture::new(), Fixture::new());
            parts.round(&case, 0, &back_to_back(&[], &a));
            parts.round(&case, 1, &back_to_back(&[], &b));
            whole.round(&case, 0, &back_to_back(&[], &[a, b].concat()));
            let (parts, whole) = (parts.run(), whole.run());
            prop_assert_eq!(&parts.cases[0].primary().curve, &whole.cases[0].primary().curve);
            prop_assert_eq!(&parts.cases[0].primary().modes, &whole.cases[0].primary().modes);
        }

        #[test]
        fn the_order_of_rounds_does_not_matter(latencies in proptest::collection::vec(1_u64..1_000_000_000, 1..12)) {
            let case = Case::ping_pong("tcp");
            let mut fixture = Fixture::new();
            fixture.rounds_of(&case, &latencies);
            let mut rounds = fixture.rounds.clone();
            let summaries = |rounds: &[RoundRecord]| Digest::new().summaries(&fixture.plan, &earlier_cards(), rounds, &States::default(), 0.05);
            let forwards = summaries(&rounds);
            rounds.reverse();
            prop_assert_eq!(summaries(&rounds)[0].primary().latency_ns, forwards[0].primary().latency_ns);
        }

        #[test]
        fn the_interval_holds_the_figure(latencies in proptest::collection::vec(1_u64..3_000_000_000_000, 2..15)) {
            let mut fixture = Fixture::new();
            fixture.rounds_of(&Case::ping_pong("tcp"), &latencies);
            let run = fixture.run();
            let figures = &run.cases[0].primary().latency_ns;
            for figure in [figures.p50, figures.p90, figures.max, figures.mean, run.cases[0].primary().rate_per_s].into_iter().flatten() {
                prop_assert!(figure.low.is_none_or(|low| low <= figure.value), "{figure:?}");
                prop_assert!(figure.high.is_none_or(|high| figure.value <= high), "{figure:?}");
            }
        }
    }
}
