//! The server of a run on another host.

use std::time::Duration;

use hairpin_engine::control::{Control, ControlError};
use hairpin_engine::engine::Far;
use hairpin_engine::environment::boot_id;
use hairpin_hosts::datagram_check::{DatagramCheck, check_datagrams};
use hairpin_hosts::dial::{ControlConnection, NotKnown, dial as dial_ticket, printable};
use hairpin_hosts::proof::boot_code;
use hairpin_hosts::protocol::{Purpose, ServerInfo};
use hairpin_hosts::ssh::Server;
use hairpin_hosts::ticket::Ticket;
use hairpin_model::capability::{self, DATAGRAM_CODES};
use hairpin_model::{Binding, Case, Failure, FailureKind, FarHost, Interface, Refused, RoundOrder, names};

/// Time-out for the server's description of its host.
const ABOUT_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection to `hairpin serve` on another host, which runs the servers of rounds. Dropping this ends the session.
pub struct Remote {
    ticket: Ticket,
    known: ControlConnection,
    /// The server's description of its host and of the ticket.
    pub(crate) about: ServerInfo,
    /// The transport that replaces datagram transports, and why.
    fallback: Option<(String, String)>,
    binding: Binding,
    /// The server, if it was started over ssh for this run; it ends after the session.
    _over_ssh: Option<Server>,
}

impl Remote {
    /// Connects to the server of a ticket.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or is another program, with other transports.
    pub fn connect(ticket: Ticket, binding: Binding) -> Result<Self, NotKnown> {
        let mut known = dial_ticket(&ticket, Purpose::Session, binding)?;
        let unheard = |error: ControlError| error.failure(&format!("the server at {}", ticket.address()));
        let mut about: ServerInfo = known.frames.receive_any(ABOUT_TIMEOUT).map_err(unheard)?;
        about.environment.root = about.environment.root.filter(|_| about.describes_host);
        // Both ends may be on one host.
        let here = boot_id();
        if about.environment.boot_id == here.as_ref().map(|id| boot_code(&ticket.secret, id)) {
            about.environment.boot_id = here;
        }
        let own: Vec<&str> = hairpin_transports::own().iter().map(|transport| transport.card().name).collect();
        refuse_other_program(&ticket.address(), &about.own_transports, &own).map_err(NotKnown::Refused)?;
        Ok(Self { ticket, known, about, fallback: None, binding, _over_ssh: None })
    }

    /// Connects to a server that was started over ssh, and ends it when the session ends.
    pub fn over_ssh(server: Server, binding: Binding) -> Result<Self, NotKnown> {
        let connected = Self::connect(server.ticket.clone(), binding)?;
        Ok(Self { _over_ssh: Some(server), ..connected })
    }

    pub fn check_datagrams(&mut self) -> Result<DatagramCheck, Failure> {
        check_datagrams(&mut self.known, self.binding)
    }

    /// Replaces datagram transports by `to` in all following rounds.
    pub fn fall_back(&mut self, to: String, why: String) {
        self.fallback = Some((to, why));
    }

    /// Name and version of the server's program, and the round-trip time.
    pub fn known(&self) -> (&str, Duration) {
        (&self.known.tool, self.known.round_trip)
    }

    /// Refuses rounds that exceed the limits of the ticket, before any round runs.
    pub(crate) fn allow(&self, rounds: &[RoundOrder]) -> Result<(), Refused> {
        self.check_capabilities(rounds)?;
        self.check_limits(rounds, "does not allow this run")
    }

