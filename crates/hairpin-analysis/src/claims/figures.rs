//! Figures by name, in the unit in which a text publishes them, and ratios of them.

use hairpin_model::case::Case;
use hairpin_model::claim::{FigureName, Measure};
use hairpin_model::figure::Figure;
use hairpin_model::judged_claim::{Judgement, Verdict};
use hairpin_model::round::{ExchangeCounts, Measured as MeasuredRound};
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

use super::place::without;
use super::selection::select;
use crate::compare::{as_ratio, difference_by_block, logarithms_by_block, over_points, step_share, widened};
use crate::counted;
use crate::open_loop::{asked_per_s, sent_per_s};
use crate::statistics::interval::median_over;

/// The unit of ratios: how many times.
pub(super) const TIMES: &str = "x";

/// A measured figure and its unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) figure: Figure,
    pub(super) unit: String,
    /// What was measured, in words: `p50 of tcp block same-cpu`.
    pub(super) what: String,
}

impl Measured {
    /// The judgement with this figure in it.
    pub(super) fn judged(&self, verdict: Verdict, ratio: Option<f64>, why: String) -> Judgement {
        Judgement {
            measured: Some(self.figure),
            measured_unit: Some(self.unit.clone()),
            ratio: ratio.filter(|ratio| ratio.is_finite()),
            verdict: Some(verdict),
            why,
        }
    }
}

/// What the measure asks for, in `unit`; or the verdict that its absence gives.
pub(super) fn measure(of: &Measure, unit: &str, run: &Run) -> Result<Measured, Judgement> {
    let case = select(run, &of.case)?;
    let name = in_words(of.figure);
    if let Some(against) = &of.against {
        let baseline = select(run, against)?;
        let figure = ratio(of.figure, baseline, case, run)?;
        let what = format!("{name} of {} against {}", case.label, baseline.label);
        return Ok(Measured { figure, unit: TIMES.to_owned(), what });
    }
    let scale = scale(of.figure, unit).ok_or_else(|| {
        without(
            Verdict::CannotRun,
            format!(
                "the {name} is published in {unit}, a unit that it \
                                                            cannot have"
            ),
        )
    })?;
    let base = figure(case, of.figure, run)?;
    let figure = base.rising(|value| value * scale);
    Ok(Measured { figure, unit: unit.to_owned(), what: format!("{name} of {}", case.label) })
}

/// The figure for people.
pub(super) fn in_words(name: FigureName) -> &'static str {
    match name {
        FigureName::P50 => "p50",
        FigureName::P99 => "p99",
        FigureName::P999 => "p99.9",
        FigureName::Max => "maximum",
        FigureName::Mean => "mean",
        FigureName::ServiceP50 => "p50 from the actual send",
        FigureName::ServiceMean => "mean from the actual send",
        FigureName::First => "first exchange",
        FigureName::Rate => "rate",
        FigureName::BytesPerMs => "bytes/ms",
        FigureName::Segments => "segments per exchange",
        FigureName::PureAcks => "pure ACKs per exchange",
        FigureName::LostShare => "share of lost messages",
        FigureName::SentBytes => "rate sent",
        FigureName::ReceivedBytes => "rate answered",
        FigureName::InFlight => "number of requests in flight",
    }
}

/// `candidate` / `baseline` of a figure: the median of their rounds' ratios, block by block as comparisons are.
pub(super) fn ratio(
    name: FigureName,
    baseline: &CaseSummary,
    candidate: &CaseSummary,
    run: &Run,
) -> Result<Figure, Judgement> {
    // What the samples do not suffice for has no ratio either.
    let (one, other) = (figure(baseline, name, run)?, figure(candidate, name, run)?);
    let step = if scale(name, "ns").is_some() { step_share(one.value.min(other.value)) } else { 0.0 };
    let logarithms = |case: &CaseSummary| {
        logarithms_by_block(by_block(name, case, run).into_iter().filter(|(_, value)| *value > 0.0))
    };
    let over = over_points(baseline, run.plan.alpha);
    let ratio = difference_by_block(&logarithms(baseline), &logarithms(candidate), over);
    let ratio = ratio.map(|(difference, _)| as_ratio(widened(difference.figure(over.alpha), step)));
    ratio.ok_or_else(|| {
        let why = format!("the {} of {} or {} is 0", in_words(name), baseline.label, candidate.label);
        without(Verdict::CannotTell, why)
    })
}

/// A figure in its base unit: ns, 1/s, bytes/s, bytes/ms, a count, a share.
fn figure(case: &CaseSummary, name: FigureName, run: &Run) -> Result<Figure, Judgement> {
    let latency = &case.flow().latency_ns;
    let service = case.flow().service_ns.as_ref();
    let of_exchanges = case.flow().exchanges.as_ref();
    let over_rounds = || {
        let values: Vec<f64> = by_block(name, case, run).into_iter().map(|(_, value)| value).collect();
        median_over(&values, over_points(case, run.plan.alpha))
    };
    let found = match name {
        FigureName::P50 => latency.p50,
        FigureName::P99 => latency.p99,
        FigureName::P999 => latency.p999,
        FigureName::Max => latency.max,
        FigureName::Mean => latency.mean,
        FigureName::ServiceP50 => service.and_then(|service| service.p50),
        FigureName::ServiceMean => service.and_then(|service| service.mean),
        FigureName::First => of_exchanges.map_or(case.flow().first_message_ns, |figures| figures.first_exchange_ns),
        FigureName::Rate => case.flow().rate_per_s,
        FigureName::BytesPerMs => of_exchanges.and_then(|figures| figures.bytes_per_ms),
        FigureName::Segments => of_exchanges.and_then(|figures| figures.segments_per_exchange),
        FigureName::PureAcks => of_exchanges.and_then(|figures| figures.pure_acks_per_exchange),
        FigureName::LostShare => {
            over_rounds().map(|share| Figure { low: share.low.map(|low| low.max(0.0)), ..share })
        }
        FigureName::SentBytes | FigureName::ReceivedBytes | FigureName::InFlight => over_rounds(),
    };
    found.filter(|figure| figure.value.is_finite()).ok_or_else(|| {
        let why = format!("{} has no {}: {} samples are too few", case.label, in_words(name), case.flow().samples);
        without(Verdict::CannotTell, why)
    })
}

