//! Packets that queueing disciplines and devices of a network namespace dropped during a load.
//!
//! These counters include other programs of the namespace, unless the namespace is the load's own, as with a link. In a
//! shared namespace only the interfaces of the load count: the loopback or, between two hosts, the interfaces with the
//! sockets' own addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use hairpin_model::case::Case;
use hairpin_model::fact::{Fact, FactValue};
use hairpin_model::fact_names;
use hairpin_transports::Wire;

use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::netstat;
use crate::observer::{Context, Mark, Observations, Observer};
use crate::system::interface;
use crate::system::packet_ring::Interface;

/// The drops at an end of a one-way load.
struct OfLoad<'a> {
    case: &'a Case,
    before: Option<Drops>,
    since: Vec<Fact>,
}

pub(crate) fn observer(Context { order, .. }: Context<'_>) -> Option<Box<dyn Observer + '_>> {
    let of_load = || OfLoad { case: &order.case, before: None, since: Vec::new() };
    order.case.primary().load.is_one_way().then(|| Box::new(of_load()) as Box<dyn Observer>)
}

impl Observer for OfLoad<'_> {
    fn mark(&mut self, mark: Mark<'_>) {
        if let Mark::Load(wires) = mark {
            self.before = Some(Drops::now(self.case, wires));
        }
    }

    fn end(&mut self) {
        self.since = self.before.take().map(Drops::since).unwrap_or_default();
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.report.facts.extend(self.since);
    }
}

/// The interfaces that count.
#[derive(Clone, Debug, PartialEq)]
enum Watched {
    /// All of the namespace.
    All,
    /// These, by index and name.
    These(BTreeMap<u32, String>),
}

/// A reading of the counters of the calling thread's network namespace.
#[derive(Clone, Debug)]
struct Drops {
    /// `None` if an interface is unknown.
    watched: Option<Watched>,
    /// `None` if the kernel does not report them; the same for devices.
    by_qdiscs: Option<u64>,
    by_devices: Option<u64>,
}

impl Drops {
    /// Reads the counters for an end of that case with these wires.
    fn now(case: &Case, wires: &[Box<dyn Wire>]) -> Self {
        Self::read(if case.is_emulated() {
            Some(Watched::All)
        } else if case.path.across.is_some() {
            interfaces_of(wires)
        } else {
            Some(Watched::These([(LOOPBACK_INDEX, "lo".to_owned())].into()))
        })
    }

    /// Drops since the reading.
    fn since(self) -> Vec<Fact> {
        let now = Self::read(self.watched);
        // A counter restarts if its queueing discipline is replaced.
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?) as f64);
        let qdiscs = since(self.by_qdiscs, now.by_qdiscs).map(|count| Fact::number(fact_names::QDISC_DROPS, count));
        let devices =
            since(self.by_devices, now.by_devices).map(|count| Fact::number(fact_names::DEVICE_DROPS, count));
        qdiscs.into_iter().chain(devices).collect()
    }

    fn read(watched: Option<Watched>) -> Self {
        let interfaces: Vec<_> = match &watched {
            None => return Self { watched, by_qdiscs: None, by_devices: None },
            Some(Watched::All) => vec![(None, None)],
            Some(Watched::These(these)) => {
                these.iter().map(|(index, name)| (Some(*index), Some(name.as_str()))).collect()
            }
        };
        let by_qdiscs = Netlink::open().and_then(|mut netlink| {
            interfaces.iter().map(|(index, _)| netlink.qdisc_drops(*index)).sum::<io::Result<u64>>()
        });
        let by_devices = interfaces.iter().map(|(_, name)| netstat::received_and_dropped(*name)).sum();
        Self { by_qdiscs: by_qdiscs.ok(), by_devices, watched }
    }
}

/// The interfaces with the wires' own addresses.
fn interfaces_of(wires: &[Box<dyn Wire>]) -> Option<Watched> {
    let addresses: BTreeSet<IpAddr> = wires.iter().map(|wire| own_address(&**wire)).collect::<Option<_>>()?;
    let interface = |address: IpAddr| {
        let name = interface::name_of(address)?;
        Some((u32::try_from(Interface::named(&name).ok()?.index).ok()?, name))
    };
    addresses.into_iter().map(interface).collect::<Option<_>>().map(Watched::These)
}

fn own_address(wire: &dyn Wire) -> Option<IpAddr> {
    let facts = wire.effective();
    let address = facts.iter().find(|fact| fact.name == fact_names::LOCAL_ADDRESS)?;
    let FactValue::Word(address) = &address.value else { return None };
    Some(address.parse::<SocketAddr>().ok()?.ip())
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
    fn between_two_hosts_the_interfaces_are_those_of_all_sockets() {
        let of = |addresses: &[&'static str]| {
            let wires = addresses.iter().map(|address| Box::new(At(*address)) as Box<dyn Wire>);
            interfaces_of(&wires.collect::<Vec<_>>())
        };
        let loopback = Some(Watched::These([(LOOPBACK_INDEX, "lo".to_owned())].into()));
        assert_eq!([of(&["127.0.0.1:7"]), of(&["127.0.0.1:7", "127.0.0.1:9"])], [loopback.clone(), loopback]);
        assert_eq!(
            [of(&["203.0.113.9:7"]), of(&["@unix"]), of(&["127.0.0.1:7", "203.0.113.9:7"])],
            [None, None, None]
        );
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
