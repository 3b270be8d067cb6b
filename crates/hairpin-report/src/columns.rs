//! The columns of a case. The terminal, the page and the CSV table use the same list.

use std::collections::BTreeMap;

use hairpin_model::flow::Observer;
use hairpin_model::ladder::CaseKind;
use hairpin_model::quantities;
use hairpin_model::set_up::{SetUp, SetUpFigures};
use hairpin_model::summary::EARLY_EXCHANGES;
use hairpin_model::{
    Capture, CaseSummary, Exchange, ExchangeFigures, Figure, LatenessNs, Ledger, LinkSummary, Load, ObserverCost,
    OneWayFigures, PeriodicFigures, PhaseFigures, PhasesOfCase, QueueBytes, TraceSummary, fact, fact_names,
};

use crate::unit::Unit;

pub(crate) struct Column {
    /// Name in the CSV table; ends in the unit.
    pub(crate) name: &'static str,
    /// Title on the page, and after `|` a shorter one on the terminal if it differs.
    titles: &'static str,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Words(fn(&CaseSummary) -> String),
    Count(fn(&CaseSummary) -> u64),
    Number(Unit, fn(&CaseSummary) -> Option<f64>),
    Figure(Unit, fn(&CaseSummary) -> Option<Figure>),
}

impl Column {
    const fn of(name: &'static str, titles: &'static str, value: Value) -> Self {
        Self { name, titles, value }
    }

    const fn words(name: &'static str, of: fn(&CaseSummary) -> String) -> Self {
        Self::of(name, name, Value::Words(of))
    }

    const fn count(name: &'static str, of: fn(&CaseSummary) -> u64) -> Self {
        Self::of(name, name, Value::Count(of))
    }

    const fn figure(
        name: &'static str,
        title: &'static str,
        unit: Unit,
        of: fn(&CaseSummary) -> Option<Figure>,
    ) -> Self {
        Self::of(name, title, Value::Figure(unit, of))
    }

    const fn time(name: &'static str, title: &'static str, of: fn(&CaseSummary) -> Option<Figure>) -> Self {
        Self::figure(name, title, Unit::Time, of)
    }

    const fn plain(name: &'static str, title: &'static str, of: fn(&CaseSummary) -> Option<Figure>) -> Self {
        Self::figure(name, title, Unit::Plain, of)
    }

    const fn number(name: &'static str, unit: Unit, of: fn(&CaseSummary) -> Option<f64>) -> Self {
        Self::of(name, name, Value::Number(unit, of))
    }

    const fn titled(self, titles: &'static str) -> Self {
        Self { titles, ..self }
    }

    pub(crate) fn title(&self) -> &'static str {
        self.titles.split_once('|').map_or(self.titles, |(title, _)| title)
    }

    pub(crate) fn short(&self) -> &'static str {
        self.titles.split_once('|').map_or(self.titles, |(_, short)| short)
    }

    pub(crate) fn number_of(&self, row: &CaseSummary) -> Option<f64> {
        match self.value {
            Value::Words(_) => None,
            Value::Count(of) => Some(of(row) as f64),
            Value::Number(_, of) => of(row).filter(|number| number.is_finite()),
            Value::Figure(_, of) => of(row).and_then(Figure::finite),
        }
    }

    pub(crate) fn text(&self, row: &CaseSummary) -> String {
        match self.value {
            Value::Words(of) => of(row),
            Value::Count(of) => quantities::count(of(row)),
            Value::Number(unit, _) | Value::Figure(unit, _) => unit.text(self.number_of(row)),
        }
    }

    /// Returns the interval as text for the terminal and the page, if any.
    pub(crate) fn bounds(&self, row: &CaseSummary) -> Option<String> {
        match self.value {
            Value::Figure(unit, of) => unit.bounds(of(row)),
            _ => None,
        }
    }
}

/// Returns all columns, in the order of the CSV table.
pub(crate) fn all() -> impl Iterator<Item = &'static Column> {
    ALL.iter().copied().flatten()
}

