//! A scripted disturbance: a thread that uses a CPU from time to time, as a build or an update in the background does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Durations of work and of the pause after it, in ms. The script repeats until the disturbance ends.
const SCRIPT: [(u64, u64); 12] = [
    (300, 900),
    (50, 200),
    (1200, 1500),
    (20, 400),
    (700, 2600),
    (100, 100),
    (400, 700),
    (30, 1900),
    (2000, 1000),
    (150, 350),
    (60, 3100),
    (900, 500),
];

/// Runs until it is dropped.
pub(super) struct Disturbance {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Disturbance {
    pub(super) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            for (work_ms, pause_ms) in SCRIPT.into_iter().cycle() {
                let until = Instant::now() + Duration::from_millis(work_ms);
                while Instant::now() < until && !seen.load(Ordering::Relaxed) {}
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(pause_ms));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
