//! Computes the figures of a probe before, during and after a load, for one round and over the rounds of a case.

use hairpin_model::flow::Direction;
use hairpin_model::phases::Phase;
use hairpin_model::{
    AddedFigures, ByPhase, Case, CpuFigures, CurvePoint, EndReport, Figure, FlowRecord, Ledger, LeftOut, LoadFigures,
    LoadedMoment, LoadedOverTime, Measured, Percentiles, PhaseCounts, PhaseFigures, PhasesOfCase, ProbeFigures,
    ProbePhase, ProbePhases, ProbeTimeLine, QueueBytes, RoundLeftOut, Samples, Span, UnderLoad,
};

use crate::in_span::{goodput, intervals, length_ns, loads, max_queue_bytes, mean_latency, queue_bytes, slice};
use crate::over_rounds::OverRounds;
use crate::responsiveness;
use crate::round_figures::percentiles;
use crate::statistics::location::median;

/// Maximum number of points of a case over time.
const MAX_MOMENTS: u64 = 150;
/// A latency still rises if it grows by more than this ratio and by more than this difference in ns.
const MIN_RISE: (f64, f64) = (1.15, 5e6);
/// Maximum delay of a load's start, and maximum shortfall of its duration, as a share of the loaded phase.
const MAX_TIMING_ERROR: f64 = 0.1;
/// Maximum median latency of an idle path: this multiple of the minimum latency, plus this time in ns.
const MAX_IDLE_LATENCY: (f64, f64) = (3.0, 1e6);
/// Maximum median of the bytes in the link's queue in the idle phase: two Ethernet packets.
const MAX_IDLE_QUEUE_BYTES: f64 = 3028.0;
/// Maximum ratio of a recovered latency to the idle median.
const MAX_RECOVERED_RATIO: f64 = 2.0;

/// Sets the probe's figures by phase from its samples; rounds without phases stay unchanged. Figures read from a file
/// are kept, because the counts to compute them are not saved.
pub fn phase_figures(flow: &mut FlowRecord, spans: Option<&ByPhase<Span>>, samples: Option<&Samples>) {
    let Some((samples, phases)) = samples.and_then(|samples| Some((samples, samples.phases.as_ref()?))) else {
        return;
    };
    let loaded_ns = spans.map_or(0.0, |spans| length_ns(spans.loaded));
    if loaded_ns > 0.0 {
        flow.figures.rate_per_s = samples.latency.len() as f64 * 1e9 / loaded_ns;
    }
    // Changes between phases are not a trend within the round.
    flow.figures.cold_start = None;
    flow.figures.course_ns = Vec::new();
    if flow.phases.is_some() {
        return;
    }
    let uncounted_cause = uncounted_cause(&flow.ledger, &phases.counts);
    let by_phase = phases.counts.clone();
    let of = |phase: Phase| {
        let latency = phases.others.get(phase).as_ref().map_or(&samples.latency, |others| &others.latency);
        ProbePhase {
            samples: latency.len(),
            latency_ns: percentiles(latency),
            least_ns: if latency.is_empty() { 0.0 } else { latency.min() as f64 },
            ledger: ledger(by_phase.get(phase), uncounted_cause.as_deref()),
            trimmed: Some(responsiveness::trimmed(samples, phases, phase)).filter(|_| !latency.is_empty()),
        }
    };
    flow.phases = Some(ProbePhases { by_phase: ByPhase::of(of), over_time: phases.over_time.clone() });
}

/// Returns the only cause of losses that is not counted per message and phase. `None` unless there is exactly one
/// such cause, all losses have a cause, and the phases miss no more messages than this cause lost.
fn uncounted_cause(of_flow: &Ledger, counts: &ByPhase<PhaseCounts>) -> Option<String> {
    let counted: Vec<&String> = counts.each().flat_map(|(_, counts)| counts.lost.keys()).collect();
    let mut left = of_flow.lost.iter().filter(|(cause, _)| !counted.contains(cause));
    let (only, lost) = left.next()?;
    let of_phases: i64 = counts.each().map(|(_, counts)| ledger(counts, None).unexplained).sum();
    let is_sure = left.next().is_none() && of_flow.unexplained == 0;
    (is_sure && u64::try_from(of_phases).is_ok_and(|of_phases| of_phases <= *lost)).then(|| only.clone())
}

