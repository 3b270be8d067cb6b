//! The client in a closed loop: it sends the next message after the answer to the previous one.
//!
//! The clock is read twice per message: when the send call begins and when the answer is complete.

use hairpin_model::Failure;
use hairpin_transports::{OverWire, Wire, over_own_type};

use super::client::Client;
use super::client_result::ClientResult;
use super::closed_loop::ClosedLoop;
use super::failures::broken;
use super::marks::ClientMarks;
use crate::clock::Clock;

/// Runs the warm-up and the round.
pub fn run<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
) -> Result<ClientResult, Failure> {
    over_own_type(wire, PingPong { client, marks })
}

struct PingPong<'a, C> {
    client: &'a Client<'a, C>,
    marks: &'a mut dyn ClientMarks,
}

impl<C: Clock> OverWire for PingPong<'_, C> {
    type Answer = Result<ClientResult, Failure>;

    fn run<W: Wire + ?Sized>(self, wire: &mut W) -> Self::Answer {
        ClosedLoop::new(self.client, 0).run(wire, self.marks, |closed_loop, wire, _| turn(closed_loop, wire))
    }
}

/// Sends one message and receives its answer.
#[inline(always)]
fn turn<C: Clock, W: Wire + ?Sized>(closed_loop: &mut ClosedLoop<'_, C>, wire: &mut W) -> Result<u64, Failure> {
    let clock = closed_loop.client.clock;
    let sequence = closed_loop.number();
    let sent_ns = clock.now_ns();
    wire.send_before_receive(closed_loop.message.request()).map_err(|error| broken("send", sequence, &error))?;
    closed_loop.count_sent();
    let received_ns = closed_loop.take_answer(wire, sequence, sent_ns)?;
    Ok(received_ns.unwrap_or_else(|| clock.now_ns()))
}
