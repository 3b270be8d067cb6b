//! Figures of a round, and the summary of a case over its rounds.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::card::AnsweredBy;
use crate::case::{Case, Path, Placement, Waiting};
use crate::compared_by::ComparedBy;
pub use crate::distribution::{CurvePoint, Distribution, LatencyFigures, Percentiles};
use crate::exceeds::Exceeds;
use crate::fact::Fact;
use crate::failure::RefusedCode;
use crate::fields::{at_least_one, is_default};
use crate::figure::Figure;
use crate::flow::{Flow, FlowId, FlowRole};
use crate::flows::{OfFlow, flows};
use crate::invalid::{Invalid, RoundLeftOut};
use crate::latency_budget::LatencyBudget;
use crate::ledger::Ledger;
use crate::link::LinkSummary;
use crate::one_way::{BothEnds, OneWayFigures, OverTime, StreamSummary};
use crate::options::Effective;
use crate::periodic::PeriodicFigures;
use crate::phases::UnderLoad;
use crate::set_up::SetUp;
use crate::time_sequence::TraceSummary;
use crate::{trace::End, words};

/// Figures that `hairpin-analysis` computes from the samples of one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundFigures {
    /// Measured messages that were answered; for a one-way load, measured messages that arrived.
    pub samples: u64,
    /// Messages of a one-way load with known latency; null for other loads, where the latency of all messages is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamped: Option<u64>,
    /// Latency percentiles, in ns, from the round's histogram; 0 for a stream.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latency_ns: Percentiles,
    /// Percentiles of the service time, which counts from the actual send; only in an open loop.
    pub service_ns: Option<Percentiles>,
    /// Lateness of the generator; only in an open loop.
    pub lateness_ns: Option<Percentiles>,
    /// Messages answered per second.
    pub rate_per_s: f64,
    /// Medians of the first ten warm-up messages and of the last half of the round, in ns; null without raw samples.
    pub cold_start: Option<ColdStart>,
    /// Medians of ten equal parts of the round, in ns; empty without raw samples.
    pub course_ns: Vec<f64>,
    /// Modes of the latency distribution, largest share first.
    pub modes: Vec<Mode>,
    /// Durations of the first exchanges of the connection, in ns, including the warm-up: at most [`EARLY_EXCHANGES`]
    /// in a timed round; all exchanges in an evidence round, to compare traced and untraced exchanges pairwise. Empty
    /// without exchanges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub early_exchanges_ns: Vec<f64>,
    /// Effect of the link's drops; null on the loopback, without raw samples, and if no payload was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<DropFigures>,
}

/// Effect of a link's drops of payload on the messages of a round, from their aligned timelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DropFigures {
    /// Packets with payload that the link dropped between the first measured send and the last answer.
    pub packets_dropped: u64,
    /// Messages in flight when such a packet was dropped. If messages arrive in order, also the messages sent after
    /// the drop, until all messages in flight were answered.
    pub messages_hit: u64,
    /// Median latency of the messages hit, in ns; null without any.
    pub hit_p50_ns: Option<f64>,
    /// Median latency of the other messages, in ns; null without any.
    pub other_p50_ns: Option<f64>,
    /// Share of the slowest 1 % of messages that was hit, 0 to 1; null below 1000 messages, as for a p99.
    pub share_of_tail_hit: Option<f64>,
    /// Sum over the messages hit: latency - median latency of the other messages, in ns.
    pub added_ns: f64,
}

/// Number of first exchanges of a connection that are shown separately from its steady state.
pub const EARLY_EXCHANGES: usize = 8;

/// Start of a connection compared with its steady state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColdStart {
    /// Latency of the first message, in ns.
    pub first_ns: f64,
    /// Median of messages 2 to 11, in ns.
    pub early_ns: f64,
    /// Median of the last half of the round, in ns.
    pub steady_ns: f64,
}

/// A peak of the latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Mode {
    /// Position of the peak, in ns.
    pub latency_ns: f64,
    /// Share of the messages in this mode, 0 to 1.
    pub share: f64,
}

/// The machine state that the figures of a case are from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StateShare {
    /// The state's index in [`crate::machine::Machine::states`].
    pub index: usize,
    /// Share of the case's rounds in this state, 0 to 1.
    pub share: f64,
}

