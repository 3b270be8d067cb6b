//! How a command is started to be watched, and what remains when it has ended.

use std::io::{Read, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use hairpin_engine::links::guest::{Guest, is_in_foreground};
use hairpin_engine::tuning::{Setting, Supervision};
use hairpin_model::observed::Observed;
use hairpin_model::{Failure, Options};

use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

/// Number of bytes at the end of a command's output that are kept.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Default)]
pub(super) struct How<'h> {
    /// Settings of the command's own networks that have other values.
    pub(super) sysctls: &'h [(String, String)],
    pub(super) settings: &'h [Setting],
    pub(super) options: Option<&'h Options>,
    pub(super) keeps_output: bool,
}

/// Forwards the received signals to the command, but none of a key that the terminal has sent to it already: some programs react
/// differently to a second one. `of_key` forwards the others. Returns whether there were any.
pub(super) fn forward(signals: &Signals, guest: &Guest, of_key: impl Fn(&Guest, i32)) -> bool {
    let keys_reach_command = is_in_foreground();
    let received = signals.take();
    for signal in &received {
        match Signals::is_of_a_key(*signal) {
            true if keys_reach_command => {}
            true => of_key(guest, *signal),
            false => guest.signal(*signal),
        }
    }
    !received.is_empty()
}

#[derive(Default)]
pub(super) struct Ended {
    pub(super) interrupted: bool,
    pub(super) observed: Observed,
    pub(super) took: Duration,
    pub(super) supervisions: Vec<Supervision>,
    pub(super) output: Option<Output>,
}

/// Where the output of a command goes: to standard error, and its end is kept if asked for.
pub(super) struct Output {
    keeps: bool,
    reader: Option<JoinHandle<String>>,
}

impl Output {
    pub(super) fn of(command: &mut Command, keeps: bool) -> Result<Self, Failure> {
        command.stdout(if keeps { Stdio::piped() } else { to_standard_error()? });
        Ok(Self { keeps, reader: None })
    }

    /// Begins to read. The command holds the write end of its output, so it is dropped.
    pub(super) fn reader(self, command: Command, guest: &mut Guest) -> Self {
        drop(command);
        let output = if self.keeps { guest.pipes().1 } else { None };
        Self { reader: output.map(|output| std::thread::spawn(move || pass_on(output))), ..self }
    }

    /// Returns the end of the output, once all that write it have ended.
    pub(super) fn text(self) -> String {
        self.reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

/// Copies output to standard error, and returns the end of it.
fn pass_on(mut output: ChildStdout) -> String {
    let (mut kept, mut part) = (Vec::new(), [0; 8192]);
    while let Ok(count @ 1..) = output.read(&mut part) {
        // Without a reader, the output is kept all the same.
        drop(std::io::stderr().write_all(&part[..count]));
        kept.extend_from_slice(&part[..count]);
        if kept.len() > 2 * MAX_OUTPUT_BYTES {
            kept.drain(..kept.len() - MAX_OUTPUT_BYTES);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}
