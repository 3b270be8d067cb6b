//! Chooses the transport for the needs of the plan.
//!
//! A case meets the needs if its figures are usable, the rate was reached, nothing was lost (unless loss is tolerated),
//! and its latency is within the bound. Of the cases that meet all needs, the lowest p99 wins; of those that p99 does not
//! separate, the lowest p50; of those alike, the least CPU time.

use std::cmp::Ordering;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::names::distinct;
use hairpin_model::one_way::WHOLE;
use hairpin_model::trace::End;
use hairpin_model::{
    Answer, CaseSummary, Choice, ChosenOptions, Figure, Invalid, JudgedCase, MessageCost, Needs, Placement, Run,
    Statement, UnmetNeed, Waiting, WouldChange, ledger,
};

use super::at_rate::{best, missed_rate, need_nodelay, not_separated, ranked_by};

/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;
/// A cheaper case takes at most this share of the chosen case's CPU time, to be worth a sentence.
const MAX_CHEAPER: f64 = 0.8;

pub(super) fn answer(run: &Run) -> Option<Answer> {
    let needs = run.plan.needs?;
    let rows: Vec<&CaseSummary> =
        run.cases.iter().filter(|row| row.case.replicate == 0 && row.primary().ledger.sent > 0).collect();
    let usable: Vec<&CaseSummary> = rows.iter().copied().filter(|row| row.valid).collect();
    // A case that lost most of its messages may have too few for a p99.
    let arrived: Vec<&CaseSummary> =
        usable.iter().copied().filter(|row| row.ledger().missing_share() < 0.5).collect();
    let ranked_by = ranked_by(&arrived);
    let judge = |row: &&CaseSummary| judged(row, &needs, row.compared(ranked_by));
    let mut cases: Vec<JudgedCase> = rows.iter().map(judge).collect();
    let fit = rows.iter().zip(&cases).filter(|(_, case)| case.unmet.is_empty()).map(|(row, _)| *row);
    let fit: Vec<&CaseSummary> = fit.collect();
    // A tail is uncertain, so among the cases that it does not separate the median decides.
    let candidates = not_separated(ranked_by, &fit, run.plan.alpha);
    let by = if candidates.len() > 1 { ComparedBy::P50 } else { ranked_by };
    let best = best(by, &candidates, run.plan.alpha);
    let best = best.map_or_else(Vec::new, |(first, alike)| [vec![first], alike].concat());
    let last = f64::INFINITY;
    let cost_ns = |row: &CaseSummary| cost(row).total_ns().unwrap_or(last);
    let chosen = best.iter().copied().min_by(|a, b| cost_ns(a).total_cmp(&cost_ns(b)));
    let place = |case: &JudgedCase| {
        let is_other = |row: &CaseSummary| row.id != case.case;
        let missing = if case.unmet.is_empty() { 0.0 } else { case.delivered_share.map_or(last, |share| -share) };
        let unmet = (case.unmet.contains(&UnmetNeed::Usable), case.unmet.len());
        let is_worse = (chosen.is_none_or(is_other), best.iter().all(|row| is_other(row)));
        (unmet, is_worse, missing, case.latency_ns.unwrap_or(last))
    };
    cases.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(Ordering::Equal));
    let of_chosen = chosen.zip(cases.first());
    cases.first()?;
    let choice = Choice {
        answer: String::new(),
        transport: chosen.map(|row| row.case.primary().transport.clone()),
        options: chosen.map(|row| ChosenOptions {
            waiting: row.case.ends.waiting,
            placement: row.case.ends.placement,
            socket: row.case.primary().options.clone(),
        }),
        cost: of_chosen.map(|(_, case)| case.cost),
        ranked_by,
        not_separated: candidates
            .iter()
            .filter(|row| best.iter().all(|other| other.id != row.id))
            .map(|row| row.id.clone())
            .collect(),
        alike: cases.iter().take(best.len()).skip(1).map(|case| case.case.clone()).collect(),
        would_change: would_change(run, &needs, of_chosen, &cases),
        cases,
    };
    let of_options = chosen.into_iter().flat_map(|row| {
        let nodelay = need_nodelay(ranked_by, &usable, run.plan.alpha).into_iter().filter(|said| {
            matches!(said, Statement::NeedsNodelay { case, .. } if *case == row.id || choice.alike.contains(case))
        });
        std::iter::once(Statement::ChosenOptions).chain(nodelay)
    });
    let first = if usable.is_empty() { Statement::NothingUsable } else { Statement::Chosen };
    let statements = std::iter::once(first).chain(of_options);
    let changes = (!choice.would_change.is_empty()).then_some(Statement::ChangesChoice);
    Some(Answer { statements: statements.chain(changes).collect(), choice: Some(choice), ..Answer::default() })
}

