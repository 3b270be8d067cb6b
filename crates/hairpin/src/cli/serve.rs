//! `hairpin serve`: serves rounds of clients on other hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use hairpin_engine::Engine;
use hairpin_engine::ends::Host;
use hairpin_engine::environment::host_name;
use hairpin_hosts::accounts::{Accounts, OwnAccount};
use hairpin_hosts::identity::Identity;
use hairpin_hosts::named_tickets::{NamedTickets, check_name};
use hairpin_hosts::protocol::ServerInfo;
use hairpin_hosts::serve::{AcceptedTicket, Server, Service, Tickets};
use hairpin_hosts::state::State;
use hairpin_hosts::ticket::{Ticket, host_and_port};
use hairpin_model::served::{Event, IssuedTicket};
use hairpin_model::{Ending, Limits, Prefix, Refused, StrangerCounts, TicketChange, capability, parse, quantities};

use super::exit::{Exit, Stopped};
use super::{output, serve_echo, serve_list};
use crate::linux::{interrupt, service, streams};
use crate::session::now_unix_s;

const PORT: u16 = 7420;
const DEFAULT_TICKET_LIFETIME_S: u64 = 7 * 24 * 3600;
/// Longest round of a server of one run.
const ONLY_TURN_NS: u64 = 2 * 3600 * 1_000_000_000;
/// Interval between checks whether the server must end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C, or until a condition set by flags.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let state = State::of_user().map_err(|error| {
        let hint = "(hint: set XDG_STATE_HOME to another folder)";
        Stopped::usage(format!("cannot use the folder of keys and tickets: {error} {hint}"))
    })?;
    if let Some(id) = matches.get_one::<String>("revoke") {
        return revoke(&state, id);
    }
    if matches.get_flag("list") {
        return serve_list::run(&state, matches.get_flag("json"))
            .map_err(|error| cannot("read the tickets and sessions", &error));
    }
    let asked = ServeOptions::read(matches)?;
    check_advertised(&asked)?;
    let unprepared = |error| cannot("prepare for signals", &error);
    let reload = asked.tickets.as_ref().map(|_| interrupt::raised_by_hangup()).transpose().map_err(unprepared)?;
    let stop = if reload.is_some() { interrupt::raised_by_termination() } else { interrupt::raised_by_user() };
    let stop = stop.map_err(|error| cannot("prepare for signals", &error))?;
    let program = std::env::current_exe().map_err(|error| cannot("find the path of this executable", &error))?;
    let engine = Engine::new(program.clone(), stop.clone()).map_err(|error| cannot("prepare", &error))?;
    let cpus = asked.cpu.map_or(Ok(engine.cpus.clone()), |cpu| engine.cpus.at([cpu; 2])).map_err(Stopped::usage)?;
    let engine = Engine { cpus, ..engine };
    let about = about(&engine);
    let host = Host { clock: engine.clock, cpus: engine.cpus, namespace: None, across: None };
    let identity = state.identity().map_err(|error| cannot("use the key of the server", &error))?;
    let named = asked.tickets.as_ref().map(|file| Arc::new(NamedTickets::of(state.clone(), file.clone())));
    let service = Service {
        tickets: tickets(state.clone(), named.clone()),
        allow: asked.allow.clone(),
        host,
        about,
        describes_host: asked.describes_host || asked.once,
        program,
    };
    let server = Server::bind(asked.bind, &identity, service).map_err(|error| cannot_listen(asked.bind, &error))?;
    let account = open_account(&state, &server, &asked)?;
    // Before there is a ticket, which a later failure would leave behind.
    serve_echo::start(matches, &asked.allow, state.folder(), &stop)?;
    let taken = issue(&state, &asked)?;
    warn_of_risks(&server);
    let advertised = asked.advertised(server.address());
    let issuer = Issuer { asked: &asked, at: server.address(), advertised, identity: &identity };
    issuer.on_listening(taken.as_ref());
    if let Some(named) = &named {
        issuer.reload(named).map_err(Stopped::usage)?;
    }
    if let Some(at) = asked.metrics {
        let at = server.serve_metrics(at).map_err(|error| cannot_listen(at, &error))?;
        output::note(&format!("counters at http://{at}/metrics"));
    }
    service::notify("READY=1");
    let input_closed = Arc::new(AtomicBool::new(false));
    if asked.until_input_closes {
        watch_standard_input(Arc::clone(&input_closed)).map_err(|error| cannot("watch standard input", &error))?;
    }
    let reloads = || {
        if let (Some(named), Some(reload)) = (&named, &reload)
            && reload.swap(false, Ordering::Relaxed)
            && let Err(refused) = issuer.reload(named)
        {
            output::warning(&format!("the tickets are as before: {refused}"));
        }
    };
    let served = serve(server, account.as_ref(), &asked, &EndEvents { stop, input_closed }, reloads);
    service::notify("STOPPING=1");
    // The ticket was for one run.
    if let Some(taken) = taken.filter(|_| asked.once) {
        state.revoke(&taken.id).map_err(|error| cannot("revoke the ticket", &error))?;
    }
    served
}

