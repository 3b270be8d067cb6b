//! Hairpin's data types, their units, and the format of saved runs.
//!
//! Everything here is plain data: no clock, no file, no socket, no thread. Every other crate may depend on this crate,
//! and this crate depends on none of them.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod answer;
pub mod arrivals;
mod between_hosts;
pub mod binding;
pub mod capabilities;
pub mod capability;
pub mod card;
pub mod case;
pub mod choice;
pub mod claim;
pub mod compared_by;
pub mod comparison;
pub mod digest;
mod distribution;
pub mod document;
pub mod documents;
mod end_settings;
pub mod environment;
mod exceeds;
pub mod exchange;
pub mod exchange_state;
pub mod explanation;
pub mod fact;
pub mod fact_names;
mod failure;
mod fields;
pub mod figure;
mod figure_name;
pub mod finding;
pub mod finding_keys;
pub mod flow;
mod flows;
pub mod held_up;
pub mod hint;
mod invalid;
pub mod judged_claim;
pub mod knee;
pub mod ladder;
pub mod latency_budget;
pub mod ledger;
pub mod limits;
pub mod link;
pub mod link_ends;
pub mod listed;
pub mod machine;
pub mod names;
pub mod observed;
pub mod one_way;
pub mod options;
pub mod parse;
pub mod path;
pub mod periodic;
pub mod phases;
mod pool;
mod prefix;
pub mod printable;
mod purpose;
pub mod quantities;
pub mod rare_events;
pub mod reason;
pub mod refused;
pub mod round;
pub mod round_columns;
pub mod run;
pub mod run_header;
pub mod samples;
#[cfg(feature = "schema")]
pub mod schema;
mod selector;
pub mod served;
pub mod set_up;
pub mod shell;
pub mod summary;
pub mod sysctls;
pub mod time_sequence;
pub mod trace;
pub mod tuning;
pub mod upgrade;

#[cfg(not(feature = "schema"))]
use hairpin_model_macros::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use answer::{Answer, BatchGain, BestRemedy, Pair, Statement};
pub use arrivals::Arrivals;
pub use binding::Binding;
pub use capabilities::{Candidate, FarHost, HostCapabilities, KnownLink, Level, LinkCapabilities};
pub use card::{AnsweredBy, Card, Protocol, Reach, Receipt, RoughRoundTrip, SavedCards, WhyNot};
pub use case::{
    Case, CpuIdle, EndKind, EndSettings, Fallback, InjectedFault, Path, Placement, RemotePath, Waiting, WhichCpus,
};
pub use choice::{Choice, ChosenOptions, JudgedCase, MessageCost, Needs, UnmetNeed, WouldChange};
pub use claim::{
    Claim, FigureName, Measure, PlannedRun, Pool, Published, Row, Rule, Selector, Test, TestMethod, Text, Value,
};
pub use comparison::{BudgetResult, Caution, ComparisonReport, ComparisonRow, Decision, InvalidCase, Look, Unlike};
pub use document::Document;
pub use environment::{ClockFacts, Environment, Interface};
pub use exceeds::Exceeds;
pub use exchange::{Exchange, Remedy, Writes};
pub use exchange_state::{Actor, ExchangeState, StateSpan, StateUnion, TimeInState};
pub use explanation::{
    Cause, CauseText, ExplainedCause, ExplainedConnection, ExplainedPackets, ExplainedPrograms, Explanation, RangeNs,
    Tier, VantagePoint,
};
pub use fact::{Fact, FactValue};
pub use failure::{CodeOf, Failure, FailureKind, RefusedCode};
pub use figure::Figure;
pub use finding::{CounterExperiment, Evidence, Finding, FindingCard, Key, Proved, Repeat};
pub use flow::{Flow, FlowId, Load};
pub use hint::{Hint, Hinted};
pub use invalid::{Invalid, LeftOut, RoundLeftOut};
pub use judged_claim::{ClaimsReport, JudgedClaim, JudgedRow, Judgement, Source, TestRun};
pub use knee::Knee;
pub use ladder::Group;
pub use latency_budget::{Band, BudgetPart, EndPoints, LatencyBudget, Sampled, SampledRound, SampledTrip};
pub use ledger::{Ledger, Way};
pub use limits::{ExceededLimit, Limits};
pub use link::{
    DirectionRecord, DroppedPacket, LateBoundsNs, LatenessNs, LinkRecord, LinkSummary, LinkTimeline, PacketCounts,
    RelayReport, ShownLink, StageRecord,
};
pub use link_ends::{DropCounter, DroppedAfter, LinkEnds};
pub use listed::{
    Catalog, LinkRun, Links, ListedClaims, ListedExperiment, ListedKnob, ListedLink, ListedOption, ListedPlacement,
    ListedRemedy, ListedRun, ListedStage, ListedTransport, Relay, Runs, SkippedEntry,
};
pub use machine::{Machine, MachineState};
pub use names::UnknownName;
pub use one_way::{
    BlockedByOthers, BothEnds, CpuTimeLine, GapPercentiles, Moment, ObserverCost, OneWayFigures, OverTime,
    PacingError, PacingFigures, Received, Sent, StreamReceived, StreamSummary, Streamed, Times,
};
pub use options::{Effective, Options, ValueKind};
pub use parse::{Inexact, Unit};
pub use periodic::{FoundPeriod, PeriodSearchPlan, Periodic, PeriodicCounts, PeriodicFigures};
pub use phases::{
    AddedFigures, ByPhase, CpuFigures, LoadFigures, LoadedMoment, LoadedOverTime, PhaseFigures, PhaseLengths,
    PhaseUsage, PhasesOfCase, ProbeFigures, ProbePhase, ProbePhases, ProbeTimeLine, QueueBytes, Responsiveness,
    SenderState, Span, Trimmed, UnderLoad,
};
pub use prefix::Prefix;
pub use reason::Reason;
pub use refused::Refused;
pub use round::{
    CpuNoise, EndReport, ExchangeCounts, Extent, FailedFlow, Finished, FlowRecord, FlowSamples, Measured, Noise,
    Outcome, Probe, RoundOrder, RoundRecord, Turnaround,
};
pub use round_columns::RoundValue;
pub use run::{Host, Plan, PlannedTraffic, Run, Skipped, Tool};
pub use run_header::RunHeader;
pub use samples::{Column, PhaseCounts, PhaseHistograms, PhaseSamples, Samples, Stamps};
pub use served::{
    Check, CheckedDatagrams, CheckedServer, Ending, ListedServer, ListedTicket, RefusalReason, RefusedTransport,
    Servers, Session, StrangerCounts, TicketChange, Used,
};
pub use summary::{
    CaseSummary, ColdStart, Comparison, CurvePoint, DropFigures, EndSummary, ExchangeFigures, FlowSummary,
    LatencyFigures, Mode, OtherState, PathSummary, Percentiles, RoundFigures, RoundPoint, StateShare, TailComparison,
};
pub use sysctls::Sysctls;
pub use time_sequence::{TimeSequence, TraceFigures, TraceSummary, TracedExchange, Wait};
pub use trace::{Call, Capture, EndTrace, Packet, RoundTrace, SocketSample, Stamp};