pub(crate) fn by_name(name: &str) -> &'static Column {
    all().find(|column| column.name == name).expect("column names are constants of this crate")
}

const ALL: &[&[Column]] = &[
    CASE,
    ROUNDS,
    &LATENCY,
    &SERVICE,
    &LATENESS,
    PERIODIC,
    EXCEEDS,
    RATE,
    ONE_WAY,
    &SYSTEM_CALLS,
    &CONTEXT_SWITCHES,
    &CPU_PER_MILLION,
    &CPU_PER_GB,
    &PEAK_MEMORY,
    NEEDS,
    PACING,
    ONE_WAY_LOAD,
    UNDER_LOAD,
    &IDLE,
    &LOADED,
    &RECOVERING,
    LEDGER,
    CPU,
    EXCHANGE,
    &EXCHANGE_TIME,
    EXCHANGES,
    TRACE,
    LINK,
    STATE,
    &OTHER_STATE_LATENCY,
];

const CASE: &[Column] = &[
    Column::words("case_id", |row| row.id.clone()),
    Column::words("label", |row| row.label.clone()),
    Column::words("transport", |row| row.case.primary().transport.clone()),
    Column::words("waiting", |row| row.case.ends.waiting.to_string()),
    Column::words("placement", |row| row.case.ends.placement.to_string()),
    Column::words("ends", |row| row.case.ends.kind.to_string()),
    Column::count("size_bytes", |row| row.case.primary().load.size_bytes()),
    Column::count("reply_size_bytes", |row| row.case.primary().load.reply_size_bytes()),
    Column::words("options", |row| row.case.primary().options.to_string()),
    Column::words("link", |row| row.case.path.link.clone()),
    Column::words("load", |row| row.case.primary().load.kind().to_owned()),
    Column::words("direction", |row| row.case.primary().direction.to_string()),
    Column::count("connections", |row| u64::from(row.case.primary().connections)),
    Column::number("asked_rate_per_s", Unit::Rate, |row| row.case.primary().load.rate_per_s()),
    Column::words("cpu_idle", |row| row.case.ends.cpu_idle.to_string()),
    Column::count("replicate", |row| u64::from(row.case.replicate)),
];

const ROUNDS: &[Column] = &[
    Column::words("valid", |row| row.valid.to_string()),
    Column::words("why_invalid", |row| row.why_invalid.join("; ")),
    Column::count("rounds", |row| row.rounds),
    Column::count("failed_rounds", |row| row.failed_rounds.len() as u64),
    Column::count("samples", |row| row.primary().samples),
];

macro_rules! latencies {
    ($of:literal, $row:ident => $figures:expr) => {
        [
            Column::time(concat!($of, "_p50_ns"), "p50", |$row| $figures?.p50),
            Column::time(concat!($of, "_p90_ns"), "p90", |$row| $figures?.p90),
            Column::time(concat!($of, "_p99_ns"), "p99", |$row| $figures?.p99),
            Column::time(concat!($of, "_p999_ns"), "p99.9", |$row| $figures?.p999),
            Column::time(concat!($of, "_max_ns"), "max", |$row| $figures?.max),
            Column::time(concat!($of, "_mean_ns"), "mean", |$row| $figures?.mean),
        ]
    };
}

const LATENCY: [Column; 6] = latencies!("latency", row => Some(&row.primary().latency_ns));
const SERVICE: [Column; 6] = latencies!("service", row => row.primary().service_ns);
const LATENESS: [Column; 6] = latencies!("lateness", row => row.primary().lateness_ns);

