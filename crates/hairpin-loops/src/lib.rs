//! All code that runs per message: the only clock, the recorder of timestamps, and the loops of both ends. It is a
//! separate crate because only this code needs full optimization; everything else runs once per round.
//!
//! The client runs a closed loop ([`ping_pong`], [`small_writes`]) or an open one ([`paced`]); the server is
//! [`echo`]. These loops use only a wire and a clock, so tests run the same code on a manual clock. One-way loads
//! over many wires are in [`driver`].

pub mod arrival_order;
mod client;
mod client_result;
pub mod clock;
mod closed_loop;
pub mod connecting;
pub mod driver;
pub mod echo;
pub mod failures;
mod in_runtime;
pub mod late_replies;
#[cfg(target_os = "linux")]
mod linux;
pub mod marks;
pub mod message;
pub mod paced;
pub mod pacing;
pub mod periodic;
mod periods;
mod phases;
pub mod ping_pong;
pub mod recorder;
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
pub mod shared;
pub mod small_writes;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod undamaged;
mod writer;

use hairpin_model::{Failure, FailureKind, Load};
use hairpin_transports::Wire;

use crate::clock::Clock;
pub use client::Client;
pub use client_result::ClientResult;
use echo::{Answered, Echo};
#[cfg(target_os = "linux")]
pub use linux::system::time;
use marks::{ClientMarks, ServerMarks};

/// Runs the server over `wire`: it answers messages until the client closes its end or the load is over.
pub fn run_server<C: Clock>(
    echo: &Echo<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ServerMarks,
) -> Result<Answered, Failure> {
    match wire.in_runtime() {
        Some(wire) => in_runtime::echo(echo, wire, marks),
        None => echo.run(wire, marks),
    }
}

pub fn run_client<C: Clock>(
    client: &Client<'_, C>,
    wire: &mut dyn Wire,
    marks: &mut dyn ClientMarks,
) -> Result<ClientResult, Failure> {
    match &client.order.case.primary().load {
        Load::PingPong { .. } => match wire.in_runtime() {
            Some(wire) => in_runtime::ping_pong(client, wire, marks),
            None => ping_pong::run(client, wire, marks),
        },
        Load::Paced { rate_per_s, .. } => paced::run(client, wire, marks, *rate_per_s),
        Load::Periodic { periodic, .. } => periodic::run(client, wire, marks, periodic),
        Load::Exchange { exchange, .. } => small_writes::run(client, wire, marks, exchange),
        Load::Messages { .. } | Load::Stream { .. } | Load::Offered { .. } => Err(Failure::new(
            FailureKind::Unsupported,
            "a one-way load has no answers for a closed or open loop",
            "use the direction up or down for a one-way load",
        )),
    }
}
