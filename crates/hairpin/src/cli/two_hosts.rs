//! `--to`: the server of a run on another host.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ArgMatches;
use hairpin_engine::control::{Control, ControlError};
use hairpin_engine::ends::start::TICKET_VARIABLE;
use hairpin_engine::engine::Far;
use hairpin_engine::environment::interface_index;
use hairpin_hosts::datagram_check::{DatagramCheck, check_datagrams};
use hairpin_hosts::dial::{Known, NotKnown, dial as dial_ticket};
use hairpin_hosts::protocol::{Purpose, ServerInfo};
use hairpin_hosts::ssh::Server;
use hairpin_hosts::ssh_host::SshHost;
use hairpin_hosts::ticket::Ticket;
use hairpin_model::binding::Binding;
use hairpin_model::capabilities::FarHost;
use hairpin_model::environment::{Environment, Interface};
use hairpin_model::names;
use hairpin_model::refused::Refused;
use hairpin_model::round::{Failure, RoundOrder};

use super::exit::Stopped;
use super::{output, over_ssh};

/// Maximum size of a ticket's file.
const MAX_BYTES: u64 = 4096;

/// Time-out for the server to describe its host.
const ABOUT: Duration = Duration::from_secs(15);

/// A session with the server of a run. Dropping it ends it.
pub(super) struct Session {
    ticket: Ticket,
    known: Known,
    /// The server's description of its host and of the ticket.
    pub(super) about: ServerInfo,
    /// The transport that replaces those over datagrams, and why.
    fallback: Option<(String, String)>,
    /// Local address and ports.
    binding: Binding,
    /// The server, if it was started for this run; it ends after the session.
    _over_ssh: Option<Server>,
}

impl Session {
    /// Opens the session that the flags or the environment name; `None` if the server runs here.
    ///
    /// # Errors
    /// The ticket cannot be read, or the server cannot be reached.
    pub(super) fn asked(matches: &ArgMatches, stop: &Arc<AtomicBool>) -> Result<Option<Self>, Stopped> {
        let Some((text, source)) = text_of(matches.get_one::<String>("to").map(String::as_str), "--to")? else {
            over_ssh::refuse_flags(matches)?;
            if matches.contains_id("fallback") {
                return Err(Stopped::usage("--fallback needs --to or HAIRPIN_TO (hint: omit it, or give both)"));
            }
            if matches.contains_id("bind") {
                return Err(Stopped::usage("--bind needs --to or HAIRPIN_TO (hint: omit it, or give both)"));
            }
            return Ok(None);
        };
        let mut session = Self::at(&text, source, matches, || Ok(stop))?;
        if let Some(to) = matches.get_one::<String>("fallback") {
            session.fall_back(to)?;
        }
        Ok(Some(session))
    }

    /// Opens the session of `hairpin check`; `None` if neither its argument nor the environment names a server. Calls
    /// `stop` only if a server must be started.
    ///
    /// # Errors
    /// As [`Session::asked`].
    pub(super) fn to_check(
        matches: &ArgMatches,
        stop: impl FnOnce() -> Result<Arc<AtomicBool>, Stopped>,
    ) -> Result<Option<Self>, Stopped> {
        const PLACE: &str = "TICKET";
        let given = matches.get_one::<String>(PLACE).map(String::as_str);
        let Some((text, source)) = text_of(given, PLACE)? else { return Ok(None) };
        Self::at(&text, source, matches, stop).map(Some)
    }

    /// Opens the session of a ticket, or of a server that it starts over ssh.
    fn at<S: AsRef<AtomicBool>>(
        text: &str,
        source: &str,
        matches: &ArgMatches,
        stop: impl FnOnce() -> Result<S, Stopped>,
    ) -> Result<Self, Stopped> {
        let refused = |error: Refused| Stopped::usage(error.while_reading(source));
        let binding = asked_binding(matches)?;
        if SshHost::is_meant(text) {
            let host = SshHost::parse(text).map_err(refused)?;
            let server = over_ssh::start(host, matches, stop()?.as_ref())?;
            return Self::open(server.ticket.clone(), (binding, source), Some(server));
        }
        over_ssh::refuse_flags(matches)?;
        let ticket = Ticket::parse(text).map_err(|error| match text.contains('#') {
            // It looks like a ticket, and is invalid.
            true => Stopped::not_known(NotKnown::Refused(error.while_reading(source))),
            false => refused(error),
        })?;
        Self::open(ticket, (binding, source), None)
    }

