//! Models of `map` and `futex` with loom's atomics, for the loom test.

/// Replaces [`super::map`].
pub(crate) mod map {
    use std::collections::BTreeMap;
    use std::io;
    use std::ops::Deref;
    use std::os::fd::BorrowedFd;
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::fence;
    use loom::sync::atomic::{AtomicU32, AtomicU64};

    use super::futex::Queue;

    /// A handle to memory with a fixed set of words and pieces.
    #[derive(Clone)]
    pub(crate) struct Map(Arc<Memory>);

    struct Memory {
        words: BTreeMap<usize, Word>,
        long_words: BTreeMap<usize, AtomicU64>,
        /// Areas for copied bytes, by start offset.
        pieces: BTreeMap<usize, UnsafeCell<Vec<u8>>>,
    }

    // SAFETY: loom runs its threads one at a time, and reports unordered accesses to a piece.
    unsafe impl Sync for Memory {}

    /// A 32-bit word for futex waits.
    pub(crate) struct Word {
        value: AtomicU32,
        pub(super) queue: Queue,
    }

    impl Deref for Word {
        type Target = AtomicU32;

        fn deref(&self) -> &AtomicU32 {
            &self.value
        }
    }

    impl Map {
        pub(crate) fn new(_file: BorrowedFd<'_>, _length: usize) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        /// Creates memory with words and pieces at these offsets.
        pub(crate) fn of(words: &[usize], long_words: &[usize], pieces: &[usize], piece_bytes: usize) -> Self {
            let word = |at: &usize| (*at, Word { value: AtomicU32::new(0), queue: Queue::default() });
            Self(Arc::new(Memory {
                words: words.iter().map(word).collect(),
                long_words: long_words.iter().map(|at| (*at, AtomicU64::new(0))).collect(),
                pieces: pieces.iter().map(|at| (*at, UnsafeCell::new(vec![0; piece_bytes]))).collect(),
            }))
        }

        pub(crate) fn word(&self, offset: usize) -> &Word {
            &self.0.words[&offset]
        }

        pub(crate) fn long_word(&self, offset: usize) -> &AtomicU64 {
            &self.0.long_words[&offset]
        }

        pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
            // SAFETY: loom has checked that nothing else accesses the piece at the same time.
            self.0.pieces[&offset].with_mut(|piece| unsafe { (&mut *piece)[..bytes.len()].copy_from_slice(bytes) });
        }

        pub(crate) fn copy_out(&self, offset: usize, into: &mut [u8]) {
            // SAFETY: loom has checked that nothing changes the piece at the same time.
            self.0.pieces[&offset].with(|piece| unsafe { into.copy_from_slice(&(&*piece)[..into.len()]) });
        }
    }
}

/// Replaces [`super::futex`]. Waits have no time-outs, so a lost wake-up is a deadlock, which loom reports.
pub(crate) mod futex {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use loom::sync::{Mutex, Notify};

    use super::map::Word;

    /// Like `Awake` of the real `futex`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Awake {
        LookAgain,
        Interrupted,
        #[expect(dead_code, reason = "the model has no clock")]
        TimedOut,
    }

    /// The sleeper on a word. With the lock, comparison and sleep are one atomic step, as in the kernel (futex(2)).
    pub(super) type Queue = Mutex<Sleepers>;

    #[derive(Default)]
    pub(super) struct Sleepers {
        /// At most one end sleeps on a word.
        sleeper: Option<Arc<Notify>>,
        /// Spurious wake-ups so far.
        spurious: usize,
    }

    /// Maximum spurious wake-ups per word; loom explores each sleep with and without a spurious wake-up.
    const MAX_SPURIOUS: usize = 1;

    pub(crate) fn wait(word: &Word, expected: u32, _at_most: Option<Duration>) -> io::Result<Awake> {
        let woken = Arc::new(Notify::new());
        {
            let mut queue = word.queue.lock().unwrap();
            if word.load(Relaxed) != expected {
                return Ok(Awake::LookAgain);
            }
            assert!(queue.sleeper.replace(Arc::clone(&woken)).is_none(), "two ends sleep on one word");
        }
        loop {
            // May return without a notification once: loom explores both cases.
            woken.wait();
            let mut queue = word.queue.lock().unwrap();
            if queue.sleeper.is_none() {
                return Ok(Awake::LookAgain);
            }
            if queue.spurious < MAX_SPURIOUS {
                queue.spurious += 1;
                queue.sleeper = None;
                return Ok(Awake::Interrupted);
            }
        }
    }

    pub(crate) fn wake(word: &Word) {
        if let Some(sleeper) = word.queue.lock().unwrap().sleeper.take() {
            sleeper.notify();
        }
    }
}
