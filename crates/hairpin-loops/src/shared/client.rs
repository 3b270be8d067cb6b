//! The client of a shared connection. Sends the probe's messages when they are due, and sends or receives the load.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use hairpin_model::samples::Fate;
use hairpin_model::{Failure, FailureKind};
use hairpin_transports::{Wire, WireError};

use super::bulk::Bulk;
use super::frames::{FrameKind, Incoming, Outgoing, ReadError, ReceivedFrame};
use super::{BulkEnd, BulkOrder, POLL_INTERVAL_NS, Waits, broken};
use crate::client::{Client, is_done, recorder};
use crate::client_result::ClientResult;
use crate::clock::Clock;
use crate::failures::{garbage, overdue};
use crate::late_replies::LateReplies;
use crate::marks::ClientMarks;
use crate::message::{Message, sizes};
use crate::pacing::Timetable;
use crate::recorder::{Recorder, Stamps};
use crate::tally::Tally;

#[derive(Clone, Copy, Debug)]
struct InFlight {
    sequence: u64,
    due_ns: u64,
    /// When the kernel accepted the first byte; `None` before that.
    sent_ns: Option<u64>,
    measured: bool,
}

struct Shared<'a, C> {
    client: &'a Client<'a, C>,
    message: Message,
    recorder: Recorder,
    tally: Tally,
    flying: VecDeque<InFlight>,
    out: Outgoing,
    bulk: Bulk,
    answers: Vec<Vec<u8>>,
}

/// Runs the warm-up and the round at `rate_per_s`. The load begins at `load_at_ns` of the clock.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
    (load, rate_per_s): (BulkOrder, f64),
    load_at_ns: u64,
) -> Result<(ClientResult, BulkEnd), Failure> {
    let (clock, order) = (client.clock, client.order);
    let origin_ns = clock.now_ns();
    let timetable = Timetable::new(origin_ns, rate_per_s);
    let mut this = Shared::new(client, load);
    let (mut incoming, mut waits) = (Incoming::default(), Waits::new(wire)?);
    let (mut measuring, mut begin_ns, mut next, mut first) = (false, origin_ns, 0, 0);
    let mut until_ns = None;
    let interrupted = loop {
        let now_ns = clock.now_ns();
        if client.stop.load(Ordering::Relaxed) {
            break true;
        }
        if now_ns - origin_ns > order.deadline_ns {
            return Err(overdue(order, next));
        }
        let due_ns = timetable.due_ns(next);
        let is_over = measuring && is_done(order.extent, next - first, due_ns.saturating_sub(begin_ns));
        if is_over && until_ns.is_none() {
            until_ns = Some(now_ns.saturating_add(order.timeout_ns));
        }
        // Wait for pending answers, and for the rest of a load that has not ended.
        if is_over && (this.is_done() || until_ns.is_some_and(|until_ns| now_ns >= until_ns)) {
            break false;
        }
        if !is_over && now_ns >= due_ns {
            if !measuring
                && is_done(order.warm_up, next, now_ns - origin_ns)
                && marks.may_measure(order.warm_up == hairpin_model::round::Extent::Count(0))?
            {
                this.recorder.begin_measuring();
                (measuring, begin_ns, first) = (true, due_ns, next);
            }
            this.due(next, due_ns, measuring);
            next += 1;
        }
        if now_ns >= load_at_ns {
            this.begin_load(now_ns);
            this.bulk.look(now_ns, wire);
        }
        let has_no_room = this.write(wire, this.bulk.phase(now_ns))?;
        let came = this.read(&mut incoming, wire)?;
        if !came && (has_no_room || this.bulk.phase(now_ns).is_none()) {
            let next_ns = if is_over { now_ns + POLL_INTERVAL_NS } else { timetable.due_ns(next) };
            let load_ns = if now_ns < load_at_ns { load_at_ns } else { u64::MAX };
            waits.wait(clock, wire, next_ns.min(load_ns), has_no_room)?;
        }
    };
    marks.end();
    let duration_ns = clock.now_ns().saturating_sub(begin_ns);
    this.give_up();
    let Shared { recorder, tally, message, bulk, .. } = this;
    let late_replies = LateReplies::new(message, Vec::new(), [], next, order.timeout_ns, true);
    let (exchange_counts, periodic) = (None, None);
    let client_result = ClientResult {
        recorder,
        tally,
        origin_ns,
        duration_ns,
        interrupted,
        exchange_counts,
        periodic,
        late_replies,
    };
    let began_ns = bulk.began_ns;
    Ok((client_result, BulkEnd { streamed: bulk.ended(), began_ns }))
}

impl<'a, C: Clock> Shared<'a, C> {
    fn new(client: &'a Client<'a, C>, order: BulkOrder) -> Self {
        let [size, reply_size] = sizes(&client.order.case);
        Self {
            client,
            message: Message::new(size, reply_size),
            recorder: recorder(client, true),
            tally: Tally::default(),
            flying: VecDeque::with_capacity(1024),
            out: Outgoing::new(order.write_size_bytes),
            bulk: Bulk::new(order, order.goes_up),
            answers: Vec::new(),
        }
    }

