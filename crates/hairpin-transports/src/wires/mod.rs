//! Shared code of the transports: deadlines, errors, and checks of setups.

pub(crate) mod codes;
#[cfg(target_os = "linux")]
pub(crate) mod internet;
#[cfg(target_os = "linux")]
pub(crate) mod ip_header;
pub(crate) mod one_wire;
#[cfg(target_os = "linux")]
pub(crate) mod ring;

use std::io;
use std::time::{Duration, Instant};

use hairpin_model::options::OptionName;
use hairpin_model::{Card, Reach, WhyNot};

use crate::giving_up::has_given_up;
#[cfg(target_os = "linux")]
pub(crate) use crate::linux::wires::{description, descriptor, hello, layer, pipe, port, socket, socket_transport};
use crate::wire::{Setup, TransportError, Unsupported, WireError};

/// Refuses a setup that the card does not support.
///
/// # Errors
/// [`TransportError::NoSuchOption`], [`TransportError::Option`] or [`TransportError::Impossible`].
pub fn check(card: &Card, setup: &Setup) -> Result<(), TransportError> {
    if let Some((name, _)) = setup.options.iter().find(|(name, _)| !card.options.contains(name)) {
        return Err(TransportError::NoSuchOption { transport: card.name, name });
    }
    let own_controls = card.library.map_or(&[][..], |library| library.congestion_controls);
    if let Some(asked) = setup.options.get(OptionName::Congestion).filter(|_| !own_controls.is_empty())
        && !own_controls.contains(&asked)
    {
        let source = io::Error::new(io::ErrorKind::NotFound, "the library has no such congestion control");
        return Err(TransportError::Option { name: OptionName::Congestion, asked: asked.to_owned(), source });
    }
    if !card.waitings.contains(&setup.waiting) {
        let known: Vec<&str> = card.waitings.iter().map(|waiting| waiting.word()).collect();
        return impossible(
            format!("{} does not support waiting by {}", card.name, setup.waiting),
            format!("one of {}", known.join(", ")),
        );
    }
    if setup.server.is_some() && card.reach != Reach::Network {
        let reason = format!("{} works on one machine only and cannot cross a link", card.name);
        return impossible(reason, "tcp, udp and icmp can cross links".to_owned());
    }
    let sizes = card.min_message_bytes..=card.max_message_bytes;
    if !sizes.contains(&(setup.largest_message as u64)) {
        let reason = format!("{} cannot carry messages of {} bytes", card.name, setup.largest_message);
        return impossible(reason, format!("{} to {}", sizes.start(), sizes.end()));
    }
    Ok(())
}

fn impossible(reason: String, hint: String) -> Result<(), TransportError> {
    Err(TransportError::Impossible(WhyNot::new(reason, hint)))
}

/// Returns the error of a failed system call. The hint may be empty.
pub(crate) fn failed(operation: &'static str, object: &str, source: io::Error, hint: &str) -> TransportError {
    TransportError::System { operation, object: object.to_owned(), source, hint: hint.to_owned() }
}

/// Returns the error of a system call that did not reach the other end, with a hint.
pub(crate) fn unreached(operation: &'static str, address: &str, source: io::Error) -> TransportError {
    let hint = match source.kind() {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => "is the interface up (`ip link`)?",
        io::ErrorKind::ConnectionRefused => {
            "is the server running, and is this its address? a firewall may reject it too"
        }
        _ => "is the server running, and is this its address?",
    };
    failed(operation, address, source, hint)
}

pub(crate) fn bad_address(address: &str, expected: &str) -> TransportError {
    let source = io::Error::new(io::ErrorKind::InvalidInput, format!("not an address of the form {expected}"));
    failed("connect to", address, source, "use the address that the server printed")
}

/// Interval at which a wait for a client calls `is_abandoned`.
pub(crate) const ABANDON_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns how long to wait for a client, at most [`ABANDON_POLL_INTERVAL`]; `None` once the deadline has passed.
pub(crate) fn left_to_accept(
    deadline: &mut Deadline,
    is_abandoned: &mut dyn FnMut() -> bool,
) -> Result<Option<Duration>, TransportError> {
    if is_abandoned() {
        return Err(TransportError::Abandoned);
    }
    Ok(deadline.left().map(|left| left.min(ABANDON_POLL_INTERVAL)))
}

/// Returns the error of a listener that accepts one client only.
pub(crate) fn second_connection(transport: &'static str) -> TransportError {
    TransportError::Unsupported { transport, what: Unsupported::SecondConnection }
}

/// Returns the error of a connection that carries one wire only.
pub(crate) fn second_wire(transport: &'static str) -> TransportError {
    TransportError::Unsupported { transport, what: Unsupported::SecondWire }
}

/// A time-out and its start time.
#[derive(Debug)]
pub(crate) struct Deadline {
    timeout: Duration,
    started: Option<Instant>,
}

/// Longest wait before a deadline is checked again, so that threads without a signal also notice
/// [`give_up`](crate::giving_up::give_up).
pub(crate) const MAX_SLICE: Duration = Duration::from_millis(500);

/// Returns how long one call may wait: at most [`MAX_SLICE`], and 0 after [`give_up`](crate::giving_up::give_up).
pub(crate) fn slice(left: Duration) -> Duration {
    if has_given_up() { Duration::ZERO } else { left.min(MAX_SLICE) }
}

impl Deadline {
    /// Creates a time-out whose clock starts at the first check, so that a call without a wait does not read the clock.
    /// The time before the first check is not counted, so use this only to detect a dead peer.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, started: None }
    }

    /// Creates a time-out whose clock starts now, for a wait that must end on time.
    pub(crate) fn from_now(timeout: Duration) -> Self {
        Self { timeout, started: Some(Instant::now()) }
    }

    /// Returns the remaining time, 0 if none is left; `None` if the clock has not started.
    pub(crate) fn running(&self) -> Option<Duration> {
        self.started.map(|started| self.timeout.saturating_sub(started.elapsed()))
    }

    /// Starts the clock if necessary. Returns the remaining time; `None` if none is left, or after
    /// [`give_up`](crate::giving_up::give_up).
    pub(crate) fn left(&mut self) -> Option<Duration> {
        if has_given_up() {
            return None;
        }
        let elapsed = match self.started {
            Some(started) => started.elapsed(),
            None => {
                self.started = Some(Instant::now());
                Duration::ZERO
            }
        };
        self.timeout.checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    pub(crate) fn timed_out(operation: &'static str, after: Duration) -> WireError {
        WireError::TimedOut { operation, after }
    }
}

/// A minimal setup, to check whether a transport can run.
#[cfg(target_os = "linux")]
pub(crate) fn minimal_setup() -> Setup {
    Setup::new(hairpin_model::case::Waiting::Block, Duration::from_millis(100), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[test]
    fn a_deadline_from_now_counts_the_time_before_the_first_check() {
        let mut deadline = Deadline::from_now(HOUR);
        deadline.started = deadline.started.and_then(|started| started.checked_sub(HOUR / 2));
        assert!(deadline.running().is_some_and(|left| left <= HOUR / 2));
        assert!(deadline.left().is_some_and(|left| left <= HOUR / 2));
        assert_eq!(Deadline::from_now(Duration::ZERO).running(), Some(Duration::ZERO));
    }

    #[test]
    fn the_clock_starts_at_the_first_check() {
        let mut deadline = Deadline::new(HOUR);
        assert_eq!((deadline.running(), deadline.started), (None, None));
        assert!(deadline.left().is_some() && deadline.running().is_some(), "the first check starts the clock");
    }
}