fn judged(row: &CaseSummary, needs: &Needs, latency: Option<Figure>) -> JudgedCase {
    let ledger = row.ledger();
    let share = match row.one_way() {
        Some(one_way) => one_way.delivered_share.and_then(Figure::finite),
        None => Some(1.0 - ledger.missing_share()),
    };
    let arrived = 1.0 - ledger.missing_share();
    // A load that fills a receive buffer or a queue of the link does not have its rate.
    let overflow = |cause: &str| cause.starts_with(ledger::RECEIVE_BUFFER) || cause.ends_with("-queue");
    let overflowed: u64 = ledger.lost.iter().filter(|(cause, _)| overflow(cause)).map(|(_, lost)| *lost).sum();
    let keeps_up = share.is_some_and(|share| share >= WHOLE * arrived);
    let is_late = |latency: Figure| needs.p99_ns.is_some_and(|bound_ns| latency.value > bound_ns as f64);
    let explained = |reason: &Invalid| matches!(reason, Invalid::Saturated { .. } | Invalid::Unreliable { .. });
    let found = [
        (UnmetNeed::Usable, !row.reasons.iter().all(explained) || (row.reasons.is_empty() && !row.valid)),
        (UnmetNeed::Rate, missed_rate(row) || !keeps_up || overflowed as f64 > (1.0 - WHOLE) * ledger.sent as f64),
        (UnmetNeed::NoLoss, !needs.may_lose && ledger.received < ledger.sent),
        (UnmetNeed::Latency, latency.is_none_or(is_late)),
    ];
    JudgedCase {
        case: row.id.clone(),
        transport: row.case.primary().transport.clone(),
        latency_ns: latency.and_then(Figure::finite),
        delivered_share: share,
        cost: cost(row),
        unmet: found.into_iter().filter(|(_, is_unmet)| *is_unmet).map(|(need, _)| need).collect(),
    }
}

fn cost(row: &CaseSummary) -> MessageCost {
    if let Some(one_way) = row.one_way() {
        let ns = |figure: Option<Figure>| Some(figure?.finite()? * 1e3);
        let per_million = one_way.cpu_seconds_per_million;
        return MessageCost { client_ns: ns(per_million.client), server_ns: ns(per_million.server) };
    }
    let of = |role: End| {
        let end = row.end(&row.primary().flow.id, role)?;
        (row.primary().samples > 0).then(|| end.cpu_seconds * 1e9 / row.primary().samples as f64)
    };
    MessageCost { client_ns: of(End::Client), server_ns: of(End::Server) }
}

