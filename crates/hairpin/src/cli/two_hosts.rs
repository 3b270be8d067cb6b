//! `--to`: connects to the server of a run on another host.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ArgMatches;
use hairpin_engine::child::TICKET_VARIABLE;
use hairpin_engine::environment::interface_index;
use hairpin_hosts::dial::NotKnown;
use hairpin_hosts::ssh_host::SshHost;
use hairpin_hosts::ticket::Ticket;
use hairpin_model::{Binding, Refused, names};
use hairpin_transports::foreign::is_url;

use super::exit::Stopped;
use super::{output, over_ssh};
use crate::foreign::ForeignHost;
use crate::remote::Remote;

const MAX_TICKET_FILE_BYTES: u64 = 4096;

/// Connects to the server given by the flags or the environment; `None` if the server runs on this host.
pub(super) fn connect(matches: &ArgMatches, stop: &Arc<AtomicBool>) -> Result<Option<Remote>, Stopped> {
    let Some((text, source)) = ticket_text(matches.get_one::<String>("to").map(String::as_str), "--to")? else {
        over_ssh::refuse_flags(matches)?;
        return match ["fallback", "bind"].into_iter().find(|flag| matches.contains_id(flag)) {
            Some(flag) => {
                Err(Stopped::usage(format!("--{flag} needs --to or HAIRPIN_TO (hint: add --to, or omit --{flag})")))
            }
            None => Ok(None),
        };
    };
    let mut remote = connect_to(&text, source, matches, || Ok(stop))?;
    if let Some(to) = matches.get_one::<String>("fallback") {
        fall_back(&mut remote, to)?;
    }
    Ok(Some(remote))
}

/// Connects to the server that `--to` or the environment names by a URL; `None` if there is no URL.
pub(super) fn foreign(matches: &ArgMatches) -> Result<Option<ForeignHost>, Stopped> {
    let roots = matches.get_one::<PathBuf>("ca").cloned();
    let given = matches.get_one::<String>("to").cloned().or_else(|| std::env::var(TICKET_VARIABLE).ok());
    let Some(url) = given.filter(|text| is_url(text)) else {
        return match roots {
            Some(_) => {
                Err(Stopped::usage("--ca needs --to with a URL such as https://localhost:8443/ (hint: omit --ca)"))
            }
            None => Ok(None),
        };
    };
    over_ssh::refuse_flags(matches)?;
    if matches.contains_id("fallback") {
        return Err(Stopped::usage("--fallback needs a server of Hairpin (hint: omit --fallback)"));
    }
    let connected = ForeignHost::connect(&url, roots, asked_binding(matches)?);
    connected.map(Some).map_err(|refused| Stopped::usage(refused.while_reading("--to")))
}

/// Connects to the server of `hairpin check`; `None` if neither its argument nor the environment gives a ticket. Calls
/// `stop` only if a server must be started.
pub(super) fn connect_for_check(
    matches: &ArgMatches,
    stop: impl FnOnce() -> Result<Arc<AtomicBool>, Stopped>,
) -> Result<Option<Remote>, Stopped> {
    const PLACE: &str = "TICKET";
    let given = matches.get_one::<String>(PLACE).map(String::as_str);
    let Some((text, source)) = ticket_text(given, PLACE)? else { return Ok(None) };
    connect_to(&text, source, matches, stop).map(Some)
}

/// Connects to the server of a ticket, or starts a server over ssh and connects to that server.
fn connect_to<S: AsRef<AtomicBool>>(
    text: &str,
    source: &str,
    matches: &ArgMatches,
    stop: impl FnOnce() -> Result<S, Stopped>,
) -> Result<Remote, Stopped> {
    let refused = |error: Refused| Stopped::usage(error.while_reading(source));
    let binding = asked_binding(matches)?;
    let connected = if SshHost::is_meant(text) {
        let host = SshHost::parse(text).map_err(refused)?;
        Remote::over_ssh(over_ssh::start(host, matches, stop()?.as_ref())?, binding)
    } else {
        over_ssh::refuse_flags(matches)?;
        let ticket = Ticket::parse(text).map_err(|error| match text.contains('#') {
            // An invalid or damaged ticket.
            true => Stopped::not_known(NotKnown::Refused(error.while_reading(source))),
            false => refused(error),
        })?;
        Remote::connect(ticket, binding)
    };
    // Names the environment variable in the error, because the user may have forgotten it.
    let named = |stopped: Stopped| if source == TICKET_VARIABLE { stopped.of(source) } else { stopped };
    connected.map_err(|why| named(Stopped::not_known(why)))
}