    fn open(ticket: Ticket, (binding, source): (Binding, &str), over_ssh: Option<Server>) -> Result<Self, Stopped> {
        // The user sees the command line; a variable in the environment is easily forgotten.
        let named = |stopped: Stopped| if source == TICKET_VARIABLE { stopped.of(source) } else { stopped };
        let dialed = dial_ticket(&ticket, Purpose::Session, binding).map_err(Stopped::not_known);
        let mut known = dialed.map_err(named)?;
        let unheard = |error: ControlError| error.failure(&format!("the server at {}", ticket.address()));
        let about = known.frames.receive_any(ABOUT).map_err(|error| named(Stopped::failed(&unheard(error))))?;
        Ok(Self { ticket, known, about, fallback: None, binding, _over_ssh: over_ssh })
    }

    /// Tries whether datagrams arrive; if not, the transport `to` replaces them.
    fn fall_back(&mut self, to: &str) -> Result<(), Stopped> {
        let names: Vec<&str> = hairpin_transports::ALL.iter().map(|transport| transport.card().name).collect();
        let to = names::find("transport", to, &names)
            .map_err(|error| Stopped::usage(Refused::from(error).while_reading("--fallback")))?;
        let is_reliable = hairpin_transports::find(to).is_some_and(|transport| transport.card().reliable);
        if !is_reliable {
            return Err(Stopped::usage(format!("--fallback: {to} is over datagrams itself (hint: use tcp)")));
        }
        let trial = check_datagrams(&mut self.known, self.binding).map_err(|error| Stopped::failed(&error))?;
        if !trial.is_through() {
            output::warning(&format!("{}; what was asked for over datagrams goes over {to}", trial.evidence()));
            self.fallback = Some((to.to_owned(), trial.evidence()));
        }
        Ok(())
    }

    /// Whether datagrams arrive, and the evidence.
    ///
    /// # Errors
    /// The server does not answer.
    pub(super) fn check_datagrams(&mut self) -> Result<DatagramCheck, Stopped> {
        check_datagrams(&mut self.known, self.binding).map_err(|error| Stopped::failed(&error))
    }

    /// Version of the server's Hairpin, and the round-trip time.
    pub(super) fn known(&self) -> (&str, Duration) {
        (&self.known.tool, self.known.round_trip)
    }

    /// Refuses rounds that exceed the limits of the ticket, before any runs.
    ///
    /// # Errors
    /// The first limit exceeded.
    pub(super) fn allow(&self, rounds: &[RoundOrder]) -> Result<(), Stopped> {
        self.about.limits.allow_plan(rounds, self.about.used_bytes).map_err(|exceeded| {
            let what = format!("the server at {} allows no such run: {}", self.ticket.address(), exceeded.cause());
            Stopped::usage(Refused::new(what, exceeded.hint))
        })
    }

    /// Refuses a ticket that allows no more rounds today.
    ///
    /// # Errors
    /// The daily limit of bytes is reached.
    pub(super) fn refuse_used_up(&self) -> Result<(), Stopped> {
        let ServerInfo { limits, used_bytes, .. } = &self.about;
        match limits.daily_bytes.filter(|most| used_bytes >= most) {
            Some(_) => Err(Stopped::not_known(NotKnown::Refused(Refused::new(
                format!(
                    "the server at {} allows no round: limit {}: the bytes of today are used up",
                    self.ticket.address(),
                    limits.words_of("daily-bytes")
                ),
                "wait until the day is over (UTC)",
            )))),
            None => Ok(()),
        }
    }

