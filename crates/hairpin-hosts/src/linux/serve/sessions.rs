//! Sessions of clients at this server, and each ticket's usage of its limits.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_model::{ExceededLimit, Session, Used};
use serde::{Deserialize, Serialize};

use super::allowance::Allowance;
use crate::dial::now_unix_s;

const DAY_S: u64 = 24 * 3600;
/// Maximum sessions of all tickets at the same time: each has a thread, and a service may have 512 (docs/two-hosts.md).
const MAX_OPEN: usize = 200;
const MAX_LISTED: usize = 50;

/// Sessions and usage that a server keeps between its starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Sessions in progress and the last ones that ended, by number.
    pub sessions: Vec<Session>,
    /// Number of the first session since the server's start. Earlier sessions without an end ended with their server.
    pub first: u64,
    /// Usage of each ticket, by its name.
    pub used: BTreeMap<String, Used>,
}

struct OpenSession {
    session: Session,
    /// When the session began or last moved bytes.
    last: Instant,
    /// Sum of the ordered rates of its flows in progress, in bits/s.
    ordered_bits_per_s: f64,
}

#[derive(Default)]
struct Inner {
    open: BTreeMap<u64, OpenSession>,
    account: Account,
    /// Remaining allowance of each ticket with a rate limit, by the ticket's name.
    allowances: BTreeMap<String, Allowance>,
    last_number: u64,
    /// Number of sessions since the server's start, and the payload of their rounds in bytes.
    total: (u64, u64),
    /// Number of rounds since the server's start.
    rounds: u64,
    is_changed: bool,
}

/// The sessions of a server, shared by its threads.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Inner>);

pub(super) struct NewSession<'b> {
    pub(super) ticket: &'b str,
    pub(super) client: SocketAddr,
    pub(super) tool: String,
    /// Maximum sessions of the ticket at the same time.
    pub(super) max_sessions: Option<u64>,
}

impl Sessions {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // The data are valid even if a thread panicked: no update here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the account of an earlier start. All of its sessions have ended.
    pub(super) fn restore(&self, account: Account) {
        let mut inner = self.inner();
        inner.last_number = account.sessions.iter().map(|session| session.session).max().unwrap_or(0);
        inner.account = Account { first: inner.last_number.saturating_add(1), ..account };
        inner.is_changed = true;
    }

    /// Returns the account if it changed since the last call.
    pub(super) fn take_changed(&self) -> Option<Account> {
        let mut inner = self.inner();
        if !std::mem::take(&mut inner.is_changed) {
            return None;
        }
        let today = today();
        inner.account.used.retain(|_, used| used.on(today).day == used.day);
        let ended = inner.account.sessions.iter().cloned();
        let in_progress = inner.open.values().take(MAX_LISTED).map(|open| open.session.clone());
        Some(Account {
            sessions: ended.chain(in_progress).collect(),
            first: inner.account.first,
            used: inner.account.used.clone(),
        })
    }

    /// Begins a session. Returns its number.
    pub(super) fn begin(&self, begins: NewSession<'_>) -> Result<u64, ExceededLimit> {
        let mut inner = self.inner();
        if inner.open.len() >= MAX_OPEN {
            return Err(ExceededLimit {
                limit: format!("of {MAX_OPEN} sessions in all"),
                by: format!("{} runs are under way", inner.open.len()),
                hint: "wait until one has ended".to_owned(),
            });
        }
        let count = inner.open.values().filter(|open| open.session.ticket == begins.ticket).count() as u64;
        if let Some(most) = begins.max_sessions.filter(|most| count >= *most) {
            return Err(ExceededLimit {
                limit: format!("sessions={most}"),
                by: if count == 1 {
                    "1 run with this ticket is under way".to_owned()
                } else {
                    format!("{count} runs with this ticket are under way")
                },
                hint: "wait until one has ended".to_owned(),
            });
        }
        inner.last_number = inner.last_number.wrapping_add(1);
        inner.total.0 += 1;
        let number = inner.last_number;
        let session = Session {
            session: number,
            client: begins.client,
            tool: begins.tool,
            ticket: begins.ticket.to_owned(),
            began_unix_s: now_unix_s(),
            ended_unix_s: None,
            rounds: 0,
            bytes: 0,
        };
        inner.open.insert(number, OpenSession { session, last: Instant::now(), ordered_bits_per_s: 0.0 });
        inner.is_changed = true;
        Ok(number)
    }

