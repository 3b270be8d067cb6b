//! Packets that queueing disciplines and devices of a network namespace dropped during a load.
//!
//! These counters include other programs of the namespace, unless the namespace is the load's own, as with a link. In a
//! shared namespace only the interface of the load counts: the loopback or, between two hosts, the interface with the
//! socket's own address.

use std::net::SocketAddr;

use hairpin_model::case::Case;
use hairpin_model::fact::{Fact, FactValue};
use hairpin_model::fact_names;
use hairpin_transports::Wire;

use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::netstat;
use crate::system::interface;
use crate::system::packet_ring::Interface;

/// The interfaces that count.
#[derive(Clone, Debug)]
enum Watched {
    /// All of the namespace.
    All,
    /// One interface, by index and name.
    One(u32, String),
}

/// A reading of the counters of the calling thread's network namespace.
#[derive(Clone, Debug)]
pub(crate) struct Drops {
    /// `None` if the interface is unknown.
    watched: Option<Watched>,
    /// `None` if the kernel does not report them; the same for devices.
    by_qdiscs: Option<u64>,
    by_devices: Option<u64>,
}

impl Drops {
    /// Reads the counters for an end of that case with that first wire.
    pub(crate) fn now(case: &Case, wire: &dyn Wire) -> Self {
        Self::read(if case.is_emulated() {
            Some(Watched::All)
        } else if case.path.across.is_some() {
            interface_of(wire)
        } else {
            Some(Watched::One(LOOPBACK_INDEX, "lo".to_owned()))
        })
    }

    /// Drops since the reading.
    pub(crate) fn since(self) -> Vec<Fact> {
        let now = Self::read(self.watched);
        // A counter restarts if its queueing discipline is replaced.
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?) as f64);
        let qdiscs = since(self.by_qdiscs, now.by_qdiscs).map(|count| Fact::number(fact_names::QDISC_DROPS, count));
        let devices =
            since(self.by_devices, now.by_devices).map(|count| Fact::number(fact_names::DEVICE_DROPS, count));
        qdiscs.into_iter().chain(devices).collect()
    }

    fn read(watched: Option<Watched>) -> Self {
        let (index, name) = match &watched {
            None => return Self { watched, by_qdiscs: None, by_devices: None },
            Some(Watched::All) => (None, None),
            Some(Watched::One(index, name)) => (Some(*index), Some(name.as_str())),
        };
        let by_qdiscs = Netlink::open().and_then(|mut netlink| netlink.qdisc_drops(index)).ok();
        let by_devices = netstat::received_and_dropped(name);
        Self { watched, by_qdiscs, by_devices }
    }
}

/// The interface with the wire's own address.
fn interface_of(wire: &dyn Wire) -> Option<Watched> {
    let facts = wire.effective();
    let address = facts.iter().find(|fact| fact.name == fact_names::LOCAL_ADDRESS)?;
    let FactValue::Word(address) = &address.value else { return None };
    let name = interface::name_of(address.parse::<SocketAddr>().ok()?.ip())?;
    let index = u32::try_from(Interface::named(&name).ok()?.index).ok()?;
    Some(Watched::One(index, name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hairpin_transports::WireError;

    use super::*;

    #[test]
    fn this_kernel_counts_both() {
        let before = Drops::read(Some(Watched::All));
        assert!(before.by_qdiscs.is_some() && before.by_devices.is_some(), "{before:?}");
        let names: Vec<String> = before.since().into_iter().map(|fact| fact.name).collect();
        assert_eq!(names, [fact_names::QDISC_DROPS, fact_names::DEVICE_DROPS]);
    }

    #[test]
    fn between_two_hosts_the_interface_is_that_of_the_socket() {
        let of = |address: &'static str| match interface_of(&At(address)) {
            Some(Watched::One(index, name)) => Some((index, name)),
            _ => None,
        };
        assert_eq!(of("127.0.0.1:7"), Some((LOOPBACK_INDEX, "lo".to_owned())));
        assert_eq!((of("203.0.113.9:7"), of("@unix")), (None, None));
        assert_eq!(Drops::read(None).since(), [], "unknown counters are absent");
    }

    /// A wire with that own address.
    struct At(&'static str);

    impl Wire for At {
        fn send(&mut self, _: &[u8]) -> Result<(), WireError> {
            Err(WireError::Closed)
        }

        fn receive(&mut self, _: &mut [u8]) -> Result<usize, WireError> {
            Err(WireError::Closed)
        }

        fn try_receive(&mut self, _: &mut [u8]) -> Result<Option<usize>, WireError> {
            Err(WireError::Closed)
        }

        fn wait(&mut self, _: Duration) -> Result<bool, WireError> {
            Err(WireError::Closed)
        }

        fn effective(&self) -> Vec<Fact> {
            vec![Fact::word(fact_names::LOCAL_ADDRESS, self.0)]
        }

        fn system_calls(&self) -> Option<u64> {
            None
        }
    }
}
