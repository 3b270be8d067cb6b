//! Connects a client to the server of a ticket.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hairpin_engine::control::frames::Frames;
use hairpin_engine::control::{ControlError, MAX_REPORT_BYTES};
use hairpin_model::quantities::utc;
use hairpin_model::{Binding, Failure, FailureKind, Hinted, Refused};
use rustls::CertificateError;
use socket2::{Domain, Socket, Type};

use crate::proof::{Role, is_proof, proof, ticket_id};
use crate::protocol::{Answer, Base64, Greeting, Purpose, VERSION};
use crate::ticket::Ticket;
use crate::tls::Tls;

/// Time-out for the connection, the handshake and the greeting together.
const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest wait for the rounds of other clients that this client accepts, in ms.
const MAX_WAIT_MS: u64 = 3_600_000;

/// An authenticated connection to a server.
pub struct ControlConnection {
    /// Messages after the greeting.
    pub frames: Frames<Tls>,
    pub at: SocketAddr,
    /// Local address of the connection.
    pub here: Option<IpAddr>,
    pub session: u64,
    /// Name and version of the server's Hairpin.
    pub tool: String,
    /// Time that the connect took, as an estimate of the round-trip time.
    pub round_trip: Duration,
}

/// Why a connection was not authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKnown {
    /// The server refused, or the ticket has expired.
    Refused(Refused),
    /// No server was reached, or it has another certificate.
    Failed(Failure),
}

impl From<Failure> for NotKnown {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<NotKnown> for Failure {
    fn from(why: NotKnown) -> Self {
        match why {
            NotKnown::Refused(Refused { what, hint }) => Self::new(FailureKind::Refused, what, hint),
            NotKnown::Failed(failure) => failure,
        }
    }
}

fn refuse_expired(ticket: &Ticket, now_unix_s: u64) -> Result<(), Refused> {
    if now_unix_s < ticket.expires_unix_s {
        return Ok(());
    }
    Err(Refused::new(
        format!(
            "the ticket for {} expired at {} by the clock of this host, which says {}",
            ticket.address(),
            utc(ticket.expires_unix_s),
            utc(now_unix_s)
        ),
        "get a new one from `hairpin serve`, or set the clocks of both hosts",
    ))
}

/// Opens an authenticated connection to the server of the ticket.
///
/// # Errors
/// The ticket has expired, the server is unreachable or has another certificate, or it refuses the client.
pub fn dial(ticket: &Ticket, purpose: Purpose, binding: Binding) -> Result<ControlConnection, NotKnown> {
    refuse_expired(ticket, now_unix_s()).map_err(NotKnown::Refused)?;
    let deadline = Instant::now() + OPEN_TIMEOUT;
    let (socket, at, round_trip) = connect(ticket, deadline, binding)?;
    let mut tls = Tls::to_server(socket, ticket.fingerprint)
        .map_err(|error| server_failure(ticket, "speak TLS with", &error.to_string()))?;
    tls.handshake_until(deadline).map_err(|error| handshake_failure(ticket, &error))?;
    let exporter = tls.exporter().map_err(|error| server_failure(ticket, "authenticate to", &error.to_string()))?;
    let mut frames = Frames::over(tls, MAX_REPORT_BYTES);
    let greeting = Greeting {
        version: VERSION,
        tool: concat!("hairpin ", env!("CARGO_PKG_VERSION")).to_owned(),
        ticket: ticket_id(&ticket.secret),
        proof: Base64(proof(&ticket.secret, Role::Client, &exporter).to_vec()),
        purpose,
    };
    let control_failure = |error: ControlError| error.failure(&format!("the server at {}", ticket.address()));
    frames.send_any(&greeting).map_err(control_failure)?;
    let mut left = deadline.saturating_duration_since(Instant::now());
    let mut answer = frames.receive_any(left).map_err(control_failure)?;
    if let Answer::Waiting { most_ms } = answer {
        left = OPEN_TIMEOUT + Duration::from_millis(most_ms.min(MAX_WAIT_MS));
        answer = frames.receive_any(left).map_err(control_failure)?;
    }
    match answer {
        Answer::Welcome { version: VERSION, tool, proof, session } => {
            if !is_proof(&ticket.secret, Role::Server, &exporter, &proof.0) {
                return Err(server_failure(ticket, "trust", "it does not know the secret of the ticket").into());
            }
            let here = frames.carrier().socket().local_addr().ok().map(|here| here.ip());
            Ok(ControlConnection { frames, at, here, session, tool, round_trip })
        }
        Answer::Welcome { version, tool, .. } => Err(NotKnown::Failed(Failure::new(
            FailureKind::Unsupported,
            format!(
                "the server at {} ({}) speaks version {version} of the protocol between hosts; this Hairpin speaks \
                 version {VERSION}",
                ticket.address(),
                printable(&tool)
            ),
            "use the same version of Hairpin at both ends",
        ))),
        Answer::Waiting { .. } => {
            Err(server_failure(ticket, "begin a round at", "it makes the round wait more than once").into())
        }
        Answer::Refused { what, hint } => Err(NotKnown::Refused(Refused::new(
            format!("the server at {} refuses: {}", ticket.address(), printable(&what)),
            printable(&hint),
        ))),
    }
}

/// Tries the addresses of the host in turn. Returns the socket, the address that answered and the connect time.
fn connect(
    ticket: &Ticket,
    deadline: Instant,
    binding: Binding,
) -> Result<(TcpStream, SocketAddr, Duration), Failure> {
    let found = (ticket.host.as_str(), ticket.port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found
        .map_err(|error| {
            Failure::new(
                FailureKind::Unreachable,
                format!("cannot find the host {}: {error}", ticket.host),
                "is its name right, and does the name service work here (`getent hosts NAME`)?",
            )
        })?
        // A local address works with one IP version only.
        .filter(|address: &SocketAddr| binding.address.is_none_or(|local| local.is_ipv4() == address.is_ipv4()))
        .collect();
    let mut last = None;
    for (tried, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
        let socket = open_socket(*address, Type::STREAM, binding)?;
        let began = Instant::now();
        match socket.connect_timeout(&(*address).into(), share.max(Duration::from_millis(1))) {
            Ok(()) => return Ok((socket.into(), *address, began.elapsed())),
            Err(error) => last = Some((*address, error)),
        }
    }
    let Some((address, error)) = last else {
        return Err(match binding.address {
            Some(local) => Failure::new(
                FailureKind::Unreachable,
                format!("{} has no address of the same IP version as {local}", ticket.host),
                "give --bind an address of the other IP version, or an interface",
            ),
            None => server_failure(ticket, "find", "its name has no address"),
        });
    };
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: is `hairpin serve` running, and is this its port?"
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "no answer at all: a firewall may drop the packets; open the port for TCP and UDP"
        }
        io::ErrorKind::AddrNotAvailable if binding.ports.is_some() => {
            "the port of a closed connection stays in use for a minute: give --bind a larger range"
        }
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "is there a route to the host (`ip route get`), and is it up? a firewall may send this too"
        }
        _ => "",
    };
    let kind = match FailureKind::from(&error) {
        FailureKind::TimedOut | FailureKind::Refused => FailureKind::Unreachable,
        kind => kind,
    };
    let error = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no answer for {} s", OPEN_TIMEOUT.as_secs())
        }
        _ => error.to_string(),
    };
    Err(Failure::new(kind, format!("cannot connect to {address}: {error}"), hint))
}

