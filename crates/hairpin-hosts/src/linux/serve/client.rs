//! Authenticates clients and serves their requests.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hairpin_engine::control::frames::Frames;
use hairpin_engine::control::{Control, ControlError};
use hairpin_engine::environment::interface;
use hairpin_model::served::Event;
use hairpin_model::{Environment, RefusalReason, Refused, Session};
use hairpin_transports::Cookie;

use super::lease::NotBegun;
use super::round;
use super::sessions::NewSession;
use super::shared::{AcceptedTicket, Shared, is_allowed, short, tool};
use crate::dial::{now_unix_s, printable};
use crate::proof::{Role, boot_code, is_proof, proof};
use crate::protocol::{Answer, AnyGreeting, Ask, Base64, DatagramsSeen, Greeting, Purpose, ServerInfo, VERSION};
use crate::tls::Tls;

/// Longest time that a session may be without a round.
const MAX_IDLE: Duration = Duration::from_mins(10);
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const ROUND_END_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum flows of a session in progress or waiting at the same time.
const MAX_FLOWS: usize = 32;
/// Maximum clients that are being refused with a reason at the same time.
const MAX_REFUSED: u32 = 64;
/// Maximum sessions of a ticket at the same time that says nothing else: idle sessions of one ticket leave room for others.
const MAX_SESSIONS: u64 = 32;
/// Assumed duration of a turn of another ticket, with set-up and teardown, for the wait reported to a client.
const LIKELY_TURN: Duration = Duration::from_secs(30);
/// Maximum datagram trials of a session.
const MAX_TRIALS: usize = 8;

pub(super) fn version_mismatch(spoken: &AnyGreeting) -> Refused {
    let what = format!(
        "the client ({}) speaks version {} of the protocol between hosts, and this server version {VERSION}",
        printable(&spoken.tool),
        spoken.version
    );
    Refused::new(what, "use the same version of Hairpin at both ends")
}

impl Shared {
    pub(super) fn serve_client(&self, mut frames: Frames<Tls>, greeting: &Greeting, from: SocketAddr) {
        let (ticket, proof) = match self.authenticate(&frames, greeting, from) {
            Ok(checked) => checked,
            Err((reason, refusal)) => return self.refuse(frames, reason, &refusal, from),
        };
        frames.carrier_mut().limit_received(u64::MAX);
        let welcome = |session| Answer::Welcome { version: VERSION, tool: tool(), proof: proof.clone(), session };
        match greeting.purpose {
            Purpose::Session => {
                let max_sessions = Some(ticket.limits.sessions.unwrap_or(MAX_SESSIONS));
                let tool = short(&greeting.tool);
                let begins = NewSession { ticket: &ticket.id, client: from, tool: tool.clone(), max_sessions };
                match self.sessions.begin(begins) {
                    Ok(session) => {
                        self.report(Event::Began { session, client: from, tool, ticket: ticket.label().to_owned() });
                        self.serve_session(frames, session, &welcome(session), &ticket);
                    }
                    Err(exceeded) => {
                        let refusal = Refused::new(exceeded.cause(), exceeded.hint);
                        self.refuse(frames, RefusalReason::Sessions, &refusal, from);
                    }
                }
            }
            Purpose::Round(session) if self.sessions.touch(session, &ticket.id) => {
                if self.lease.count(session) >= MAX_FLOWS {
                    let what = format!("the session already has {MAX_FLOWS} flows in progress");
                    let refusal = Refused::new(what, "measure fewer flows at once");
                    return self.refuse(frames, RefusalReason::Flows, &refusal, from);
                }
                let shared_frames = RefCell::new(&mut frames);
                let on_wait = |likely: Duration| {
                    // Tickets that do not wait yet may come before this one.
                    let likely = likely.saturating_add(LIKELY_TURN * self.sessions.tickets());
                    let most_ms = u64::try_from(likely.as_millis()).unwrap_or(u64::MAX);
                    // If the client has closed, its round ends at once.
                    drop(shared_frames.borrow_mut().send_any(&Answer::Waiting { most_ms }));
                };
                // A client says nothing while it waits, so a connection that can be read has been closed.
                let is_gone = || self.sessions.idle(session).is_none() || shared_frames.borrow_mut().is_ready();
                let running = match self.lease.begin(&ticket.id, session, &ticket.limits, on_wait, is_gone) {
                    Ok(running) => running,
                    Err(NotBegun::Gone) => return,
                    Err(NotBegun::Late) => {
                        let what = format!("limit {}: other clients measure", ticket.limits.words_of("wait"));
                        let refusal = Refused::new(what, "start the run again later");
                        return self.refuse(frames, RefusalReason::Turn, &refusal, from);
                    }
                    Err(NotBegun::Full) => {
                        let refusal = Refused::new("too many flows wait for their turn", "start the run again later");
                        return self.refuse(frames, RefusalReason::Flows, &refusal, from);
                    }
                };
                if running.is_first {
                    self.sessions.count_round(session);
                }
                if frames.send_any(&welcome(session)).is_ok() {
                    round::serve(frames, self, session, &ticket, &greeting.tool, running);
                }
            }
            Purpose::Round(_) => {
                let refusal = Refused::new("the session of the round has ended", "start the run again");
                self.refuse(frames, RefusalReason::Ended, &refusal, from);
            }
        }
    }