    /// Whether all answers have arrived and the load is complete.
    fn is_done(&self) -> bool {
        let load_is_over = if self.bulk.sends { self.out.is_empty() } else { self.bulk.has_ended };
        self.flying.is_empty() && load_is_over
    }

    fn due(&mut self, sequence: u64, due_ns: u64, measured: bool) {
        self.message.number(sequence);
        self.out.push(FrameKind::Message, self.message.request(), Some(sequence));
        self.flying.push_back(InFlight { sequence, due_ns, sent_ns: None, measured });
        *(if measured { &mut self.tally.sent } else { &mut self.tally.warm_up_sent }) += 1;
    }

    /// Begins the load, here or at the server. Queues the end frame if this end sends the load and its time is over.
    fn begin_load(&mut self, now_ns: u64) {
        if self.bulk.begin(now_ns) && !self.bulk.sends {
            self.out.push(FrameKind::Begin, &[], None);
        }
        if self.bulk.ends(now_ns) {
            self.out.push(FrameKind::End, &[], None);
        }
    }

    /// Writes queued frames and bulk data. Returns whether the connection had no room for the rest.
    fn write(&mut self, wire: &mut dyn Wire, phase: Option<usize>) -> Result<bool, Failure> {
        let written = self.out.write(wire, phase).map_err(|error| broken("write to", &error))?;
        let now_ns = self.client.clock.now_ns();
        self.bulk.wrote(written.bulk_frames, now_ns);
        for number in written.begun {
            if let Some(flying) = self.flying.iter_mut().rev().find(|flying| flying.sequence == number) {
                flying.sent_ns = Some(now_ns);
            }
        }
        Ok(written.has_no_room)
    }

    /// Receives the available bytes. Returns false if no bytes were available.
    fn read(&mut self, incoming: &mut Incoming, wire: &mut dyn Wire) -> Result<bool, Failure> {
        let Self { answers, bulk, client, .. } = self;
        let mut unexpected = None;
        let read = incoming.read(wire, &mut |came| match came {
            ReceivedFrame::Bulk { measured, bytes } => bulk.on_bytes(measured, bytes, client.clock.now_ns()),
            ReceivedFrame::Whole(FrameKind::Answer, bytes) => answers.push(bytes.to_vec()),
            ReceivedFrame::Whole(FrameKind::End, _) if !bulk.sends => bulk.has_ended = true,
            ReceivedFrame::Whole(kind, _) => unexpected = Some(kind),
        });
        let came = read.map_err(|error| unreadable(&error))?;
        if let Some(kind) = unexpected {
            return Err(other_version(format!("unexpected frame {kind:?} from the server")));
        }
        let received_ns = self.client.clock.now_ns();
        for reply in std::mem::take(&mut self.answers) {
            self.on_answer(&reply, received_ns)?;
        }
        Ok(came)
    }

    /// Matches an answer with the oldest unanswered message, because answers arrive in the order of their messages.
    fn on_answer(&mut self, reply: &[u8], received_ns: u64) -> Result<(), Failure> {
        let Some(InFlight { sequence, due_ns, sent_ns, measured }) = self.flying.pop_front() else {
            return garbage(0, "there was no such message", true);
        };
        self.message.number(sequence);
        if reply != self.message.expected() {
            let difference = self.message.difference(reply);
            return garbage(sequence, &difference.unwrap_or_else(|| "it has another number".to_owned()), true);
        }
        let sent_ns = sent_ns.unwrap_or(received_ns);
        let in_time = received_ns.saturating_sub(due_ns) <= self.client.order.timeout_ns;
        let fate = if in_time { Fate::Received } else { Fate::Late };
        self.tally.answered(sequence, measured, in_time);
        self.recorder.record_as(Stamps { sequence, due_ns, sent_ns, received_ns, fate }, measured);
        Ok(())
    }

    /// Records all unanswered messages as lost.
    fn give_up(&mut self) {
        for InFlight { sequence, due_ns, sent_ns, measured } in self.flying.drain(..) {
            let sent_ns = sent_ns.unwrap_or(due_ns);
            let lost = Stamps { sequence, due_ns, sent_ns, received_ns: 0, fate: Fate::Lost };
            self.recorder.record_as(lost, measured);
        }
    }
}

/// The failure of a round that received bytes that are not a frame, or could not read.
pub(super) fn unreadable(error: &ReadError) -> Failure {
    match error {
        ReadError::Wire(error) => broken("read from", error),
        ReadError::NoFrame(error) => other_version(format!("cannot read from the shared connection: {error}")),
    }
}

/// The failure of a round whose other end sends something else than this version.
pub(super) fn other_version(cause: String) -> Failure {
    Failure::new(FailureKind::Unexpected, cause, "use the same version of Hairpin at both ends")
}

/// Whether the other end has closed the connection.
pub(super) fn is_closed(error: &ReadError) -> bool {
    matches!(error, ReadError::Wire(WireError::Closed))
}
