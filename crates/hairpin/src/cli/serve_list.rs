//! `hairpin serve --list`: lists valid tickets, and the sessions of all servers of this user.

use std::fmt::Write as _;
use std::io;

use hairpin_hosts::accounts::{Accounts, Listed};
use hairpin_hosts::serve::AcceptedTicket;
use hairpin_hosts::state::State;
use hairpin_model::{ListedServer, ListedTicket, Servers, Session, quantities};
use hairpin_report::terminal::{Look, render_item};

use super::exit::Exit;
use super::output;
use super::runs::minute;

pub(super) fn run(state: &State, is_json: bool) -> io::Result<Exit> {
    let tickets = state.tickets()?;
    let mut servers = Accounts::of(state)?.listed()?;
    // Omits servers that ended without a session.
    servers.retain(|server| server.is_running || !server.book.sessions.is_empty());
    let as_text = |look| as_text(&tickets, &servers, Look { colour: false, ..look });
    output::result(is_json, &as_json(&tickets, &servers), as_text);
    Ok(Exit::Fine)
}

fn as_json<'a>(tickets: &'a [AcceptedTicket], servers: &'a [Listed]) -> Servers<'a> {
    let ticket = |ticket: &'a AcceptedTicket| ListedTicket {
        ticket_id: &ticket.id,
        name: ticket.name.as_deref(),
        expires_unix_s: ticket.expires_unix_s,
        limits: ticket.limits,
    };
    let server = |server: &'a Listed| ListedServer {
        address: server.address,
        is_running: server.is_running,
        sessions: &server.book.sessions,
        used: &server.book.used,
    };
    Servers { tickets: tickets.iter().map(ticket).collect(), servers: servers.iter().map(server).collect() }
}

fn as_text(tickets: &[AcceptedTicket], servers: &[Listed], look: Look) -> String {
    if tickets.is_empty() && servers.is_empty() {
        return "No valid tickets, no running servers, and no past sessions.\n".to_owned();
    }
    let mut text = format!("{:<8}  {:<16}  limits\n", "ticket", "expires (UTC)");
    for ticket in tickets {
        let limits = ticket.limits.words().join(", ");
        let limits = ticket.name.as_ref().map_or(limits.clone(), |name| format!("{limits} ({name})"));
        text += &render_item(&format!("{:<8}  {}  ", ticket.id, minute(ticket.expires_unix_s)), &limits, &look);
    }
    for server in servers {
        text += &server_as_text(server, look);
    }
    text
}

fn server_as_text(server: &Listed, look: Look) -> String {
    let Listed { address, is_running, book } = server;
    let is_of_this_start = |session: &Session| *is_running && session.session >= book.first;
    let mut text = format!("\nServer at {address}: {}\n", if *is_running { "running" } else { "ended" });
    // Shows only the last day, because usage of earlier days no longer counts.
    if let Some(day) = book.used.values().map(|used| used.day).max() {
        let of_day = book.used.iter().filter(|(_, used)| used.day == day);
        let used: Vec<String> =
            of_day.map(|(ticket, used)| format!("{ticket} {}", quantities::bytes(used.bytes as f64))).collect();
        let time = quantities::utc(day.saturating_mul(24 * 3600));
        let date = time.split(' ').next().unwrap_or_default();
        text += &render_item(&format!("Used on {date} (UTC): "), &used.join(", "), &look);
    }
    if book.sessions.is_empty() {
        return text + "No sessions\n";
    }
    let _ = writeln!(
        text,
        "{:>3}  {:<16}  {:<9}  {:<8}  {:>6}  {:>8}  client",
        "no.", "began (UTC)", "lasted", "ticket", "rounds", "size"
    );
    for session in &book.sessions {
        let line = format!(
            "{:>3}  {}  {:<9}  {:<8}  {:>6}  {:>8}  ",
            session.session,
            minute(session.began_unix_s),
            lasted(session, is_of_this_start(session)),
            session.ticket,
            session.rounds,
            quantities::bytes(session.bytes as f64),
        );
        let client = session.client.ip().to_string();
        // A long address gets its own line.
        let is_wide = line.chars().count() + client.chars().count() > look.width;
        let (line, between) = if is_wide { (line.trim_end(), "\n     ") } else { (line.as_str(), "") };
        let _ = writeln!(text, "{line}{between}{client}");
    }
    text
}