    /// What plans need to know about the server's host.
    pub(super) fn host(&self) -> FarHost {
        FarHost {
            name: self.ticket.host.clone(),
            is_ipv6: self.known.at.is_ipv6(),
            round_trip_ns: u64::try_from(self.known.round_trip.as_nanos()).unwrap_or(u64::MAX),
            transports: self.about.transports.clone(),
            congestion_controls: self.about.congestion_controls.clone(),
            limits: self.about.limits,
            fallback: self.fallback.clone(),
        }
    }

    /// Environment of the server, for the record.
    pub(super) fn environment(&self) -> Environment {
        self.about.environment.clone()
    }

    /// Local network interface on the path to the server.
    pub(super) fn interface(&self) -> Option<Interface> {
        hairpin_engine::environment::interface(self.known.here?)
    }

    /// What rounds need to connect to the server.
    pub(super) fn far(&self) -> Far {
        let binding = serde_json::to_string(&self.binding).expect("a binding has only string keys");
        let credentials = format!("{} {} {binding}", self.known.session, self.ticket.word());
        Far { at: self.known.at, credentials, dial, binding: self.binding }
    }
}

fn asked_binding(matches: &ArgMatches) -> Result<Binding, Stopped> {
    let Some(text) = matches.get_one::<String>("bind") else { return Ok(Binding::default()) };
    Binding::parse(text, interface_index).map_err(|error| Stopped::usage(error.while_reading("--bind")))
}

/// Whether the flags or the environment ask for a server on another host.
pub(super) fn is_asked(matches: &ArgMatches) -> bool {
    matches.contains_id("to") || std::env::var(TICKET_VARIABLE).is_ok_and(|text| !text.is_empty())
}

/// The ticket or ssh host given as `place` or in the environment, and which of the two; `None` if neither is given.
fn text_of(given: Option<&str>, place: &'static str) -> Result<Option<(String, &'static str)>, Stopped> {
    let own = std::env::var(TICKET_VARIABLE).ok().filter(|text| !text.is_empty());
    let (text, source) = match (given, own) {
        (Some(given), _) => (given.to_owned(), place),
        (None, Some(own)) => (own, TICKET_VARIABLE),
        (None, None) => return Ok(None),
    };
    let text = match text.strip_prefix('@') {
        Some(file) => of_file(Path::new(file)).map_err(|error| Stopped::usage(error.while_reading(source)))?,
        None => {
            if Path::new(text.trim()).is_file() {
                let reads = match source {
                    TICKET_VARIABLE => format!("{source}=@{}", text.trim()),
                    "--to" => format!("--to @{}", text.trim()),
                    _ => format!("@{}", text.trim()),
                };
                return Err(Stopped::usage(format!(
                    "{source}: `{}` is a file and not a ticket (hint: {reads} reads the ticket in it)",
                    text.trim()
                )));
            }
            // A text without this sign is not a ticket and has no secret.
            if source == place && text.contains('#') {
                let flag = if place.starts_with('-') { format!("{place} ") } else { String::new() };
                output::warning(&format!(
                    "other users of this host can read the ticket in the list of processes (hint: {flag}@FILE)"
                ));
            }
            text
        }
    };
    Ok(Some((text.trim().to_owned(), source)))
}

/// Opens the control channel of a round.
///
/// # Errors
/// The server is not reached, or refuses.
pub(super) fn dial(credentials: &str) -> Result<Box<dyn Control>, Failure> {
    let unreadable =
        || Failure { cause: "cannot read the credentials of the server".to_owned(), hint: String::new() };
    let mut words = credentials.splitn(3, ' ');
    let [Some(session), Some(ticket), Some(binding)] = [(); 3].map(|()| words.next()) else {
        return Err(unreadable());
    };
    let session = session.parse().map_err(|_| unreadable())?;
    let binding = serde_json::from_str(binding).map_err(|_| unreadable())?;
    let ticket = Ticket::parse(ticket).map_err(|error| Failure { cause: error.what, hint: error.hint })?;
    let known = dial_ticket(&ticket, Purpose::Round(session), binding)?;
    Ok(Box::new(known.frames))
}

fn of_file(path: &Path) -> Result<String, Refused> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| {
        Refused::new(format!("cannot read {}: {error}", path.display()), "`hairpin serve > FILE` writes a ticket")
    };
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)).map_err(failed)?;
    Ok(text)
}