/// Empty for a case that is not a control loop.
const PERIODIC: &[Column] = &[
    Column::number("period_ns", Unit::Time, |row| Some(row.case.primary().load.periodic()?.period_ns as f64))
        .titled("period"),
    Column::number("periods", Unit::Plain, |row| Some(periodic(row)?.periods as f64)),
    Column::number("misses", Unit::Plain, |row| Some(periodic(row)?.misses as f64)),
    Column::figure("miss_share", "missed", Unit::Share, |row| periodic(row)?.miss_share),
    Column::number("longest_miss_run", Unit::Plain, |row| Some(periodic(row)?.longest_miss_run as f64))
        .titled("consecutive misses, longest|run"),
    Column::time("release_jitter_p50_ns", "release jitter p50|jitter", |row| periodic(row)?.release_jitter_ns.p50),
    Column::time("release_jitter_p99_ns", "release jitter p99", |row| periodic(row)?.release_jitter_ns.p99),
    Column::time("release_jitter_max_ns", "release jitter max", |row| periodic(row)?.release_jitter_ns.max),
    Column::number("release_jitter_p9999_ns", Unit::Time, |row| periodic(row)?.release_jitter_p9999_ns)
        .titled("release jitter p99.99|p99.99"),
    Column::number("response_p9999_ns", Unit::Time, |row| periodic(row)?.response_p9999_ns).titled("p99.99"),
    Column::plain("wake_ups_per_period", "wake-ups per period|wake-ups", |row| periodic(row)?.wake_ups_per_period),
];

/// Empty without `--bound`.
const EXCEEDS: &[Column] = &[
    Column::number("bound_ns", Unit::Time, |row| Some(row.primary().exceeds?.bound_ns as f64)),
    Column::figure("exceeds_share", "above the bound", Unit::Share, |row| Some(row.primary().exceeds?.probability)),
    Column::number("exceeds_effective_samples", Unit::Plain, |row| Some(row.primary().exceeds?.effective_samples)),
];

fn periodic(row: &CaseSummary) -> Option<&PeriodicFigures> {
    row.primary().periodic.as_ref()
}

const EXCHANGE_TIME: [Column; 6] =
    latencies!("exchange", row => row.primary().exchanges.as_ref().map(|of| of.exchange_ns));
const OTHER_STATE_LATENCY: [Column; 6] =
    latencies!("other_state_latency", row => row.other_states.first().map(|other| other.latency_ns));

const RATE: &[Column] = &[
    Column::figure("rate_per_s", "rate", Unit::Rate, |row| row.primary().rate_per_s),
    Column::figure("goodput_bytes_per_s", "goodput", Unit::ByteRate, CaseSummary::goodput),
    Column::time("setup_ns", "set-up", |row| row.primary().setup_ns),
    Column::number("set_up_round_trips", Unit::Plain, |row| set_up(row)?.round_trips).titled("round trips|RTT"),
    Column::plain("set_up_packets", "packets", |row| set_up(row)?.packets),
    Column::figure("set_up_bytes", "bytes", Unit::Bytes, |row| set_up(row)?.bytes),
    Column::time("set_up_cpu_ns", "CPU", |row| set_up(row)?.cpu_ns),
    Column::time("first_message_ns", "first message|first", |row| row.primary().first_message_ns),
];

fn set_up(row: &CaseSummary) -> Option<&SetUpFigures> {
    row.primary().set_up.as_ref().map(SetUp::figures)
}

/// The columns of a figure that both ends have. Arguments: name without the end, title, short title, unit, figure.
macro_rules! both_ends {
    ($name:literal, $title:literal, $short:literal, $unit:expr, $row:ident => $of:expr) => {
        [
            Column::figure(concat!($name, "_client"), concat!($title, ", client|", $short, " c"), $unit, |$row| {
                $of?.client
            }),
            Column::figure(concat!($name, "_server"), concat!($title, ", server|", $short, " s"), $unit, |$row| {
                $of?.server
            }),
        ]
    };
}

