//! Decides which client may measure: rounds of two clients would disturb each other, so clients take turns.
//!
//! A turn is a round, with all its flows: each flow has its own connection, and those that open soon after the first one belong to its
//! round. The next turn is that of the waiting ticket whose last turn is longest ago, so a ticket waits for at most one turn of each
//! other ticket, however many sessions these have. While others wait, a round that moves no bytes loses its turn.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_model::Limits;

/// The flows of a round open within this time. Later ones belong to the session's next round, and wait for its turn.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// Time for set-up and teardown, in addition to the ticket's limit for the duration of a round.
pub(super) const SETUP_TIME: Duration = Duration::from_secs(10);
/// While others wait, a round may be without bytes for this time, and for the pauses of its load.
const MAX_IDLE: Duration = Duration::from_secs(1);
/// While others wait, a round may take this time to move its first bytes.
const MAX_START: Duration = OPENING_TIME;
/// Maximum flows of a ticket that wait: each has a thread and a connection.
const MAX_OF_TICKET: usize = 64;
/// Maximum flows that wait.
const MAX_WAITING: usize = 128;
/// Interval between checks whether a waiting flow is still wanted.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait, regardless of the turns of others.
const MAX_WAIT: Duration = Duration::from_hours(1);

#[derive(Default)]
struct Inner {
    turn: Option<Turn>,
    /// Waiting flows, in order of arrival.
    queue: Vec<Waiting>,
    last_number: u64,
    /// Number of turns so far, and the number of each ticket's last turn.
    turns: u64,
    last_turns: BTreeMap<String, u64>,
}

/// The round in progress.
struct Turn {
    ticket: String,
    session: u64,
    began: Instant,
    /// Number of its flows in progress.
    flows: u32,
    /// When one of its flows last moved bytes; `None` before the first.
    moved: Option<Instant>,
    /// Longest pause of its loads.
    pause: Duration,
    limit: Duration,
}

struct Waiting {
    number: u64,
    ticket: String,
    session: u64,
    /// Longest duration of its turn.
    limit: Duration,
}

#[derive(Default)]
pub(super) struct Lease(Mutex<Inner>, Condvar);

/// Why a flow did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// Too many flows wait.
    Full,
    /// The wait for the round's turn timed out.
    Late,
    Gone,
}

/// A flow of the round in progress. Dropping this ends the flow.
pub(super) struct Running<'l> {
    lease: &'l Lease,
    /// Whether this is the first flow of its round.
    pub(super) is_first: bool,
}

impl Lease {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits up to `at_most` until no flow of that session is in progress.
    pub(super) fn wait_until_over(&self, session: u64, at_most: Duration) {
        let is_under_way = |inner: &mut Inner| inner.flows_of(session) > 0;
        drop(self.1.wait_timeout_while(self.inner(), at_most, is_under_way));
    }

    /// Number of flows of that session in progress or waiting.
    pub(super) fn count(&self, session: u64) -> usize {
        let inner = self.inner();
        inner.flows_of(session) as usize + inner.queue.iter().filter(|waiting| waiting.session == session).count()
    }

