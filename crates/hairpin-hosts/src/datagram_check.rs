//! Tests whether datagrams arrive at both ends, and finds the direction in which they are lost.
//!
//! The client sends hellos as a data flow does. The numbers of datagrams received at both ends show the direction; the
//! server reports its number over the control connection.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_model::{Binding, Failure};
use hairpin_transports::{Cookie, HELLO_BYTES, HelloKind, encode_hello, parse_hello};
use socket2::Type;

use crate::dial::{ControlConnection, open_socket};
use crate::protocol::{Ask, DatagramsSeen};

/// Maximum datagrams to send.
const MAX_SENT: u64 = 10;
/// Shortest wait for the answer to a hello.
const MIN_ANSWER_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum queries for the server's counts.
const MAX_QUERIES: u64 = 20;
/// Time-out for the server's answers over control.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a datagram trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramCheck {
    /// UDP port of the server.
    pub port: u16,
    pub sent: u64,
    /// Whether the client received an answer.
    pub is_answered: bool,
    /// Datagrams that the server received.
    pub seen: DatagramsSeen,
    pub lasted_ns: u64,
    /// Whether an ICMP error reported that the port is closed (RFC 792).
    pub is_refused: bool,
}

impl DatagramCheck {
    /// Whether datagrams arrive in both directions.
    pub fn is_through(&self) -> bool {
        self.is_answered && self.seen.confirmed > 0
    }

    /// States the counts and their meaning in one sentence.
    pub fn evidence(&self) -> String {
        let Self { port, sent, is_answered, seen, .. } = self;
        let within = format!("{:.1} s", self.lasted_ns as f64 / 1e9);
        let sent = format!("{sent} datagrams were sent to UDP port {port} in {within}");
        match (seen.hellos, is_answered) {
            (0, _) if self.is_refused => {
                format!("{sent}, and the server received none: they were rejected (ICMP) on the way up")
            }
            (0, _) => format!("{sent}, and the server received none: UDP is blocked on the way up"),
            (hellos, false) => format!(
                "{sent}, the server received {hellos} and answered each, and no answer came back: UDP is blocked on the \
                 way down"
            ),
            (hellos, true) => {
                format!("{sent}, the server received {}, and 1 answer came back", hellos + seen.confirmed)
            }
        }
    }
}

/// Tests whether datagrams arrive, as part of the session of `control`.
///
/// # Errors
/// The server does not answer over control, or no socket can be opened.
pub fn check_datagrams(control: &mut ControlConnection, binding: Binding) -> Result<DatagramCheck, Failure> {
    let Cookie(cookie) = Cookie::draw().map_err(|error| check_failure(&error))?;
    let query = |control: &mut ControlConnection, ask: Ask| {
        let sent = control.frames.send_any(&ask);
        let answer = sent.and_then(|()| control.frames.receive_any::<DatagramsSeen>(CONTROL_TIMEOUT));
        answer.map_err(|error: ControlError| error.failure("the server"))
    };
    query(control, Ask::TryDatagrams(cookie))?;
    let (at, timeout) = (control.at, MIN_ANSWER_TIMEOUT.max(2 * control.round_trip));
    let socket = open_socket(at, Type::DGRAM, binding)?.into();
    let trial = exchange_hellos(&socket, at, &Cookie(cookie), timeout);
    let (mut trial, last) = trial.map_err(|error| check_failure(&error))?;
    for _ in 0..MAX_QUERIES {
        trial.seen = query(control, Ask::DatagramsSeen(cookie))?;
        if !trial.is_answered || trial.seen.confirmed > 0 {
            break;
        }
        // The confirmations may still be in flight, or were lost.
        drop(socket.send(&last));
        std::thread::sleep(timeout);
    }
    Ok(trial)
}

/// Returns the trial, and the datagram that was sent last: a confirmation if there was an answer.
fn exchange_hellos(
    socket: &UdpSocket,
    at: SocketAddr,
    cookie: &Cookie,
    timeout: Duration,
) -> io::Result<(DatagramCheck, [u8; HELLO_BYTES])> {
    socket.connect(at)?;
    socket.set_read_timeout(Some(timeout))?;
    let began = Instant::now();
    let mut trial = DatagramCheck {
        port: at.port(),
        sent: 0,
        is_answered: false,
        seen: DatagramsSeen::default(),
        lasted_ns: 0,
        is_refused: false,
    };
    let mut datagram = encode_hello(HelloKind::Hello, cookie, &[0; 16]);
    let mut confirmations = 0;
    // After an answer, send two confirmations: one may be lost.
    while trial.sent < MAX_SENT && confirmations < 2 {
        // Other errors come from a local firewall (`EPERM`) or a missing route.
        trial.is_refused |= socket.send(&datagram).is_err_and(|error| is_refused(&error));
        trial.sent += 1;
        if trial.is_answered {
            confirmations += 1;
            continue;
        }
        let mut answer = [0; HELLO_BYTES + 1];
        match socket.recv(&mut answer) {
            Ok(bytes) => {
                if let Some((HelloKind::Challenge, own, nonce)) = parse_hello(&answer[..bytes])
                    && own == *cookie
                {
                    trial.is_answered = true;
                    datagram = encode_hello(HelloKind::Confirm, cookie, &nonce);
                }
            }
            Err(error) if is_refused(&error) => {
                trial.is_refused = true;
                std::thread::sleep(timeout);
            }
            Err(_) => {}
        }
    }
    trial.lasted_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok((trial, datagram))
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn check_failure(error: &io::Error) -> Failure {
    Failure::new(
        error,
        format!("cannot test whether datagrams arrive: {error}"),
        "is a limit of open files reached (ulimit -n)?",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_evidence_names_the_direction() {
        let trial = |hellos, confirmed, is_answered| DatagramCheck {
            port: 7420,
            sent: 10,
            is_answered,
            seen: DatagramsSeen { hellos, confirmed },
            lasted_ns: 1_020_000_000,
            is_refused: false,
        };
        assert_eq!(
            trial(0, 0, false).evidence(),
            "10 datagrams were sent to UDP port 7420 in 1.0 s, and the server received none: UDP is blocked on the way up"
        );
        assert_eq!(
            trial(9, 0, false).evidence(),
            "10 datagrams were sent to UDP port 7420 in 1.0 s, the server received 9 and answered each, and no answer came \
             back: UDP is blocked on the way down"
        );
        let through = trial(1, 3, true);
        assert!(through.is_through() && !trial(9, 0, false).is_through());
        assert!(through.evidence().ends_with("the server received 4, and 1 answer came back"));
        let refused = DatagramCheck { is_refused: true, ..trial(0, 0, false) };
        assert!(refused.evidence().ends_with("they were rejected (ICMP) on the way up"));
    }
}
