//! The load of a one-way flow: one end sends and the other receives. The client can be either.
//!
//! Over control, the sender reports the end of its warm-up, and from then on the receiver times arrivals. When the
//! sender ends, it reports its totals, so that the receiver knows how much is still in flight. The receiver ends when
//! it has everything or, if messages may be lost, after a silence. If the user ends the run at the receiver, the
//! receiver asks the sender to stop and receives the data in flight.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_model::flow::{Build, ConnectionUse, Direction, MAX_WIRES, Observer, Pacing, Source};
use hairpin_model::one_way::MAX_STREAMS_SHOWN;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{
    Card, EndReport, Fact, Failure, FailureKind, Flow, Load, Received, RoundOrder, Sent, Streamed, Waiting,
    fact_names,
};
use hairpin_transports::giving_up::has_given_up;
use hairpin_transports::{Batch, Cookie, Wire};

use super::credit::Credit;
use super::opening::{add_events, facts};
use super::stalled::{Stalled, longest_idle_ns};
use crate::control::{ControlError, Message, Progress};
use crate::observer::Mark;
use crate::observers::Observers;
use crate::path::longest_gap_ns;
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::driver::states::MAX_READINGS as MAX_STATES;
use hairpin_loops::driver::time_line::MAX_INTERVALS;
use hairpin_loops::driver::times::MAX_ROWS;
use hairpin_loops::driver::{
    self, Counts, Marks, Offering, Outcome, Receiving, Sending, StreamEnd, Totals, Transfer,
};
use hairpin_loops::failures::hint_of;
use hairpin_loops::shared::frames::MAX_MESSAGE_BYTES;

/// Messages that are missing after a silence of this many ns count as lost. The delays of a link extend this time.
const QUIET_NS: u64 = 100_000_000;
/// Maximum bytes per read of a byte stream. For messages, the buffer size of a typical program; for bulk data, more
/// than a socket usually holds, so that one read empties it.
const READ_BYTES: (usize, usize) = (64 << 10, 1 << 20);
/// Largest write to a stream, in bytes. Each end allocates a buffer of the write size.
const MAX_WRITE_BYTES: u64 = 16 << 20;
/// Maximum bytes per send call.
const MAX_BATCH_BYTES: u64 = 64 << 20;
/// Highest rate of an open loop, in messages per second: one message per ns.
const MAX_PER_S: f64 = 1e9;
/// Maximum count that an end may report: more than any round can count, and small enough for sums.
const MAX_COUNT: u64 = 1 << 50;
/// Maximum bytes, and maximum time in ns, that an end may report.
const MAX_BYTES: u64 = 1 << 62;
/// Maximum control messages handled per check.
const MAX_MESSAGES_PER_READ: usize = 64;

/// The other end, over control.
pub(super) trait Peer {
    fn send(&mut self, message: &Message) -> Result<(), Failure>;

    /// Returns the next message, or `None` if no message has begun to arrive.
    fn try_receive(&mut self) -> Result<Option<Message>, Failure>;

    /// The name of the peer in error messages.
    fn name(&self) -> &'static str;
}

pub(super) struct OneWay<'a> {
    pub(super) clock: &'a RealClock,
    pub(super) order: &'a RoundOrder,
    pub(super) card: &'a Card,
    pub(super) end: End,
    /// Set when the user ends the run.
    pub(super) stop: &'a AtomicBool,
}

pub(super) struct EndCounts {
    pub(super) streamed: Streamed,
    pub(super) system_calls: Option<u64>,
    pub(super) warm_up_messages: u64,
    pub(super) interrupted: bool,
    /// What the observer recorded.
    pub(super) observed: Vec<Fact>,
}