fn ledger(counts: &PhaseCounts, uncounted_cause: Option<&str>) -> Ledger {
    let PhaseCounts { sent, received, late, lost, .. } = counts.clone();
    let mut ledger = Ledger { sent, received, late, lost, ..Ledger::default() }.closed();
    if let (Some(cause), Ok(left)) = (uncounted_cause, u64::try_from(ledger.unexplained))
        && left > 0
    {
        ledger.lost.insert(cause.to_owned(), left);
    }
    ledger.closed()
}

pub(crate) fn omission_reason(measured: &Measured) -> Option<LeftOut> {
    let spans = measured.phases.as_ref()?;
    let phases = measured.primary().phases.as_ref()?;
    let (idle, loaded) = (&phases.by_phase.idle, &phases.by_phase.loaded);
    if idle.samples == 0 {
        return Some(LeftOut::IdleUnanswered);
    }
    let least_ns =
        phases.by_phase.each().map(|(_, phase)| phase.least_ns).filter(|ns| *ns > 0.0).fold(f64::INFINITY, f64::min);
    let (times, above_ns) = MAX_IDLE_LATENCY;
    if let Some(bytes) = idle_queue_bytes(measured, spans.idle) {
        if bytes > MAX_IDLE_QUEUE_BYTES {
            return Some(LeftOut::QueueNotIdle { bytes });
        }
    } else if idle.latency_ns.p50 > times * least_ns + above_ns {
        return Some(LeftOut::NotIdle { p50_ns: idle.latency_ns.p50, least_ns });
    }
    let allowed_ns = MAX_TIMING_ERROR * length_ns(spans.loaded);
    for load in loads(measured) {
        let late_ns = load.started_ns.map_or(0, |started_ns| started_ns.saturating_sub(spans.ramp.from_ns));
        if late_ns as f64 > allowed_ns {
            return Some(LeftOut::LoadLate { late_ns });
        }
        let received_ns = load.received.as_ref().map_or(0.0, |received| received.over_ns as f64);
        if received_ns + allowed_ns < length_ns(spans.loaded) {
            return Some(LeftOut::LoadShort { received_ns, loaded_ns: length_ns(spans.loaded) });
        }
    }
    if loads(measured).next().is_some() && loaded.samples > 0 {
        return still_rising(&phases.over_time, spans);
    }
    None
}

/// Returns the median bytes in the fuller queue of the link in the idle phase; `None` without a link's log.
fn idle_queue_bytes(measured: &Measured, idle: Span) -> Option<f64> {
    let of = |direction: Direction| queue_bytes(measured, direction, idle);
    [Direction::Up, Direction::Down].into_iter().filter_map(of).reduce(f64::max)
}

/// Returns the reason if the latency still rises in the loaded phase because the ramp was too short: the second half
/// of the phase is slower, and reaches a new maximum. With an oscillating load, such as CUBIC, the latency has
/// reached its maximum before.
fn still_rising(line: &ProbeTimeLine, spans: &ByPhase<Span>) -> Option<LeftOut> {
    let loaded = spans.loaded;
    let middle_ns = loaded.from_ns.midpoint(loaded.until_ns);
    let span = |from_ns: u64, until_ns: u64| Span { from_ns, until_ns };
    let [before, after] = [span(spans.ramp.from_ns, middle_ns), span(middle_ns, loaded.until_ns)];
    let mean = |span: Span| mean_latency(line, spans.idle.from_ns, span);
    let highest = |span: Span| {
        let means = slice(&line.mean_ns, intervals(spans.idle.from_ns, line.interval_ns, span));
        means.iter().copied().fold(0.0, f64::max)
    };
    let (first_ns, second_ns) = (mean(span(loaded.from_ns, middle_ns))?, mean(after)?);
    let (times, by_ns) = MIN_RISE;
    let rises = |second: f64, first: f64| second > times * first && second - first > by_ns;
    (rises(second_ns, first_ns) && rises(highest(after), highest(before)))
        .then_some(LeftOut::LoadUnsteady { first_ns, second_ns })
}

/// Returns the direction of a load that has the deepest queue in the loaded phase.
fn queue_direction(case: &Case, measured: &Measured) -> Option<Direction> {
    let spans = measured.phases.as_ref()?;
    let ways = case.loads().into_iter().map(|flow| flow.direction);
    let deepest = ways.filter_map(|way| Some((way, queue_bytes(measured, way, spans.loaded)?)));
    deepest.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(way, _)| way)
}