    /// Refuses rounds that the server's version cannot run, before any round runs.
    fn check_capabilities(&self, rounds: &[RoundOrder]) -> Result<(), Refused> {
        let has_codes = |case: &Case| {
            let card = hairpin_transports::find(&case.primary().transport).map(|transport| transport.card());
            card.is_some_and(|card| card.has_codes())
        };
        let needed = rounds.iter().flat_map(|round| capability::needed(&round.case, has_codes(&round.case)));
        let known = &self.about.capabilities;
        // Versions without codes for datagrams list no capabilities.
        let is_lacking =
            |word: &String| if known.is_empty() { word == DATAGRAM_CODES } else { !known.contains(word) };
        let lacking = names::distinct(needed.filter(is_lacking));
        if lacking.is_empty() {
            return Ok(());
        }
        let (server, tool) = (self.ticket.address(), printable(&self.known.tool));
        let hint = if lacking == [DATAGRAM_CODES] {
            "use the same version of Hairpin at both ends, or transports other than UDP"
        } else {
            "use the same version of Hairpin at both ends"
        };
        Err(Refused::new(format!("the server at {server} ({tool}) lacks: {}", lacking.join(", ")), hint))
    }

    /// Refuses rounds that exceed the limits of the ticket; without rounds, a ticket that allows no more of them today.
    pub(crate) fn check_limits(&self, rounds: &[RoundOrder], refuses: &str) -> Result<(), Refused> {
        self.about.limits.allow_plan(rounds, self.about.used_bytes).map_err(|exceeded| {
            let what = format!("the server at {} {refuses}: {}", self.ticket.address(), exceeded.cause());
            Refused::new(what, exceeded.hint)
        })
    }

    pub(crate) fn host(&self) -> FarHost {
        FarHost {
            name: self.ticket.host.clone(),
            is_ipv6: self.known.at.is_ipv6(),
            round_trip_ns: u64::try_from(self.known.round_trip.as_nanos()).unwrap_or(u64::MAX),
            transports: self.about.transports.clone(),
            congestion_controls: self.about.congestion_controls.clone(),
            limits: self.about.limits,
            fallback: self.fallback.clone(),
            is_foreign: false,
        }
    }

    pub(crate) fn interface(&self) -> Option<Interface> {
        hairpin_engine::environment::interface(self.known.here?)
    }

    pub(crate) fn far(&self) -> Far {
        let credentials = (self.known.session, self.ticket.word(), self.binding);
        let credentials = serde_json::to_string(&credentials).expect("a binding has only string keys");
        Far { at: self.known.at, credentials, dial, binding: self.binding, foreign: None }
    }
}

/// Refuses a server of another program, that is, a server with different own transports. Both ends of a round must be
/// the same program.
fn refuse_other_program(address: &str, there: &[String], here: &[&str]) -> Result<(), Refused> {
    if there == here {
        return Ok(());
    }
    let [there, here] = [there.join(", "), here.join(", ")];
    Err(Refused::new(
        format!(
            "the server at {address} is another program: its own transports are `{there}`, here they are `{here}`"
        ),
        "run `serve` of this program there",
    ))
}

pub(crate) fn dial(credentials: &str) -> Result<Box<dyn Control>, Failure> {
    let (session, ticket, binding): (u64, String, Binding) = serde_json::from_str(credentials)
        .map_err(|_| Failure::new(FailureKind::Other, "cannot read the credentials of the server", ""))?;
    let ticket = Ticket::parse(&ticket).map_err(|error| Failure::new(FailureKind::Other, error.what, error.hint))?;
    let known = dial_ticket(&ticket, Purpose::Round(session), binding)?;
    Ok(Box::new(known.frames))
}

#[cfg(test)]
mod tests {
    use super::refuse_other_program;

    #[test]
    fn a_server_with_other_transports_is_another_program() {
        let refused = |there: &[&str], here: &[&str]| {
            let there: Vec<String> = there.iter().map(|name| (*name).to_owned()).collect();
            refuse_other_program("lab:7420", &there, here).map_err(|refused| refused.to_string())
        };
        assert_eq!(refused(&[], &[]), Ok(()));
        assert_eq!(refused(&["framed"], &["framed"]), Ok(()));
        let why = "the server at lab:7420 is another program: its own transports are ``, here they are `framed, mine` \
                   (hint: run `serve` of this program there)";
        assert_eq!(refused(&[], &["framed", "mine"]), Err(why.to_owned()));
        assert!(refused(&["framed"], &[]).unwrap_err().contains("transports are `framed`, here they are ``"));
    }
}