    /// Begins a flow of that session. If others come first, calls `on_wait` with the longest wait that is likely, then waits
    /// until its turn comes, `is_gone` returns true, or no round was in progress for as long as the limits say.
    pub(super) fn begin(
        &self,
        ticket: &str,
        session: u64,
        limits: &Limits,
        on_wait: impl FnOnce(Duration),
        mut is_gone: impl FnMut() -> bool,
    ) -> Result<Running<'_>, NotBegun> {
        let at_most = Duration::from_nanos(limits.waits_ns());
        let limit = limits.turn_ns.map_or(MAX_WAIT, Duration::from_nanos);
        let mut inner = self.inner();
        let of_ticket = inner.queue.iter().filter(|waiting| waiting.ticket == ticket).count();
        if of_ticket >= MAX_OF_TICKET || inner.queue.len() >= MAX_WAITING {
            return Err(NotBegun::Full);
        }
        inner.last_number += 1;
        let number = inner.last_number;
        inner.queue.push(Waiting { number, ticket: ticket.to_owned(), session, limit });
        if !inner.may_begin(number, session) {
            let likely = at_most.saturating_add(inner.turns_before(ticket));
            drop(inner);
            on_wait(likely);
            inner = self.inner();
        }
        let began = Instant::now();
        let mut left = at_most;
        while !inner.may_begin(number, session) {
            let (is_turn, waits_from) = (inner.turn.is_some(), Instant::now());
            let why = if left.is_zero() || began.elapsed() >= MAX_WAIT {
                Some(NotBegun::Late)
            } else {
                is_gone().then_some(NotBegun::Gone)
            };
            if let Some(why) = why {
                inner.queue.retain(|waiting| waiting.number != number);
                return Err(why);
            }
            // Flows may not join a round that began long ago, so a wait without a notice ends too.
            let step = if is_turn { POLL_INTERVAL } else { POLL_INTERVAL.min(left) };
            inner = self.1.wait_timeout(inner, step).unwrap_or_else(PoisonError::into_inner).0;
            if !is_turn {
                left = left.saturating_sub(waits_from.elapsed());
            }
        }
        inner.queue.retain(|waiting| waiting.number != number);
        let is_first = inner.turn.is_none();
        match &mut inner.turn {
            Some(turn) => turn.flows += 1,
            None => {
                inner.turns += 1;
                let turns = inner.turns;
                inner.last_turns.insert(ticket.to_owned(), turns);
                let began = Instant::now();
                let ticket = ticket.to_owned();
                let pause = Duration::ZERO;
                inner.turn = Some(Turn { ticket, session, began, flows: 1, moved: None, pause, limit });
            }
        }
        drop(inner);
        self.1.notify_all();
        Ok(Running { lease: self, is_first })
    }
}

impl Inner {
    fn flows_of(&self, session: u64) -> u32 {
        self.turn.as_ref().filter(|turn| turn.session == session).map_or(0, |turn| turn.flows)
    }

    /// Whether a waiting flow may begin: it belongs to the round in progress, or its session has the next turn.
    fn may_begin(&self, number: u64, session: u64) -> bool {
        match &self.turn {
            Some(turn) => turn.session == session && turn.began.elapsed() < OPENING_TIME,
            None => self.next().is_some_and(|next| next.number == number || next.session == session),
        }
    }

    fn next(&self) -> Option<&Waiting> {
        let last_turn = |waiting: &Waiting| self.last_turns.get(&waiting.ticket).copied().unwrap_or(0);
        self.queue.iter().min_by_key(|waiting| (last_turn(waiting), waiting.number))
    }

    /// Longest duration of the turn in progress and of one turn of each other ticket that waits.
    fn turns_before(&self, ticket: &str) -> Duration {
        let others = self.queue.iter().filter(|waiting| waiting.ticket != ticket);
        let limits: BTreeMap<&str, Duration> =
            others.map(|waiting| (waiting.ticket.as_str(), waiting.limit)).collect();
        let all = limits.into_values().chain(self.turn.as_ref().map(|turn| turn.limit));
        all.fold(Duration::ZERO, |sum, limit| sum.saturating_add(limit.saturating_add(SETUP_TIME)))
    }
}

