//! Whether datagrams reach a server, and in which direction they are lost.
//!
//! The client says hello as a flow does. The counts at both ends distinguish the directions; those of the server arrive
//! over control.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hairpin_engine::control::ControlError;
use hairpin_model::{Binding, Failure};
use hairpin_transports::{Cookie, HELLO_BYTES, challenged, confirm, hello_of};
use ring::rand::{SecureRandom, SystemRandom};
use socket2::Type;

use crate::dial::{ControlConnection, bound};
use crate::protocol::{Ask, DatagramsSeen};

/// Hellos to send if no answer arrives.
const HELLOS: u64 = 10;
/// Shortest wait for the answer to each.
const ANSWER: Duration = Duration::from_millis(100);
/// Maximum queries for the confirmation.
const LOOKS: u64 = 20;
/// Time-out for the server's answers over control.
const TOLD: Duration = Duration::from_secs(10);

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramCheck {
    /// UDP port of the server.
    pub port: u16,
    pub sent: u64,
    /// Whether the client received an answer.
    pub is_answered: bool,
    /// Datagrams that the server received.
    pub seen: DatagramsSeen,
    /// Duration, in ns.
    pub lasted_ns: u64,
    /// Whether ICMP reported that nothing receives at the port (RFC 792).
    pub is_refused: bool,
}

impl DatagramCheck {
    /// Whether datagrams arrive in both directions.
    pub fn is_through(&self) -> bool {
        self.is_answered && self.seen.confirmed > 0
    }

    /// The counts and their meaning, in one sentence.
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

/// Tries datagrams, within the session of `known`.
///
/// # Errors
/// The server does not answer over control, or no socket can be opened.
pub fn check_datagrams(known: &mut ControlConnection, binding: Binding) -> Result<DatagramCheck, Failure> {
    let mut cookie = [0; 16];
    let random =
        SystemRandom::new().fill(&mut cookie).map_err(|_| io::Error::other("the system gives no random bytes"));
    random.map_err(|error| failed(&error))?;
    let seen = |known: &mut ControlConnection, ask: Ask| {
        let told = known.frames.send_any(&ask).and_then(|()| known.frames.receive_any::<DatagramsSeen>(TOLD));
        told.map_err(|error: ControlError| error.failure("the server"))
    };
    seen(known, Ask::TryDatagrams(cookie))?;
    let own = Cookie(cookie);
    let (at, patience) = (known.at, ANSWER.max(2 * known.round_trip));
    let socket = bound(at, Type::DGRAM, binding)?;
    let mut trial = exchange_hellos(&socket.into(), at, &own, patience).map_err(|error| failed(&error))?;
    // The last datagrams may still be in flight.
    for _ in 0..LOOKS {
        trial.seen = seen(known, Ask::DatagramsSeen(cookie))?;
        if !trial.is_answered || trial.seen.confirmed > 0 {
            break;
        }
        std::thread::sleep(patience / u32::try_from(LOOKS).unwrap_or(1));
    }
    Ok(trial)
}

fn exchange_hellos(
    socket: &UdpSocket,
    at: SocketAddr,
    cookie: &Cookie,
    patience: Duration,
) -> io::Result<DatagramCheck> {
    socket.connect(at)?;
    socket.set_read_timeout(Some(patience))?;
    let began = Instant::now();
    let mut trial = DatagramCheck {
        port: at.port(),
        sent: 0,
        is_answered: false,
        seen: DatagramsSeen::default(),
        lasted_ns: 0,
        is_refused: false,
    };
    let mut datagram = hello_of(cookie).to_vec();
    let mut confirmations = 0;
    // After an answer, send two confirmations: one may be lost.
    while trial.sent < HELLOS && confirmations < 2 {
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
                if let Some(nonce) = challenged(&answer[..bytes], cookie) {
                    trial.is_answered = true;
                    datagram = confirm(cookie, &nonce).to_vec();
                }
            }
            Err(error) if is_refused(&error) => {
                trial.is_refused = true;
                std::thread::sleep(patience);
            }
            Err(_) => {}
        }
    }
    trial.lasted_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(trial)
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(
        error,
        format!("cannot try whether datagrams come through: {error}"),
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
