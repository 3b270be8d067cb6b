//! Counts packets that the queueing disciplines and devices of a network namespace dropped during a load.
//!
//! The counters include the traffic of other programs unless the load has its own namespace, as with a link. In a
//! shared namespace only the load's interfaces count: the loopback or, between two hosts, the interfaces that have the
//! local addresses of the sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use hairpin_model::{Fact, FactValue, fact_names};

use crate::netlink::{LOOPBACK_INDEX, Netlink};
use crate::netstat;
use crate::observer::{Context, Mark, Observations, Observer};
use crate::system::{device, interface};

/// Observes the drops at one end of a one-way load.
pub(crate) struct Drops {
    is_emulated: bool,
    is_across: bool,
    /// The interfaces to count; `None` if they are unknown.
    watched: Option<InterfaceFilter>,
    before: Reading,
    after: Reading,
}

#[derive(Clone, Debug, PartialEq)]
enum InterfaceFilter {
    All,
    /// Interface names by index.
    These(BTreeMap<u32, String>),
}

/// The drops by queueing disciplines and by devices; `None` for a counter that the kernel does not report.
type Reading = [Option<u64>; 2];

impl Observer for Drops {
    fn begin(Context { order, .. }: Context<'_>) -> Option<Self> {
        let case = &order.case;
        let (is_emulated, is_across) = (case.is_emulated(), case.path.across.is_some());
        let observed = Self { is_emulated, is_across, watched: None, before: [None; 2], after: [None; 2] };
        case.primary().load.is_one_way().then_some(observed)
    }

    fn mark(&mut self, mark: Mark<'_>) {
        let Mark::Load(wires) = mark else { return };
        self.watched = if self.is_emulated {
            Some(InterfaceFilter::All)
        } else if self.is_across {
            interfaces_of(wires.iter().map(|wire| wire.effective()))
        } else {
            Some(InterfaceFilter::These([(LOOPBACK_INDEX, "lo".to_owned())].into()))
        };
        self.before = read(self.watched.as_ref());
    }

    fn end(&mut self) {
        self.after = read(self.watched.as_ref());
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        let names = [fact_names::QDISC_DROPS, fact_names::DEVICE_DROPS];
        let counts = names.into_iter().zip(self.before.into_iter().zip(self.after));
        // A counter restarts when its queueing discipline is replaced.
        let since = |(name, (before, after)): (&str, (Option<u64>, Option<u64>))| {
            Some(Fact::number(name, after?.saturating_sub(before?) as f64))
        };
        to.report.facts.extend(counts.filter_map(since));
    }
}

/// Reads the counters of the calling thread's network namespace.
fn read(watched: Option<&InterfaceFilter>) -> Reading {
    let interfaces: Vec<_> = match watched {
        None => return [None; 2],
        Some(InterfaceFilter::All) => vec![(None, None)],
        Some(InterfaceFilter::These(these)) => {
            these.iter().map(|(index, name)| (Some(*index), Some(name.as_str()))).collect()
        }
    };
    let by_qdiscs = Netlink::open().and_then(|mut netlink| {
        interfaces.iter().map(|(index, _)| netlink.qdisc_drops(*index)).sum::<io::Result<_>>()
    });
    [by_qdiscs.ok(), interfaces.iter().map(|(_, name)| netstat::received_and_dropped(*name)).sum()]
}

/// The interfaces that have the local addresses of wires. `wires` are the facts of each wire.
fn interfaces_of(wires: impl Iterator<Item = Vec<Fact>>) -> Option<InterfaceFilter> {
    let addresses: BTreeSet<IpAddr> = wires.map(|facts| own_address(&facts)).collect::<Option<_>>()?;
    let interface = |address: IpAddr| {
        let name = interface::name_of(address)?;
        Some((device::index(&name).ok()?, name))
    };
    addresses.into_iter().map(interface).collect::<Option<_>>().map(InterfaceFilter::These)
}

fn own_address(facts: &[Fact]) -> Option<IpAddr> {
    let address = facts.iter().find(|fact| fact.name == fact_names::LOCAL_ADDRESS)?;
    let FactValue::Word(address) = &address.value else { return None };
    Some(address.parse::<SocketAddr>().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_reports_both_counters() {
        let read = read(Some(&InterfaceFilter::All));
        assert!(read.iter().all(Option::is_some), "{read:?}");
    }

    #[test]
    fn drops_since_the_load_began_are_facts_and_unknown_counters_are_absent() {
        let facts = |before, after| {
            let drops = Drops { is_emulated: false, is_across: false, watched: None, before, after };
            let mut seen = Observations::default();
            Box::new(drops).report(&mut seen);
            seen.report.facts
        };
        let [qdisc, device] = [(fact_names::QDISC_DROPS, 2.0), (fact_names::DEVICE_DROPS, 0.0)]
            .map(|(name, count)| Fact::number(name, count));
        assert_eq!(facts([Some(3), Some(9)], [Some(5), Some(4)]), [qdisc, device.clone()]);
        assert_eq!(facts([None, Some(9)], [Some(5), Some(9)]), [device]);
        assert_eq!(read(None), [None; 2]);
    }

    #[test]
    fn between_two_hosts_the_interfaces_are_those_of_all_sockets() {
        let of = |addresses: &[&'static str]| {
            interfaces_of(addresses.iter().map(|address| vec![Fact::word(fact_names::LOCAL_ADDRESS, *address)]))
        };
        let loopback = Some(InterfaceFilter::These([(LOOPBACK_INDEX, "lo".to_owned())].into()));
        assert_eq!([of(&["127.0.0.1:7"]), of(&["127.0.0.1:7", "127.0.0.1:9"])], [loopback.clone(), loopback]);
        assert_eq!(
            [of(&["203.0.113.9:7"]), of(&["@unix"]), of(&["127.0.0.1:7", "203.0.113.9:7"])],
            [None, None, None]
        );
    }
}
