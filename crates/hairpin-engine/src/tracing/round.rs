//! A traced round as a whole: the traces of both ends and the packets, converted to one clock.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use hairpin_model::samples::Fate;
use hairpin_model::{
    Binding, Capture, Card, Case, EndTrace, Fact, FactValue, Failure, Packet, Reach, RoundTrace, Samples, WhyNot,
    fact_names,
};

use crate::capture::{self, Captured, Live};
use crate::links::{END_INTERFACE, namespace};
use crate::realtime::{Bracket, RealtimeMap};
use crate::system::interface;
use hairpin_loops::clock::{Clock, RealClock};

/// The clock of a server on another host. All times of the server's trace are times of this clock.
pub struct OwnClock {
    clock: RealClock,
    before: Bracket,
    origin_ns: u64,
}

impl OwnClock {
    /// Begins a trace. The times of the trace count from the return of this call.
    pub fn begin(clock: RealClock) -> Self {
        let before = Bracket::read(&clock);
        Self { clock, before, origin_ns: clock.now_ns() }
    }

    pub fn place(self, trace: EndTrace) -> EndTrace {
        on_one_clock(trace, self.origin_ns, &self.map())
    }

    fn map(&self) -> RealtimeMap {
        RealtimeMap::between(self.before, Bracket::read(&self.clock), self.origin_ns)
    }
}

/// The interface for packets between addresses of this machine.
const LOOPBACK: &str = "lo";

/// Observes a round from before its connection opens until after the connection is closed.
pub struct TraceObserver {
    own: OwnClock,
    capture: Result<Capturing, WhyNot>,
}

/// The capture at the client and, with a link, at the server: a packet leaves at one end and arrives at the other end.
/// On the loopback, a packet leaves and arrives at the same time.
type Capturing = (Live, Option<Live>);

impl TraceObserver {
    /// Begins the observation, just before the case connects to `address` with `binding`. The times of the trace count
    /// from the return of this call. With a link, the calling thread is in the client's network namespace, and `server`
    /// is the server's namespace.
    pub fn begin(
        clock: RealClock,
        card: &Card,
        case: &Case,
        (address, binding): (&str, Binding),
        server: Option<&Path>,
    ) -> Self {
        let interface =
            if case.path.across.is_some() { interface_to(address, &binding) } else { Ok(LOOPBACK.to_owned()) };
        let capture = interface.and_then(|interface| begin_capture(card, address, &interface, server));
        Self { own: OwnClock::begin(clock), capture }
    }

    /// Ends the observation, after both ends have closed the connection and before the link ends.
    pub fn end(self) -> TraceObservations {
        let captured =
            self.capture.and_then(|(client, server)| Ok((client.finish()?, server.map(Live::finish).transpose()?)));
        TraceObservations { origin_ns: self.own.origin_ns, captured, map: self.own.map() }
    }
}

pub struct TraceObservations {
    origin_ns: u64,
    captured: Result<(Captured, Option<Captured>), WhyNot>,
    map: RealtimeMap,
}

impl TraceObservations {
    /// Assembles the trace from the results of [`super::wire::TracingWire::finish`] at both ends. Returns the trace,
    /// and the packets as a pcapng file if they were captured.
    pub fn trace(self, client: EndTrace, server: EndTrace, about: &TraceInput<'_>) -> (RoundTrace, Option<Vec<u8>>) {
        let Self { origin_ns, captured, map } = self;
        let (capture, packets, file) = match (captured, about.client_port()) {
            (Ok((client, server)), Some(port)) => {
                let packets = match &server {
                    Some(server) => client.packets_across(server, port, &map),
                    None => client.packets(port, &map),
                };
                (client.outcome(server.as_ref()), packets, Some(client.pcapng()))
            }
            (Ok(_), None) => skipped("the client does not report its port".to_owned()),
            (Err(why), _) => skipped(why.to_string()),
        };
        let server_has_own_clock = about.case.path.across.is_some();
        let since_origin = |ns: u64| about.began_ns.saturating_add(ns).saturating_sub(origin_ns);
        let trace = RoundTrace {
            exchange_began_ns: about.answered().map(|row| since_origin(about.samples.sent_ns[row])).collect(),
            exchange_ended_ns: about.answered().map(|row| since_origin(about.samples.received_ns[row])).collect(),
            request_bytes: about.case.primary().load.size_bytes(),
            reply_bytes: about.case.primary().load.reply_size_bytes(),
            clock_error_ns: map.error_ns(),
            client: on_one_clock(client, origin_ns, &map),
            server: if server_has_own_clock { server } else { on_one_clock(server, origin_ns, &map) },
            server_has_own_clock,
            capture,
            packets,
        };
        (trace, file)
    }
}

