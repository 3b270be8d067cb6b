//! Flat tables for spreadsheets and data frames: one row a case, or one row a sample.
//!
//! Units stand in the column names, an interval is two columns (`_low`, `_high`), and what is null is an empty cell.
//! Characters that would steer a terminal stand as `\u{1b}`; `--json` has them unchanged.

use std::io::Write;

use hairpin_model::case::Pattern;
use hairpin_model::exchange::Exchange;
use hairpin_model::figure::Figure;
use hairpin_model::link::{LatenessNs, LinkSummary};
use hairpin_model::printable;
use hairpin_model::run::Run;
use hairpin_model::samples::Fate;
use hairpin_model::summary::{CaseSummary, EARLY_EXCHANGES, LatencyFigures};
use hairpin_model::trace::Capture;

/// A row under construction: column names are written once, from the first row.
#[derive(Default)]
struct Row {
    names: Vec<String>,
    cells: Vec<String>,
}

impl Row {
    fn put(&mut self, name: &str, cell: impl ToString) {
        self.names.push(name.to_owned());
        self.cells.push(printable::line(&cell.to_string()).into_owned());
    }

    fn number(&mut self, name: &str, number: Option<f64>) {
        let shown = number.filter(|number| number.is_finite());
        self.put(name, shown.map(|number| number.to_string()).unwrap_or_default());
    }

    /// `p50_ns`, `p50_ns_low`, `p50_ns_high`.
    fn figure(&mut self, name: &str, figure: Option<Figure>) {
        self.number(name, figure.map(|figure| figure.value));
        self.number(&format!("{name}_low"), figure.and_then(|figure| figure.low));
        self.number(&format!("{name}_high"), figure.and_then(|figure| figure.high));
    }

    fn latencies(&mut self, of: &str, figures: &LatencyFigures) {
        let named = [
            ("p50", figures.p50),
            ("p90", figures.p90),
            ("p99", figures.p99),
            ("p999", figures.p999),
            ("max", figures.max),
            ("mean", figures.mean),
        ];
        for (name, figure) in named {
            self.figure(&format!("{of}_{name}_ns"), figure);
        }
    }
}

/// The summaries: a header line, then one row a case in the order of the plan (no rows where there is no case).
#[must_use]
pub fn summary(run: &Run) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (place, case) in run.cases.iter().enumerate() {
        let row = row(case);
        if place == 0 {
            writer.write_record(&row.names).expect(IN_MEMORY);
        }
        writer.write_record(&row.cells).expect(IN_MEMORY);
    }
    String::from_utf8(writer.into_inner().expect(IN_MEMORY)).expect("made of strings")
}

const IN_MEMORY: &str = "writing to memory with rows of one length cannot fail";

fn row(summary: &CaseSummary) -> Row {
    let mut row = Row::default();
    case_columns(&mut row, summary);
    row.put("valid", summary.valid);
    row.put("why_invalid", summary.why_invalid.join("; "));
    row.put("rounds", summary.rounds);
    row.put("failed_rounds", summary.failed_rounds.len());
    row.put("samples", summary.samples);
    row.latencies("latency", &summary.latency_ns);
    row.latencies("service", &summary.service_ns.unwrap_or_default());
    row.latencies("lateness", &summary.lateness_ns.unwrap_or_default());
    row.figure("rate_per_s", summary.rate_per_s);
    row.figure("setup_ns", summary.setup_ns);
    row.figure("first_message_ns", summary.first_message_ns);
    let ledger = &summary.ledger;
    row.put("sent", ledger.sent);
    row.put("received", ledger.received);
    row.put("lost", ledger.lost.values().sum::<u64>());
    let causes: Vec<String> = ledger.lost.iter().map(|(cause, count)| format!("{cause}={count}")).collect();
    row.put("lost_by_cause", causes.join("; "));
    row.put("late", ledger.late);
    row.put("duplicated", ledger.duplicated);
    row.put("unexplained", ledger.unexplained);
    row.number("cpu_client_s", Some(summary.cpu_seconds.client));
    row.number("cpu_echo_s", summary.cpu_seconds.echo);
    exchange_columns(&mut row, summary);
    link_columns(&mut row, summary);
    state_columns(&mut row, summary);
    row
}