/// Summarizes the case over its rounds; `None` without a probe. `idle_curve` is the percentile curve of the idle phase.
pub(crate) fn summary(
    case: &Case,
    over_rounds: &OverRounds<'_>,
    idle_curve: Vec<CurvePoint>,
    left_out: Vec<RoundLeftOut>,
) -> Option<UnderLoad> {
    if !case.is_under_load() {
        return None;
    }
    let [mut idle, loaded, recovering] =
        [Phase::Idle, Phase::Loaded, Phase::Recovering].map(|of| phase(case, over_rounds, of));
    idle.probe.curve = idle_curve;
    let phases = PhasesOfCase { idle, loaded, recovering };
    let added = |of: fn(&Percentiles) -> f64| over_rounds.median(|measured| added_ns(measured, of));
    let has_p99 = |phase: &PhaseFigures| phase.probe.latency_ns.p99.is_some();
    let added_ns = AddedFigures {
        p50: added(|latency| latency.p50),
        p99: added(|latency| latency.p99).filter(|_| has_p99(&phases.idle) && has_p99(&phases.loaded)),
    };
    Some(UnderLoad {
        phases,
        added_ns,
        responsiveness_rpm: responsiveness::figure(case, over_rounds),
        recovered_after_ns: over_rounds.median(recovered_after_ns),
        rounds_left_out: Vec::new(),
        left_out,
        over_time: over_time(case, &over_rounds.measured),
    })
}

pub(crate) fn added_ns(measured: &Measured, of: fn(&Percentiles) -> f64) -> Option<f64> {
    let [idle, loaded] = [Phase::Idle, Phase::Loaded].map(|phase| {
        probe_phase(measured, phase).filter(|phase| phase.samples > 0).map(|phase| of(&phase.latency_ns))
    });
    Some(loaded? - idle?)
}

fn probe_phase(measured: &Measured, phase: Phase) -> Option<&ProbePhase> {
    Some(measured.primary().phases.as_ref()?.by_phase.get(phase))
}

fn probe(over_rounds: &OverRounds<'_>, phase: Phase) -> ProbeFigures {
    let of = |measured: &Measured| probe_phase(measured, phase).filter(|phase| phase.samples > 0).cloned();
    let all = over_rounds.measured.iter().filter_map(|measured| probe_phase(measured, phase));
    ProbeFigures {
        samples: all.clone().map(|phase| phase.samples).sum(),
        latency_ns: over_rounds
            .distribution(|measured| of(measured).map(|phase| (phase.samples, phase.latency_ns)))
            .unwrap_or_default(),
        ledger: all.fold(Ledger::default(), |all, phase| all.plus(&phase.ledger)),
        curve: Vec::new(),
    }
}

fn phase(case: &Case, over_rounds: &OverRounds<'_>, phase: Phase) -> PhaseFigures {
    let span = |measured: &Measured| Some(*measured.phases.as_ref()?.get(phase));
    let goodput_in_phase = |measured: &Measured| -> Option<f64> {
        (phase == Phase::Loaded).then(|| goodput(measured, span(measured)?))?
    };
    let p50 = over_rounds.median(|measured| queue_bytes(measured, queue_direction(case, measured)?, span(measured)?));
    let most = over_rounds.measured.iter().filter_map(|measured| {
        max_queue_bytes(measured, queue_direction(case, measured)?, span(measured)?).map(|bytes| bytes as f64)
    });
    PhaseFigures {
        probe: probe(over_rounds, phase),
        load: LoadFigures { goodput_bytes_per_s: over_rounds.median(goodput_in_phase) },
        queue_bytes: p50.map(|p50| QueueBytes { p50, max: most.fold(0.0, f64::max) }),
        cpu: CpuFigures {
            used: over_rounds.median(|measured| {
                let cpu_ns = |end: &EndReport| Some(end.phase_usage.as_ref()?.get(phase).cpu_ns as f64);
                let used_ns: Option<f64> = measured.ends.iter().map(cpu_ns).sum();
                Some(used_ns? / length_ns(span(measured)?)).filter(|used| used.is_finite())
            }),
            probe_waited_ns: over_rounds.median(|measured| waited_ns_per_message(measured, phase)),
        },
    }
}

