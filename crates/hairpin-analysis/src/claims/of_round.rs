//! Computes figures of one round, in their base units.

use hairpin_model::latency_budget::parts::{RUN_QUEUE, SEND_QUEUE, SEND_STACK, WAKE_UP, WORK};
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Case, CaseSummary, ExchangeCounts, FigureName, Measured as MeasuredRound, RoundRecord, Run};

use crate::latency_budget::part_ns;
use crate::open_loop::sent_per_s;
use crate::{one_way, periodic, streams, valid_rounds};

/// Returns the figure, in its base unit, of each measured round that has this figure, with the round's block.
pub(super) fn by_block(name: FigureName, case: &CaseSummary, run: &Run) -> Vec<(u32, f64)> {
    let rounds = run.rounds.iter().filter(|round| round.case_id == case.id);
    let counted: Vec<_> = if matches!(name, FigureName::Work | FigureName::SendStack | FigureName::Scheduling) {
        rounds.filter_map(|round| Some((round, round.measured_as(Purpose::Stamped)?))).collect()
    } else {
        valid_rounds::timed_rounds(rounds)
    };
    let figure =
        |(round, measured): (&RoundRecord, _)| Some((round.order.block, round_figure(name, case, measured)?));
    counted.into_iter().filter_map(figure).collect()
}

fn round_figure(name: FigureName, case: &CaseSummary, round: &MeasuredRound) -> Option<f64> {
    let flow = case.case.primary();
    let figures = &round.primary().figures;
    let latency = &figures.latency_ns;
    let each = |of: fn(&ExchangeCounts) -> Option<u64>| {
        let counts = round.primary().exchange_counts.filter(|counts| counts.exchanges > 0)?;
        Some(of(&counts)? as f64 / counts.exchanges as f64)
    };
    let received = round.primary().received.as_ref();
    let goodput = || received?.goodput_bytes_per_s();
    let calls = |role: End| one_way::system_calls_per_message(flow, round, role);
    let cpu_ns = |role: End| one_way::cpu_ns_per_message(flow, round, role);
    let size_bytes = flow.load.size_bytes() as f64;
    match name {
        FigureName::P50 => Some(latency.p50),
        FigureName::P99 => Some(latency.p99),
        FigureName::P999 => Some(latency.p999),
        FigureName::Max => Some(latency.max),
        FigureName::Mean => Some(latency.mean),
        FigureName::ServiceP50 => figures.service_ns.map(|service| service.p50),
        FigureName::ServiceMean => figures.service_ns.map(|service| service.mean),
        FigureName::First if case.primary().exchanges.is_some() => figures.early_exchanges_ns.first().copied(),
        FigureName::First => Some(round.primary().first_message_ns as f64),
        FigureName::Rate => Some(figures.rate_per_s),
        FigureName::BytesPerMs => Some(figures.rate_per_s * size_bytes / 1e3),
        FigureName::Segments => each(|counts| counts.segments),
        FigureName::PureAcks => each(|counts| counts.pure_acks),
        FigureName::LostShare => received_share(round).map(|share| 1.0 - share),
        FigureName::ReceivedShare => received_share(round),
        FigureName::SentBytes => Some(sent_bytes_per_s(&case.case, round)),
        FigureName::ReceivedBytes => Some(sent_bytes_per_s(&case.case, round) * received_share(round)?),
        FigureName::InFlight => Some(figures.rate_per_s * latency.mean / 1e9),
        FigureName::ReceivedPerS => Some(goodput()? / size_bytes.max(1.0)),
        FigureName::SentPerS => one_way::sent_per_s(round.primary()),
        FigureName::Goodput => goodput(),
        FigureName::ClientSystemCalls => calls(End::Client),
        FigureName::ServerSystemCalls => calls(End::Server),
        FigureName::ClientCpuPerMillion => Some(cpu_ns(End::Client)? / 1e9 * 1e6),
        FigureName::ServerCpuPerMillion => Some(cpu_ns(End::Server)? / 1e9 * 1e6),
        FigureName::ClientCpuPerGb => Some(cpu_ns(End::Client)? / size_bytes),
        FigureName::ServerCpuPerGb => Some(cpu_ns(End::Server)? / size_bytes),
        FigureName::Fairness => one_way::fairness(&received?.connection_bytes),
        FigureName::BlockedShare => {
            let [timed, waited, _] = streams::blocked(received?)?;
            Some(waited as f64 / timed as f64)
        }
        FigureName::ReverseShare => one_way::reverse_share(flow, round),
        FigureName::ReleaseJitterP50 => {
            figures.lateness_ns.filter(|_| flow.load.periodic().is_some()).map(|of| of.p50)
        }
        FigureName::WakeUpsPerPeriod => periodic::per_period(flow, round, |client| client.voluntary_switches),
        FigureName::ClientCpuPerPeriod => periodic::per_period(flow, round, |client| client.cpu_ns),
        FigureName::TimeInStates | FigureName::SmallestPeriod | FigureName::Exceeds => None,
        FigureName::ReverseBytes => Some(one_way::reverse_share(flow, round)? * goodput()?),
        FigureName::Work => part_ns(round, &[WORK]),
        FigureName::SendStack => part_ns(round, &[SEND_STACK, SEND_QUEUE]),
        FigureName::Scheduling => part_ns(round, &[RUN_QUEUE, WAKE_UP]),
    }
}

/// Returns the share of messages that were received or answered, in time or late. For a probe, this is the share in
/// the loaded phase, like the probe's latency.
fn received_share(round: &MeasuredRound) -> Option<f64> {
    let flow = round.primary();
    let ledger = flow.phases.as_ref().map_or(&flow.ledger, |phases| &phases.by_phase.loaded.ledger);
    (ledger.sent > 0).then(|| (ledger.received + ledger.late) as f64 / ledger.sent as f64)
}

/// Returns the bytes sent per second: for one-way loads over the time from the first send to the last; for others over
/// the scheduled time, or in a closed loop over the duration of the round.
fn sent_bytes_per_s(case: &Case, round: &MeasuredRound) -> f64 {
    let of_others = || {
        let by_length = if round.duration_ns == 0 {
            0.0
        } else {
            round.primary().ledger.sent as f64 * 1e9 / round.duration_ns as f64
        };
        case.primary().load.rate_per_s().map_or(by_length, |asked| sent_per_s(asked, round))
    };
    one_way::sent_per_s(round.primary()).unwrap_or_else(of_others) * case.primary().load.size_bytes() as f64
}