/// Reads tickets by name. Those of a file are accepted only with it, and then no others.
fn tickets(state: State, file: Option<Arc<NamedTickets>>) -> Tickets {
    Box::new(move |id: &str| {
        let taken = state.taken(id)?;
        Ok(match &file {
            Some(file) => taken.and_then(|ticket| file.accepted(ticket)),
            None => taken.filter(|ticket| !ticket.is_of_file),
        })
    })
}

fn warn_of_risks(server: &Server) {
    if streams::others_can_read_standard_output() {
        output::warning(
            "other users of this host can read the file with the ticket (hint: chmod 600 FILE, or run `umask 077` \
            first)",
        );
    }
    if server.is_root() {
        output::warning("serving as root, which needs no privilege (hint: run it as another user)");
    }
}

/// Creates the ticket that this server prints at its start; `None` if a file names the tickets.
fn issue(state: &State, asked: &ServeOptions) -> Result<Option<AcceptedTicket>, Stopped> {
    let lasts_s = asked.lasts.map_or(DEFAULT_TICKET_LIFETIME_S, |lasts| lasts.as_secs().max(1));
    // The only client of a server need not make way for others.
    let turn_ns = asked.limits.turn_ns.or(asked.once.then_some(ONLY_TURN_NS));
    let limits = Limits { turn_ns, ..asked.limits };
    let issued = match (&asked.tickets, &asked.ticket) {
        (Some(_), _) => return Ok(None),
        (None, Some(name)) => state.named_ticket(name).and_then(|ticket| state.with_limits(ticket, limits)),
        (None, None) => state.new_ticket(now_unix_s() + lasts_s, limits),
    };
    issued.map(Some).map_err(|error| cannot("save the ticket", &error))
}

/// Opens the account of this server and restores its entries. `None` for a server of one run, and if another server
/// uses the account.
fn open_account(state: &State, server: &Server, asked: &ServeOptions) -> Result<Option<OwnAccount>, Stopped> {
    if asked.once {
        return Ok(None);
    }
    let opened = Accounts::of(state).and_then(|accounts| accounts.open(server.address()));
    match opened.and_then(|account| Ok((account.read()?, account))) {
        Ok((kept, account)) => {
            server.restore(kept);
            Ok(Some(account))
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            output::warning(&format!(
                "sessions are not listed, and daily bytes are not saved: another server with the address {} uses the \
                same state folder (hint: set a different XDG_STATE_HOME on each host)",
                server.address()
            ));
            Ok(None)
        }
        Err(error) => Err(cannot("read the list of sessions", &error)),
    }
}

struct EndEvents {
    stop: Arc<AtomicBool>,
    input_closed: Arc<AtomicBool>,
}

fn serve(
    mut server: Server,
    account: Option<&OwnAccount>,
    asked: &ServeOptions,
    end_events: &EndEvents,
    mut reloads: impl FnMut(),
) -> Result<Exit, Stopped> {
    let began = Instant::now();
    let mut runs = 0_u64;
    let ending = loop {
        let events = server.serve(POLL_INTERVAL).map_err(|error| cannot("serve", &error))?;
        for event in events {
            runs += u64::from(matches!(event, Event::Ended { rounds: 1.., .. }));
            asked.log(&event);
        }
        save_account(&server, account);
        reloads();
        let endings = [
            (end_events.stop.load(Ordering::Relaxed), Ending::Signal),
            (end_events.input_closed.load(Ordering::Relaxed), Ending::Input),
            (asked.once && runs > 0, Ending::OneRun),
            (asked.lasts.is_some_and(|lasts| began.elapsed() > lasts), Ending::Time),
        ];
        if let Some((_, ending)) = endings.into_iter().find(|(happened, _)| *happened) {
            break ending;
        }
    };
    server.counted().iter().for_each(|event| asked.log(event));
    let stopped = server.end(ending);
    save_account(&server, account);
    asked.log(&stopped);
    Ok(Exit::Fine)
}