/// Empty for a case with answers.
const ONE_WAY: &[Column] = &[
    Column::figure("received_per_s", "received per second|msg/s", Unit::Rate, |row| single(row)?.received_per_s),
    Column::figure("sent_per_s", "sent per second|sent/s", Unit::Rate, |row| single(row)?.sent_per_s),
    Column::figure("rate_against_none", "rate against none", Unit::Times, |row| {
        Some(observer(row)?.rate_against_none)
    }),
    Column::time("time_per_message_against_none_ns", "time per message against none", |row| {
        Some(observer(row)?.time_per_message_against_none)
    }),
    Column::number("offered_per_s", Unit::Rate, |row| single(row)?.offered_per_s).titled("offered|offered/s"),
    Column::figure("delivered_per_s", "delivered|delivered/s", Unit::Rate, |row| single(row)?.delivered_per_s),
    Column::number("lost_share", Unit::Share, lost_share).titled("lost"),
    Column::plain("fairness", "fairness", |row| {
        let each = row.flows.iter().filter_map(|flow| flow.one_way.as_ref()?.fairness);
        each.min_by(|a, b| a.value.total_cmp(&b.value))
    }),
    Column::number("retransmits", Unit::Plain, |row| {
        of_path(row, fact_names::RETRANSMITS).reduce(|sum, segments| sum + segments)
    })
    .titled("retransmits|retr"),
    Column::number("cwnd_packets", Unit::Plain, |row| of_path(row, fact_names::CWND_PACKETS).reduce(f64::max))
        .titled("congestion window|cwnd"),
];

/// The values of a fact of the ends, if the path is a link or leads to another host.
fn of_path(row: &CaseSummary, name: &str) -> impl Iterator<Item = f64> {
    let path = &row.case.path;
    let ends = row.ends.iter().filter(|_| row.case.is_emulated() || path.across.is_some());
    ends.filter_map(move |end| fact::number(&end.facts, name))
}

const SYSTEM_CALLS: [Column; 2] = both_ends!("system_calls_per_message", "calls per message", "calls", Unit::Plain, row => Some(single(row)?.system_calls_per_message));
const CONTEXT_SWITCHES: [Column; 2] = both_ends!("context_switches_per_message", "switches per message", "switches", Unit::Plain, row => Some(single(row)?.context_switches_per_message));
const CPU_PER_MILLION: [Column; 2] = both_ends!("cpu_seconds_per_million", "CPU s per million", "CPU", Unit::Plain, row => Some(single(row)?.cpu_seconds_per_million));
const CPU_PER_GB: [Column; 2] =
    both_ends!("cpu_seconds_per_gb", "CPU s per GB", "CPU", Unit::Plain, row => row.cpu_seconds_per_gb());

const PEAK_MEMORY: [Column; 2] =
    both_ends!("peak_memory_bytes", "peak memory", "peak", Unit::Depth, row => Some(single(row)?.peak_memory_bytes));

/// What the process of an end needs, the larger of both ends.
const NEEDS: &[Column] = &[
    Column::number("descriptors", Unit::Plain, |row| largest(row, fact_names::DESCRIPTORS)),
    Column::number("threads", Unit::Plain, |row| largest(row, fact_names::THREADS)),
    Column::number("peak_memory_of_end_bytes", Unit::Depth, |row| largest(row, fact_names::PEAK_MEMORY_BYTES))
        .titled("peak memory of an end|peak"),
];

fn largest(row: &CaseSummary, name: &str) -> Option<f64> {
    row.ends.iter().filter_map(|end| fact::number(&end.facts, name)).reduce(f64::max)
}

const PACING: &[Column] = &[
    Column::time("gap_p50_ns", "gap p50", |row| single(row)?.pacing?.gap_ns.p50),
    Column::time("gap_p99_ns", "gap p99", |row| single(row)?.pacing?.gap_ns.p99),
    Column::time("gap_p999_ns", "gap p99.9", |row| single(row)?.pacing?.gap_ns.p999),
    Column::figure("gaps_below_half_share", "gaps below half|gaps < half", Unit::Share, |row| {
        single(row)?.pacing?.share_below_half
    }),
    Column::number("nominal_gap_ns", Unit::Time, |row| Some(single(row)?.pacing?.nominal_ns))
        .titled("nominal gap|nominal"),
];

