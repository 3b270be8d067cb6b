//! The server: it answers each message with the message, its beginning, or a longer answer, as the load requires.

use std::time::Duration;

use hairpin_model::options::OptionName;
use hairpin_model::{Case, Extent, Failure, FailureKind, InjectedFault, Remedy, Turnaround, Waiting};
use hairpin_transports::{OverWire, Wire, WireError, clear_number, over_own_type, pattern};

use super::arrival_order::ArrivalOrder;
use super::failures::broken;
use super::marks::{Notice, ServerMarks};
use super::message::{patterned, sizes};
use super::writer::Writer;
use crate::clock::Clock;
use crate::recorder::TurnaroundCounter;

/// No code reaches beyond this place in a message.
const MAX_CODED_BYTES: usize = 16;

/// The parameters of a server, other than its wire.
pub struct Echo<'a, C> {
    /// Used to measure the turnaround and to inject faults.
    pub clock: &'a C,
    pub case: &'a Case,
    /// Whether the transport keeps message boundaries.
    pub boundaries: bool,
    /// Whether the transport moves messages without system calls.
    pub cpu_only: bool,
    pub warm_up: Extent,
    /// Whether to record the arrival order, because messages can be reordered.
    pub notes_order: bool,
}

struct Echoing<'a, C> {
    echo: &'a Echo<'a, C>,
    marks: &'a mut dyn ServerMarks,
}

impl<C: Clock> OverWire for Echoing<'_, C> {
    type Answer = Result<Answered, Failure>;

    fn run<W: Wire + ?Sized>(self, wire: &mut W) -> Self::Answer {
        self.echo.answer(wire, self.marks)
    }
}

/// The result of a server.
#[derive(Debug)]
pub struct Answered {
    /// How long messages were held; `None` if not measured.
    pub turnaround: Option<Turnaround>,
    /// Number of messages answered.
    pub count: u64,
    pub order: Option<ArrivalOrder>,
}