/// Refuses a flow that exceeds this end's limits.
pub(super) fn check(flow: &Flow, card: &Card) -> Result<(), Failure> {
    let most_bytes = match flow.direction {
        Direction::RoundTrip if flow.connection_use == ConnectionUse::Shared => MAX_MESSAGE_BYTES as u64,
        Direction::RoundTrip => card.max_message_bytes,
        Direction::Up | Direction::Down => MAX_WRITE_BYTES.min(card.max_message_bytes),
    };
    let (bytes, wires, batch) = (flow.load.size_bytes(), flow.wires(), flow.load.batch());
    let most_of_both = bytes.max(flow.load.reply_size_bytes());
    let (cause, hint) = if bytes == 0 || most_of_both > most_bytes {
        let cause =
            format!("cannot send {most_of_both} bytes at once: 1 to {most_bytes} can be sent over {}", card.name);
        (cause, "use smaller writes")
    } else if !(1..=MAX_WIRES).contains(&wires) {
        (format!("cannot open {wires} streams: 1 to {MAX_WIRES} can be open"), "use fewer connections or streams")
    } else if !(1..=Batch::MAX_MESSAGES as u64).contains(&batch) || bytes.saturating_mul(batch) > MAX_BATCH_BYTES {
        let most = format!("1 to {} messages of {} MiB in all", Batch::MAX_MESSAGES, MAX_BATCH_BYTES >> 20);
        (format!("cannot send {batch} messages of {bytes} bytes at once: {most} can be"), "use a smaller batch")
    } else if !flow.load.rate_per_s().is_none_or(|per_s| per_s > 0.0 && per_s <= MAX_PER_S) {
        (
            format!("cannot send at that rate: it must be above 0 and at most {MAX_PER_S} messages/s"),
            "use another rate",
        )
    } else if flow.build == Build::Unoptimised && !matches!(flow.load, Load::Messages { .. }) {
        (format!("no unoptimised loop exists for the load {}", flow.load.kind()), "use the optimised build")
    } else {
        return Ok(());
    };
    Err(Failure::new(FailureKind::Unsupported, cause, hint))
}

