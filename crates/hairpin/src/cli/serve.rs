//! `hairpin serve`: rounds for clients on other hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use hairpin_engine::Engine;
use hairpin_engine::ends::Host;
use hairpin_hosts::protocol::About;
use hairpin_hosts::serve::{Event, Server};
use hairpin_hosts::state::State;
use hairpin_hosts::ticket::Ticket;
use hairpin_model::parse;
use hairpin_model::refused::Refused;

use super::exit::{Exit, Stopped};
use super::measure::now_unix_s;
use super::output;
use crate::interrupt;

/// The port without --bind.
const PORT: u16 = 7420;
/// How long a ticket is taken without --for, in seconds.
const TICKET_S: u64 = 7 * 24 * 3600;
/// How often it is looked whether a ticket was revoked.
const TICKET_LOOK: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C, or until the flags say so.
///
/// # Errors
/// Bad usage, or a port or a folder that is not to be had.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let state = State::of_user().map_err(|error| cannot("use the folder of keys and tickets", &error))?;
    if let Some(id) = matches.get_one::<String>("revoke") {
        return revoke(&state, id);
    }
    let asked = Asked::read(matches)?;
    check_advertised(&asked)?;
    let stop = interrupt::raised_by_user().map_err(|error| cannot("prepare for signals", &error))?;
    let program = std::env::current_exe().map_err(|error| cannot("tell this program's own file", &error))?;
    let engine = Engine::new(program.clone(), stop.clone()).map_err(|error| cannot("prepare", &error))?;
    let about = about(&engine)?;
    let host = Host { clock: engine.clock, cpus: engine.cpus, namespace: None, across: None };
    let identity = state.identity().map_err(|error| cannot("use the key of the server", &error))?;
    let mut server = Server::bind(asked.bind, &identity, host, about, program)
        .map_err(|error| cannot(&format!("listen on {} (TCP and UDP)", asked.bind), &error))?;
    let lasts_s = asked.lasts.map_or(TICKET_S, |lasts| lasts.as_secs().max(1));
    let taken = state.new_ticket(now_unix_s() + lasts_s).map_err(|error| cannot("save the ticket", &error))?;
    let (name, port) = asked.advertised(server.address());
    let ticket = Ticket {
        host: name,
        port,
        fingerprint: identity.fingerprint(),
        secret: taken.secret,
        expires_unix_s: taken.expires_unix_s,
    };
    output::text(&format!("{}\n", ticket.word()));
    output::note(&format!(
        "Serving on {} (TCP and UDP). Ticket {} expires in {lasts_s} s; revoke it with: hairpin serve --revoke {}",
        server.address(),
        taken.id,
        taken.id
    ));
    server.take(state.tickets().map_err(|error| cannot("read the tickets", &error))?);
    let (began, mut looked) = (Instant::now(), Instant::now());
    let mut runs = 0_u64;
    loop {
        if looked.elapsed() >= TICKET_LOOK {
            // Those that it has stay where they cannot be read now, for want of descriptors for instance.
            if let Ok(tickets) = state.tickets() {
                server.take(tickets);
            }
            looked = Instant::now();
        }
        let events = server.serve(TICKET_LOOK).map_err(|error| cannot("serve", &error))?;
        for event in events {
            runs += u64::from(matches!(event, Event::Ended { .. }));
            log(&event);
        }
        let is_over = asked.lasts.is_some_and(|lasts| began.elapsed() > lasts) || asked.once && runs > 0;
        if is_over || stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(Exit::Fine);
        }
    }
}

/// What clients are told of this host.
fn about(engine: &Engine) -> Result<About, Stopped> {
    let capabilities =
        hairpin_engine::engine::capabilities().map_err(|error| cannot("see what can run here", &error))?;
    let runs = capabilities.candidates.iter().filter(|candidate| candidate.can_run.is_ok());
    Ok(About {
        environment: hairpin_engine::environment::read(engine),
        transports: runs.map(|candidate| candidate.card.name.to_owned()).collect(),
        congestion_controls: capabilities.congestion_controls.clone(),
    })
}

fn log(event: &Event) {
    output::note(&match event {
        Event::Began { session, client, tool, ticket } => {
            format!("session {session}: {client} ({tool}, ticket {ticket}) begins a run")
        }
        Event::Ended { session, rounds } => format!("session {session}: the run is over, {rounds} rounds"),
        Event::Refused { client, why } => format!("{client}: refused: {why}"),
    });
}