fn save_account(server: &Server, account: Option<&OwnAccount>) {
    if let Some((changed, account)) = server.changed().zip(account)
        && let Err(error) = account.keep(&changed)
    {
        // Serving continues, because only the list and the daily limit need the account.
        output::warning(&format!("cannot save the list of sessions: {error}"));
    }
}

struct Issuer<'a> {
    asked: &'a ServeOptions,
    at: SocketAddr,
    advertised: (String, u16),
    identity: &'a Identity,
}

impl Issuer<'_> {
    fn issued(&self, taken: &AcceptedTicket) -> IssuedTicket {
        let (host, port) = &self.advertised;
        let ticket = Ticket {
            host: host.clone(),
            port: *port,
            fingerprint: self.identity.fingerprint(),
            secret: taken.secret.clone(),
            expires_unix_s: taken.expires_unix_s,
        };
        IssuedTicket {
            ticket: ticket.word(),
            ticket_id: taken.id.clone(),
            expires_unix_s: taken.expires_unix_s,
            limits: taken.limits,
        }
    }

    fn on_listening(&self, taken: Option<&AcceptedTicket>) {
        let ticket = taken.map(|taken| self.issued(taken));
        if let Some(ticket) = ticket.as_ref().filter(|_| !self.asked.json) {
            output::text(&format!("{}\n", ticket.ticket));
        }
        self.asked.log(&Event::Listening { address: self.at, ticket });
    }

    /// Reads the file of named tickets, and prints the new ones.
    fn reload(&self, named: &NamedTickets) -> Result<(), Refused> {
        for (change, taken) in named.reload()? {
            let ticket = self.issued(&taken);
            let name = taken.name.unwrap_or_default();
            if change == TicketChange::Added && !self.asked.json {
                output::text(&format!("{name} {}\n", ticket.ticket));
            }
            let allow = taken.allow.iter().map(ToString::to_string).collect();
            self.asked.log(&Event::Ticket { change, name, allow, ticket });
        }
        Ok(())
    }
}

fn about(engine: &Engine) -> ServerInfo {
    let capabilities = hairpin_engine::engine::capabilities(&engine.cpus);
    let runs = capabilities.candidates.iter().filter(|candidate| candidate.can_run.is_ok());
    ServerInfo {
        environment: hairpin_engine::environment::read(engine),
        transports: runs.map(|candidate| candidate.card.name.to_owned()).collect(),
        own_transports: hairpin_transports::own().iter().map(|own| own.card().name.to_owned()).collect(),
        capabilities: capability::known(),
        congestion_controls: capabilities.congestion_controls.clone(),
        ..ServerInfo::default()
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Listening { address, ticket: None } => format!("Serving on {address} (TCP and UDP)."),
        Event::Listening { address, ticket: Some(IssuedTicket { ticket_id, expires_unix_s, limits, .. }) } => {
            format!(
                "Serving on {address} (TCP and UDP). Limits: {}. Ticket {ticket_id} expires at {}; revoke it with: hairpin \
                 serve --revoke {ticket_id}",
                limits.words().join(", "),
                quantities::utc(*expires_unix_s)
            )
        }
        Event::Ticket { change: TicketChange::Removed, name, ticket, .. } => {
            format!("ticket {name} ({}) removed", ticket.ticket_id)
        }
        Event::Ticket { change, name, allow, ticket } => {
            let from = if allow.is_empty() { String::new() } else { format!(", from {}", allow.join(", ")) };
            let limits = ticket.limits.words().join(", ");
            let expires = quantities::utc(ticket.expires_unix_s);
            format!("ticket {name} ({}) {change}: {limits}{from}; expires at {expires}", ticket.ticket_id)
        }
        Event::Began { session, client, tool, ticket } => {
            format!("session {session}: {client} ({tool}, ticket {ticket}) begins a run")
        }
        Event::Round { session, case, bytes, lasted_ns, failure } => {
            let outcome = failure.as_ref().map_or_else(
                || format!("{} in {}", quantities::bytes(*bytes as f64), quantities::duration(*lasted_ns as f64)),
                |why| format!("failed: {why}"),
            );
            format!("session {session}: {case}: {outcome}")
        }
        Event::Ended { session, rounds, bytes } => format!(
            "session {session}: the run has ended, {}, {}",
            quantities::counted(*rounds, "round"),
            quantities::bytes(*bytes as f64)
        ),
        Event::Strangers(StrangerCounts {
            connections_dropped,
            connections_overdue,
            connections_not_allowed,
            datagrams_ignored,
            flows_refused,
            clients_untold,
        }) => {
            format!(
                "traffic that is not from clients: {connections_dropped} connections dropped, {connections_overdue} \
                timed out, {connections_not_allowed} from addresses that are not allowed, \
                {datagrams_ignored} datagrams ignored, {flows_refused} flows refused, {clients_untold} clients refused \
                without a reason"
            )
        }
        Event::Refused { client, why, times: 1, .. } => format!("{client}: refused: {why}"),
        Event::Refused { client, why, times, .. } => {
            format!("{}: refused {times} more times in the last minute: {why}", client.ip())
        }
        Event::Stopped { why, sessions, bytes } => {
            let why = match why {
                Ending::Signal => "on a signal",
                Ending::Time => "after the time of --for",
                Ending::OneRun => "after one run",
                Ending::Input => "because standard input closed",
            };
            let sessions = quantities::counted(*sessions, "session");
            format!("the server ends {why}: {sessions}, {}", quantities::bytes(*bytes as f64))
        }
    }
}