    /// Ends the session. Returns its record; `None` if it is unknown or has ended.
    pub(super) fn end(&self, number: u64) -> Option<Session> {
        let mut inner = self.inner();
        let mut session = inner.open.remove(&number)?.session;
        session.ended_unix_s = Some(now_unix_s());
        inner.account.sessions.push(session.clone());
        let too_many = inner.account.sessions.len().saturating_sub(MAX_LISTED);
        inner.account.sessions.drain(..too_many);
        inner.is_changed = true;
        Some(session)
    }

    /// Ends all sessions. Returns the number of sessions since the start, and the payload of their rounds in bytes.
    pub(super) fn end_all(&self) -> (u64, u64) {
        let numbers: Vec<u64> = self.inner().open.keys().copied().collect();
        for number in numbers {
            self.end(number);
        }
        self.inner().total
    }

    /// Number of tickets with a session in progress.
    pub(super) fn tickets(&self) -> u32 {
        let inner = self.inner();
        let tickets: BTreeSet<&str> = inner.open.values().map(|open| open.session.ticket.as_str()).collect();
        u32::try_from(tickets.len()).unwrap_or(u32::MAX)
    }

    /// Number of sessions and rounds since the server's start, and their payload in bytes.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let inner = self.inner();
        (inner.total.0, inner.rounds, inner.total.1)
    }

    /// Marks the session as used now. Returns whether it is open and belongs to that ticket.
    pub(super) fn touch(&self, number: u64, ticket: &str) -> bool {
        let mut inner = self.inner();
        let open = inner.open.get_mut(&number).filter(|open| open.session.ticket == ticket);
        open.map(|open| open.last = Instant::now()).is_some()
    }

    pub(super) fn count_round(&self, number: u64) {
        let mut inner = self.inner();
        if let Some(open) = inner.open.get_mut(&number) {
            open.session.rounds += 1;
            inner.rounds += 1;
            inner.is_changed = true;
        }
    }

    /// Returns the time since the session was last used; `None` if it has ended.
    pub(super) fn idle(&self, number: u64) -> Option<Duration> {
        self.inner().open.get(&number).map(|open| open.last.elapsed())
    }

    pub(super) fn count(&self) -> usize {
        self.inner().open.len()
    }

    pub(super) fn used_bytes(&self, ticket: &str) -> u64 {
        let inner = self.inner();
        inner.account.used.get(ticket).map_or(0, |used| used.on(today()).bytes)
    }

    /// Adds the bytes of a round to that session and its ticket. Returns the bytes that the ticket has used today.
    pub(super) fn count_bytes(&self, number: u64, ticket: &str, bytes: u64) -> u64 {
        let mut inner = self.inner();
        if let Some(open) = inner.open.get_mut(&number) {
            open.session.bytes = open.session.bytes.saturating_add(bytes);
            open.last = Instant::now();
        }
        inner.total.1 = inner.total.1.saturating_add(bytes);
        let used = inner.account.used.entry(ticket.to_owned()).or_default();
        *used = used.on(today());
        used.bytes = used.bytes.saturating_add(bytes);
        let used_bytes = used.bytes;
        inner.is_changed = true;
        used_bytes
    }

    /// Charges bytes moved up and down to the ticket's rate limit. Returns whether its flows are within the limit.
    pub(super) fn charge_rate(&self, ticket: &str, bits_per_s: f64, moved: [u64; 2]) -> bool {
        let mut inner = self.inner();
        let now = Instant::now();
        let allowance = inner.allowances.entry(ticket.to_owned()).or_insert_with(|| Allowance::full(bits_per_s, now));
        allowance.take(bits_per_s, moved, now)
    }

    /// Adds a flow of the session if `check` accepts the total rate of the ticket's flows in progress, in bits/s.
    pub(super) fn add_flow(
        &self,
        number: u64,
        ticket: &str,
        bits_per_s: f64,
        check: impl FnOnce(f64) -> Result<(), ExceededLimit>,
    ) -> Result<(), ExceededLimit> {
        let mut inner = self.inner();
        let of_ticket = inner.open.values().filter(|open| open.session.ticket == ticket);
        check(of_ticket.map(|open| open.ordered_bits_per_s).sum())?;
        // If the session has ended, `Relay::run` ends the round.
        if let Some(open) = inner.open.get_mut(&number) {
            open.ordered_bits_per_s += bits_per_s;
        }
        Ok(())
    }

    pub(super) fn remove_flow(&self, number: u64, bits_per_s: f64) {
        if let Some(open) = self.inner().open.get_mut(&number) {
            open.ordered_bits_per_s = (open.ordered_bits_per_s - bits_per_s).max(0.0);
        }
    }
}