/// Parameters of a one-way load, and the goodput during the warm-up, which no other figure includes.
const ONE_WAY_LOAD: &[Column] = &[
    Column::number("batch", Unit::Plain, |row| match row.case.primary().load {
        Load::Messages { batch, .. } => Some(batch as f64),
        _ => None,
    }),
    Column::number("write_size_bytes", Unit::Bytes, |row| match row.case.primary().load {
        Load::Stream { write_size_bytes, .. } => Some(write_size_bytes as f64),
        _ => None,
    })
    .titled("write"),
    Column::words("observer", |row| match row.case.primary().load {
        Load::Messages { observer, .. } if observer != Observer::Sampled => observer.to_string(),
        _ => String::new(),
    }),
    Column::words("source", |row| shown(row.case.primary().load.source())),
    Column::words("arrivals", |row| shown(row.case.primary().load.offered().map(|(arrivals, _)| arrivals))),
    Column::words("pacing", |row| shown(row.case.primary().load.offered().map(|(_, pacing)| pacing))),
    Column::figure(
        "warm_up_goodput_bytes_per_s",
        "goodput of the omitted beginning|omitted",
        Unit::ByteRate,
        |row| single(row)?.warm_up_goodput_bytes_per_s,
    ),
];

fn shown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The columns of one phase of a case under load. The ramp has no figures, and so no columns.
macro_rules! of_phase {
    ($phase:ident, $p50:literal, $p99:literal, $lost:literal, $cpus:literal, $waited:literal) => {
        [
            Column::time(
                concat!(stringify!($phase), "_p50_ns"),
                concat!("p50, ", stringify!($phase), "|", $p50),
                |row| phases(row)?.$phase.probe.latency_ns.p50,
            ),
            Column::time(
                concat!(stringify!($phase), "_p99_ns"),
                concat!("p99, ", stringify!($phase), "|", $p99),
                |row| phases(row)?.$phase.probe.latency_ns.p99,
            ),
            Column::number(concat!(stringify!($phase), "_lost_share"), Unit::Share, |row| {
                phase_lost(&phases(row)?.$phase)
            })
            .titled(concat!("lost, ", stringify!($phase), "|", $lost)),
            Column::plain(
                concat!(stringify!($phase), "_cpus_used"),
                concat!("CPUs used, ", stringify!($phase), "|", $cpus),
                |row| phases(row)?.$phase.cpu.used,
            ),
            Column::time(
                concat!(stringify!($phase), "_probe_waited_ns"),
                concat!("probe waited for a CPU, ", stringify!($phase), "|", $waited),
                |row| phases(row)?.$phase.cpu.probe_waited_ns,
            ),
        ]
    };
}

// The loaded phase has short titles, because its latency is also the latency of the case.
const IDLE: [Column; 5] = of_phase!(idle, "idle", "p99 idle", "lost idle", "CPUs idle", "waited idle");
const LOADED: [Column; 5] = of_phase!(loaded, "loaded", "p99", "lost", "CPUs", "waited");
const RECOVERING: [Column; 5] =
    of_phase!(recovering, "recovering", "p99 after", "lost after", "CPUs after", "waited after");

/// Empty for a case without a load.
const UNDER_LOAD: &[Column] = &[
    Column::words("load_beside_probe", |row| row.case.load_in_words().unwrap_or_default()),
    Column::time("added_p50_ns", "added to p50|added", |row| row.under_load.as_ref()?.added_ns.p50),
    Column::time("added_p99_ns", "added to p99|added p99", |row| row.under_load.as_ref()?.added_ns.p99),
    Column::figure("load_goodput_bytes_per_s", "goodput of the load|goodput", Unit::ByteRate, |row| {
        phases(row)?.loaded.load.goodput_bytes_per_s
    }),
    Column::figure("queue_p50_bytes", "queue, p50|queue", Unit::Depth, |row| Some(queue(row)?.p50)),
    Column::number("queue_max_bytes", Unit::Depth, |row| Some(queue(row)?.max)).titled("queue, maximum|max"),
    Column::plain("responsiveness_rpm", "RPM", |row| {
        Some(row.under_load.as_ref()?.responsiveness_rpm.as_ref()?.figure)
    }),
    Column::time("recovered_after_ns", "recovered after|recovered", |row| {
        row.under_load.as_ref()?.recovered_after_ns
    }),
];

