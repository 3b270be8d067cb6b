//! `--to`: the server of a run on another host.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ArgMatches;
use hairpin_engine::control::{Control, ControlError};
use hairpin_engine::engine::Far;
use hairpin_hosts::dial::{Known, dial as dial_ticket};
use hairpin_hosts::protocol::{About, Purpose};
use hairpin_hosts::ssh::Server;
use hairpin_hosts::ssh_host::SshHost;
use hairpin_hosts::ticket::Ticket;
use hairpin_model::capabilities::FarHost;
use hairpin_model::environment::Environment;
use hairpin_model::refused::Refused;
use hairpin_model::round::Failure;

use super::exit::Stopped;
use super::{output, over_ssh};

/// Where a ticket may stand that is not on the command line.
const VARIABLE: &str = "HAIRPIN_TO";
/// A file with more is none of a ticket.
const MOST_BYTES: u64 = 4096;

/// How long the server may take to say what its host is.
const ABOUT: Duration = Duration::from_secs(15);

/// A session with the server of a run. It ends when this is dropped.
pub(super) struct Session {
    ticket: Ticket,
    known: Known,
    about: About,
    /// The server, where it was started for this run; it ends after the session.
    _over_ssh: Option<Server>,
}

impl Session {
    /// Opens the session that the flags or the environment ask for; none where the server is to run here.
    ///
    /// # Errors
    /// The ticket cannot be read, or the server is not reached.
    pub(super) fn asked(matches: &ArgMatches, stop: &AtomicBool) -> Result<Option<Self>, Stopped> {
        let given = matches.get_one::<String>("to");
        let own = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        let (text, source) = match (given, own) {
            (Some(given), _) => (given.clone(), "--to"),
            (None, Some(own)) => (own, VARIABLE),
            (None, None) => {
                over_ssh::refuse_flags(matches)?;
                return Ok(None);
            }
        };
        let text = match text.strip_prefix('@') {
            Some(file) => of_file(Path::new(file)).map_err(|error| Stopped::usage(error.while_reading(source)))?,
            None if source == "--to" && !SshHost::is_meant(&text) => {
                output::warning(
                    "other users of this host can read the ticket in the list of processes (hint: --to @FILE)",
                );
                text
            }
            None => text,
        };
        let refused = |error: Refused| Stopped::usage(error.while_reading(source));
        let text = text.trim();
        if SshHost::is_meant(text) {
            let server = over_ssh::start(SshHost::parse(text).map_err(refused)?, matches, stop)?;
            return Self::open(server.ticket.clone(), Some(server)).map(Some);
        }
        over_ssh::refuse_flags(matches)?;
        Self::open(Ticket::parse(text).map_err(refused)?, None).map(Some)
    }

    fn open(ticket: Ticket, over_ssh: Option<Server>) -> Result<Self, Stopped> {
        let mut known = dial_ticket(&ticket, Purpose::Session).map_err(|error| Stopped::failed(&error))?;
        let unheard = |error: ControlError| error.failure(&format!("the server at {}", ticket.address()));
        let about = known.frames.receive_any(ABOUT).map_err(unheard).map_err(|error| Stopped::failed(&error))?;
        Ok(Self { ticket, known, about, _over_ssh: over_ssh })
    }

    /// What plans need to know of the host.
    pub(super) fn host(&self) -> FarHost {
        FarHost {
            name: self.ticket.host.clone(),
            is_ipv6: self.known.at.is_ipv6(),
            round_trip_ns: u64::try_from(self.known.round_trip.as_nanos()).unwrap_or(u64::MAX),
            transports: self.about.transports.clone(),
            congestion_controls: self.about.congestion_controls.clone(),
        }
    }

    /// Its environment, for the record.
    pub(super) fn environment(&self) -> Environment {
        self.about.environment.clone()
    }

    /// What rounds need to reach it.
    pub(super) fn far(&self) -> Far {
        Far { at: self.known.at, credentials: format!("{} {}", self.known.session, self.ticket.word()), dial }
    }
}

/// Opens the control channel of a round.
///
/// # Errors
/// The server is not reached, or refuses.
pub(super) fn dial(credentials: &str) -> Result<Box<dyn Control>, Failure> {
    let unreadable =
        || Failure { cause: "cannot read the credentials of the server".to_owned(), hint: String::new() };
    let (session, ticket) = credentials.split_once(' ').ok_or_else(unreadable)?;
    let session = session.parse().map_err(|_| unreadable())?;
    let ticket = Ticket::parse(ticket).map_err(|error| Failure { cause: error.what, hint: error.hint })?;
    let known = dial_ticket(&ticket, Purpose::Round(session))?;
    Ok(Box::new(known.frames))
}

fn of_file(path: &Path) -> Result<String, Refused> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| {
        Refused::new(format!("cannot read {}: {error}", path.display()), "`hairpin serve > FILE` writes a ticket")
    };
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text)).map_err(failed)?;
    Ok(text)
}