/// Another machine state in which a case has rounds, and the figures of these rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OtherState {
    /// The state's index in [`crate::machine::Machine::states`].
    pub index: usize,
    /// Share of the case's rounds in this state, 0 to 1.
    pub share: f64,
    /// Latency in these rounds.
    pub latency_ns: LatencyFigures,
}

/// One round of a case, as drawn in the report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RoundPoint {
    /// The round's number in the run.
    pub number: u32,
    /// The round's block.
    pub block: u32,
    /// When the round began, in ns since the run began.
    pub started_ns: u64,
    /// The machine's state during the round: an index in [`crate::machine::Machine::states`].
    #[serde(default)]
    pub state: usize,
    /// Median latency, in ns.
    pub p50_ns: f64,
    /// 90th percentile, in ns; null in runs of earlier versions.
    pub p90_ns: Option<f64>,
    /// Its 99th percentile, in ns; null if the machine disturbed its slowest messages.
    pub p99_ns: Option<f64>,
    /// Its maximum, in ns.
    pub max_ns: f64,
    /// Answers per second.
    pub rate_per_s: f64,
    /// Messages sent that did not arrive in time: lost, late or unexplained.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u64,
    /// Message bytes that the receiver of a stream received per second; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bytes_per_s: Option<f64>,
}

impl RoundPoint {
    /// The value of `figure`; `None` if the round does not have it, if nothing arrived, or if nothing was timestamped.
    pub fn compared(&self, figure: ComparedBy) -> Option<f64> {
        let value = match figure {
            ComparedBy::P50 => Some(self.p50_ns),
            ComparedBy::P90 => self.p90_ns,
            ComparedBy::P99 => self.p99_ns,
            ComparedBy::P999 | ComparedBy::Mean => None,
            ComparedBy::Rate => Some(self.rate_per_s),
            ComparedBy::Goodput => self.goodput_bytes_per_s,
        };
        value.filter(|value| *value > 0.0)
    }
}

/// One flow of a case over its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct FlowSummary {
    #[serde(flatten)]
    pub flow: Flow,
    /// Who answered the messages; Hairpin's server if it is absent.
    #[serde(default, skip_serializing_if = "AnsweredBy::is_server")]
    pub answered_by: AnsweredBy,
    /// Answered messages over all measured rounds; for a one-way load, messages that arrived.
    pub samples: u64,
    /// Latency from due to received: round trip, or one way for a one-way load; all null if nothing was timestamped.
    pub latency_ns: LatencyFigures,
    /// Service time, from the actual send to received; only in an open loop.
    pub service_ns: Option<LatencyFigures>,
    /// Generator lateness, from due to sent; only in an open loop.
    pub lateness_ns: Option<LatencyFigures>,
    /// How often the latency exceeds the bound of the run; null without a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeds: Option<Exceeds>,
    /// Answers per second; for a one-way load, messages received per second.
    pub rate_per_s: Option<Figure>,
    /// Time from the connect call until the wire is connected, in ns.
    pub setup_ns: Option<Figure>,
    /// Latency of a connection's first message; null for a stream.
    pub first_message_ns: Option<Figure>,
    /// The ledger over all rounds.
    pub ledger: Ledger,
    /// The percentile curve of all samples.
    pub curve: Vec<CurvePoint>,
    /// Modes over all samples, largest share first.
    pub modes: Vec<Mode>,
    /// Figures that only exchanges have.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<ExchangeFigures>,
    /// Figures of a control loop; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<PeriodicFigures>,
    /// Figures that only one-way loads have.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWayFigures>,
    /// Figures of a one-way load over time; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_time: Option<OverTime>,
    /// What a connection took to open; null unless measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_up: Option<SetUp>,
    /// The messages of each stream; empty for one stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_stream: Vec<StreamSummary>,
}

impl OfFlow for FlowSummary {
    fn flow_id(&self) -> &FlowId {
        &self.flow.id
    }
}

