//! `hairpin check`: shows what a ticket allows, and whether TCP and UDP reach its server.

use clap::ArgMatches;
use hairpin_hosts::datagram_check::DatagramCheck;
use hairpin_hosts::dial::NotKnown;
use hairpin_model::{AnsweredBy, Check, CheckedDatagrams, CheckedServer, Reach, RefusedTransport, quantities};
use hairpin_report::terminal::{Look, render_item};

use super::exit::{Exit, Stopped};
use super::measure::Ends;
use super::{output, two_hosts};
use crate::remote::Remote;

struct Checked {
    remote: Remote,
    trial: DatagramCheck,
    /// Transports of this program that cannot be measured with the server, and why.
    unavailable: Vec<(&'static str, String)>,
}

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let is_json = matches.get_flag("json");
    let checked = check(matches).inspect_err(|stopped| {
        if let Some(connection_error) = stopped.connection_error.as_ref().filter(|_| is_json) {
            output::json(&why_not(connection_error, stopped.exit));
        }
    })?;
    let exit = if checked.trial.is_through() { Exit::Fine } else { Exit::RoundsFailed };
    output::result(is_json, &as_json(&checked, exit), |look| as_text(&checked, Look { colour: false, ..look }));
    Ok(exit)
}

fn check(matches: &ArgMatches) -> Result<Checked, Stopped> {
    let remote = two_hosts::connect_for_check(matches, Ends::stop)?;
    let mut remote = remote.ok_or_else(|| {
        Stopped::usage(
            "no ticket: neither an argument nor HAIRPIN_TO has one (hint: `hairpin check @FILE`, or HAIRPIN_TO=@FILE, where \
             `hairpin serve > FILE` ran on the other host)",
        )
    })?;
    let used_up = remote.check_limits(&[], "allows no more rounds");
    used_up.map_err(|refused| Stopped::not_known(NotKnown::Refused(refused)))?;
    let trial = remote.check_datagrams().map_err(|failure| Stopped::failed(&failure))?;
    let unavailable = unavailable_transports(&remote);
    Ok(Checked { remote, trial, unavailable })
}

fn unavailable_transports(remote: &Remote) -> Vec<(&'static str, String)> {
    let host = remote.host();
    let cards = hairpin_transports::all().map(|transport| transport.card());
    let why = |card: &hairpin_model::card::Card| {
        if card.reach != Reach::Network || card.answered_by == AnsweredBy::Kernel {
            Some("it works on one machine only".to_owned())
        } else if !host.transports.iter().any(|name| name == card.name) {
            Some(format!("it cannot run on {}", host.name))
        } else {
            None
        }
    };
    cards.filter_map(|card| Some((card.name, why(&card)?))).collect()
}

fn why_not(connection_error: &NotKnown, exit: Exit) -> Check {
    let (refused, failed) = match connection_error {
        NotKnown::Refused(refused) => (Some(refused.clone()), None),
        NotKnown::Failed(failure) => (None, Some(failure.clone())),
    };
    Check { exit_code: exit.code(), refused, failed, server: None }
}

fn as_json(checked: &Checked, exit: Exit) -> Check {
    let Checked { remote, trial, unavailable } = checked;
    let (about, (tool, round_trip)) = (&remote.about, remote.known());
    let refusal =
        |(transport, reason): &(&'static str, String)| RefusedTransport { transport, reason: reason.clone() };
    let server = CheckedServer {
        host: remote.host().name.clone(),
        tool: tool.to_owned(),
        round_trip_ns: u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX),
        expires_unix_s: about.expires_unix_s,
        sessions: about.sessions,
        limits: about.limits,
        used_bytes: about.used_bytes,
        datagrams: CheckedDatagrams { is_through: trial.is_through(), evidence: trial.evidence() },
        refusals: unavailable.iter().map(refusal).collect(),
    };
    Check { exit_code: exit.code(), refused: None, failed: None, server: Some(server) }
}

fn as_text(checked: &Checked, look: Look) -> String {
    let Checked { remote, trial, unavailable } = checked;
    let (about, (tool, round_trip)) = (&remote.about, remote.known());
    let environment = &about.environment;
    let words = about.limits.words();
    let limits = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let used = quantities::bytes(about.used_bytes as f64);
    let unavailable: Vec<&str> = unavailable.iter().map(|(name, _)| *name).collect();
    let udp = if trial.is_through() { "yes".to_owned() } else { format!("no: {}", trial.evidence()) };
    let line = |name: &str, value: &str| render_item(&format!("{name:<12}"), value, &look);
    [
        line("Server", &format!("{}, {tool}", remote.host().name)),
        line("Host", &format!("{}, {}", environment.cpu_model, environment.kernel)),
        line("Round trip", &quantities::duration(round_trip.as_nanos() as f64)),
        line("TCP", "yes"),
        line("UDP", &udp),
        line("Limits", &limits),
        line("Used today", &used),
        line("Expires", &quantities::utc(about.expires_unix_s)),
        line("Sessions", &about.sessions.to_string()),
        line("Unavailable", &unavailable.join(", ")),
    ]
    .concat()
}
