//! One connection per message: connect, send, receive the answer, close (like netperf's TCP_CRR).
//!
//! A message is due when its connect call begins, and sent when the connection is open. Lateness is therefore the
//! connect time, service time is the time from request to answer, and latency is their sum. Connections are opened
//! one after the other, at a given rate or without a pause; messages that become due during the previous connection are
//! skipped.

use std::sync::atomic::Ordering;

use hairpin_model::samples::Fate;
use hairpin_model::{Extent, Failure};
use hairpin_transports::{Wire, WireError};

use super::client::{Client, MAX_TIME_OUTS, is_done, recorder};
use super::client_result::ClientResult;
use super::failures::{broken, garbage, overdue, unanswered};
use super::late_replies::LateReplies;
use super::marks::{ClientMarks, Notice, ServerMarks};
use super::message::{Message, patterned, sizes};
use super::tally::Tally;
use crate::clock::Clock;
use crate::recorder::Stamps;

/// Longest single sleep in ns. After each sleep, the client checks whether the user ended the run.
const MAX_SLEEP_NS: u64 = 20_000_000;

/// Opens a connection. Returns also the part of the connect time in ns that does not count; `None` on a time-out.
pub trait Connect: FnMut() -> Result<Option<(Box<dyn Wire>, u64)>, Failure> {}
impl<F: FnMut() -> Result<Option<(Box<dyn Wire>, u64)>, Failure>> Connect for F {}

/// Runs the warm-up and the round at `rate_per_s`, by default without a pause.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    mut connect: impl Connect,
    marks: &mut dyn ClientMarks,
    rate_per_s: Option<f64>,
) -> Result<ClientResult, Failure> {
    let (clock, order) = (client.clock, client.order);
    let [size, reply_size] = sizes(&order.case);
    let (mut message, mut reply) = (Message::new(size, reply_size), patterned(reply_size));
    let mut recorder = recorder(client, true);
    let mut tally = Tally::default();
    let apart_ns = rate_per_s.map_or(0, |rate_per_s| (1e9 / rate_per_s) as u64);
    let origin_ns = clock.now_ns();
    let (mut measuring, mut begin_ns, mut next_ns, mut time_outs) = (false, origin_ns, origin_ns, 0);
    let mut sequence = 0;
    let interrupted = loop {
        let now_ns = clock.now_ns();
        if client.stop.load(Ordering::Relaxed) {
            break true;
        }
        if measuring && is_done(order.extent, recorder.measured(), now_ns - begin_ns) {
            break false;
        }
        if now_ns - origin_ns > order.deadline_ns {
            return Err(overdue(order, sequence));
        }
        if now_ns < next_ns {
            clock.sleep_until(next_ns.min(now_ns + MAX_SLEEP_NS));
            continue;
        }
        if !measuring
            && is_done(order.warm_up, sequence, now_ns - origin_ns)
            && marks.may_measure(order.warm_up == Extent::Count(0))?
        {
            recorder.begin_measuring();
            (measuring, begin_ns) = (true, clock.now_ns());
        }
        message.number(sequence);
        let mut due_ns = clock.now_ns();
        // Skip messages that became due during the previous one.
        let passed = (due_ns - next_ns) / apart_ns.max(1);
        next_ns = next_ns.saturating_add((passed + 1).saturating_mul(apart_ns));
        *(if measuring { &mut tally.sent } else { &mut tally.warm_up_sent }) += 1;
        let wire = connect()?;
        // After a connect time-out, the time since `due_ns` is a lower bound of the connect time.
        let sent_ns = clock.now_ns();
        // The time to close the connection does not count.
        let (answered, received_ns) = match wire {
            Some((mut wire, excluded_ns)) => {
                due_ns += excluded_ns;
                (exchange(&mut *wire, &message, &mut reply, sequence)?, clock.now_ns())
            }
            None => (false, clock.now_ns()),
        };
        let in_time = received_ns - sent_ns <= order.timeout_ns;
        let fate = match (answered, in_time) {
            (false, _) => Fate::Lost,
            (true, true) => Fate::Received,
            (true, false) => Fate::Late,
        };
        if answered {
            tally.answered(sequence, measuring, in_time);
        }
        time_outs = if answered { 0 } else { time_outs + 1 };
        if time_outs >= MAX_TIME_OUTS {
            return Err(unanswered(sequence, order.timeout_ns));
        }
        recorder.record(Stamps { sequence, due_ns, sent_ns, received_ns, fate });
        sequence += 1;
    };
    marks.end();
    let duration_ns = clock.now_ns() - begin_ns;
    let late_replies = LateReplies::new(message, reply, [], sequence, order.timeout_ns, true);
    let (exchange_counts, periodic) = (None, None);
    Ok(ClientResult { recorder, tally, origin_ns, duration_ns, interrupted, exchange_counts, periodic, late_replies })
}

