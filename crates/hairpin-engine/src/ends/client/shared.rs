//! The client of a round whose probe and load share one connection.

use hairpin_model::flow::Direction;
use hairpin_model::round::{EndReport, Failure};
use hairpin_model::trace::End;

use super::{Client, ClientEnd, Marks, Opened, no_server, warm_up_ns};
use crate::clock::Clock;
use crate::control::Message;
use crate::ends::one_way;
use crate::ends::opening::{self, counters, effective, facts};
use crate::loads;
use crate::loads::shared::{BulkEnd, BulkOrder};
use crate::noise::Reading;
use crate::path::Link;
use crate::usage::Usage;

/// What such a round leaves: the probe's part, and what both ends counted of the load, the client first.
pub(crate) struct SharedEnd {
    pub(crate) probe: ClientEnd,
    pub(crate) load: [hairpin_model::one_way::Streamed; 2],
    /// When the load began, in ns since all flows of the round were connected.
    pub(crate) started_ns: u64,
}

impl Client<'_> {
    /// Runs the round.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub(crate) fn run_shared(mut self) -> Result<SharedEnd, Failure> {
        let (clock, order, card) = (&self.host.clock, self.order, self.card);
        let (bulk, rate_per_s) =
            BulkOrder::of(order).zip(order.case.flow().load.rate_per_s()).ok_or_else(|| no_shared_load(card.name))?;
        let Opened { before, begin_ns, pinned, probing, setup_ns, mut wires, options, waking_ns, started, .. } =
            self.open()?;
        let mut wire = wires.remove(0);
        let all_connected_ns = started.all_connected_ns;
        let starts_after_ns = self.joins.map_or(0, |joins| joins.starts_after_ns);
        let load_at_ns = all_connected_ns.saturating_add(starts_after_ns);
        let client = loads::Client {
            clock,
            order,
            lossy: false,
            boundaries: false,
            phases: self.phases(all_connected_ns.saturating_add(warm_up_ns(order))),
            stop: self.stop,
        };
        let mut marks =
            Marks { server: self.server.as_deref_mut(), has_asked: false, usage: Usage::now(), used: None, pinned };
        let (journey, own) =
            loads::shared::client::run(&client, &mut *wire, &mut marks, rate_per_s, (bulk, load_at_ns))?;
        let Marks { usage, used, .. } = marks;
        let usage = used.unwrap_or_else(|| usage.since(pinned));
        let usage = EndReport { probe_ns: probing.end(clock), waking_ns, ..usage };
        let noise = before.until(&Reading::now(), clock.now_ns() - begin_ns);
        let facts = facts(&order.case, card, &*wire);
        // The server ends when the connection does, once it has taken what is still on its way.
        drop(wire);
        let Some(server) = self.server.as_deref_mut() else { return Err(no_server(card)) };
        drop(server.tell(&Message::Stop));
        let mut server = server.report()?;
        let link = self.link.take().map(Link::finish).transpose()?;
        let of_server = one_way::of_server(&mut server, &order.case.loads()[0])?;
        let report = EndReport {
            options: effective(card, &opening::asked(&order.case, End::Client), &options, &facts),
            facts: counters(facts),
            ..usage
        };
        let BulkEnd { streamed, began_ns } = own;
        let began_ns = began_ns.filter(|_| order.case.loads()[0].direction == Direction::Up).unwrap_or(load_at_ns);
        let server = Some(server);
        Ok(SharedEnd {
            probe: ClientEnd { journey, setup_ns, report, noise, server, watched: None, link },
            load: [streamed, of_server].map(|one| one.since(all_connected_ns)),
            started_ns: began_ns.saturating_sub(all_connected_ns),
        })
    }
}

fn no_shared_load(transport: &str) -> Failure {
    Failure {
        cause: format!("{transport}: no load shares the connection of the probe, or the probe has no rate"),
        hint: "use --rate, and a load that shares the connection".to_owned(),
    }
}
