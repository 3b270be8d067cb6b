//! The echo half as a thread of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hairpin_model::round::Failure;
use hairpin_transports::giving_up::has_given_up;

use super::far::{EchoOrder, serve};
use super::{EchoEnd, Word};
use crate::child::LOOK;

/// The thread, and the way its words come.
pub struct EchoThread {
    words: Receiver<Word>,
    pings: Sender<()>,
    pongs: Receiver<()>,
    /// One that was seen and not yet taken.
    waiting: Option<Word>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

impl EchoThread {
    /// Starts the echo half.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start(order: EchoOrder) -> Result<Self, Failure> {
        let (tell, words) = channel();
        let ((pings, pinged), (answer, pongs)) = (channel(), channel());
        let stop = Arc::new(AtomicBool::new(false));
        let patience = patience(&order);
        let raised = Arc::clone(&stop);
        let serve = move || {
            // The client half may have gone: then nobody is left to hear it.
            let mut pong = || pinged.recv().is_ok() && answer.send(()).is_ok();
            serve(&order, &|| raised.load(Ordering::Relaxed), &mut pong, |word| drop(tell.send(word)));
        };
        let thread =
            std::thread::Builder::new().name("hairpin-echo".to_owned()).spawn(serve).map_err(|error| Failure {
                cause: format!("cannot start the echo half's thread: {error}"),
                hint: "is a limit on threads (ulimit -u) reached?".to_owned(),
            })?;
        Ok(Self { words, pings, pongs, waiting: None, stop, thread: Some(thread), patience })
    }

    /// Its next word, within its time and before everything is given up.
    fn heard(&self) -> Result<Word, RecvTimeoutError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.words.recv_timeout(left.min(LOOK)) {
                Err(RecvTimeoutError::Timeout) if left > LOOK && !has_given_up() => {}
                heard => return heard,
            }
        }
    }
}

/// How long to wait for a word: the wire's own time-outs come first, so this only ends a hang. Across a link opening and
/// closing have round trips of their own, some of which are lost.
pub(super) fn patience(order: &EchoOrder) -> Duration {
    let links = Duration::from_secs(if order.namespace.is_some() { 60 } else { 0 });
    Duration::from_nanos(order.round.timeout_ns) * 2 + Duration::from_secs(5) + links
}

impl EchoEnd for EchoThread {
    fn next_word(&mut self) -> Result<Word, Failure> {
        let waiting = self.waiting.take().map(Ok);
        match waiting.unwrap_or_else(|| self.heard()) {
            Ok(Word::Failed(failure)) => Err(failure),
            Ok(word) => Ok(word),
            Err(RecvTimeoutError::Timeout) => Err(Failure {
                cause: format!("the echo half said nothing for {} s", self.patience.as_secs()),
                hint: "is the machine overloaded?".to_owned(),
            }),
            Err(RecvTimeoutError::Disconnected) => Err(Failure {
                cause: "the echo half's thread ended without a word".to_owned(),
                hint: "this is a defect of Hairpin; please report it with the command line".to_owned(),
            }),
        }
    }

    fn ping(&mut self) -> Result<(), Failure> {
        let gone = || Failure {
            cause: "the echo half's thread did not answer".to_owned(),
            hint: "is the machine overloaded?".to_owned(),
        };
        self.pings.send(()).map_err(|_| gone())?;
        self.pongs.recv_timeout(self.patience).map_err(|_| gone())
    }

    fn has_word(&mut self) -> bool {
        if self.waiting.is_none() {
            match self.words.try_recv() {
                Ok(word) => self.waiting = Some(word),
                Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => {}
            }
        }
        self.waiting.is_some()
    }

    fn release(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn own_cause(&mut self) -> Option<Failure> {
        self.words.recv_timeout(Duration::from_millis(100)).ok().and_then(|word| match word {
            Word::Failed(failure) => Some(failure),
            _ => None,
        })
    }
}

impl Drop for EchoThread {
    fn drop(&mut self) {
        self.release();
        if let Some(thread) = self.thread.take() {
            // Its wire is closed or times out, so it ends; a panic there has already been reported as a failure.
            drop(thread.join());
        }
    }
}