fn today() -> u64 {
    now_unix_s() / DAY_S
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(ticket: &str, most: Option<u64>) -> NewSession<'_> {
        NewSession { ticket, client: "192.0.2.1:1".parse().unwrap(), tool: "hairpin".to_owned(), max_sessions: most }
    }

    #[test]
    fn a_round_belongs_to_a_session_of_its_own_ticket() {
        let sessions = Sessions::default();
        let number = sessions.begin(begins("aa", None)).unwrap();
        assert!(sessions.touch(number, "aa") && !sessions.touch(number, "bb") && !sessions.touch(number + 1, "aa"));
        sessions.count_round(number);
        assert_eq!(sessions.end(number).map(|session| session.rounds), Some(1));
        assert!(sessions.end(number).is_none() && sessions.count() == 0);
    }

    #[test]
    fn a_server_has_no_more_sessions_than_threads() {
        let sessions = Sessions::default();
        for number in 0..MAX_OPEN {
            sessions.begin(begins(&number.to_string(), None)).unwrap();
        }
        let refused = sessions.begin(begins("another", None)).unwrap_err();
        assert!(refused.cause().contains("200 sessions in all"), "{}", refused.cause());
        sessions.end(1);
        assert!(sessions.begin(begins("another", None)).is_ok());
    }

    #[test]
    fn a_ticket_has_no_more_sessions_at_once_than_its_limit() {
        let sessions = Sessions::default();
        let first = sessions.begin(begins("aa", Some(1))).unwrap();
        assert_eq!(
            sessions.begin(begins("aa", Some(1))).unwrap_err().cause(),
            "limit sessions=1: 1 run with this ticket is under way"
        );
        sessions.begin(begins("bb", Some(1))).unwrap();
        sessions.end(first);
        sessions.begin(begins("aa", Some(1))).unwrap();
    }

    #[test]
    fn usage_is_counted_by_ticket_and_kept() {
        let sessions = Sessions::default();
        let number = sessions.begin(begins("aa", None)).unwrap();
        assert_eq!(sessions.count_bytes(number, "aa", 1000), 1000);
        assert_eq!(sessions.count_bytes(number, "aa", 500), 1500);
        assert_eq!((sessions.used_bytes("aa"), sessions.used_bytes("bb")), (1500, 0));
        let account = sessions.take_changed().unwrap();
        assert_eq!(sessions.take_changed(), None);
        assert_eq!((account.sessions[0].bytes, account.sessions[0].ended_unix_s), (1500, None));
        let again = Sessions::default();
        again.restore(account.clone());
        assert_eq!(again.used_bytes("aa"), 1500);
        let kept = again.take_changed().expect("a restored account is written at once");
        assert_eq!((kept.sessions[0].session, kept.sessions[0].ended_unix_s, kept.first), (number, None, number + 1));
        assert_eq!(again.begin(begins("aa", None)), Ok(number + 1));
        let mut yesterday = account;
        yesterday.used.get_mut("aa").unwrap().day -= 1;
        again.restore(yesterday);
        assert_eq!(again.used_bytes("aa"), 0);
    }

    #[test]
    fn a_clock_step_over_midnight_keeps_the_daily_count_and_a_longer_step_resets_it() {
        let used = Used { day: 100, bytes: 1000 };
        assert_eq!([100, 99].map(|today| used.on(today).bytes), [1000; 2]);
        assert_eq!([101, 98, 0, u64::MAX / DAY_S].map(|today| used.on(today).bytes), [0; 4]);
        let sessions = Sessions::default();
        for (day, expected) in [(today() + 1, 1500), (today() + 2, 500), (today().saturating_sub(1), 500)] {
            sessions.restore(Account {
                used: BTreeMap::from([("aa".to_owned(), Used { day, bytes: 1000 })]),
                ..Account::default()
            });
            let number = sessions.begin(begins("aa", None)).unwrap();
            assert_eq!(sessions.count_bytes(number, "aa", 500), expected, "{day}");
            assert_eq!(sessions.take_changed().unwrap().used["aa"].bytes, expected, "{day}");
        }
    }

    #[test]
    fn all_sessions_end_with_the_server_and_are_counted_from_its_start() {
        let sessions = Sessions::default();
        let over = Session { session: 7, ended_unix_s: Some(2), ..session_of_old() };
        sessions.restore(Account { sessions: vec![over], ..Account::default() });
        let number = sessions.begin(begins("aa", None)).unwrap();
        sessions.begin(begins("bb", None)).unwrap();
        sessions.count_bytes(number, "aa", 500);
        assert_eq!((sessions.end_all(), sessions.count()), ((2, 500), 0));
        let account = sessions.take_changed().unwrap();
        assert_eq!(account.sessions.iter().map(|session| session.session).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(account.sessions.iter().all(|session| session.ended_unix_s.is_some()));
    }

    fn session_of_old() -> Session {
        Session {
            session: 1,
            client: "192.0.2.1:1".parse().unwrap(),
            tool: "hairpin".to_owned(),
            ticket: "aa".to_owned(),
            began_unix_s: 1,
            ended_unix_s: None,
            rounds: 1,
            bytes: 1,
        }
    }

    /// Account files are untrusted.
    #[test]
    fn the_largest_session_number_does_not_stop_the_server() {
        let sessions = Sessions::default();
        let last = Session { session: u64::MAX, ..session_of_old() };
        sessions.restore(Account { sessions: vec![last], ..Account::default() });
        assert!(sessions.begin(begins("aa", None)).is_ok());
    }

    #[test]
    fn all_flows_of_a_ticket_share_one_rate_limit() {
        let sessions = Sessions::default();
        let second_of_rate = |ticket| sessions.charge_rate(ticket, 8000.0, [1000, 0]);
        assert!((0..10).all(|_| second_of_rate("aa")), "ten seconds' worth");
        assert!(!second_of_rate("aa") && second_of_rate("bb"));
    }

    #[test]
    fn flows_under_way_are_counted_together() {
        let sessions = Sessions::default();
        let [number, other] = [(); 2].map(|()| sessions.begin(begins("aa", None)).unwrap());
        let beside = |expected: f64| move |beside: f64| (assert_eq!(beside, expected), Ok(())).1;
        sessions.add_flow(number, "aa", 5.0, beside(0.0)).unwrap();
        sessions.add_flow(other, "aa", 2.0, beside(5.0)).unwrap();
        sessions.remove_flow(number, 5.0);
        sessions.add_flow(number, "aa", 1.0, beside(2.0)).unwrap();
    }
}