fn would_change(
    run: &Run,
    needs: &Needs,
    chosen: Option<(&CaseSummary, &JudgedCase)>,
    cases: &[JudgedCase],
) -> Vec<WouldChange> {
    let cheaper = chosen.and_then(|(_, chosen)| {
        let met = cases.iter().filter(|case| case.unmet.is_empty());
        let cheapest =
            met.filter_map(|case| Some((case.cost.total_ns()?, case))).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let is_cheaper = cheapest.0 <= MAX_CHEAPER * chosen.cost.total_ns()?;
        is_cheaper.then(|| WouldChange::CpuTime { case: cheapest.1.case.clone() })
    });
    let lossy = run.skipped.iter().map(|skipped| skipped.transport.as_str()).filter(|name| !run.cards.reliable(name));
    let lossy: Vec<String> = distinct(lossy).into_iter().map(str::to_owned).collect();
    let lossy = (!lossy.is_empty() && !needs.may_lose).then_some(WouldChange::LossTolerated { transports: lossy });
    let higher = chosen.and_then(|(row, case)| full_at_per_s(row, case.cost));
    let packet = needs.mtu_bytes.filter(|mtu_bytes| needs.size_bytes + HEADER_BYTES > u64::from(*mtu_bytes));
    let placed = |place: &Placement| run.cases.iter().any(|row| row.case.ends.placement == *place);
    let is_local = !run.cases.iter().any(|row| row.case.crosses_a_network());
    let elsewhere = [Placement::SameCpu, Placement::CrossCpu].into_iter().filter(|place| is_local && !placed(place));
    let elsewhere: Vec<Placement> = elsewhere.collect();
    [
        cheaper,
        lossy,
        packet.map(|mtu_bytes| WouldChange::LargerMtu { mtu_bytes }),
        (!elsewhere.is_empty()).then_some(WouldChange::OtherPlacement { placements: elsewhere }),
        higher.map(|per_s| WouldChange::HigherRate { per_s }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the rate at which the CPU time per message fills a CPU; `None` for ends that spin, which always fill one.
/// The sender of one-way messages does not count, because keeping to the rate takes most of its CPU time.
fn full_at_per_s(row: &CaseSummary, cost: MessageCost) -> Option<f64> {
    if row.case.ends.waiting == Waiting::Spin {
        return None;
    }
    let client_ns = cost.client_ns.filter(|_| row.one_way().is_none());
    let ends = [client_ns, cost.server_ns].into_iter().flatten();
    let busiest_ns =
        if row.case.ends.placement == Placement::SameCpu { ends.sum() } else { ends.fold(0.0, f64::max) };
    (busiest_ns > 0.0).then(|| 1e9 / busiest_ns)
}

#[cfg(test)]
mod tests {
    use hairpin_model::options::OptionName;
    use hairpin_model::run::Skipped;
    use hairpin_model::{BothEnds, Case};

    use super::super::answer;
    use super::*;
    use crate::fixture::one_way::{Counted, offered};
    use crate::fixture::{Fixture, at_rate, paced};

    const RATE: f64 = 5_000.0;

    fn needs() -> Needs {
        Needs { size_bytes: 64, rate_per_s: RATE, ..Needs::default() }
    }

    fn counted(latency_us: u64) -> Counted {
        Counted { sent_per_s: RATE, arrived: 1.0, latency_ns: latency_us * 1000 }
    }

    /// A run of one-way cases for these needs, each with the CPU time per message of its receiver, in us.
    fn run_of(needs: Needs, cases: &[(Case, Counted, f64)]) -> Run {
        let mut fixture = Fixture::new();
        cases.iter().for_each(|(case, counted, _)| fixture.one_way(case, *counted));
        let mut run = fixture.run();
        run.plan.needs = Some(needs);
        for (row, (_, _, cpu_us)) in run.cases.iter_mut().zip(cases) {
            let cost = BothEnds { client: Some(Figure::bare(60.0)), server: Some(Figure::bare(*cpu_us)) };
            row.primary_mut().one_way.as_mut().unwrap().cpu_seconds_per_million = cost;
            // What a link lost.
            let lost = &mut row.primary_mut().ledger.lost;
            if let Some(messages) = lost.remove(ledger::RECEIVE_BUFFER) {
                lost.insert("link-loss".to_owned(), messages);
            }
        }
        run
    }

    fn choice(run: &Run) -> Choice {
        answer(run).choice.unwrap()
    }

    fn unmet(choice: &Choice, transport: &str) -> Vec<UnmetNeed> {
        choice.cases.iter().find(|case| case.transport == transport).unwrap().unmet.clone()
    }

    #[test]
    fn among_cases_that_p99_does_not_separate_the_lowest_p50_is_chosen() {
        let [pipe, fifo] = ["pipe", "fifo"].map(|transport| at_rate(Case::ping_pong(transport), 1000.0));
        let mut fixture = Fixture::new();
        let messages = |usual: u64, slow: u64| -> Vec<(u64, u64)> {
            (0..150).map(|message| (0, if message % 50 == 0 { slow } else { usual })).collect()
        };
        for block in 0..12 {
            let [pipe_slow, fifo_slow] = if block % 2 == 0 { [20_000, 44_000] } else { [40_000, 30_000] };
            fixture.round(&pipe, block, &paced(1_000_000, &messages(9_000, pipe_slow)));
            fixture.round(&fifo, block, &paced(1_000_000, &messages(5_000, fifo_slow)));
        }
        let mut run = fixture.run();
        run.plan.needs = Some(Needs { reply: true, rate_per_s: 1000.0, ..needs() });
        let choice = choice(&run);
        let p99 = |case: &Case| run.case(&case.id()).unwrap().primary().latency_ns.p99.unwrap().value;
        assert!(p99(&fifo) > 1.1 * p99(&pipe), "the other order");
        assert_eq!(choice.transport.as_deref(), Some("fifo"));
        assert_eq!((choice.alike.len(), choice.not_separated.clone()), (0, vec![pipe.id()]));
    }

    #[test]
    fn the_lowest_p99_that_meets_the_bound_is_chosen() {
        let of = |p99_ns| {
            let cases = [(offered("tcp", RATE), counted(400), 5.0), (offered("pipe", RATE), counted(100), 5.0)];
            choice(&run_of(Needs { p99_ns, ..needs() }, &cases))
        };
        let free = of(None);
        assert_eq!((free.transport.as_deref(), free.alike.len()), (Some("pipe"), 0));
        assert_eq!(free.options.unwrap().waiting, Waiting::Block);
        let bounded = of(Some(200_000));
        assert_eq!(bounded.transport.as_deref(), Some("pipe"));
        assert_eq!(unmet(&bounded, "tcp"), [UnmetNeed::Latency]);
        let impossible = of(Some(50_000));
        assert_eq!((impossible.transport.as_deref(), impossible.cost), (None, None));
        assert_eq!(impossible.cases[0].transport, "pipe", "the closest first");
        assert_eq!(impossible.best(), []);
    }

    #[test]
    fn a_case_that_misses_the_rate_is_not_chosen_however_fast() {
        let behind = Counted { sent_per_s: 0.9 * RATE, ..counted(10) };
        let cases = [(offered("pipe", RATE), behind, 5.0), (offered("tcp", RATE), counted(400), 5.0)];
        let found = choice(&run_of(needs(), &cases));
        assert_eq!(found.transport.as_deref(), Some("tcp"));
        // Its figures must not be used, because the sender was saturated.
        assert_eq!(unmet(&found, "pipe"), [UnmetNeed::Rate]);
    }

    #[test]
    fn tolerated_loss_changes_the_choice_unless_a_buffer_overflowed() {
        let of = |may_lose, cause: &str| {
            let lossy = Counted { arrived: 0.97, ..counted(100) };
            let cases = [(offered("udp", RATE), lossy, 5.0), (offered("tcp", RATE), counted(400), 5.0)];
            let mut run = run_of(Needs { may_lose, ..needs() }, &cases);
            let lost = &mut run.cases[0].primary_mut().ledger.lost;
            *lost = lost.values().map(|messages| (cause.to_owned(), *messages)).collect();
            let found = choice(&run);
            (found.transport.clone().unwrap(), unmet(&found, "udp"))
        };
        assert_eq!(of(false, "link-loss"), ("tcp".to_owned(), vec![UnmetNeed::NoLoss]));
        assert_eq!(of(true, "link-loss"), ("udp".to_owned(), vec![]));
        assert_eq!(of(true, ledger::RECEIVE_BUFFER), ("tcp".to_owned(), vec![UnmetNeed::Rate]));
        assert_eq!(of(true, "link-queue"), ("tcp".to_owned(), vec![UnmetNeed::Rate]));
    }

    #[test]
    fn of_cases_alike_the_one_with_the_least_cpu_time_is_chosen() {
        let cases = [
            (offered("tcp", RATE), counted(100), 9.0),
            (offered("pipe", RATE), counted(104), 5.0),
            (offered("fifo", RATE), counted(103), 7.0),
            (offered("unix-stream", RATE), counted(110), 1.0),
        ];
        let run = run_of(needs(), &cases);
        let found = choice(&run);
        let order: Vec<&str> = found.cases.iter().map(|case| case.transport.as_str()).collect();
        assert_eq!(order, ["pipe", "tcp", "fifo", "unix-stream"], "unix-stream is separated and 10 % slower");
        assert_eq!(found.alike, [cases[0].0.id(), cases[2].0.id()]);
        assert_eq!(found.cost.unwrap().server_ns, Some(5_000.0));
        assert_eq!(found.would_change.last(), Some(&WouldChange::HigherRate { per_s: 200_000.0 }));
    }

    #[test]
    fn what_would_change_the_choice_has_evidence_or_is_not_measured() {
        let spinning = offered("pipe", RATE).with(|case| case.ends.waiting = Waiting::Spin);
        let nodelay = offered("tcp", RATE).with(|case| {
            case.primary_mut().options = case.primary().options.clone().with(OptionName::Nodelay, "on");
        });
        let cases = [
            (spinning, counted(10), 200.0),
            (nodelay.clone(), counted(50), 5.0),
            (offered("tcp", RATE), counted(40_000), 2.0),
        ];
        let mut run = run_of(Needs { size_bytes: 1_473, mtu_bytes: Some(1_500), ..needs() }, &cases[..2]);
        run.skipped.push(Skipped { transport: "udp".to_owned(), case: None, reason: "may lose".to_owned() });
        let expected = [
            WouldChange::CpuTime { case: nodelay.id() },
            WouldChange::LossTolerated { transports: vec!["udp".to_owned()] },
            WouldChange::LargerMtu { mtu_bytes: 1_500 },
            WouldChange::OtherPlacement { placements: vec![Placement::SameCpu] },
        ];
        assert_eq!(choice(&run).would_change, expected);
        run.plan.needs = Some(Needs { size_bytes: 1_472, may_lose: true, ..run.plan.needs.unwrap() });
        assert_eq!(choice(&run).would_change, [expected[0].clone(), expected[3].clone()]);
        let without = run_of(needs(), &cases[1..]);
        let said = answer(&without).statements;
        let needs_it =
            |said: &Statement| matches!(said, Statement::NeedsNodelay { case, .. } if *case == nodelay.id());
        assert!(said.iter().any(needs_it), "{said:?}");
    }

    #[test]
    fn without_usable_cases_nothing_is_chosen() {
        let mut run = run_of(needs(), &[(offered("tcp", RATE), counted(10), 5.0)]);
        run.cases[0].valid = false;
        let found = answer(&run);
        assert_eq!(found.statements[0], Statement::NothingUsable);
        assert_eq!(unmet(found.choice.as_ref().unwrap(), "tcp"), [UnmetNeed::Usable]);
    }
}
