//! Decides which client may measure: rounds of two clients would disturb each other, so clients take turns.
//!
//! The connections of one session share the lease, because each flow of a round has its own connection. A round that
//! has waited as long as its ticket allows runs anyway. That round and all rounds that overlap with it are marked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Inner {
    /// Session that holds the lease, and the number of its flows in progress.
    holder: Option<(u64, u32)>,
    /// Number and session of each waiting flow, in order of arrival.
    queue: VecDeque<(u64, u64)>,
    last_number: u64,
    /// Session of each flow in progress, and the mark that the flow overlapped with another client's round.
    running: Vec<(u64, Arc<AtomicBool>)>,
}

#[derive(Default)]
pub(super) struct Lease(Mutex<Inner>, Condvar);

/// A flow of a round in progress. Dropping this ends the flow.
pub(super) struct Running<'l> {
    lease: &'l Lease,
    has_lease: bool,
    /// Whether this is the first flow of its round.
    pub(super) is_first: bool,
    overlapped: Arc<AtomicBool>,
}

impl Lease {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `at_most` until no flow of that session is in progress.
    pub(super) fn wait_until_over(&self, session: u64, at_most: Duration) {
        let is_under_way = |inner: &mut Inner| inner.running.iter().any(|(running, _)| *running == session);
        drop(self.1.wait_timeout_while(self.inner(), at_most, is_under_way));
    }

    /// Number of flows of that session in progress or waiting.
    pub(super) fn count(&self, session: u64) -> usize {
        let inner = self.inner();
        inner.running.iter().filter(|(running, _)| *running == session).count()
            + inner.queue.iter().filter(|(_, of)| *of == session).count()
    }

    /// Begins a flow of that session. If other sessions come first, calls `on_wait`, then waits up to `at_most`.
    pub(super) fn begin(&self, session: u64, at_most: Duration, on_wait: impl FnOnce()) -> Running<'_> {
        let deadline = Instant::now() + at_most;
        let mut inner = self.inner();
        inner.last_number += 1;
        let number = inner.last_number;
        // Further flows of the session that holds the lease do not wait: they belong to the same round.
        if inner.must_wait(session, number) {
            inner.queue.push_back((number, session));
            drop(inner);
            on_wait();
            inner = self.inner();
            while inner.must_wait(session, number) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                inner = self.1.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            inner.queue.retain(|(waiting, _)| *waiting != number);
        }
        let has_lease = !inner.is_held_by_another(session);
        if has_lease {
            let rounds = inner.holder.map_or(0, |(_, rounds)| rounds);
            inner.holder = Some((session, rounds + 1));
        }
        let is_first = inner.running.iter().all(|(running, _)| *running != session);
        let overlapped = Arc::new(AtomicBool::new(false));
        for (_, mark) in inner.running.iter().filter(|(other, _)| *other != session) {
            mark.store(true, Ordering::Relaxed);
            overlapped.store(true, Ordering::Relaxed);
        }
        inner.running.push((session, Arc::clone(&overlapped)));
        drop(inner);
        self.1.notify_all();
        Running { lease: self, has_lease, is_first, overlapped }
    }
}

impl Inner {
    fn is_held_by_another(&self, session: u64) -> bool {
        self.holder.is_some_and(|(holder, _)| holder != session)
    }

    /// Whether the flow must wait for another session that holds the lease or is first in the queue.
    fn must_wait(&self, session: u64, number: u64) -> bool {
        match self.holder {
            Some((holder, _)) => holder != session,
            None => self.queue.front().is_some_and(|(first, of)| *first != number && *of != session),
        }
    }
}

impl Running<'_> {
    /// Whether another client's round was in progress at any time during this one.
    pub(super) fn overlapped(&self) -> bool {
        self.overlapped.load(Ordering::Relaxed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut inner = self.lease.inner();
        if let Some(place) = inner.running.iter().position(|(_, mark)| Arc::ptr_eq(mark, &self.overlapped)) {
            inner.running.swap_remove(place);
        }
        if self.has_lease {
            inner.holder =
                inner.holder.map(|(holder, rounds)| (holder, rounds - 1)).filter(|(_, rounds)| *rounds > 0);
        }
        drop(inner);
        self.lease.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn rounds_of_one_session_share_the_lease_and_others_wait_for_their_turn() {
        let lease = Lease::default();
        let (first, second) = (lease.begin(1, LONG, || ()), lease.begin(1, Duration::ZERO, || ()));
        assert!(lease.count(1) == 2 && lease.count(2) == 0);
        assert!(first.is_first && !second.is_first);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let running = lease.begin(2, LONG, || ());
                (running.has_lease, running.overlapped())
            });
            drop(first);
            lease.wait_until_over(1, Duration::from_millis(1));
            assert!(lease.inner().is_held_by_another(2), "one round of the session is left");
            assert!(!second.overlapped());
            scope.spawn(move || drop(second));
            lease.wait_until_over(1, LONG);
            assert_eq!(waiting.join().unwrap(), (true, false));
        });
        assert!(!lease.inner().is_held_by_another(3) && lease.inner().running.is_empty());
    }

    #[test]
    fn a_round_that_has_waited_long_enough_runs_and_both_are_marked() {
        let lease = Lease::default();
        let first = lease.begin(1, LONG, || ());
        let second = lease.begin(2, Duration::from_millis(1), || ());
        assert!(first.overlapped() && second.overlapped() && !second.has_lease);
        drop(first);
        let third = lease.begin(3, LONG, || ());
        assert!(third.has_lease && third.overlapped(), "the second is still in progress, without the lease");
        drop(second);
        drop(third);
        let fourth = lease.begin(2, Duration::ZERO, || ());
        assert!(fourth.has_lease && !fourth.overlapped());
        assert!(lease.inner().queue.is_empty());
    }

    #[test]
    fn further_flows_of_a_round_do_not_wait_for_other_sessions_queued_between() {
        let lease = Lease::default();
        let first = lease.begin(1, LONG, || ());
        let queued = |count: usize| {
            while lease.inner().queue.len() < count {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            // Two flows of one round of session 2, with a round of session 3 between them.
            let one = scope.spawn(|| lease.begin(2, LONG, || ()));
            queued(1);
            let third = scope.spawn(|| lease.begin(3, LONG, || ()).overlapped());
            queued(2);
            let other = scope.spawn(|| lease.begin(2, LONG, || ()));
            queued(3);
            drop(first);
            let (one, other) = (one.join().unwrap(), other.join().unwrap());
            assert!(one.has_lease && other.has_lease && !one.overlapped());
            drop((one, other));
            assert!(!third.join().unwrap());
        });
    }

    #[test]
    fn a_round_that_has_to_wait_is_notified() {
        let lease = Lease::default();
        let told = AtomicBool::new(false);
        let first = lease.begin(1, LONG, || panic!("no round to wait for"));
        drop(lease.begin(2, Duration::ZERO, || told.store(true, Ordering::Relaxed)));
        assert!(told.load(Ordering::Relaxed));
        drop(first);
    }
}