/// Checks whether datagrams get through; if not, uses the transport `to` instead.
fn fall_back(remote: &mut Remote, to: &str) -> Result<(), Stopped> {
    let names: Vec<&str> = hairpin_transports::all().map(|transport| transport.card().name).collect();
    let to = names::find("transport", to, &names)
        .map_err(|error| Stopped::usage(Refused::from(error).while_reading("--fallback")))?;
    let is_reliable = hairpin_transports::find(to).is_some_and(|transport| transport.card().reliable);
    if !is_reliable {
        return Err(Stopped::usage(format!("--fallback: {to} uses datagrams itself (hint: use tcp)")));
    }
    let trial = remote.check_datagrams().map_err(|error| Stopped::failed(&error))?;
    if !trial.is_through() {
        output::warning(&format!("{}; using {to} instead of datagram transports", trial.evidence()));
        remote.fall_back(to.to_owned(), trial.evidence());
    }
    Ok(())
}

fn asked_binding(matches: &ArgMatches) -> Result<Binding, Stopped> {
    let Some(text) = matches.get_one::<String>("bind") else { return Ok(Binding::default()) };
    Binding::parse(text, interface_index).map_err(|error| Stopped::usage(error.while_reading("--bind")))
}

/// Whether the flags or the environment ask for a server on another host.
pub(super) fn is_asked(matches: &ArgMatches) -> bool {
    matches.contains_id("to") || std::env::var(TICKET_VARIABLE).is_ok_and(|text| !text.is_empty())
}

/// Returns the ticket or ssh host from the argument `place` or from the environment, with the name of its source;
/// `None` if neither is given.
fn ticket_text(given: Option<&str>, place: &'static str) -> Result<Option<(String, &'static str)>, Stopped> {
    let own = std::env::var(TICKET_VARIABLE).ok().filter(|text| !text.is_empty());
    let (text, source) = match (given, own) {
        (Some(given), _) => (given.to_owned(), place),
        (None, Some(own)) => (own, TICKET_VARIABLE),
        (None, None) => return Ok(None),
    };
    let text = match text.strip_prefix('@') {
        Some(file) => {
            read_ticket_file(Path::new(file)).map_err(|error| Stopped::usage(error.while_reading(source)))?
        }
        None => {
            if Path::new(text.trim()).is_file() {
                let reads = match source {
                    TICKET_VARIABLE => format!("{source}=@{}", text.trim()),
                    "--to" => format!("--to @{}", text.trim()),
                    _ => format!("@{}", text.trim()),
                };
                return Err(Stopped::usage(format!(
                    "{source}: `{}` is a file, not a ticket (hint: {reads} reads the ticket from it)",
                    text.trim()
                )));
            }
            // Only tickets contain a secret, and every ticket contains `#`.
            if source == place && text.contains('#') {
                let flag = if place.starts_with('-') { format!("{place} ") } else { String::new() };
                output::warning(&format!(
                    "other users of this host can read the ticket in the process list (hint: {flag}@FILE)"
                ));
            }
            text
        }
    };
    Ok(Some((text.trim().to_owned(), source)))
}

fn read_ticket_file(path: &Path) -> Result<String, Refused> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| {
        Refused::new(format!("cannot read {}: {error}", path.display()), "`hairpin serve > FILE` writes a ticket")
    };
    let mut text = String::new();
    let read = |file: std::fs::File| file.take(MAX_TICKET_FILE_BYTES).read_to_string(&mut text);
    std::fs::File::open(path).and_then(read).map_err(failed)?;
    Ok(text)
}