/// Takes the server's counts from its report. Checks that these counts are possible for the flow.
pub(super) fn of_server(report: &mut EndReport, flow: &Flow) -> Result<Streamed, Failure> {
    let receives = flow.direction == Direction::Up;
    let mut streamed = std::mem::take(&mut report.streamed);
    let is_sound = |one: &Streamed| {
        let counts = [one.sent, one.received, one.duplicated, one.unreadable, one.warm_up_sent, one.warm_up_received];
        one.arrivals.is_some() == receives
            && one.departures.is_some() != receives
            && one.arrivals.as_ref().is_none_or(|arrivals| can_arrive(arrivals, flow.wires()))
            && one.departures.as_ref().is_none_or(can_depart)
            && counts.iter().all(|count| *count <= MAX_COUNT)
            && one.times.rows.len() <= MAX_ROWS
            && sum(one.times.counts.iter().map(|(_, count)| *count)) <= MAX_COUNT
    };
    match (streamed.pop().filter(is_sound), streamed.is_empty()) {
        (Some(one), true) => Ok(one),
        _ => Err(Failure::new(
            FailureKind::Unexpected,
            "the server: its report of the load contradicts the load",
            "use the same version of Hairpin at both ends",
        )),
    }
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Whether a receiver with `wires` wires can have counted these arrivals.
fn can_arrive(arrivals: &Received, wires: u64) -> bool {
    let counts = [arrivals.bytes, arrivals.bytes_after_first, arrivals.over_ns, arrivals.reordered];
    let sums = [&arrivals.interval_bytes, &arrivals.connection_bytes].map(|of| sum(of.iter().copied()));
    arrivals.interval_bytes.len() <= MAX_INTERVALS
        && arrivals.connection_bytes.len() as u64 <= wires
        && arrivals.streams.len() as u64 <= wires.min(MAX_STREAMS_SHOWN as u64)
        && arrivals
            .streams
            .iter()
            .all(|stream| stream.latency_counts.len() <= MAX_ROWS && stream.received <= MAX_COUNT)
        && arrivals.warm_up_intervals <= arrivals.interval_bytes.len() as u64
        && (1..=MAX_COUNT).contains(&arrivals.interval_ns)
        && counts.into_iter().chain(sums).all(|count| count <= MAX_BYTES)
}

/// Whether a sender can have counted `sent`.
fn can_depart(sent: &Sent) -> bool {
    if sent.states.len() > MAX_STATES || sent.stream_messages.len() > MAX_STREAMS_SHOWN {
        return false;
    }
    let of_streams = sent.stream_messages.iter().all(|count| *count <= MAX_BYTES);
    of_streams && [sent.messages, sent.over_ns, sent.refused, sent.full].iter().all(|count| *count <= MAX_BYTES)
}

/// The facts of the first wire, with the event counts of the other wires added.
pub(super) fn facts_of_all(order: &RoundOrder, card: &Card, wires: &[Vec<Fact>]) -> Vec<Fact> {
    let Some((first, others)) = wires.split_first() else { return Vec::new() };
    let mut all = facts(&order.case, card, first.clone());
    add_events(&mut all, others.iter().flatten());
    all
}

impl OneWay<'_> {
    fn sends(&self) -> bool {
        (self.order.case.primary().direction == Direction::Up) == (self.end == End::Client)
    }

    pub(super) fn run(
        &self,
        wires: &mut [Box<dyn Wire>],
        peer: &mut dyn Peer,
        observers: &mut Observers,
    ) -> Result<EndCounts, Failure> {
        let ended = AtomicBool::new(false);
        let is_client = self.end == End::Client;
        let mut marks = ControlMarks {
            peer,
            user: self.stop,
            ended: &ended,
            reports_interrupt: is_client && !self.sends(),
            stops_on_interrupt: is_client && self.sends(),
            observers,
            sender_measures: false,
            sent: None,
            failure: None,
            sends: self.sends(),
            credit: (self.sends() && Credit::is_needed(&self.order.case, self.card))
                .then(|| Credit::new(self.clock.now_ns())),
            no_feedback_ns: None,
            stalled: Stalled {
                clock: self.clock,
                timeout_ns: self.order.timeout_ns,
                gap_ns: longest_gap_ns(&self.order.case)
                    .saturating_add(longest_idle_ns(&self.order.case.primary().load)),
                moved_bytes: 0,
                since_ns: self.clock.now_ns(),
                heard_ns: self.clock.now_ns(),
            },
        };
        marks.check_feedback();
        let outcome =
            if self.sends() { self.send(wires, &mut marks, &ended) } else { self.receive(wires, &mut marks, &ended) };
        marks.observers.mark(Mark::Last);
        if let Some(failure) = marks.failure.take() {
            return Err(failure);
        }
        let no_feedback_ns = marks.no_feedback_ns;
        let outcome = outcome?;
        if self.sends() {
            marks.peer.send(&Message::Sent(progress(&outcome.total.all())))?;
        }
        let calls: Option<u64> = wires.iter().map(|wire| wire.system_calls()).sum();
        let system_calls = calls.map(|calls| calls + outcome.waits);
        let Counts { messages_sent, messages_received, .. } = outcome.total.warm_up;
        let warm_up_messages = messages_sent + messages_received;
        let observed = self.check_observed(&outcome)?;
        let mut streamed = outcome.streamed(self.sends());
        if let Some(sent) = &mut streamed.departures {
            sent.no_feedback_ns = no_feedback_ns;
        }
        let interrupted = self.stop.load(Ordering::Relaxed);
        Ok(EndCounts { interrupted, streamed, system_calls, warm_up_messages, observed })
    }

    /// Returns what the observer recorded, which must be every message.
    fn check_observed(&self, outcome: &Outcome) -> Result<Vec<Fact>, Failure> {
        let Counts { messages_sent, messages_received, .. } = outcome.total.all();
        let messages = messages_sent + messages_received;
        match outcome.observed {
            Some(recorded) if recorded != messages => {
                let observer = self.order.case.primary().load.observer();
                let cause =
                    format!("{}: the observer {observer} recorded {recorded} of {messages} messages", self.end);
                let hint = "is the file system of temporary files full?";
                Err(Failure::new(FailureKind::Unexpected, cause, hint))
            }
            recorded => {
                Ok(recorded.into_iter().map(|count| Fact::number(fact_names::OBSERVED, count as f64)).collect())
            }
        }
    }

    fn send(
        &self,
        wires: &mut [Box<dyn Wire>],
        marks: &mut ControlMarks<'_>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Failure> {
        let (order, boundaries) = (self.order, self.card.boundaries);
        let (warm_up, amount) = (order.warm_up, order.extent);
        if let Load::Offered { offered_per_s, arrivals, pacing, .. } = order.case.primary().load
            && pacing != Pacing::Kernel
        {
            let offering = Offering {
                clock: self.clock,
                boundaries,
                size_bytes: self.write_size_bytes(),
                per_s: offered_per_s,
                arrivals,
                pacing,
                // The arrival pattern differs between rounds, but not between the cases of a block.
                seed: order.link_seed.wrapping_add(order.block.into()),
                warm_up,
                amount,
                keep_times: self.keep_times(),
                keep_states: order.phases.is_some(),
                within_ns: order.deadline_ns,
                stop,
            };
            return self.whole(driver::offer(&offering, wires, marks));
        }
        let sending = Sending {
            clock: self.clock,
            boundaries,
            waiting: self.waiting(),
            write_size_bytes: self.write_size_bytes(),
            batch: self.batch(),
            observer: order.case.primary().load.observer(),
            source: if let Load::Stream { source, .. } = order.case.primary().load { source } else { Source::Buffer },
            unchanging: order.case.primary().options.get(OptionName::Zerocopy) == Some("on"),
            warm_up,
            amount,
            keep_states: order.phases.is_some(),
            within_ns: order.deadline_ns,
            stop,
        };
        let send = match order.case.primary().build {
            Build::Optimised => driver::send,
            Build::Unoptimised => hairpin_loops_unoptimised::send,
        };
        self.whole(send(&sending, wires, marks))
    }

    fn receive(
        &self,
        wires: &mut [Box<dyn Wire>],
        marks: &mut ControlMarks<'_>,
        stop: &AtomicBool,
    ) -> Result<Outcome, Failure> {
        let load = &self.order.case.primary().load;
        let gaps_of_ns = match load {
            Load::Offered { offered_per_s, pacing: Pacing::Kernel, .. } => Some(1e9 / offered_per_s),
            _ => None,
        };
        if load.observer() == Observer::Timestamps {
            let stamped = wires.iter_mut().try_for_each(|wire| wire.stamp_arrivals());
            stamped.map_err(|error| {
                let cause = format!("{}: {error}", self.end);
                Failure::new(&error, cause, "use another --observer")
            })?;
        }
        let receiving = Receiving {
            clock: self.clock,
            boundaries: self.card.boundaries,
            waiting: self.waiting(),
            reliable: self.card.reliable,
            write_size_bytes: self.write_size_bytes(),
            batch: self.batch(),
            read_size_bytes: if matches!(load, Load::Stream { .. }) { READ_BYTES.1 } else { READ_BYTES.0 },
            observer: load.observer(),
            gaps_of_ns,
            keep_times: self.keep_times(),
            quiet_ns: QUIET_NS.saturating_add(longest_gap_ns(&self.order.case)),
            // The sender's deadline is earlier, because the sender's failure explains more.
            within_ns: self.order.deadline_ns.saturating_add(self.order.timeout_ns),
            stop,
        };
        let receive = match self.order.case.primary().build {
            Build::Optimised => driver::receive,
            Build::Unoptimised => hairpin_loops_unoptimised::receive,
        };
        self.whole(receive(&receiving, wires, marks))
    }

    fn waiting(&self) -> Waiting {
        self.order.case.ends.waiting
    }

    fn batch(&self) -> usize {
        usize::try_from(self.order.case.primary().load.batch()).unwrap_or(Batch::MAX_MESSAGES)
    }

    fn keep_times(&self) -> usize {
        usize::try_from(self.order.keep_samples).unwrap_or(MAX_ROWS)
    }

    fn write_size_bytes(&self) -> usize {
        usize::try_from(self.order.case.primary().load.size_bytes()).unwrap_or(usize::MAX)
    }

    /// Returns the outcome if the load ended properly, else the load's failure.
    fn whole(&self, outcome: Result<Outcome, hairpin_loops::driver::DriverError>) -> Result<Outcome, Failure> {
        let failed =
            |kind: FailureKind, cause: String, hint: &str| Failure::new(kind, format!("{}: {cause}", self.end), hint);
        let outcome = outcome.map_err(|error| {
            failed((&error).into(), error.to_string(), "is the limit of open files too low (ulimit -n)?")
        })?;
        match &outcome.ended {
            StreamEnd::Complete | StreamEnd::Quiet | StreamEnd::Stopped => Ok(outcome),
            StreamEnd::DeadlinePassed => Err(failed(
                FailureKind::TimedOut,
                format!(
                    "the load did not finish before the deadline of the round, {} s",
                    self.order.deadline_ns / 1_000_000_000
                ),
                "is the path slower than expected? measure less per round",
            )),
            StreamEnd::Failed(error) => {
                let hint = match error {
                    hairpin_loops::driver::DriverError::Wire { source, .. } => hint_of(source),
                    _ => "the other end ended early; see the cause it reported",
                };
                Err(failed(error.into(), error.to_string(), hint))
            }
        }
    }
}