fn watch_standard_input(closed: Arc<AtomicBool>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("hairpin-input".to_owned());
    let watch = move || {
        // A read error also counts as closed.
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).ok();
        closed.store(true, Ordering::Relaxed);
    };
    thread.spawn(watch).map(drop)
}

fn revoke(state: &State, id: &str) -> Result<Exit, Stopped> {
    match state.revoke(id) {
        Ok(true) => {
            output::note(&format!("ticket {id} is revoked"));
            Ok(Exit::Fine)
        }
        Ok(false) => {
            Err(Stopped::usage(format!("there is no ticket {id} (hint: `hairpin serve --list` lists all tickets)")))
        }
        Err(error) => Err(cannot("revoke the ticket", &error)),
    }
}

fn cannot(what: &str, error: &std::io::Error) -> Stopped {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => " (hint: set XDG_STATE_HOME to another folder for keys and tickets)",
        _ => "",
    };
    Stopped::usage(format!("cannot {what}: {error}{hint}"))
}

fn cannot_listen(at: SocketAddr, error: &std::io::Error) -> Stopped {
    let (ip, port) = (at.ip(), at.port());
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("another program uses port {port}; --bind {} uses any free port", SocketAddr::new(ip, 0))
        }
        std::io::ErrorKind::AddrNotAvailable => {
            "no interface of this host has the address: `ip address` lists all, 0.0.0.0 means all of IPv4; \
            --advertise gives the name or address that clients use"
                .to_owned()
        }
        std::io::ErrorKind::PermissionDenied if port < 1024 => {
            format!("ports below 1024 need CAP_NET_BIND_SERVICE: use --bind {}", SocketAddr::new(ip, PORT))
        }
        _ => "is the address right, and may this user open sockets?".to_owned(),
    };
    Stopped::usage(format!("cannot listen on {at} (TCP and UDP): {error} (hint: {hint})"))
}

struct ServeOptions {
    bind: SocketAddr,
    advertise: Option<(String, Option<u16>)>,
    lasts: Option<Duration>,
    once: bool,
    limits: Limits,
    cpu: Option<usize>,
    ticket: Option<String>,
    /// File with the names, limits and addresses of tickets.
    tickets: Option<PathBuf>,
    allow: Vec<Prefix>,
    describes_host: bool,
    metrics: Option<SocketAddr>,
    until_input_closes: bool,
    json: bool,
    quiet: bool,
}

impl ServeOptions {
    fn read(matches: &ArgMatches) -> Result<Self, Stopped> {
        let text = |name| matches.get_one::<String>(name).map(String::as_str);
        let refused = |flag: &'static str| move |error: Refused| Stopped::usage(error.while_reading(flag));
        let lasts = text("for").map(parse::duration_ns).transpose().map_err(refused("--for"))?;
        Ok(Self {
            bind: text("bind").map_or(Ok(DEFAULT_BIND), bind).map_err(refused("--bind"))?,
            advertise: text("advertise").map(advertised).transpose().map_err(refused("--advertise"))?,
            lasts: lasts.map(Duration::from_nanos),
            once: matches.get_flag("once"),
            limits: text("limit").map_or(Ok(Limits::default()), Limits::parse).map_err(refused("--limit"))?,
            cpu: matches.get_one::<usize>("cpu").copied(),
            ticket: text("ticket")
                .map(|name| check_name(name).map(|()| name.to_owned()))
                .transpose()
                .map_err(refused("--ticket"))?,
            tickets: text("tickets").map(PathBuf::from),
            allow: text("allow").map_or(Ok(Vec::new()), Prefix::parse_list).map_err(refused("--allow"))?,
            describes_host: matches.get_flag("describe-host"),
            metrics: text("metrics").map(bind).transpose().map_err(refused("--metrics"))?,
            until_input_closes: matches.get_flag("until-input-closes"),
            json: matches.get_flag("json"),
            quiet: matches.get_flag("quiet"),
        })
    }