fn phases(row: &CaseSummary) -> Option<&PhasesOfCase> {
    Some(&row.under_load.as_ref()?.phases)
}

fn queue(row: &CaseSummary) -> Option<QueueBytes> {
    phases(row)?.loaded.queue_bytes
}

fn phase_lost(phase: &PhaseFigures) -> Option<f64> {
    let ledger = &phase.probe.ledger;
    (ledger.sent > 0).then(|| ledger.sent.saturating_sub(ledger.received) as f64 / ledger.sent as f64)
}

fn observer(row: &CaseSummary) -> Option<&ObserverCost> {
    single(row)?.observer.first()
}

/// Returns the share of sent messages that did not arrive; `None` for a case with answers.
fn lost_share(row: &CaseSummary) -> Option<f64> {
    row.one_way()?;
    let sum = |of: fn(&Ledger) -> u64| row.flows.iter().map(|flow| of(&flow.ledger)).sum::<u64>();
    let (sent, received) = (sum(|ledger| ledger.sent), sum(|ledger| ledger.received));
    (sent > 0).then(|| sent.saturating_sub(received) as f64 / sent as f64)
}

/// Returns the figures of a one-way load; `None` for several flows, because each flow has its own figures.
fn single(row: &CaseSummary) -> Option<&OneWayFigures> {
    row.one_way().filter(|_| row.flows.len() == 1)
}

const LEDGER: &[Column] = &[
    Column::count("sent", |row| row.ledger().sent),
    Column::count("received", |row| row.ledger().received),
    Column::count("lost", |row| row.ledger().lost.values().sum()),
    Column::words("lost_by_cause", |row| list(&row.ledger().lost)),
    Column::count("late", |row| row.ledger().late),
    Column::count("duplicated", |row| row.ledger().duplicated),
    Column::words("unexplained", |row| row.ledger().unexplained.to_string()),
    Column::number("up_sent", Unit::Plain, |row| Some(row.ledger().up?.sent as f64)),
    Column::number("up_received", Unit::Plain, |row| Some(row.ledger().up?.received as f64)),
    Column::number("up_duplicated", Unit::Plain, |row| Some(row.ledger().up?.duplicated as f64)),
    Column::number("up_reordered", Unit::Plain, |row| Some(row.ledger().up?.reordered as f64)),
    Column::number("down_sent", Unit::Plain, |row| Some(row.ledger().down?.sent as f64)),
    Column::number("down_received", Unit::Plain, |row| Some(row.ledger().down?.received as f64)),
    Column::number("down_duplicated", Unit::Plain, |row| Some(row.ledger().down?.duplicated as f64)),
    Column::number("down_reordered", Unit::Plain, |row| Some(row.ledger().down?.reordered as f64)),
    Column::count("lost_with_unexplained", lost_with_unexplained).titled("lost"),
];

fn lost_with_unexplained(row: &CaseSummary) -> u64 {
    let ledger = row.ledger();
    ledger.lost.values().sum::<u64>() + u64::try_from(ledger.unexplained).unwrap_or(0)
}

