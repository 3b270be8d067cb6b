//! Packets that queue disciplines and devices of a network namespace dropped during a load.
//!
//! These counters are of the whole namespace: programs beside the load move them too, unless the namespace is the load's own, as
//! under a link. Of a namespace that others may share only the loopback interface is looked at, which the load crosses.

use hairpin_model::case::Case;
use hairpin_model::fact::Fact;
use hairpin_model::fact_names;

use crate::links::netlink::{LOOPBACK_INDEX, Netlink};
use crate::netstat;

/// What the counters of the calling thread's network namespace said at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drops {
    is_emulated: bool,
    /// `None` where the kernel does not tell, as of the other.
    by_qdiscs: Option<u64>,
    by_devices: Option<u64>,
}

impl Drops {
    /// Reads them, for an end of that case.
    pub(crate) fn now(case: &Case) -> Self {
        Self::read(case.is_emulated())
    }

    /// What was dropped since then.
    pub(crate) fn since(self) -> Vec<Fact> {
        let now = Self::read(self.is_emulated);
        // A counter may begin anew, when its queue discipline is replaced.
        let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?) as f64);
        let qdiscs = since(self.by_qdiscs, now.by_qdiscs).map(|count| Fact::number(fact_names::QDISC_DROPS, count));
        let devices =
            since(self.by_devices, now.by_devices).map(|count| Fact::number(fact_names::DEVICE_DROPS, count));
        qdiscs.into_iter().chain(devices).collect()
    }

    fn read(is_emulated: bool) -> Self {
        let (index, name) = if is_emulated { (None, None) } else { (Some(LOOPBACK_INDEX), Some("lo")) };
        let by_qdiscs = Netlink::open().and_then(|mut netlink| netlink.qdisc_drops(index)).ok();
        Self { is_emulated, by_qdiscs, by_devices: netstat::received_and_dropped(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_tells_of_both() {
        let before = Drops::read(true);
        assert!(before.by_qdiscs.is_some() && before.by_devices.is_some(), "{before:?}");
        let names: Vec<String> = before.since().into_iter().map(|fact| fact.name).collect();
        assert_eq!(names, [fact_names::QDISC_DROPS, fact_names::DEVICE_DROPS]);
    }
}