fn skipped(reason: String) -> (Capture, Vec<Packet>, Option<Vec<u8>>) {
    (Capture::Skipped { reason }, Vec::new(), None)
}

pub struct TraceInput<'a> {
    pub case: &'a Case,
    /// The samples, with the start and end of each exchange.
    pub samples: &'a Samples,
    /// The origin of the samples' times, on the engine's clock in ns.
    pub began_ns: u64,
    pub client_facts: &'a [Fact],
}

impl TraceInput<'_> {
    fn answered(&self) -> impl Iterator<Item = usize> {
        (0..self.samples.kept()).filter(|row| self.samples.fate[*row] != Fate::Lost)
    }

    fn client_port(&self) -> Option<u16> {
        let fact = self.client_facts.iter().find(|fact| fact.name == fact_names::LOCAL_ADDRESS)?;
        match &fact.value {
            FactValue::Word(address) => port(address),
            FactValue::Number(_) => None,
        }
    }
}

/// The capture's filter passes only TCP, so the transport must be a TCP stream.
fn begin_capture(card: &Card, address: &str, interface: &str, server: Option<&Path>) -> Result<Capturing, WhyNot> {
    let Some(port) = port(address).filter(|_| card.reach == Reach::Network && !card.boundaries) else {
        return Err(WhyNot::new(format!("{} sends no TCP segments to capture", card.name), "use tcp, tcp6 or mptcp"));
    };
    let Some(server) = server else { return Ok((capture::begin(interface, port)?, None)) };
    let client = capture::begin(END_INTERFACE, port)?;
    // A packet socket belongs to the namespace in which it was opened, even if it is read in another namespace.
    let _visit = namespace::visit(server).map_err(|Failure { cause, hint, .. }| WhyNot::new(cause, hint))?;
    Ok((client, Some(capture::begin(END_INTERFACE, port)?)))
}

/// The interface through which this host sends packets to `address`.
fn interface_to(address: &str, binding: &Binding) -> Result<String, WhyNot> {
    let why_not = |reason: String| WhyNot::new(reason, "is there a route to this address (`ip route get`)?");
    let own = || -> std::io::Result<(IpAddr, IpAddr)> {
        let to: SocketAddr = address.parse().map_err(std::io::Error::other)?;
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((binding.address.unwrap_or(any), 0))?;
        let interface = Binding { interface: binding.interface, ..Binding::default() };
        hairpin_transports::bind(&socket, &interface).map_err(std::io::Error::other)?;
        // Connecting a datagram socket sends nothing: it only chooses the source address.
        socket.connect(to)?;
        Ok((socket.local_addr()?.ip(), to.ip()))
    };
    let (here, there) = own().map_err(|error| why_not(format!("cannot find the route to {address}: {error}")))?;
    if here == there {
        return Ok(LOOPBACK.to_owned());
    }
    interface::name_of(here).ok_or_else(|| why_not(format!("no interface of this host has the address {here}")))
}

fn port(address: &str) -> Option<u16> {
    address.parse::<SocketAddr>().ok().map(|address| address.port())
}

/// Converts calls from the engine's clock, and timestamps from CLOCK_REALTIME, to ns since the origin.
fn on_one_clock(mut trace: EndTrace, origin_ns: u64, map: &RealtimeMap) -> EndTrace {
    for call in &mut trace.calls {
        call.began_ns = call.began_ns.saturating_sub(origin_ns);
        call.ended_ns = call.ended_ns.saturating_sub(origin_ns);
    }
    for stamp in &mut trace.stamps {
        stamp.at_ns = map.engine_ns(stamp.at_ns);
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_to_an_address_is_that_of_the_binding() {
        let from = |address: &str| Binding { address: address.parse().ok(), ..Binding::default() };
        assert_eq!(interface_to("127.0.0.1:9", &from("")), Ok(LOOPBACK.to_owned()));
        assert_eq!(interface_to("127.0.0.1:9", &from("127.0.0.1")), Ok(LOOPBACK.to_owned()));
        let why = interface_to("127.0.0.1:9", &from("192.0.2.1")).unwrap_err();
        assert!(why.reason.starts_with("cannot find the route to 127.0.0.1:9: "), "{why}");
    }
}