/// Opens a socket for `to` and binds it to the local address of `binding`.
pub(crate) fn open_socket(to: SocketAddr, kind: Type, binding: Binding) -> Result<Socket, Failure> {
    let socket = Socket::new(Domain::for_address(to), kind, None).map_err(|error| {
        Failure::new(
            &error,
            format!("cannot open a socket: {error}"),
            "is a limit of open files reached (ulimit -n)?",
        )
    })?;
    hairpin_transports::bind(&socket, &binding).map_err(|error| Failure::new(&error, error.cause(), error.hint()))?;
    Ok(socket)
}

fn handshake_failure(ticket: &Ticket, error: &io::Error) -> Failure {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)) => Failure::new(
            FailureKind::Refused,
            format!("the server at {} is not the server of the ticket", ticket.address()),
            "its key was replaced, or another server answers there: get a new ticket from `hairpin serve`",
        ),
        _ if error.kind() == io::ErrorKind::TimedOut => Failure::new(
            FailureKind::Unreachable,
            format!(
                "the server at {} does not answer: no TLS handshake for {} s",
                ticket.address(),
                OPEN_TIMEOUT.as_secs()
            ),
            "is it stopped, or its host overloaded?",
        ),
        _ if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => Failure::new(
            FailureKind::Closed,
            format!("the server at {} closed the connection", ticket.address()),
            "is it a `hairpin serve`, or overloaded?",
        ),
        _ => server_failure(ticket, "speak TLS with", &error.to_string()),
    }
}

fn server_failure(ticket: &Ticket, operation: &str, cause: &str) -> Failure {
    Failure::new(
        FailureKind::Other,
        format!("cannot {operation} the server at {}: {cause}", ticket.address()),
        "is it a `hairpin serve` of this version?",
    )
}

/// Makes text from the other end safe to print: at most 300 characters, printable ASCII only.
pub fn printable(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(300).collect()
}

/// Seconds since 1970-01-01 UTC.
pub(crate) fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Secret;

    #[test]
    fn a_clock_that_steps_makes_a_ticket_expire_or_last_and_the_error_names_both_times() {
        let ticket = Ticket {
            host: "lab".to_owned(),
            port: 7420,
            fingerprint: [0; 32],
            secret: Secret([0; 16]),
            expires_unix_s: 1_800_000_000,
        };
        for now in [0, 1_700_000_000, 1_799_999_999] {
            assert_eq!(refuse_expired(&ticket, now), Ok(()), "a clock set back keeps the ticket valid");
        }
        assert_eq!(
            refuse_expired(&ticket, 1_900_000_000).unwrap_err().to_string(),
            "the ticket for lab:7420 expired at 2027-01-15 08:00:00 UTC by the clock of this host, which says \
             2030-03-17 17:46:40 UTC (hint: get a new one from `hairpin serve`, or set the clocks of both hosts)"
        );
        // Any time can be printed.
        for now in [1_800_000_000, u64::MAX] {
            assert!(refuse_expired(&ticket, now).is_err(), "{now}");
        }
        let forever = Ticket { expires_unix_s: u64::MAX, ..ticket };
        assert!(refuse_expired(&forever, u64::MAX).is_err());
    }
}