const CPU: &[Column] = &[
    Column::number("cpu_client_s", Unit::Plain, |row| Some(row.client().cpu_seconds))
        .titled("CPU client, s|client s"),
    Column::number("cpu_server_s", Unit::Plain, |row| Some(row.server()?.cpu_seconds))
        .titled("CPU server, s|server s"),
    Column::number("cpu_ns_per_message", Unit::Time, |row| cpu_ns_per_sample(row, CaseKind::RoundTrips))
        .titled("CPU per message|CPU/msg"),
    Column::number("cpu_ns_per_period", Unit::Time, |row| cpu_ns_per_sample(row, CaseKind::Periods))
        .titled("CPU per period|CPU"),
    Column::number("cpu_ns_per_exchange", Unit::Time, |row| cpu_ns_per_sample(row, CaseKind::Exchanges))
        .titled("CPU per exchange|CPU"),
    Column::number("coding_ns_per_message", Unit::Time, coding_ns).titled("encoding and decoding|encoding"),
];

/// Returns the time of both ends to encode and decode a message, and its answer if there is one; `None` if messages are not
/// encoded.
fn coding_ns(row: &CaseSummary) -> Option<f64> {
    let ends = || row.ends.iter().filter(|end| end.flow == row.case.primary().id);
    let of = |name| ends().filter_map(move |end| fact::number(&end.facts, name));
    of(fact_names::ENCODE_NS).chain(of(fact_names::DECODE_NS)).reduce(|sum, ns| sum + ns)
}

/// Returns the CPU time of both ends per sample, in ns; `None` for a case of another kind.
fn cpu_ns_per_sample(row: &CaseSummary, kind: CaseKind) -> Option<f64> {
    let seconds = row.ends.iter().map(|end| end.cpu_seconds).sum::<f64>();
    let measured =
        CaseKind::of(&row.case) == kind && row.primary().samples > 0 && seconds.is_finite() && seconds > 0.0;
    measured.then(|| seconds * 1e9 / row.primary().samples as f64)
}

/// Empty for a case without exchanges.
const EXCHANGE: &[Column] = &[
    Column::words("writes", |row| exchange(row, |exchange| exchange.writes.to_string())),
    Column::words("gap_ns", |row| exchange(row, |exchange| exchange.gap_ns.to_string())),
    Column::words("pipeline", |row| exchange(row, |exchange| exchange.pipeline.to_string())),
    Column::words("remedy", |row| exchange(row, |exchange| exchange.remedy.to_string())),
];

fn exchange(row: &CaseSummary, of: fn(&Exchange) -> String) -> String {
    row.case.primary().load.exchange().map(of).unwrap_or_default()
}

/// Empty for a case without exchanges.
const EXCHANGES: &[Column] = &[
    Column::time("first_exchange_ns", "first exchange|first", |row| {
        row.primary().exchanges.as_ref()?.first_exchange_ns
    }),
    Column::number("exchange_1_ns", Unit::Time, |row| early_ns(row, 0)),
    Column::number("exchange_2_ns", Unit::Time, |row| early_ns(row, 1)),
    Column::number("exchange_3_ns", Unit::Time, |row| early_ns(row, 2)),
    Column::number("exchange_4_ns", Unit::Time, |row| early_ns(row, 3)),
    Column::number("exchange_5_ns", Unit::Time, |row| early_ns(row, 4)),
    Column::number("exchange_6_ns", Unit::Time, |row| early_ns(row, 5)),
    Column::number("exchange_7_ns", Unit::Time, |row| early_ns(row, 6)),
    Column::number("exchange_8_ns", Unit::Time, |row| early_ns(row, 7)),
    Column::plain("bytes_per_ms", "bytes/ms", CaseSummary::bytes_per_ms),
    Column::figure("request_bytes_per_s", "requests", Unit::ByteRate, request_bytes_per_s),
    Column::plain("segments_per_exchange", "segments", |row| figures(row)?.segments_per_exchange),
    Column::plain("pure_acks_per_exchange", "pure ACKs", |row| figures(row)?.pure_acks_per_exchange),
    Column::plain("system_calls_per_exchange", "system calls|calls", |row| figures(row)?.system_calls_per_exchange),
    Column::figure(
        "speed_up_against_default",
        "speed-up against default|speed-up",
        Unit::Times,
        CaseSummary::speed_up,
    ),
];