/// The state of the machine that the figures stand for, and the figures of the other one; empty where there is none.
fn state_columns(row: &mut Row, summary: &CaseSummary) {
    row.put("state", summary.state.map(|state| state.index.to_string()).unwrap_or_default());
    row.number("state_share", summary.state.map(|state| state.share));
    let other = summary.other_states.first();
    row.put("other_state", other.map(|other| other.index.to_string()).unwrap_or_default());
    row.number("other_state_share", other.map(|other| other.share));
    row.latencies("other_state_latency", &other.map(|other| other.latency_ns).unwrap_or_default());
}

/// Empty cells for a case on the loopback, and for one that was never measured.
fn link_columns(row: &mut Row, summary: &CaseSummary) {
    let link = summary.link.as_ref();
    let text = |of: fn(&LinkSummary) -> String| link.map(of).unwrap_or_default();
    row.put("link_name", summary.case.link_name.as_deref().unwrap_or_default());
    row.put("link_seed", text(|link| link.seed.to_string()));
    let late = link.and_then(|link| link.lateness_ns);
    let lateness = |of: fn(LatenessNs) -> u64| late.map(|late| of(late).to_string()).unwrap_or_default();
    row.put("link_lateness_p50_ns", lateness(|late| late.p50));
    row.put("link_lateness_p99_ns", lateness(|late| late.p99));
    row.put("link_lateness_max_ns", lateness(|late| late.max));
    row.put("link_packets_in", text(|link| link.packets.entered.to_string()));
    row.put("link_packets_out", text(|link| link.packets.out.to_string()));
    row.put("link_packets_dropped", text(|link| link.packets.dropped.values().sum::<u64>().to_string()));
    let by_stage = |link: &LinkSummary| {
        let stages = link.packets.dropped.iter().map(|(stage, count)| format!("{stage}={count}"));
        stages.collect::<Vec<_>>().join("; ")
    };
    row.put("link_packets_dropped_by_stage", text(by_stage));
    row.put("link_packets_duplicated", text(|link| link.packets.duplicated.to_string()));
    row.put("link_packets_reordered", text(|link| link.packets.reordered.to_string()));
    row.put("link_packets_corrupted", text(|link| link.packets.corrupted.to_string()));
    row.put("link_packets_inside", text(|link| link.packets.inside.to_string()));
    row.put("link_rounds_left_out", text(|link| link.rounds_left_out.len().to_string()));
    row.number("link_relay_cpu_ns_per_packet", link.and_then(|link| link.relay_cpu_ns_per_packet));
}

/// Empty cells for a case without exchanges, and for one that was not traced.
fn exchange_columns(row: &mut Row, summary: &CaseSummary) {
    let exchange = summary.case.exchange.as_ref();
    let text = |of: fn(&Exchange) -> String| exchange.map(of).unwrap_or_default();
    row.put("writes", text(|exchange| exchange.writes.to_string()));
    row.put("gap_ns", text(|exchange| exchange.gap_ns.to_string()));
    row.put("pipeline", text(|exchange| exchange.pipeline.to_string()));
    row.put("remedy", text(|exchange| exchange.remedy.to_string()));
    let figures = summary.exchanges.clone().unwrap_or_default();
    row.latencies("exchange", &figures.exchange_ns);
    row.figure("first_exchange_ns", figures.first_exchange_ns);
    for place in 0..EARLY_EXCHANGES {
        row.number(&format!("exchange_{}_ns", place + 1), figures.early_exchanges_ns.get(place).map(|of| of.value));
    }
    row.figure("bytes_per_ms", figures.bytes_per_ms);
    row.figure("segments_per_exchange", figures.segments_per_exchange);
    row.figure("bare_acks_per_exchange", figures.bare_acks_per_exchange);
    row.figure("system_calls_per_exchange", figures.system_calls_per_exchange);
    row.figure("speed_up_against_none", figures.speed_up_against_none);
    let trace = summary.trace.as_ref();
    row.figure("tracing_cost_ns", trace.and_then(|trace| trace.cost_ns));
    row.figure("tracing_cost_ratio", trace.and_then(|trace| trace.cost_ratio));
    let file = match trace.map(|trace| &trace.capture) {
        Some(Capture::Saved { file, .. }) => file.as_str(),
        _ => "",
    };
    row.put("capture_file", file);
}