    fn log(&self, event: &Event) {
        if self.json {
            output::json_line(event);
        } else if !self.quiet {
            output::log(&describe(event));
        }
    }

    fn advertised(&self, at: SocketAddr) -> (String, u16) {
        match &self.advertise {
            Some((host, port)) => (host.clone(), port.unwrap_or(at.port())),
            None if at.ip().is_unspecified() => (reachable_host(at), at.port()),
            None => (at.ip().to_string(), at.port()),
        }
    }
}

/// A name or an address by which other hosts can reach a server at all addresses of this host: the host's name if it
/// resolves to an address of another interface than the loopback, else the source address of the default route.
fn reachable_host(at: SocketAddr) -> String {
    let is_usable = |address: SocketAddr| !address.ip().is_loopback() && (at.is_ipv6() || address.is_ipv4());
    let named = host_name().filter(|name| {
        let found = (name.as_str(), at.port()).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        !found.is_empty() && found.into_iter().all(is_usable)
    });
    named.or_else(routed_address).or_else(host_name).unwrap_or_else(|| at.ip().to_string())
}

/// The source address of the default route over IPv4. A connect of a datagram socket sends nothing.
fn routed_address() -> Option<String> {
    const DOCUMENTATION: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(DOCUMENTATION).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

const DEFAULT_BIND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

fn bind(text: &str) -> Result<SocketAddr, Refused> {
    let plain = text.trim_start_matches('[').trim_end_matches(']');
    let alone = plain.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    let of_a_device = || {
        of_a_device(plain, PORT)
            .or_else(|| Ticket::parse_address(text).and_then(|(host, port)| of_a_device(&host, port)))
    };
    alone.or_else(|_| text.parse::<SocketAddr>()).ok().or_else(of_a_device).ok_or_else(|| {
        Refused::new(
            format!("`{text}` is not a valid address"),
            format!("for instance 0.0.0.0, 192.0.2.7:{PORT} or [{}]:{PORT}", Ipv6Addr::UNSPECIFIED),
        )
    })
}

/// Resolves a link-local address with an interface after its `%` (RFC 4007); `None` without an interface.
fn of_a_device(text: &str, port: u16) -> Option<SocketAddr> {
    let found = text.contains('%').then(|| (text, port).to_socket_addrs().ok()).flatten();
    found.and_then(|mut addresses| addresses.next())
}

/// Refuses a link-local address without --advertise: clients need the name of their own interface in the ticket.
fn check_advertised(asked: &ServeOptions) -> Result<(), Stopped> {
    match asked.bind.ip() {
        IpAddr::V6(own) if own.is_unicast_link_local() && asked.advertise.is_none() => {
            let own = format!("--advertise {own}%DEVICE, with the client's interface to this host");
            Err(Stopped::usage(format!(
                "--bind: clients cannot use a link-local address without an interface (hint: {own})"
            )))
        }
        _ => Ok(()),
    }
}

fn advertised(text: &str) -> Result<(String, Option<u16>), Refused> {
    host_and_port(text).or_else(|| host_and_port(&format!("[{text}]"))).ok_or_else(|| {
        Refused::new(
            format!("`{text}` is not a valid host name or address"),
            "give a name or an address, for instance lab.example.org or lab.example.org:7420",
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn an_address_that_cannot_be_bound_gets_a_hint_for_its_cause() {
        let told = |at: &str, kind| cannot_listen(at.parse().unwrap(), &Error::from(kind)).to_string();
        let low = "(hint: ports below 1024 need CAP_NET_BIND_SERVICE: use --bind 0.0.0.0:7420)";
        let taken = "(hint: another program uses port 7420; --bind [::1]:0 uses any free port)";
        for (at, kind, hint) in
            [("0.0.0.0:80", ErrorKind::PermissionDenied, low), ("[::1]:7420", ErrorKind::AddrInUse, taken)]
        {
            assert!(told(at, kind).ends_with(hint), "{}", told(at, kind));
        }
        assert!(!told("0.0.0.0:7420", ErrorKind::PermissionDenied).contains("1024"));
    }
}