const _: () = assert!(EARLY_EXCHANGES == 8, "each early exchange has a column");

fn figures(row: &CaseSummary) -> Option<&ExchangeFigures> {
    row.primary().exchanges.as_ref()
}

fn request_bytes_per_s(row: &CaseSummary) -> Option<Figure> {
    row.bytes_per_ms().map(|per_ms| per_ms.rising(|bytes| bytes * 1e3))
}

fn early_ns(row: &CaseSummary, place: usize) -> Option<f64> {
    figures(row)?.early_exchanges_ns.get(place).map(|figure| figure.value)
}

/// Empty for an untraced case.
const TRACE: &[Column] = &[
    Column::time("tracing_cost_ns", "cost of tracing", |row| trace(row)?.cost_ns),
    Column::plain("tracing_cost_ratio", "cost of tracing", |row| trace(row)?.cost_ratio),
    Column::words("capture_file", |row| match trace(row).map(|trace| &trace.capture) {
        Some(Capture::Saved { file, .. }) => file.clone(),
        _ => String::new(),
    }),
];

fn trace(row: &CaseSummary) -> Option<&TraceSummary> {
    row.trace.as_ref()
}

/// Empty for a case on the loopback and for a case that was not measured.
const LINK: &[Column] = &[
    Column::words("link_name", |row| row.case.path.name.clone().unwrap_or_default()),
    Column::words("link_seed", |row| link(row, |link| link.seed.to_string())),
    Column::words("link_lateness_p50_ns", |row| link_lateness(row, |late| late.p50)),
    Column::words("link_lateness_p99_ns", |row| link_lateness(row, |late| late.p99)),
    Column::words("link_lateness_max_ns", |row| link_lateness(row, |late| late.max)),
    Column::words("link_packets_in", |row| link(row, |link| link.packets.entered.to_string())),
    Column::words("link_packets_out", |row| link(row, |link| link.packets.out.to_string())),
    Column::words("link_packets_dropped", |row| {
        link(row, |link| link.packets.dropped.values().sum::<u64>().to_string())
    }),
    Column::words("link_packets_dropped_by_stage", |row| link(row, |link| list(&link.packets.dropped))),
    Column::words("link_packets_duplicated", |row| link(row, |link| link.packets.duplicated.to_string())),
    Column::words("link_packets_reordered", |row| link(row, |link| link.packets.reordered.to_string())),
    Column::words("link_packets_corrupted", |row| link(row, |link| link.packets.corrupted.to_string())),
    Column::words("link_packets_inside", |row| link(row, |link| link.packets.inside.to_string())),
    Column::words("link_rounds_left_out", |row| link(row, |link| link.rounds_left_out.len().to_string())),
    Column::number("link_relay_cpu_ns_per_packet", Unit::Time, |row| {
        row.path.relay.as_ref()?.relay_cpu_ns_per_packet
    }),
];

fn link(row: &CaseSummary, of: fn(&LinkSummary) -> String) -> String {
    row.path.relay.as_ref().map(of).unwrap_or_default()
}

fn link_lateness(row: &CaseSummary, of: fn(LatenessNs) -> u64) -> String {
    let late = row.path.relay.as_ref().and_then(|link| link.lateness_ns);
    late.map(|late| of(late).to_string()).unwrap_or_default()
}

/// The machine state in which the figures were measured, and the other state; empty for a machine with one state.
const STATE: &[Column] = &[
    Column::words("state", |row| row.state.map(|state| state.index.to_string()).unwrap_or_default()),
    Column::number("state_share", Unit::Plain, |row| Some(row.state?.share)),
    Column::words("other_state", |row| {
        row.other_states.first().map(|other| other.index.to_string()).unwrap_or_default()
    }),
    Column::number("other_state_share", Unit::Plain, |row| Some(row.other_states.first()?.share)),
];

fn list(counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join("; ")
}