/// Sends the message and receives its answer. Returns false on a time-out.
fn exchange(wire: &mut dyn Wire, message: &Message, reply: &mut [u8], sequence: u64) -> Result<bool, Failure> {
    wire.send(message.request()).map_err(|error| broken("send", sequence, &error))?;
    let mut len = 0;
    while len < reply.len() {
        match wire.receive(&mut reply[len..]) {
            Ok(some) => len += some,
            Err(WireError::TimedOut { .. }) => return Ok(false),
            Err(error) => return Err(broken("receive the answer to", sequence, &error)),
        }
    }
    if reply == message.expected() {
        return Ok(true);
    }
    let difference = message.difference(reply).unwrap_or_else(|| "it has another number".to_owned());
    garbage(sequence, &difference, true).map(|()| true)
}

/// Accepts a connection. Returns `None` when it is time to check the marks.
pub trait Accept: FnMut() -> Result<Option<Box<dyn Wire>>, Failure> {}
impl<F: FnMut() -> Result<Option<Box<dyn Wire>>, Failure>> Accept for F {}

/// Answers one message of `size` bytes on each connection with `reply_size` bytes, until the load is over. Returns the
/// number of messages.
pub fn serve(
    mut accept: impl Accept,
    marks: &mut dyn ServerMarks,
    [size, reply_size]: [usize; 2],
) -> Result<u64, Failure> {
    let mut buffer = patterned(size.max(reply_size));
    let (mut measuring, mut number) = (false, 0);
    loop {
        match marks.look()? {
            Notice::Stop => return Ok(number),
            Notice::Measure if !measuring => {
                marks.begin()?;
                measuring = true;
            }
            Notice::Measure | Notice::Nothing => {}
        }
        let Some(mut wire) = accept()? else { continue };
        let mut len = 0;
        while len < size {
            // The server ignores a client that disconnects or times out before its message is complete.
            match wire.receive(&mut buffer[len..size]) {
                Ok(some) => len += some,
                Err(_) => break,
            }
        }
        if len == size {
            drop(wire.send(&buffer[..reply_size]));
            number += 1;
            marks.moved(number * size as u64, number * reply_size as u64)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use hairpin_model::Load;

    use super::*;
    use crate::clock::ManualClock;
    use crate::marks::Alone;
    use crate::scripted::{Act, ScriptedWire};
    use crate::tests::{TIMEOUT_NS, order};

    const RATE_PER_S: f64 = 1000.0;

    /// The samples of three messages. Each connection attempt takes the given time in ns, of which the last number does not
    /// count, and succeeds or times out.
    fn samples(connects: &[(u64, bool, u64)]) -> (ClientResult, hairpin_model::samples::Samples) {
        let (clock, stop) = (ManualClock::default(), AtomicBool::new(false));
        let order = order(Load::PLAIN.paced(RATE_PER_S), 3, 0);
        let client =
            Client { clock: &clock, order: &order, lossy: false, boundaries: true, phases: None, stop: &stop };
        let mut script = connects.iter().cycle();
        let connect = || {
            let (takes_ns, opens, excluded_ns) = script.next().expect("the script repeats");
            clock.advance(*takes_ns);
            let wire = ScriptedWire::new(&clock, &[Act::After(12_000)], TIMEOUT_NS);
            Ok(opens.then(|| (Box::new(wire) as Box<dyn Wire>, *excluded_ns)))
        };
        let mut client_result = run(&client, connect, &mut Alone, Some(RATE_PER_S)).unwrap();
        let recorder = std::mem::replace(&mut client_result.recorder, crate::recorder::Recorder::new(0, 0, true));
        (client_result, recorder.finish(0))
    }

    #[test]
    fn connect_time_is_lateness_and_answer_time_is_service_time() {
        let (client_result, samples) = samples(&[(30_000, true, 0)]);
        assert_eq!((client_result.tally.sent, client_result.tally.received), (3, 3));
        assert_eq!(samples.due_ns, [0, 1_000_000, 2_000_000]);
        assert_eq!(samples.sent_ns, [30_000, 1_030_000, 2_030_000]);
        assert_eq!(samples.received_ns, [42_000, 1_042_000, 2_042_000]);
        assert_eq!(samples.lateness.unwrap().len(), 3);
    }

    #[test]
    fn an_excluded_time_is_no_latency() {
        let (_, samples) = samples(&[(30_000, true, 10_000)]);
        assert_eq!(samples.due_ns, [10_000, 1_010_000, 2_010_000]);
        assert_eq!(samples.sent_ns, [30_000, 1_030_000, 2_030_000]);
    }

    #[test]
    fn a_connect_time_out_is_a_loss_and_a_slow_connect_delays_the_next_message() {
        let (client_result, samples) = samples(&[(2_500_000, false, 0), (10_000, true, 0), (10_000, true, 0)]);
        assert_eq!((client_result.tally.sent, client_result.tally.received), (3, 2));
        assert_eq!(samples.fate, [Fate::Lost, Fate::Received, Fate::Received]);
        assert_eq!(samples.sent_ns[0], 2_500_000, "a lower bound of the connect time");
        assert_eq!(
            samples.due_ns,
            [0, 2_500_000, 3_000_000],
            "the message due at 1 ms waited, and the one due at 2 ms was skipped"
        );
    }
}