fn progress(counts: &Counts) -> Progress {
    Progress {
        nonce: 0,
        messages_sent: counts.messages_sent,
        messages_received: counts.messages_received,
        bytes_sent: counts.bytes_sent,
        bytes_received: counts.bytes_received,
    }
}

struct ControlMarks<'a> {
    peer: &'a mut dyn Peer,
    /// Set when the user ends the run.
    user: &'a AtomicBool,
    ended: &'a AtomicBool,
    /// Whether this end is a client that receives: it tells the sender when the user ends the run.
    reports_interrupt: bool,
    /// Whether this end is a client that sends: it stops when the user ends the run.
    stops_on_interrupt: bool,
    observers: &'a mut Observers,
    sender_measures: bool,
    sent: Option<Totals>,
    failure: Option<Failure>,
    stalled: Stalled<'a>,
    /// Whether this end sends: it then reports the end of its warm-up.
    sends: bool,
    /// `None` unless this end is a sender that needs credit.
    credit: Option<Credit>,
    /// Time without feedback that made the sender stop, in ns; `None` if feedback was in time.
    no_feedback_ns: Option<u64>,
}

/// Draws a nonce that only its receiver can know.
fn random_number() -> io::Result<u64> {
    let Cookie(bytes) = Cookie::draw()?;
    let [a, b, c, d, e, f, g, h, ..] = bytes;
    // 0 means no nonce.
    Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1))
}