/// Duration of a session by the server's clock, in seconds.
fn lasted(session: &Session, is_of_this_start: bool) -> String {
    match session.ended_unix_s {
        Some(ended) => match ended.saturating_sub(session.began_unix_s) {
            0 => "< 1 s".to_owned(),
            seconds => format!("{seconds} s"),
        },
        None if is_of_this_start => "under way".to_owned(),
        // The server was killed before it recorded the end.
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_hosts::serve::Account;
    use hairpin_hosts::ticket::Secret;
    use hairpin_model::{Limits, Used};

    use super::*;

    fn session(session: u64, client: &str, ended_unix_s: Option<u64>) -> Session {
        Session {
            session,
            client: client.parse().unwrap(),
            tool: "hairpin 0.1.0".to_owned(),
            ticket: "f123e0b2".to_owned(),
            began_unix_s: 1_800_000_000,
            ended_unix_s,
            rounds: 3,
            bytes: 6636,
        }
    }

    #[test]
    fn the_list_is_aligned_in_80_columns_and_a_long_address_has_its_own_line() {
        let limits = Limits::parse("rate=100mbit,turn=60s,daily-bytes=10GiB,sessions=2,wait=10s").unwrap();
        let secret = Secret([0; 16]);
        let ticket = AcceptedTicket {
            id: "f123e0b2".to_owned(),
            secret,
            expires_unix_s: 1_800_604_800,
            limits,
            name: Some("alice".to_owned()),
            is_of_file: false,
            allow: Vec::new(),
        };
        let sessions = vec![
            session(8, "192.0.2.1:40000", None),
            session(9, "192.168.100.200:40000", Some(1_800_000_012)),
            session(10, "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:1", Some(1_799_999_000)),
            session(11, "192.0.2.1:40000", None),
        ];
        let used = [("f123e0b2".to_owned(), Used { day: 20_833, bytes: 6636 })].into();
        let one = Listed {
            address: "[::]:7420".parse().unwrap(),
            is_running: true,
            book: Account { sessions, first: 9, used },
        };
        let book = Account { sessions: vec![session(1, "192.0.2.1:40000", None)], ..Account::default() };
        let other = Listed { address: "127.0.0.1:7421".parse().unwrap(), is_running: false, book };
        let idle = Listed { book: Account::default(), ..one.clone() };
        let text = as_text(&[ticket], &[one, other, idle], Look { width: 80, colour: false });
        assert_eq!(
            text,
            "\
ticket    expires (UTC)     limits
f123e0b2  2027-01-22 08:00  rate=100mbit, turn=60s, daily-bytes=10GiB,
                            sessions=2, wait=10s (alice)

Server at [::]:7420: running
Used on 2027-01-15 (UTC): f123e0b2 6.48 KiB
no.  began (UTC)       lasted     ticket    rounds      size  client
  8  2027-01-15 08:00  unknown    f123e0b2       3  6.48 KiB  192.0.2.1
  9  2027-01-15 08:00  12 s       f123e0b2       3  6.48 KiB  192.168.100.200
 10  2027-01-15 08:00  < 1 s      f123e0b2       3  6.48 KiB
     2001:db8:85a3:8d3:1319:8a2e:370:7348
 11  2027-01-15 08:00  under way  f123e0b2       3  6.48 KiB  192.0.2.1

Server at 127.0.0.1:7421: ended
no.  began (UTC)       lasted     ticket    rounds      size  client
  1  2027-01-15 08:00  unknown    f123e0b2       3  6.48 KiB  192.0.2.1

Server at [::]:7420: running
No sessions
"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }
}
