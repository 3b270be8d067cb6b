//! Packets that queue disciplines and devices of a network namespace dropped during a load.
//!
//! These counters are of the whole namespace: programs beside the load move them too, unless the namespace is the load's own, as
//! under a link. Of a namespace that others may share only the interface is looked at which the load crosses: the loopback, or
//! between two hosts that of the socket's own address.

use std::net::SocketAddr;

use hairpin_model::case::Case;
use hairpin_model::fact::{Fact, FactValue};
use hairpin_model::fact_names;
use hairpin_transports::Wire;

use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::netstat;
use crate::system::interface;
use crate::system::packet_ring::Interface;

/// What is looked at.
#[derive(Clone, Debug)]
enum Watched {
    /// The whole namespace.
    All,
    /// An interface of it, by its number and its name.
    One(u32, String),
}

/// What the counters of the calling thread's network namespace said at one time.
#[derive(Clone, Debug)]
pub(crate) struct Drops {
    /// `None` where the interface is not known.
    watched: Option<Watched>,
    /// `None` where the kernel does not tell, as of the other.
    by_qdiscs: Option<u64>,
    by_devices: Option<u64>,
}

impl Drops {
    /// Reads them, for an end of that case whose first wire this is.
    pub(crate) fn now(case: &Case, wire: &dyn Wire) -> Self {
        Self::read(if case.is_emulated() {
            Some(Watched::All)
        } else if case.path.across.is_some() {
            interface_of(wire)
        } else {
            Some(Watched::One(LOOPBACK_INDEX, "lo".to_owned()))
        })
    }

    /// What was dropped since then.
    pub(crate) fn since(self) -> Vec<Fact> {
        let now = Self::read(self.watched);
        // A counter may begin anew, when its queue discipline is replaced.
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

/// The interface that has the address of the wire's own end.
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
    fn this_kernel_tells_of_both() {
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
        assert_eq!(Drops::read(None).since(), [], "what is not known is absent");
    }

    /// A wire of that own address.
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