impl ControlMarks<'_> {
    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.ended.store(true, Ordering::Relaxed);
    }

    fn attend(&mut self) {
        if let Err(failure) = self.read_messages() {
            self.fail(failure);
        }
        if has_given_up() || self.stops_on_interrupt && self.user.load(Ordering::Relaxed) {
            self.ended.store(true, Ordering::Relaxed);
        }
    }

    /// Changes the nonce periodically, and ends the load if a quote is overdue.
    fn check_feedback(&mut self) {
        let Some(credit) = &mut self.credit else { return };
        let now_ns = self.stalled.clock.now_ns();
        if let Some(overdue_ns) = credit.overdue_ns(now_ns) {
            self.no_feedback_ns.get_or_insert(overdue_ns);
            self.ended.store(true, Ordering::Relaxed);
        }
        match random_number() {
            Ok(nonce) => credit.set_nonce(nonce, now_ns),
            Err(error) => self.fail(Failure::new(
                &error,
                format!("cannot draw random bytes for the load: {error}"),
                "allow getrandom(2) in this sandbox",
            )),
        }
    }

    fn read_messages(&mut self) -> Result<(), Failure> {
        if self.reports_interrupt && self.user.load(Ordering::Relaxed) {
            self.reports_interrupt = false;
            self.peer.send(&Message::Stop)?;
        }
        // Further messages wait for the next check.
        for _ in 0..MAX_MESSAGES_PER_READ {
            let Some(message) = self.peer.try_receive()? else { return Ok(()) };
            self.stalled.heard_ns = self.stalled.clock.now_ns();
            match message {
                Message::Progress(told) => {
                    if let Some(credit) = &mut self.credit {
                        credit.on_quote(told.nonce, self.stalled.heard_ns);
                    }
                }
                Message::Measuring => self.sender_measures = true,
                Message::Sent(all) => {
                    self.came_late();
                    self.sent = Some(Totals { messages: all.messages_sent, bytes: all.bytes_sent });
                }
                Message::Stop => self.ended.store(true, Ordering::Relaxed),
                other => return Err(ControlError::Unexpected(other.name()).failure(self.peer.name())),
            }
        }
        Ok(())
    }
}