impl<C: Clock> Echo<'_, C> {
    /// Answers messages until the client closes its end or the load is over.
    pub fn run(&self, wire: &mut dyn Wire, marks: &mut dyn ServerMarks) -> Result<Answered, Failure> {
        over_own_type(wire, Echoing { echo: self, marks })
    }

    fn answer<W: Wire + ?Sized>(&self, wire: &mut W, marks: &mut dyn ServerMarks) -> Result<Answered, Failure> {
        let [size, reply_size] = sizes(self.case);
        let mut buffer = patterned(size.max(reply_size));
        let codes = wire.take_codes();
        if codes.is_some() {
            clear_number(&mut buffer, size.min(8));
        }
        let mut turnaround = self.stamps_turnaround().then(TurnaroundCounter::default);
        let mut number = 0;
        let mut order = self.notes_order.then(ArrivalOrder::default);
        let exchange = self.case.primary().load.exchange();
        let mut writer = exchange.and_then(|own| Some(Writer::new(own.reply_writes.as_ref()?, own.remedy)));
        // `quickack` must be set again after each read (tcp(7)).
        let acknowledges_quickly = exchange.is_some_and(|own| own.remedy == Remedy::Quickack);
        if acknowledges_quickly {
            acknowledge_quickly(wire, number)?;
        }
        // Without a warm-up, the client sends no message before both ends count.
        let mut notice = if self.warm_up == Extent::Count(0) { marks.wait()? } else { Notice::Nothing };
        let mut measuring = false;
        loop {
            match notice {
                Notice::Stop => break,
                Notice::Measure if !measuring => {
                    turnaround = turnaround.map(|_| TurnaroundCounter::default());
                    marks.begin()?;
                    measuring = true;
                }
                Notice::Measure | Notice::Nothing => {}
            }
            if !self.receive_whole(wire, &mut buffer[..size], number, acknowledges_quickly, marks)? {
                break;
            }
            let begin_ns = turnaround.as_ref().map(|_| self.clock.now_ns());
            number += 1;
            self.inject_fault(number);
            // Recorded before the send, which may wake the client on this CPU: the client would then run first.
            if let (Some(counter), Some(begin_ns)) = (&mut turnaround, begin_ns) {
                counter.record(self.clock.now_ns() - begin_ns);
            }
            // A code may replace a part of the number.
            let mut number_bytes = [0; 8];
            number_bytes.iter_mut().zip(&buffer).for_each(|(kept, byte)| *kept = *byte);
            if let Some(codes) = &codes {
                codes.write(&mut buffer[..reply_size]);
            }
            let sent = match &mut writer {
                None => wire.send_before_receive(&buffer[..reply_size]),
                Some(writer) => send_in_parts(wire, writer, &buffer[..reply_size]),
            };
            if codes.is_some() && reply_size > size {
                // The code has replaced a part of the answer that the next message does not overwrite.
                (size..reply_size.min(MAX_CODED_BYTES)).for_each(|index| buffer[index] = pattern(index));
                clear_number(&mut buffer, size.min(8));
            }
            match sent {
                Ok(()) => {}
                Err(WireError::Closed) => break,
                Err(error) => return Err(broken("echo", number, &error)),
            }
            if let Some(order) = &mut order {
                order.note_lowest(&number_bytes, size as u64);
            }
            marks.moved(number * size as u64, number * reply_size as u64)?;
            notice = if measuring { Notice::Nothing } else { marks.look()? };
        }
        Ok(Answered { turnaround: turnaround.map(TurnaroundCounter::finish), count: number, order })
    }

    /// Whether the server measures the turnaround. The two clock reads take a few per mille of a round trip with
    /// system calls, but a tenth of a round trip if both ends spin on memory.
    pub(super) fn stamps_turnaround(&self) -> bool {
        self.case.injected_fault.is_some() || !(self.cpu_only && self.case.ends.waiting == Waiting::Spin)
    }

    /// Receives one message. Returns false if the client has closed its end or the load is over (the farewell may be
    /// lost).
    #[inline(always)]
    fn receive_whole<W: Wire + ?Sized>(
        &self,
        wire: &mut W,
        into: &mut [u8],
        number: u64,
        acknowledges_quickly: bool,
        marks: &mut dyn ServerMarks,
    ) -> Result<bool, Failure> {
        let mut len = 0;
        loop {
            match wire.receive(&mut into[len..]) {
                Ok(some) => {
                    len += some;
                    if acknowledges_quickly {
                        acknowledge_quickly(wire, number)?;
                    }
                }
                Err(WireError::Closed) => return Ok(false),
                // The client handles silence; the server checks whether the load is over or the client was stopped.
                Err(WireError::TimedOut { .. }) if marks.look()? != Notice::Stop => {}
                Err(WireError::TimedOut { .. }) => return Ok(false),
                Err(error) => return Err(broken("receive", number, &error)),
            }
            if len > 0 && (self.boundaries || len == into.len()) {
                return Ok(true);
            }
        }
    }

    /// Stalls if a fault is to be injected at the message with this number.
    #[inline]
    pub(super) fn inject_fault(&self, number: u64) {
        let due = self.case.injected_fault.filter(|fault| number.is_multiple_of(fault.every));
        let Some(InjectedFault { sleeps, stall_ns, .. }) = due else { return };
        if sleeps {
            std::thread::sleep(Duration::from_nanos(stall_ns));
            return;
        }
        let until_ns = self.clock.now_ns() + stall_ns;
        while self.clock.now_ns() < until_ns {
            std::hint::spin_loop();
        }
    }
}

fn send_in_parts<W: Wire + ?Sized>(wire: &mut W, writer: &mut Writer, answer: &[u8]) -> Result<(), WireError> {
    let parts = writer.parts_of(answer);
    let sent = writer.write(wire, answer, &parts, || true);
    writer.keep(parts);
    sent.map(drop)
}

fn acknowledge_quickly<W: Wire + ?Sized>(wire: &mut W, number: u64) -> Result<(), Failure> {
    let Some(stream) = wire.stream() else {
        return Err(Failure::new(
            FailureKind::Unsupported,
            "the server cannot ask for quick ACKs: this transport is not a byte stream",
            "the remedy quickack works with TCP only",
        ));
    };
    let set = stream.set(OptionName::Quickack, true);
    set.map_err(|error| broken("ask for a quick acknowledgment of", number, &error))
}
