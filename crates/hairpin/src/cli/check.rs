//! `hairpin check`: what the server of a ticket allows, and whether TCP and UDP reach it.

use clap::ArgMatches;
use hairpin_hosts::trial::Trial;
use hairpin_model::card::{AnsweredBy, Reach};
use hairpin_model::quantities;
use serde_json::json;

use super::exit::{Exit, Stopped};
use super::output;
use super::two_hosts::Session;

/// Connects, tries datagrams, and prints what that told.
///
/// # Errors
/// The ticket cannot be read, or the server is not reached or refuses.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let given = matches.get_one::<String>("TICKET");
    let mut session = Session::of_ticket(given.map(String::as_str), "TICKET")?.ok_or_else(|| {
        Stopped::usage(
            "no ticket: neither an argument nor HAIRPIN_TO has one (hint: `hairpin check @FILE`, or HAIRPIN_TO=@FILE, where \
             `hairpin serve > FILE` ran on the other host)",
        )
    })?;
    let trial = session.try_datagrams()?;
    let refused = refused(&session);
    let text = if matches.get_flag("json") {
        format!("{:#}\n", as_json(&session, &trial, &refused))
    } else {
        as_text(&session, &trial, &refused)
    };
    output::text(&text);
    Ok(if trial.is_through() { Exit::Fine } else { Exit::RoundsFailed })
}

/// The transports of this program that cannot be measured there, and why.
fn refused(session: &Session) -> Vec<(&'static str, String)> {
    let host = session.host();
    let cards = hairpin_transports::ALL.iter().map(|transport| transport.card());
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

fn as_json(session: &Session, trial: &Trial, refused: &[(&'static str, String)]) -> serde_json::Value {
    let (about, (tool, round_trip)) = (session.about(), session.known());
    let refusals: Vec<_> =
        refused.iter().map(|(transport, reason)| json!({ "transport": transport, "reason": reason })).collect();
    json!({
        "host": session.host().name,
        "tool": tool,
        "round_trip_ns": u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX),
        "expires_unix_s": about.expires_unix_s,
        "sessions": about.sessions,
        "limits": about.limits,
        "used_bytes": about.used_bytes,
        "datagrams": { "is_through": trial.is_through(), "evidence": trial.evidence() },
        "refusals": refusals,
    })
}

fn as_text(session: &Session, trial: &Trial, refused: &[(&'static str, String)]) -> String {
    let (about, (tool, round_trip)) = (session.about(), session.known());
    let environment = &about.environment;
    let words = about.limits.words();
    let limits = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let used = quantities::bytes(about.used_bytes as f64);
    let not_there: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let udp = if trial.is_through() { "yes".to_owned() } else { format!("no: {}", trial.evidence()) };
    let line = |name: &str, value: &str| format!("{name:<12}{value}\n");
    [
        line("Server", &format!("{}  {tool}", session.host().name)),
        line("Host", &format!("{}, {}", environment.cpu_model, environment.kernel)),
        line("Round trip", &quantities::duration(round_trip.as_nanos() as f64)),
        line("TCP", "yes"),
        line("UDP", &udp),
        line("Limits", &limits),
        line("Used today", &used),
        line("Expires", &quantities::utc(about.expires_unix_s)),
        line("Sessions", &about.sessions.to_string()),
        line("Not there", &not_there.join(", ")),
    ]
    .concat()
}
