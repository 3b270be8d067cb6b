//! A wire for tests. It answers by a script and advances the manual clock, so every number is exact.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use hairpin_model::Fact;
use hairpin_model::options::OptionName;
use hairpin_transports::{Segments, Stream, Wire, WireError};

use crate::clock::{Clock, ManualClock};

/// What happens to one message.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Answered this many ns after it was sent.
    After(u64),
    /// Not answered.
    Never,
    /// Answered twice, this many ns after it was sent.
    Twice(u64),
    /// Answered after this many ns, with the last byte changed.
    Garbled(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptedCall {
    /// `send`, with the number of bytes.
    Send(usize),
    /// `send_more`, with the number of bytes.
    More(usize),
    /// `send_vectored`, with the sizes of the parts.
    Vectored(Vec<usize>),
    Set(OptionName, bool),
    /// `receive`, with the number of bytes.
    Receive(usize),
}

/// Additional state of a stream: messages are sent in pieces, and the calls are recorded.
pub struct Script {
    request_bytes: usize,
    reply_bytes: usize,
    piece: Vec<u8>,
    /// The calls, each with its start time.
    pub made: Vec<(u64, ScriptedCall)>,
}

pub struct ScriptedWire {
    clock: ManualClock,
    acts: Vec<Act>,
    sent: usize,
    timeout_ns: u64,
    send_takes_ns: u64,
    coming: VecDeque<(u64, Vec<u8>)>,
    script: Option<Script>,
}

impl ScriptedWire {
    /// Creates a wire that applies `acts` in turn. A receive without an answer times out after `timeout_ns`.
    pub fn new(clock: &ManualClock, acts: &[Act], timeout_ns: u64) -> Self {
        Self {
            clock: clock.clone(),
            acts: acts.to_vec(),
            sent: 0,
            timeout_ns,
            send_takes_ns: 0,
            coming: VecDeque::new(),
            script: None,
        }
    }

    /// Sets how long sends take.
    pub fn with_slow_sends(self, send_takes_ns: u64) -> Self {
        Self { send_takes_ns, ..self }
    }

    /// Makes the wire a stream: a message has `request_bytes`, and its answer is its first `reply_bytes`.
    pub fn in_pieces(self, request_bytes: usize, reply_bytes: usize) -> Self {
        let script = Script { request_bytes, reply_bytes, piece: Vec::new(), made: Vec::new() };
        Self { script: Some(script), ..self }
    }

    /// The calls so far, each with its start time.
    pub fn made(&self) -> &[(u64, ScriptedCall)] {
        self.script.as_ref().map_or(&[], |script| &script.made)
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let (_, bytes) = self.coming.pop_front().expect("an answer is queued");
        into[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }

    /// Applies the script to a complete message.
    fn act(&mut self, mut bytes: Vec<u8>) {
        let now_ns = self.clock.now_ns();
        match self.acts[self.sent % self.acts.len()] {
            Act::After(ns) => self.coming.push_back((now_ns + ns, bytes)),
            Act::Never => {}
            Act::Twice(ns) => self.coming.extend([(now_ns + ns, bytes.clone()), (now_ns + ns, bytes)]),
            Act::Garbled(ns) => {
                *bytes.last_mut().expect("messages are not empty") ^= 0xff;
                self.coming.push_back((now_ns + ns, bytes));
            }
        }
        self.coming.make_contiguous().sort_by_key(|(at_ns, _)| *at_ns);
        self.sent += 1;
    }

    fn put(&mut self, made: ScriptedCall, bytes: &[u8]) {
        let now_ns = self.clock.now_ns();
        let Some(script) = &mut self.script else {
            return self.act(bytes.to_vec());
        };
        script.made.push((now_ns, made));
        script.piece.extend(bytes);
        assert!(script.piece.len() <= script.request_bytes, "a write never exceeds its request");
        if script.piece.len() == script.request_bytes {
            let mut whole = std::mem::take(&mut script.piece);
            whole.truncate(script.reply_bytes);
            self.act(whole);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.coming.front().map(|(at_ns, _)| *at_ns)
    }
}

impl Wire for ScriptedWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.put(ScriptedCall::Send(message.len()), message);
        self.clock.advance(self.send_takes_ns);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        let now_ns = self.clock.now_ns();
        match self.next_ns() {
            Some(at_ns) if at_ns <= now_ns + self.timeout_ns => {
                self.clock.advance(at_ns.saturating_sub(now_ns));
                let bytes = self.take(into);
                if let Some(script) = &mut self.script {
                    script.made.push((now_ns, ScriptedCall::Receive(bytes)));
                }
                Ok(bytes)
            }
            _ => {
                self.clock.advance(self.timeout_ns);
                Err(WireError::TimedOut { operation: "receive", after: Duration::from_nanos(self.timeout_ns) })
            }
        }
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        let here = self.next_ns().is_some_and(|at_ns| at_ns <= self.clock.now_ns());
        Ok(here.then(|| self.take(into)))
    }

    fn wait(&mut self, at_most: Duration) -> Result<bool, WireError> {
        let now_ns = self.clock.now_ns();
        let until_ns = now_ns + u64::try_from(at_most.as_nanos()).expect("waits are short");
        let wake_ns = self.next_ns().map_or(until_ns, |at_ns| at_ns.clamp(now_ns, until_ns));
        self.clock.advance(wake_ns - now_ns);
        Ok(self.next_ns().is_some_and(|at_ns| at_ns <= wake_ns))
    }

    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }

    fn system_calls(&self) -> Option<u64> {
        let script = self.script.as_ref()?;
        Some(u64::try_from(script.made.len()).expect("a length"))
    }

    fn stream(&mut self) -> Option<&mut dyn Stream> {
        if self.script.is_some() { Some(self) } else { None }
    }
}

impl Stream for ScriptedWire {
    fn send_more(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.put(ScriptedCall::More(bytes.len()), bytes);
        self.clock.advance(self.send_takes_ns);
        Ok(())
    }

    fn send_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        let sizes = parts.iter().map(|part| part.len()).collect();
        self.put(ScriptedCall::Vectored(sizes), &parts.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>());
        self.clock.advance(self.send_takes_ns);
        Ok(())
    }

    fn set(&mut self, option: OptionName, on: bool) -> Result<(), WireError> {
        self.put(ScriptedCall::Set(option, on), &[]);
        self.clock.advance(self.send_takes_ns);
        Ok(())
    }

    /// Each send counts as a segment, each answer as a pure ACK.
    fn segments(&self) -> Option<Segments> {
        let count = |wanted: fn(&ScriptedCall) -> bool| {
            u64::try_from(self.made().iter().filter(|(_, made)| wanted(made)).count()).expect("a length")
        };
        Some(Segments {
            with_payload: count(|made| {
                matches!(made, ScriptedCall::Send(_) | ScriptedCall::More(_) | ScriptedCall::Vectored(_))
            }),
            bare: count(|made| matches!(made, ScriptedCall::Receive(_))),
        })
    }
}
