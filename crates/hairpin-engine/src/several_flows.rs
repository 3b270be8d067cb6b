//! A round of several flows at once: each has a client and a server of its own, in processes of their own, over one path.
//!
//! The ends of each flow know nothing of the others. Once all flows are connected they start together; each then has its own
//! warm-up, and ends by itself.

use hairpin_model::case::Case;
use hairpin_model::round::{EndReport, Failure, Finished, Measured, Outcome, RoundOrder};

use crate::clock::Clock;
use crate::engine::{Done, Engine, Prepared};
use crate::joins::Joins;
use crate::noise::Reading;
use crate::path::Link;
use crate::round_process::RoundProcess;

/// Runs a round of several flows; its samples are those of the first.
#[must_use]
pub(crate) fn run(engine: &Engine, number: u32, order: &RoundOrder) -> Finished {
    engine.record(number, order, || attempt(engine, number, order))
}

/// What came of all flows, in their order.
///
/// # Errors
/// One has failed: the others, which are not waited for, end when they are dropped.
fn all_finished(flows: &mut [RoundProcess<'_>]) -> Result<Vec<Finished>, Failure> {
    let mut finished: Vec<Option<Finished>> = flows.iter().map(|_| None).collect();
    while finished.iter().any(Option::is_none) {
        for (flow, finished) in flows.iter_mut().zip(&mut finished).filter(|(_, finished)| finished.is_none()) {
            if flow.has_finished()? {
                let one = flow.finished()?;
                if let Outcome::Failed(failure) = one.record.outcome {
                    return Err(failure);
                }
                *finished = Some(one);
            }
        }
    }
    Ok(finished.into_iter().flatten().collect())
}

fn attempt(engine: &Engine, number: u32, order: &RoundOrder) -> Result<Done, Failure> {
    let mut path = Prepared::open(engine, number, order)?;
    let [client, server] = &path.namespaces;
    let (before, begin_ns) = (Reading::now(), engine.clock.now_ns());
    let flows = order.case.flows.iter().map(|flow| {
        let case = Case { flows: vec![flow.clone()], ..order.case.clone() };
        let alone = RoundOrder { case, not_before_ns: 0, ..order.clone() };
        engine.start_flow(number, &alone, Joins { client: client.clone(), server: server.clone() })
    });
    let mut flows = flows.collect::<Result<Vec<RoundProcess<'_>>, Failure>>()?;
    // A flow that is dropped here, as another failed, finds its input closed.
    flows.iter_mut().try_for_each(RoundProcess::connected)?;
    flows.iter_mut().try_for_each(RoundProcess::begin)?;
    let finished = all_finished(&mut flows)?;
    drop(flows);
    let noise = before.until(&Reading::now(), engine.clock.now_ns() - begin_ns);
    let link = path.link.take().map(Link::finish).transpose()?;
    let mut samples = None;
    let mut together = Measured { flows: Vec::new(), ends: Vec::new(), noise, ..Measured::default() };
    for (place, finished) in finished.into_iter().enumerate() {
        let Outcome::Measured(measured) = finished.record.outcome else { continue };
        if place == 0 {
            samples = finished.samples;
        }
        together.duration_ns = together.duration_ns.max(measured.duration_ns);
        together.interrupted |= measured.interrupted;
        together.flows.extend(measured.flows);
        together.ends.extend(measured.ends.into_iter().map(|end| EndReport { flow: place, ..end }));
    }
    together.link = link.map(|link| link.record);
    Ok(Done { measured: together, samples, trace: None })
}