    pub(super) fn refuse(&self, mut frames: Frames<Tls>, reason: RefusalReason, refusal: &Refused, from: SocketAddr) {
        let Refused { what, hint } = refusal;
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        let before = self.refusing.fetch_add(1, Ordering::Relaxed);
        if before >= MAX_REFUSED {
            // Closes the connection without a reason: sending one would occupy a thread for up to 2 s.
            self.refusing.fetch_sub(1, Ordering::Relaxed);
            self.refused_silently.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.report(Event::Refused { client: from, reason, why: what.clone(), times: 1 });
        drop(frames.send_any(&Answer::Refused { what: what.clone(), hint: hint.clone() }));
        frames.carrier_mut().close(CLOSE_TIMEOUT);
        self.refusing.fetch_sub(1, Ordering::Relaxed);
    }

    /// Checks the client's proof. Returns the client's ticket, and the proof that this server knows the secret too.
    fn authenticate(
        &self,
        frames: &Frames<Tls>,
        greeting: &Greeting,
        from: SocketAddr,
    ) -> Result<(AcceptedTicket, Base64), (RefusalReason, Refused)> {
        const HINT: &str = "get a new one from `hairpin serve`";
        let failure = |what: String, hint: &str| (RefusalReason::Failure, Refused::new(what, hint));
        let exporter = frames.carrier().exporter().map_err(|error| failure(error.to_string(), ""))?;
        let unread = |error| failure(format!("it cannot read its tickets: {error}"), "check its state folder");
        let ticket = (self.service.tickets)(&greeting.ticket).map_err(unread)?;
        let ticket = ticket.filter(|ticket| is_proof(&ticket.secret, Role::Client, &exporter, &greeting.proof.0));
        let Some(ticket) = ticket else {
            let refusal = Refused::new("the ticket is not known here, or was revoked", HINT);
            return Err((RefusalReason::Ticket, refusal));
        };
        if ticket.expires_unix_s <= now_unix_s() {
            return Err((RefusalReason::Expired, Refused::new("the ticket has expired", HINT)));
        }
        if !is_allowed(&ticket.allow, from.ip()) {
            let what = format!("the ticket is not for clients at {}", from.ip().to_canonical());
            return Err((RefusalReason::Address, Refused::new(what, "ask for a ticket for this address")));
        }
        let proof = Base64(proof(&ticket.secret, Role::Server, &exporter).to_vec());
        Ok((ticket, proof))
    }

    /// Describes this host to a client, with the interface of its connection.
    fn server_info(&self, frames: &Frames<Tls>, ticket: &AcceptedTicket) -> ServerInfo {
        let mut about = self.service.about.clone();
        about.describes_host = self.service.describes_host;
        if !about.describes_host {
            let boot_code = about.environment.boot_id.as_ref().map(|id| boot_code(&ticket.secret, id));
            about.environment = Environment { boot_id: boot_code, ..about.environment.without_details() };
        }
        let here = frames.carrier().socket().local_addr().ok();
        about.environment.interface = here.and_then(|here| interface(here.ip()));
        about
    }

    /// Serves a session until its client closes it or it has been idle for too long.
    fn serve_session(&self, mut frames: Frames<Tls>, session: u64, welcome: &Answer, ticket: &AcceptedTicket) {
        let about = ServerInfo {
            limits: ticket.limits,
            used_bytes: self.sessions.used_bytes(&ticket.id),
            expires_unix_s: ticket.expires_unix_s,
            sessions: self.sessions.count() as u64,
            ..self.server_info(&frames, ticket)
        };
        let mut trials = Vec::new();
        if frames.send_any(welcome).and_then(|()| frames.send_any(&about)).is_ok() {
            let is_idle =
                || self.sessions.idle(session).is_none_or(|idle| idle > MAX_IDLE) && self.lease.count(session) == 0;
            while !is_idle() {
                match frames.receive_any::<Ask>(IDLE_POLL_INTERVAL) {
                    Ok(ask) if self.answer(ask, &mut frames, &mut trials) => {}
                    Err(ControlError::TimedOut(_)) => {}
                    // The client has closed the session, or its request is invalid.
                    _ => break,
                }
            }
        }
        for cookie in trials {
            self.registry.forget(cookie);
        }
        self.lease.wait_until_over(session, ROUND_END_TIMEOUT);
        if let Some(Session { rounds, bytes, .. }) = self.sessions.end(session) {
            self.report(Event::Ended { session, rounds, bytes });
        }
    }

    /// Answers a client's request. Returns false if the session must end.
    fn answer(&self, ask: Ask, frames: &mut Frames<Tls>, trials: &mut Vec<Cookie>) -> bool {
        let seen = match ask {
            Ask::TryDatagrams(_) if trials.len() >= MAX_TRIALS => return false,
            Ask::TryDatagrams(cookie) => {
                trials.push(Cookie(cookie));
                self.registry.begin_trial(Cookie(cookie), self.ends_of(frames));
                DatagramsSeen::default()
            }
            Ask::DatagramsSeen(cookie) => self.registry.datagrams_seen(Cookie(cookie)),
        };
        frames.send_any(&seen).is_ok()
    }
}