pub(crate) fn waited_ns_per_message(measured: &Measured, phase: Phase) -> Option<f64> {
    let probe = &measured.primary().id;
    let ends = measured.ends.iter().filter(|end| end.flow == *probe);
    let waited: Option<u64> = ends.map(|end| Some(end.phase_usage.as_ref()?.get(phase).waited_for_cpu_ns)).sum();
    let sent = probe_phase(measured, phase)?.ledger.sent;
    (sent > 0).then_some(waited? as f64 / sent as f64)
}

pub(crate) fn added_wait_ns(measured: &Measured) -> Option<f64> {
    Some(waited_ns_per_message(measured, Phase::Loaded)? - waited_ns_per_message(measured, Phase::Idle)?)
}

/// Returns the time from the load's end to the end of the last interval that the load still slows, in ns. An interval
/// counts as slowed if the mean latencies in this and the previous interval exceed [`MAX_RECOVERED_RATIO`] times the
/// idle median. `None` if the last interval is still slowed, or if the median under load does not exceed this limit.
fn recovered_after_ns(measured: &Measured) -> Option<f64> {
    let spans = measured.phases.as_ref()?;
    let phases = measured.primary().phases.as_ref()?;
    let bound_ns = MAX_RECOVERED_RATIO * phases.by_phase.idle.latency_ns.p50;
    let (line, begin_ns) = (&phases.over_time, spans.idle.from_ns);
    if loads(measured).next().is_none() || bound_ns <= 0.0 || phases.by_phase.loaded.latency_ns.p50 <= bound_ns {
        return None;
    }
    let range = intervals(begin_ns, line.interval_ns, spans.recovering);
    let places = range.start as u64..;
    let all = places.zip(slice(&line.answered, range.clone())).zip(slice(&line.mean_ns, range));
    let (mut last_answered, mut last_slow, mut was_slow) = (None, None, true);
    for ((place, _), mean) in all.filter(|((_, count), _)| **count > 0) {
        let is_slow = *mean > bound_ns;
        if is_slow && was_slow {
            last_slow = Some(place);
        }
        (last_answered, was_slow) = (Some(place), is_slow);
    }
    let until_ns = |place: u64| begin_ns.saturating_add((place + 1).saturating_mul(line.interval_ns));
    match last_slow {
        None => last_answered.map(|_| 0.0),
        last if last == last_answered => None,
        Some(last) => Some(until_ns(last).saturating_sub(spans.recovering.from_ns) as f64),
    }
}

fn over_time(case: &Case, rounds: &[&Measured]) -> Option<LoadedOverTime> {
    let spans = rounds.iter().find_map(|measured| measured.phases.as_ref())?;
    let begin_ns = spans.idle.from_ns;
    let total_ns = spans.recovering.until_ns.checked_sub(begin_ns).filter(|total_ns| *total_ns > 0)?;
    let width_ns = total_ns.div_ceil(MAX_MOMENTS).max(1);
    let since = |ns: u64| ns.saturating_sub(begin_ns);
    let moments = (0..total_ns.div_ceil(width_ns)).map(|number| {
        let from_ns = begin_ns.saturating_add(number.saturating_mul(width_ns));
        let span = Span { from_ns, until_ns: from_ns.saturating_add(width_ns) };
        let each = |of: &dyn Fn(&Measured) -> Option<f64>| -> Vec<f64> {
            rounds.iter().filter_map(|measured| of(measured)).collect()
        };
        let latencies = each(&|measured| {
            let line = &measured.primary().phases.as_ref()?.over_time;
            mean_latency(line, measured.phases.as_ref()?.idle.from_ns, span)
        });
        let (least, most) =
            latencies.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
        LoadedMoment {
            at_ns: (number + 1).saturating_mul(width_ns),
            latency_ns: median(&latencies).map(|middle| Figure::new(middle, least, most)),
            goodput_bytes_per_s: median(&each(&|measured| goodput(measured, span))),
            queue_bytes: median(&each(&|measured| queue_bytes(measured, queue_direction(case, measured)?, span))),
        }
    });
    Some(LoadedOverTime {
        load_from_ns: since(spans.ramp.from_ns),
        loaded_from_ns: since(spans.loaded.from_ns),
        recovering_from_ns: since(spans.recovering.from_ns),
        until_ns: total_ns,
        moments: moments.collect(),
    })
}