fn case_columns(row: &mut Row, summary: &CaseSummary) {
    let case = &summary.case;
    row.put("case_id", &summary.id);
    row.put("label", &summary.label);
    row.put("transport", &case.transport);
    row.put("waiting", case.waiting);
    row.put("placement", case.placement);
    row.put("ends", case.ends);
    row.put("size_bytes", case.size_bytes);
    row.put("reply_size_bytes", case.reply_size_bytes);
    let options: Vec<String> = case.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    row.put("options", options.join(","));
    row.put("link", &case.link);
    let (pattern, rate_per_s) = match case.pattern {
        Pattern::PingPong => ("ping-pong", None),
        Pattern::Paced { rate_per_s } => ("paced", Some(rate_per_s)),
        Pattern::SmallWrites => ("small-writes", None),
    };
    row.put("pattern", pattern);
    row.number("asked_rate_per_s", rate_per_s);
    row.put("cpu_idle", case.cpu_idle);
    row.put("twin", case.twin);
}

/// One sample, as the file of raw samples has it.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow<'a> {
    /// The round's number in the run.
    pub round: u32,
    /// The identity of its case.
    pub case_id: &'a str,
    /// The message's number in the round, warm-up included.
    pub sequence: u64,
    /// Whether it belongs to the warm-up.
    pub warm_up: bool,
    /// When it was due, in ns since the round began.
    pub due_ns: u64,
    /// When its send call began, in ns since the round began.
    pub sent_ns: u64,
    /// When its answer had been received, in ns since the round began; not shown where it was lost.
    pub received_ns: u64,
    /// What became of it.
    pub fate: Fate,
}

/// Writes samples row by row, so that a run of any length passes through in bounded memory.
pub struct Samples<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> Samples<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn new(into: W) -> std::io::Result<Self> {
        let mut writer = csv::Writer::from_writer(into);
        let titles =
            ["round", "case_id", "sequence", "warm_up", "due_ns", "sent_ns", "received_ns", "fate", "latency_ns"];
        writer.write_record(titles).map_err(of_the_writer)?;
        Ok(Self { writer })
    }

    /// Writes one sample. Its latency is from due to received; both are empty where no answer arrived.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn row(&mut self, sample: &SampleRow<'_>) -> std::io::Result<()> {
        let answered = sample.fate != Fate::Lost;
        let received_ns = answered.then_some(sample.received_ns);
        let latency_ns = received_ns.map(|received_ns| received_ns.saturating_sub(sample.due_ns));
        let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let fields = [
            sample.round.to_string(),
            printable::line(sample.case_id).into_owned(),
            sample.sequence.to_string(),
            sample.warm_up.to_string(),
            sample.due_ns.to_string(),
            sample.sent_ns.to_string(),
            text(received_ns),
            sample.fate.word().to_owned(),
            text(latency_ns),
        ];
        self.writer.write_record(fields).map_err(of_the_writer)
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// What the writer answers; a full disk is often only told here.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.writer.flush()?;
        self.writer.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

/// What the writer answered, with its kind: `csv` wraps it.
fn of_the_writer(error: csv::Error) -> std::io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => std::io::Error::other(format!("{kind:?}")),
    }
}
