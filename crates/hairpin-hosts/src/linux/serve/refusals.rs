//! Refused clients: the first refusal of an address for a reason is an event at once, and the others are counted, so that
//! clients cannot fill the log.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use hairpin_model::RefusalReason;
use hairpin_model::served::Event;

/// Maximum addresses and reasons to count separately.
const MAX_COUNTED: usize = 1000;

struct Counted {
    /// Refusals since the last event.
    more: u64,
    client: SocketAddr,
    why: String,
}

#[derive(Default)]
pub(super) struct Refusals(BTreeMap<(IpAddr, RefusalReason), Counted>);

impl Refusals {
    /// Counts a refusal. Returns the event if it must be reported now. Returns false as the second value if it was not counted.
    pub(super) fn on_refused(
        &mut self,
        client: SocketAddr,
        reason: RefusalReason,
        why: String,
    ) -> (Option<Event>, bool) {
        let key = (client.ip(), reason);
        if let Some(counted) = self.0.get_mut(&key) {
            *counted = Counted { more: counted.more + 1, client, why };
            return (None, true);
        }
        if self.0.len() >= MAX_COUNTED {
            return (None, false);
        }
        self.0.insert(key, Counted { more: 0, client, why: why.clone() });
        (Some(Event::Refused { client, reason, why, times: 1 }), true)
    }

    /// Returns the refusals that were counted since the last call, and forgets addresses without one.
    pub(super) fn take(&mut self) -> Vec<Event> {
        self.0.retain(|_, counted| counted.more > 0);
        let event = |(&(_, reason), counted): (&(IpAddr, RefusalReason), &mut Counted)| {
            let Counted { more, client, why } = counted;
            Event::Refused { client: *client, reason, why: why.clone(), times: std::mem::take(more) }
        };
        self.0.iter_mut().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_refusals_of_an_address_are_two_events() {
        let mut refusals = Refusals::default();
        let client = |port| SocketAddr::from(([192, 0, 2, 1], port));
        let mut told = Vec::new();
        for port in 1..=1000 {
            let (event, is_counted) = refusals.on_refused(client(port), RefusalReason::Ticket, format!("why {port}"));
            told.extend(event);
            assert!(is_counted);
        }
        let (event, _) = refusals.on_refused(client(7), RefusalReason::Version, "another".to_owned());
        told.extend(event);
        told.extend(refusals.take());
        let refused = |port, reason, why: &str, times| Event::Refused {
            client: client(port),
            reason,
            why: why.to_owned(),
            times,
        };
        assert_eq!(
            told,
            [
                refused(1, RefusalReason::Ticket, "why 1", 1),
                refused(7, RefusalReason::Version, "another", 1),
                refused(1000, RefusalReason::Ticket, "why 1000", 999),
            ]
        );
        assert_eq!(refusals.take(), []);
        let (event, _) = refusals.on_refused(client(1), RefusalReason::Ticket, String::new());
        assert!(event.is_some(), "after a minute without one");
    }

    #[test]
    fn refusals_of_many_addresses_take_bounded_memory() {
        let mut refusals = Refusals::default();
        let client = |number: u32| SocketAddr::from((number.to_be_bytes(), 1));
        let told =
            (0..5000).filter(|number| refusals.on_refused(client(*number), RefusalReason::Ticket, String::new()).1);
        assert_eq!((told.count(), refusals.0.len()), (MAX_COUNTED, MAX_COUNTED));
    }
}