impl Running<'_> {
    /// Notes that the round has moved bytes.
    pub(super) fn on_moved(&self) {
        if let Some(turn) = &mut self.lease.inner().turn {
            turn.moved = Some(Instant::now());
        }
    }

    /// Notes the longest pause of a load of the round.
    pub(super) fn may_pause(&self, pause: Duration) {
        if let Some(turn) = &mut self.lease.inner().turn {
            turn.pause = turn.pause.max(pause);
        }
    }

    /// When the round must be over.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        let inner = self.lease.inner();
        let turn = inner.turn.as_ref()?;
        turn.began.checked_add(turn.limit.saturating_add(SETUP_TIME).saturating_add(OPENING_TIME))
    }

    /// Returns for how long the round has moved no bytes, if that is too long while another ticket waits.
    pub(super) fn overlong_idle(&self) -> Option<Duration> {
        let inner = self.lease.inner();
        let turn = inner.turn.as_ref()?;
        let (since, most) = turn.moved.map_or((turn.began, MAX_START), |moved| (moved, MAX_IDLE));
        let idle = since.elapsed();
        let is_awaited = || inner.queue.iter().any(|waiting| waiting.ticket != turn.ticket);
        (idle > most.saturating_add(turn.pause) && is_awaited()).then_some(idle)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut inner = self.lease.inner();
        if let Some(turn) = &mut inner.turn {
            turn.flows -= 1;
        }
        inner.turn.take_if(|turn| turn.flows == 0);
        drop(inner);
        self.lease.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Limits of a ticket whose rounds wait for this time.
    fn waits(wait: Duration) -> Limits {
        Limits { wait_ns: Some(u64::try_from(wait.as_nanos()).unwrap()), ..Limits::default().with_turn() }
    }

    fn no_wait(_: Duration) {
        panic!("no round to wait for")
    }

    impl Lease {
        fn wait_for_queue(&self, count: usize) {
            while self.inner().queue.len() < count {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn flows_of_one_round_share_its_turn_and_other_sessions_wait() {
        let lease = Lease::default();
        let first = lease.begin("a", 1, &waits(LONG), no_wait, || false).unwrap();
        let second = lease.begin("a", 1, &waits(Duration::ZERO), no_wait, || false).unwrap();
        assert!(lease.count(1) == 2 && lease.count(2) == 0);
        assert!(first.is_first && !second.is_first);
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| lease.begin("b", 2, &waits(LONG), |_| (), || false).is_ok_and(|running| running.is_first));
            lease.wait_for_queue(1);
            drop(first);
            lease.wait_until_over(1, Duration::from_millis(1));
            assert_eq!((lease.count(1), lease.count(2)), (1, 1), "one flow of the round is left");
            scope.spawn(move || drop(second));
            lease.wait_until_over(1, LONG);
            assert!(waiting.join().unwrap());
        });
        assert!(lease.inner().turn.is_none() && lease.inner().queue.is_empty());
    }

    #[test]
    fn a_ticket_waits_for_one_turn_of_each_other_ticket() {
        let lease = Lease::default();
        let held = lease.begin("greedy", 1, &waits(LONG), no_wait, || false).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            // Twenty sessions of one ticket wait before the others.
            for session in 2..22 {
                let (tell, lease) = (tell.clone(), &lease);
                scope.spawn(move || {
                    let running = lease.begin("greedy", session, &waits(LONG), |_| (), || false);
                    tell.send("greedy").unwrap();
                    drop(running);
                });
            }
            lease.wait_for_queue(20);
            for (session, ticket) in [(30, "one"), (31, "other")] {
                let (tell, lease) = (tell.clone(), &lease);
                scope.spawn(move || {
                    for _ in 0..2 {
                        let running = lease.begin(ticket, session, &waits(LONG), |_| (), || false);
                        tell.send(ticket).unwrap();
                        drop(running);
                    }
                });
            }
            lease.wait_for_queue(22);
            drop(held);
        });
        let order: Vec<&str> = told.try_iter().collect();
        let mut first = order[..2].to_vec();
        first.sort_unstable();
        assert_eq!(first, ["one", "other"], "{order:?}");
        assert_eq!(order.len(), 24);
    }

    #[test]
    fn a_flow_that_comes_late_belongs_to_the_next_round() {
        let lease = Lease::default();
        let first = lease.begin("a", 1, &waits(LONG), no_wait, || false).unwrap();
        let before = Instant::now().checked_sub(OPENING_TIME).expect("the machine runs for longer");
        lease.inner().turn.as_mut().unwrap().began = before;
        std::thread::scope(|scope| {
            let late = scope.spawn(|| lease.begin("a", 1, &waits(LONG), |_| (), || false).unwrap().is_first);
            lease.wait_for_queue(1);
            drop(first);
            assert!(late.join().unwrap());
        });
    }

    #[test]
    fn the_turns_of_others_do_not_count_as_wait_and_the_likely_wait_is_told() {
        let lease = Lease::default();
        let first = lease.begin("a", 1, &waits(LONG), no_wait, || false).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                lease
                    .begin("b", 2, &waits(Duration::from_millis(50)), |likely| tell.send(likely).unwrap(), || false)
                    .is_ok()
            });
            assert_eq!(told.recv().unwrap(), Duration::from_millis(50 + 10_000) + SETUP_TIME);
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
            assert!(waiting.join().unwrap(), "the turn that was in progress is not counted");
        });
    }

    #[test]
    fn a_round_without_bytes_loses_its_turn_only_while_another_ticket_waits() {
        let lease = Lease::default();
        let first = lease.begin("a", 1, &waits(LONG), no_wait, || false).unwrap();
        let before =
            |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("the machine runs for longer");
        let set = |began: Option<u64>, moved: Option<u64>| {
            let mut inner = lease.inner();
            let turn = inner.turn.as_mut().unwrap();
            (turn.began, turn.moved) = (before(began.unwrap_or(0)), moved.map(before));
        };
        set(Some(60), Some(60));
        assert_eq!(first.overlong_idle(), None, "nobody waits");
        std::thread::scope(|scope| {
            let same = scope.spawn(|| drop(lease.begin("a", 2, &waits(LONG), |_| (), || false)));
            lease.wait_for_queue(1);
            assert_eq!(first.overlong_idle(), None, "only another session of the ticket waits");
            let other = scope.spawn(|| drop(lease.begin("b", 3, &waits(LONG), |_| (), || false)));
            lease.wait_for_queue(2);
            assert!(first.overlong_idle().is_some());
            set(Some(60), Some(0));
            assert_eq!(first.overlong_idle(), None, "bytes were moved");
            set(Some(2), None);
            assert_eq!(first.overlong_idle(), None, "it begins");
            set(Some(60), None);
            assert!(first.overlong_idle().is_some(), "it has not begun");
            set(Some(60), Some(20));
            first.may_pause(LONG);
            assert_eq!(first.overlong_idle(), None, "its load pauses");
            first.on_moved();
            drop(first);
            same.join().unwrap();
            other.join().unwrap();
        });
    }

    #[test]
    fn flows_of_a_client_that_has_gone_and_too_many_flows_do_not_wait() {
        let lease = Lease::default();
        let held = lease.begin("a", 1, &waits(LONG), no_wait, || false).unwrap();
        assert_eq!(lease.begin("b", 2, &waits(LONG), |_| (), || true).err(), Some(NotBegun::Gone));
        assert!(lease.inner().queue.is_empty());
        let filled = |ticket: &str, count: usize| {
            let waiting = |number| Waiting { number, ticket: ticket.to_owned(), session: 3, limit: LONG };
            lease.inner().queue.extend((1000..1000 + count as u64).map(waiting));
        };
        filled("greedy", MAX_OF_TICKET);
        assert_eq!(lease.begin("greedy", 3, &waits(LONG), |_| (), || true).err(), Some(NotBegun::Full));
        assert_eq!(lease.begin("b", 2, &waits(LONG), |_| (), || true).err(), Some(NotBegun::Gone), "others may wait");
        filled("other", MAX_WAITING - MAX_OF_TICKET);
        assert_eq!(lease.begin("b", 2, &waits(LONG), |_| (), || true).err(), Some(NotBegun::Full));
        drop(held);
    }
}
