//! Runs the libraries of an end's wires while the end waits for control messages.

use std::time::{Duration, Instant};

use hairpin_transports::Wire;

use crate::control::{Control, ControlError, Message};

/// A control channel whose waits drive the wires: their libraries pass on data, acknowledge and handle timers.
pub(super) struct Driving<'a> {
    pub(super) control: &'a mut dyn Control,
    pub(super) wires: &'a mut [Box<dyn Wire>],
}

impl Control for Driving<'_> {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.control.send(message)
    }

    fn receive(&mut self, within: Duration) -> Result<Message, ControlError> {
        let began = Instant::now();
        while !self.control.is_ready() && began.elapsed() < within {
            match drive(self.wires) {
                Some(due_in) => std::thread::sleep(due_in),
                None => break,
            }
        }
        let left = within.saturating_sub(began.elapsed());
        self.control.receive(left).map_err(|error| match error {
            ControlError::TimedOut(after) if after == left => ControlError::TimedOut(within),
            ControlError::OnlyProgress(after) if after == left => ControlError::OnlyProgress(within),
            other => other,
        })
    }

    fn is_ready(&mut self) -> bool {
        self.control.is_ready()
    }
}

/// Drives the wires once. Returns when to do it again, if at all.
pub(super) fn drive(wires: &mut [Box<dyn Wire>]) -> Option<Duration> {
    wires.iter_mut().filter_map(|wire| wire.drive()).min()
}