/// One end of a case over its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct EndSummary {
    pub role: End,
    /// Identity of the end's flow; if several flows share the connection, of the first flow.
    pub flow: FlowId,
    /// The end's host: the role under which [`crate::run::Run::hosts`] lists the host.
    pub host: End,
    /// How the end waits.
    pub waiting: Waiting,
    /// Where the end runs.
    pub placement: Placement,
    /// CPU time of the end's thread while measuring, over all rounds, in seconds. Of all its threads if its way to wait has
    /// more.
    pub cpu_seconds: f64,
    /// CPU time of the end per round trip, in seconds; null for other loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_message: Option<Figure>,
    /// The end's options in the first measured round, as requested and as granted.
    pub effective_options: Vec<Effective>,
    /// Names of options whose effective values differ between rounds.
    pub differing_options: Vec<String>,
    /// The end's kernel counters (`tcp_info.*`, `socket.*`): for events the sum over rounds, for other numbers the
    /// median, for words the value of the last round.
    pub facts: Vec<Fact>,
}

/// The path of a case over its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PathSummary {
    #[serde(flatten)]
    pub path: Path,
    /// What the relay of the link recorded; null on the loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<LinkSummary>,
}

/// One case over its rounds.
///
/// The `latency_ns`, `rate_per_s`, `ledger` and one-way figures of a case's only flow are also saved with the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[schemars(transform = of_the_only_flow)]
#[serde(remote = "Self")]
pub struct CaseSummary {
    /// The case's identity; findings and comparisons refer to it.
    pub id: String,
    /// The case in words.
    pub label: String,
    pub case: Case,
    /// Rounds measured.
    pub rounds: u64,
    /// Rounds that failed, with their causes.
    pub failed_rounds: Vec<String>,
    /// The codes with which a foreign server refused rounds, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedCode>,
    /// When each failed round began, in ns since the run began; empty in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_rounds_started_ns: Vec<u64>,
    /// The machine state that the figures are from; null in runs without a probe.
    pub state: Option<StateShare>,
    /// Other machine states in which rounds were measured.
    #[serde(default)]
    pub other_states: Vec<OtherState>,
    #[serde(deserialize_with = "flows")]
    pub flows: Vec<FlowSummary>,
    /// Bytes received per second, summed over several one-way flows; null for one flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_of_all_bytes_per_s: Option<Figure>,
    /// CPU time of each end per 10⁹ bytes received, over several one-way flows, in seconds; null for one flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds_per_gb_of_all: Option<BothEnds>,
    /// Only for a case with a probe before, during and after a load.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub under_load: Option<UnderLoad>,
    /// The ends; without a server if the kernel answered or nothing was measured.
    #[serde(deserialize_with = "at_least_one")]
    pub ends: Vec<EndSummary>,
    /// The path between the ends.
    pub path: PathSummary,
    /// False if the figures must not be used.
    pub valid: bool,
    /// Reasons why the figures must not be used.
    pub why_invalid: Vec<String>,
    /// The reasons as data; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Invalid>,
    /// Rounds that are omitted from all figures, or from the higher percentiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted_rounds: Vec<RoundLeftOut>,
    pub round_points: Vec<RoundPoint>,
    /// Results of the case's traced rounds; null if none was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
    /// Where the time of a round trip goes; null if no round trip was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<LatencyBudget>,
}

impl Serialize for CaseSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Saved<'s> {
            #[serde(flatten, serialize_with = "CaseSummary::serialize")]
            summary: &'s CaseSummary,
            #[serde(flatten)]
            of_the_only_flow: Option<Copied<'s>>,
        }
        #[derive(Serialize)]
        struct Copied<'s> {
            latency_ns: &'s LatencyFigures,
            rate_per_s: &'s Option<Figure>,
            ledger: &'s Ledger,
            #[serde(flatten)]
            one_way: Option<&'s OneWayFigures>,
        }
        let of_the_only_flow = match self.flows.as_slice() {
            [flow] => Some(Copied {
                latency_ns: &flow.latency_ns,
                rate_per_s: &flow.rate_per_s,
                ledger: &flow.ledger,
                one_way: flow.one_way.as_ref(),
            }),
            _ => None,
        };
        Saved { summary: self, of_the_only_flow }.serialize(serializer)
    }
}

/// Adds the copied fields of the only flow to the schema.
#[cfg(feature = "schema")]
fn of_the_only_flow(schema: &mut schemars::Schema) {
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| serde_json::json!({}));
    let one_way = schemars::schema_for!(OneWayFigures);
    let one_way: Vec<&String> =
        one_way.get("properties").and_then(|all| all.as_object()).into_iter().flat_map(|all| all.keys()).collect();
    for name in ["latency_ns", "rate_per_s", "ledger"].into_iter().chain(one_way.into_iter().map(String::as_str)) {
        let reference = format!("#/$defs/FlowSummary/properties/{name}");
        properties[name] =
            serde_json::json!({"description": "Copied from the flow, if the case has only one.", "$ref": reference});
    }
}