impl Marks for ControlMarks<'_> {
    fn begin(&mut self) {
        if self.sends
            && let Err(failure) = self.peer.send(&Message::Measuring)
        {
            self.fail(failure);
        }
        self.observers.mark(Mark::First);
    }

    fn look(&mut self, now_ns: u64) {
        self.observers.mark(Mark::Running(now_ns));
    }

    fn came_late(&mut self) {
        self.observers.mark(Mark::Latest);
    }

    fn measures(&mut self) -> bool {
        self.sender_measures
    }

    fn nonce(&mut self) -> u64 {
        self.credit.as_ref().map_or(0, Credit::nonce)
    }

    fn is_granted(&mut self) -> bool {
        self.attend();
        self.credit.as_ref().is_none_or(Credit::is_granted)
    }

    fn progress(&mut self, so_far: &Transfer, nonce: u64) {
        let quoted = if self.sends { 0 } else { nonce };
        if let Err(failure) =
            self.peer.send(&Message::Progress(Progress { nonce: quoted, ..progress(&so_far.all()) }))
        {
            self.fail(failure);
        }
        self.check_feedback();
        if let Some(failure) = self.stalled.check_progress(so_far) {
            self.fail(failure);
        }
        self.attend();
        // A sender that has sent everything no longer reports progress.
        if self.sent.is_none()
            && let Some(failure) = self.stalled.check_peer(self.peer.name())
        {
            self.fail(failure);
        }
    }

    fn sent(&mut self) -> Option<Totals> {
        self.attend();
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_messages_have_an_unoptimised_loop() {
        let card = super::super::opening::transport("tcp").unwrap().card();
        let refused = |load: Load| {
            let flow = Flow { build: Build::Unoptimised, ..Flow::one_way("tcp", load, Direction::Up) };
            check(&flow, &card).err().map(|failure| failure.to_string())
        };
        let messages = Load::Messages { size_bytes: 64, batch: 1, observer: Default::default() };
        assert_eq!(refused(messages), None);
        let stream = refused(Load::Stream { write_size_bytes: 64, source: Source::Buffer }).unwrap();
        assert!(stream.contains("no unoptimised loop exists for the load stream"), "{stream}");
        let ping_pong = Flow { build: Build::Unoptimised, ..Flow::ping_pong("tcp") };
        assert!(check(&ping_pong, &card).is_err());
    }

    #[test]
    fn a_server_report_with_impossible_counts_is_refused() {
        let flow = Flow { connections: 2, ..Flow::stream("tcp", 64, Direction::Up) };
        let refused = |change: &dyn Fn(&mut Received)| {
            let mut arrivals =
                Received { bytes: 64, interval_ns: 1, interval_bytes: vec![64], ..Received::default() };
            change(&mut arrivals);
            let streamed = vec![Streamed { arrivals: Some(arrivals), ..Streamed::default() }];
            of_server(&mut EndReport { streamed, ..EndReport::default() }, &flow).is_err()
        };
        assert!(!refused(&|_| {}));
        let changes: [&dyn Fn(&mut Received); 6] = [
            &|arrivals| arrivals.interval_ns = 0,
            &|arrivals| arrivals.interval_ns = u64::MAX,
            &|arrivals| arrivals.warm_up_intervals = 2,
            &|arrivals| arrivals.bytes = u64::MAX,
            &|arrivals| arrivals.interval_bytes = vec![u64::MAX, u64::MAX],
            &|arrivals| arrivals.connection_bytes = vec![1; 3],
        ];
        for (place, change) in changes.into_iter().enumerate() {
            assert!(refused(change), "change {place}");
        }
    }
}