fn revoke(state: &State, id: &str) -> Result<Exit, Stopped> {
    match state.revoke(id) {
        Ok(true) => {
            output::note(&format!("ticket {id} is revoked"));
            Ok(Exit::Fine)
        }
        Ok(false) => Err(Stopped::usage(format!("there is no ticket {id} (hint: `hairpin serve` printed its name)"))),
        Err(error) => Err(cannot("revoke the ticket", &error)),
    }
}

fn cannot(what: &str, error: &std::io::Error) -> Stopped {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => " (hint: another program has the port: choose one with --bind ADDRESS:PORT)",
        std::io::ErrorKind::AddrNotAvailable => " (hint: no device of this host has the address)",
        std::io::ErrorKind::PermissionDenied => " (hint: choose a port of 1024 or more, or another XDG_STATE_HOME)",
        _ => "",
    };
    Stopped::usage(format!("cannot {what}: {error}{hint}"))
}

/// What the flags say.
struct Asked {
    bind: SocketAddr,
    advertise: Option<(String, Option<u16>)>,
    lasts: Option<Duration>,
    once: bool,
}

impl Asked {
    fn read(matches: &ArgMatches) -> Result<Self, Stopped> {
        let text = |name| matches.get_one::<String>(name).map(String::as_str);
        let refused = |flag: &'static str| move |error: Refused| Stopped::usage(error.while_reading(flag));
        let lasts = text("for").map(parse::duration_ns).transpose().map_err(refused("--for"))?;
        Ok(Self {
            bind: text("bind").map_or(Ok(default_bind()), bind).map_err(refused("--bind"))?,
            advertise: text("advertise").map(advertised).transpose().map_err(refused("--advertise"))?,
            lasts: lasts.map(Duration::from_nanos),
            once: matches.get_flag("once"),
        })
    }

    /// The host and the port that the ticket names.
    fn advertised(&self, at: SocketAddr) -> (String, u16) {
        match &self.advertise {
            Some((host, port)) => (host.clone(), port.unwrap_or(at.port())),
            None if at.ip().is_unspecified() => {
                (hairpin_engine::environment::host_name().unwrap_or_else(|| at.ip().to_string()), at.port())
            }
            None => (at.ip().to_string(), at.port()),
        }
    }
}

fn default_bind() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)
}

/// An address, with or without a port.
fn bind(text: &str) -> Result<SocketAddr, Refused> {
    let plain = text.trim_start_matches('[').trim_end_matches(']');
    let alone = plain.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    let of_a_device = || {
        of_a_device(plain, PORT)
            .or_else(|| Ticket::parse_address(text).and_then(|(host, port)| of_a_device(&host, port)))
    };
    alone.or_else(|_| text.parse::<SocketAddr>()).ok().or_else(of_a_device).ok_or_else(|| {
        Refused::new(
            format!("`{text}` is no address of this host"),
            format!("for instance 0.0.0.0, 192.0.2.7:{PORT} or [{}]:{PORT}", Ipv6Addr::UNSPECIFIED),
        )
    })
}

/// An address that only the device after its `%` makes whole (RFC 4007), as the system reads it.
fn of_a_device(text: &str, port: u16) -> Option<SocketAddr> {
    let found = text.contains('%').then(|| (text, port).to_socket_addrs().ok()).flatten();
    found.and_then(|mut addresses| addresses.next())
}

/// Refuses an address that a client cannot use as it is: what it lacks is known there only.
fn check_advertised(asked: &Asked) -> Result<(), Stopped> {
    match asked.bind.ip() {
        IpAddr::V6(own) if own.is_unicast_link_local() && asked.advertise.is_none() => {
            let own = format!("--advertise {own}%DEVICE, with the name of the client's own device towards this host");
            Err(Stopped::usage(format!("--bind: other hosts cannot use a link-local address as it is (hint: {own})")))
        }
        _ => Ok(()),
    }
}

/// A name or an address, with or without a port.
fn advertised(text: &str) -> Result<(String, Option<u16>), Refused> {
    let host_and_port = |text: &str| Ticket::parse_address(text);
    if let Some((host, port)) = host_and_port(text) {
        return Ok((host, Some(port)));
    }
    let bracketed = if text.contains(':') { format!("[{text}]:1") } else { format!("{text}:1") };
    host_and_port(&bracketed).map(|(host, _)| (host, None)).ok_or_else(|| {
        Refused::new(
            format!("`{text}` is no host"),
            "give a name or an address, for instance lab.example.org or lab.example.org:7420",
        )
    })
}