impl<'de> Deserialize<'de> for CaseSummary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl CaseSummary {
    /// Whether the flows match the flows of the case, and the ends belong to these flows and include a client.
    pub fn is_of_its_case(&self) -> bool {
        let has_results = |flow: &Flow| self.flow(&flow.id).is_some_and(|summary| summary.flow.role == flow.role);
        self.case.flows.len() == self.flows.len()
            && self.case.flows.iter().all(has_results)
            && self.ends.iter().all(|end| self.flow(&end.flow).is_some())
            && self.ends.iter().any(|end| end.role == End::Client)
    }

    pub fn primary(&self) -> &FlowSummary {
        &self.flows[self.primary_index()]
    }

    pub fn primary_mut(&mut self) -> &mut FlowSummary {
        let place = self.primary_index();
        &mut self.flows[place]
    }

    fn primary_index(&self) -> usize {
        FlowRole::primary_index(self.flows.iter().map(|summary| summary.flow.role))
    }

    pub fn flow(&self, id: &FlowId) -> Option<&FlowSummary> {
        self.flows.iter().find(|summary| summary.flow.id == *id)
    }

    /// Ledger of the primary flow; if there are several measured flows, the sum of their ledgers.
    pub fn ledger(&self) -> Cow<'_, Ledger> {
        let measured = || self.flows.iter().filter(|summary| summary.flow.role == FlowRole::Measured);
        if measured().nth(1).is_some() {
            Cow::Owned(measured().fold(Ledger::default(), |all, flow| all.plus(&flow.ledger)))
        } else {
            Cow::Borrowed(&self.primary().ledger)
        }
    }

    /// The end of a flow with this role; `None` for a server if the kernel answered or nothing was measured, and for a
    /// flow on another flow's connection.
    pub fn end(&self, flow: &FlowId, role: End) -> Option<&EndSummary> {
        self.ends.iter().find(|end| end.role == role && end.flow == *flow)
    }

    /// The client of the primary flow; if the primary flow uses another flow's connection, the client of that flow.
    ///
    /// # Panics If the case has no client; such runs are refused when they are read.
    pub fn client(&self) -> &EndSummary {
        let any = || self.ends.iter().find(|end| end.role == End::Client);
        self.end(&self.primary().flow.id, End::Client).or_else(any).expect("every case has a client")
    }

    /// The server of the primary flow; `None` if the kernel answered or nothing was measured.
    pub fn server(&self) -> Option<&EndSummary> {
        self.end(&self.primary().flow.id, End::Server)
    }

    /// Whether an answer may rank the case: it is valid, not a replicate, and has no injected fault.
    pub fn can_be_ranked(&self) -> bool {
        self.valid && self.case.replicate == 0 && self.case.injected_fault.is_none()
    }

    pub fn p50_ns(&self) -> Option<f64> {
        self.primary().latency_ns.p50.and_then(Figure::finite)
    }

    /// A figure that cases are compared by, in [`ComparedBy::unit`].
    pub fn compared(&self, figure: ComparedBy) -> Option<Figure> {
        let found = match figure {
            ComparedBy::Rate => self.one_way().map_or(self.primary().rate_per_s, |one_way| one_way.received_per_s),
            ComparedBy::Goodput => self.goodput(),
            latency => self.primary().latency_ns.of(latency).flatten(),
        };
        found.filter(|figure| figure.value.is_finite())
    }

    /// Bytes received per second by a one-way load, summed over all flows.
    pub fn goodput(&self) -> Option<Figure> {
        self.goodput_of_all_bytes_per_s.or(self.one_way()?.goodput_bytes_per_s)
    }

    /// CPU time of each end per 10⁹ bytes of a one-way load, over all flows, in seconds.
    pub fn cpu_seconds_per_gb(&self) -> Option<BothEnds> {
        self.cpu_seconds_per_gb_of_all.or(Some(self.one_way()?.cpu_seconds_per_gb))
    }

    pub fn one_way(&self) -> Option<&OneWayFigures> {
        self.primary().one_way.as_ref()
    }

    /// Request bytes per millisecond; `None` without exchanges.
    pub fn bytes_per_ms(&self) -> Option<Figure> {
        self.primary().exchanges.as_ref()?.bytes_per_ms
    }

    /// [`CaseSummary::bytes_per_ms`] relative to the case with remedy `default`.
    pub fn speed_up(&self) -> Option<Figure> {
        self.primary().exchanges.as_ref()?.speed_up_against_default.filter(|figure| figure.value.is_finite())
    }

    /// Whether the case moves more bytes per millisecond than `other`, with disjoint intervals. If fewer than half of
    /// the exchanges stall, a comparison of p50 may say the opposite.
    pub fn moves_more(&self, other: &Self) -> bool {
        let bounds = |row: &Self| row.bytes_per_ms().and_then(Figure::interval);
        bounds(self).zip(bounds(other)).is_some_and(|(own, other)| own.0 > other.1)
    }
}

