//! The closed loop of both ends as a task of a runtime, see [`InRuntime`]: one `block_on` for all messages.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;

use hairpin_model::trace::End;
use hairpin_model::{Extent, Failure, Hinted};
use hairpin_transports::{InRuntime, Runtime, WireError};

use super::client::Client;
use super::client_result::ClientResult;
use super::closed_loop::{ClosedLoop, Times};
use super::echo::{Answered, Echo};
use super::failures::broken;
use super::marks::{ClientMarks, Notice, ServerMarks};
use super::message::{patterned, sizes};
use crate::clock::Clock;
use crate::recorder::TurnaroundCounter;

/// Runs the loop of an end in a runtime.
fn block_on<T: Send>(
    runtime: &dyn Runtime,
    end: End,
    looping: impl Future<Output = Result<T, Failure>> + Send,
) -> Result<T, Failure> {
    let mut result = None;
    let ran = runtime.block_on(pin!(async { result = Some(looping.await) }));
    ran.map_err(|error| Failure::new(&error, format!("{end}: {}", error.cause()), error.hint()))?;
    result.expect("the runtime returns when the loop is over")
}

/// Receives until the message is complete, or one message with boundaries.
async fn receive_whole<W: InRuntime + ?Sized>(
    wire: &mut W,
    into: &mut [u8],
    boundaries: bool,
) -> Result<usize, WireError> {
    let mut len = 0;
    loop {
        len += poll_fn(|context| wire.poll_receive(context, &mut into[len..])).await?;
        if boundaries || len == into.len() {
            return Ok(len);
        }
    }
}

/// The client: sends the next message after the answer to the previous one.
pub(super) fn ping_pong<C: Clock, W: InRuntime + ?Sized>(
    client: &Client<'_, C>,
    wire: &mut W,
    marks: &mut dyn ClientMarks,
) -> Result<ClientResult, Failure> {
    block_on(&*wire.runtime(), End::Client, async move {
        let mut closed_loop = ClosedLoop::new(client, 0);
        let mut times = Times::from(client.clock.now_ns());
        let interrupted = loop {
            if let ControlFlow::Break(interrupted) = closed_loop.next(&mut times, marks, || ())? {
                break interrupted;
            }
            let sequence = closed_loop.number();
            let sent_ns = client.clock.now_ns();
            wire.send(closed_loop.message.request()).map_err(|error| broken("send", sequence, &error))?;
            closed_loop.count_sent();
            let end = loop {
                let received = receive_whole(wire, &mut closed_loop.reply, client.boundaries).await;
                if let Some(end) = closed_loop.on_received(received, sequence, sent_ns)? {
                    break end;
                }
            };
            times.now_ns = end.unwrap_or_else(|| client.clock.now_ns());
        };
        marks.end();
        Ok(closed_loop.result(times, interrupted, None))
    })
}

/// The server: answers messages until the client closes its end or the load is over.
pub(super) fn echo<C: Clock, W: InRuntime + ?Sized>(
    echo: &Echo<'_, C>,
    wire: &mut W,
    marks: &mut dyn ServerMarks,
) -> Result<Answered, Failure> {
    block_on(&*wire.runtime(), End::Server, async move {
        let [size, reply_size] = sizes(echo.case);
        let mut buffer = patterned(size.max(reply_size));
        let mut turnaround = echo.stamps_turnaround().then(TurnaroundCounter::default);
        let mut notice = if echo.warm_up == Extent::Count(0) { marks.wait()? } else { Notice::Nothing };
        let (mut number, mut measuring) = (0, false);
        while notice != Notice::Stop {
            if notice == Notice::Measure && !measuring {
                turnaround = turnaround.map(|_| TurnaroundCounter::default());
                marks.begin()?;
                measuring = true;
            }
            match receive_whole(wire, &mut buffer[..size], echo.boundaries).await {
                Ok(_) => {}
                Err(WireError::Closed) => break,
                // Between messages, the client may be silent; it also handles messages that do not become complete.
                Err(WireError::TimedOut { .. }) => {
                    notice = marks.look()?;
                    continue;
                }
                Err(error) => return Err(broken("receive", number, &error)),
            }
            let begin_ns = turnaround.as_ref().map(|_| echo.clock.now_ns());
            number += 1;
            echo.inject_fault(number);
            if let (Some(counter), Some(begin_ns)) = (&mut turnaround, begin_ns) {
                counter.record(echo.clock.now_ns() - begin_ns);
            }
            match wire.send(&buffer[..reply_size]) {
                Ok(()) => {}
                Err(WireError::Closed) => break,
                Err(error) => return Err(broken("echo", number, &error)),
            }
            marks.moved(number * size as u64, number * reply_size as u64)?;
            notice = if measuring { Notice::Nothing } else { marks.look()? };
        }
        Ok(Answered { turnaround: turnaround.map(TurnaroundCounter::finish), count: number, order: None })
    })
}