/// The figure of every measured round that has it, in its base unit, with the round's block.
fn by_block(name: FigureName, case: &CaseSummary, run: &Run) -> Vec<(u32, f64)> {
    let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
    let counted = counted::timed(rounds).into_iter();
    counted.filter_map(|(round, measured)| Some((round.order.block, of_round(name, case, measured)?))).collect()
}

fn of_round(name: FigureName, case: &CaseSummary, round: &MeasuredRound) -> Option<f64> {
    let figures = &round.flow().figures;
    let latency = &figures.latency_ns;
    let each = |of: fn(&ExchangeCounts) -> Option<u64>| {
        let counts = round.flow().exchange_counts.filter(|counts| counts.exchanges > 0)?;
        Some(of(&counts)? as f64 / counts.exchanges as f64)
    };
    match name {
        FigureName::P50 => Some(latency.p50),
        FigureName::P99 => Some(latency.p99),
        FigureName::P999 => Some(latency.p999),
        FigureName::Max => Some(latency.max),
        FigureName::Mean => Some(latency.mean),
        FigureName::ServiceP50 => figures.service_ns.map(|service| service.p50),
        FigureName::ServiceMean => figures.service_ns.map(|service| service.mean),
        FigureName::First if case.flow().exchanges.is_some() => figures.early_exchanges_ns.first().copied(),
        FigureName::First => Some(round.flow().first_message_ns as f64),
        FigureName::Rate => Some(figures.rate_per_s),
        FigureName::BytesPerMs => Some(figures.rate_per_s * case.case.flow().load.size_bytes() as f64 / 1e3),
        FigureName::Segments => each(|counts| counts.segments),
        FigureName::PureAcks => each(|counts| counts.pure_acks),
        FigureName::LostShare => answered_share(round).map(|share| 1.0 - share),
        FigureName::SentBytes => Some(sent_bytes_per_s(&case.case, round)),
        FigureName::ReceivedBytes => Some(sent_bytes_per_s(&case.case, round) * answered_share(round)?),
        FigureName::InFlight => Some(figures.rate_per_s * latency.mean / 1e9),
    }
}

/// Of the messages sent, the share that was answered, in time or late.
fn answered_share(round: &MeasuredRound) -> Option<f64> {
    let ledger = &round.flow().ledger;
    (ledger.sent > 0).then(|| (ledger.received + ledger.late) as f64 / ledger.sent as f64)
}

/// Bytes of messages a second: over the time for which they were due, in a closed loop over the time that they took.
fn sent_bytes_per_s(case: &Case, round: &MeasuredRound) -> f64 {
    let by_length =
        if round.duration_ns == 0 { 0.0 } else { round.flow().ledger.sent as f64 * 1e9 / round.duration_ns as f64 };
    let sent_per_s = asked_per_s(case).map_or(by_length, |asked| sent_per_s(asked, round));
    sent_per_s * case.flow().load.size_bytes() as f64
}

/// What one base unit of the figure is in `unit`; `None` where it has no such unit.
fn scale(name: FigureName, unit: &str) -> Option<f64> {
    match name {
        FigureName::P50
        | FigureName::P99
        | FigureName::P999
        | FigureName::Max
        | FigureName::Mean
        | FigureName::ServiceP50
        | FigureName::ServiceMean
        | FigureName::First => [("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)]
            .into_iter()
            .find(|(known, _)| *known == unit)
            .map(|(_, scale)| scale),
        FigureName::Rate => matches!(unit, "1/s" | "msg/s").then_some(1.0),
        FigureName::BytesPerMs => (unit == "bytes/ms").then_some(1.0),
        FigureName::Segments => (unit == "segments").then_some(1.0),
        FigureName::PureAcks => (unit == "ACKs").then_some(1.0),
        FigureName::LostShare => (unit == "share").then_some(1.0),
        FigureName::SentBytes | FigureName::ReceivedBytes => {
            let units = [("bytes/s", 1.0), ("KiB/s", 1.0 / 1024.0), ("MiB/s", 1.0 / 1_048_576.0)];
            units.into_iter().find(|(known, _)| *known == unit).map(|(_, scale)| scale)
        }
        FigureName::InFlight => (unit == "requests").then_some(1.0),
    }
}

/// Whether what the measure asks for can be told in that unit.
#[must_use]
pub fn fits_unit(of: &Measure, unit: &str) -> bool {
    if of.against.is_some() { unit == TIMES } else { scale(of.figure, unit).is_some() }
}