/// Figures of a case of exchanges, over its rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ExchangeFigures {
    /// Time of an exchange, from the start of the first write to the end of the answer: the case's `latency_ns`.
    pub exchange_ns: LatencyFigures,
    /// The first exchange of a connection.
    pub first_exchange_ns: Option<Figure>,
    /// The first exchanges of a connection, one figure each.
    pub early_exchanges_ns: Vec<Figure>,
    /// Request bytes per millisecond, over the whole measured part of a round.
    pub bytes_per_ms: Option<Figure>,
    /// Segments with payload, both directions.
    pub segments_per_exchange: Option<Figure>,
    /// Segments without payload, both directions.
    pub pure_acks_per_exchange: Option<Figure>,
    /// System calls of the client.
    pub system_calls_per_exchange: Option<Figure>,
    /// `bytes_per_ms` / `bytes_per_ms` of the same case with remedy `default`, paired by block; null for `default`,
    /// and if the case with `default` was not measured.
    pub speed_up_against_default: Option<Figure>,
}

words! {
    /// The verdict of a comparison.
    #[derive(Default)]
    pub enum Verdict: "verdict" {
        /// The candidate is faster: its latency is lower, or its rate higher.
        Faster = "faster",
        /// The candidate is slower: its latency is higher, or its rate lower.
        Slower = "slower",
        /// No difference was found.
        #[default]
        CannotTell = "cannot-tell",
        /// Measured in different states of the machine.
        Unlike = "unlike",
    }

    /// Why two cases are compared.
    pub enum Role: "role" {
        AgainstItself = "a-a",
        Neighbours = "neighbours",
        /// One thing changed, to check an explanation.
        CounterExperiment = "counter-experiment",
    }
}

impl Verdict {
    /// The verdict in a word: `faster` or `slower`; for figures where higher is better, `more` or `less`.
    pub fn in_words(self, figure: ComparedBy) -> &'static str {
        match (self, figure.more_is_better()) {
            (Self::Faster, true) => "more",
            (Self::Slower, true) => "less",
            (verdict, _) => verdict.word(),
        }
    }
}

/// Comparison of two cases by a further percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TailComparison {
    pub figure: ComparedBy,
    /// candidate / baseline, with its interval over paired rounds.
    pub ratio: Figure,
    /// The verdict, corrected like the verdict of the median.
    pub verdict: Verdict,
    /// The verdict from the interval alone.
    pub pointwise: Verdict,
}

/// The only figure that earlier versions compared.
fn p50() -> ComparedBy {
    ComparedBy::P50
}

/// Two cases compared block by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Comparison {
    /// Why the two cases are compared.
    pub role: Role,
    /// The reference case.
    pub baseline: String,
    /// The case compared with the baseline.
    pub candidate: String,
    /// The figure by which the cases are compared ([`crate::ladder::compared_by`]).
    #[serde(default = "p50")]
    pub figure: ComparedBy,
    /// candidate / baseline, with its interval over paired rounds.
    pub ratio: Figure,
    /// candidate - baseline, in ns, with its interval; null if the figure is not a latency.
    pub difference_ns: Option<Figure>,
    /// The verdict. Verdicts of adjacent cases are corrected for the number of comparisons (Holm), including
    /// comparisons of p90 and p99.
    pub verdict: Verdict,
    /// The verdict from the interval alone.
    #[serde(default)]
    pub pointwise: Verdict,
    /// Comparisons of the tail percentiles, if both cases have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails: Vec<TailComparison>,
    /// Number of paired blocks.
    pub blocks: u64,
}
