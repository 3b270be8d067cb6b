//! The lists of observers, and the active observers of one end or one round.

use crate::cpu_quota::CpuQuota;
use crate::cpu_time_line::CpuOverTime;
use crate::drops::Drops;
use crate::noise::MachineNoise;
use crate::observer::{Context, Mark, Observations, Observer};
use crate::probe::Probing;
use crate::tracing::observer::TracedRound;
use crate::usage::Usage;
use crate::usage_by_phase::UsageByPhase;

type Begin = fn(Context<'_>) -> Option<Box<dyn Observer>>;

/// All observers of an end; each decides which rounds and ends it observes. CPU time begins last and ends first, so
/// that it excludes the CPU time of the other observers.
const ALL: &[Begin] = &[
    boxed::<MachineNoise>,
    boxed::<Probing>,
    boxed::<TracedRound>,
    boxed::<Drops>,
    boxed::<CpuQuota>,
    boxed::<CpuOverTime>,
    #[cfg(test)]
    boxed::<tests::double::Double>,
    boxed::<Usage>,
];

/// Observers of a whole round with several flows or with phases, in the process that starts the flows.
const OF_ROUND: &[Begin] = &[boxed::<MachineNoise>, boxed::<UsageByPhase>];

fn boxed<O: Observer + 'static>(context: Context<'_>) -> Option<Box<dyn Observer>> {
    Some(Box::new(O::begin(context)?))
}

pub(crate) struct Observers(Vec<Box<dyn Observer>>);

impl Observers {
    pub(crate) fn begin(context: Context<'_>) -> Self {
        Self(ALL.iter().filter_map(|begin| begin(context)).collect())
    }

    pub(crate) fn of_round(context: Context<'_>) -> Self {
        Self(OF_ROUND.iter().filter_map(|begin| begin(context)).collect())
    }

    pub(crate) fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Last => self.0.iter_mut().rev().for_each(|observer| observer.mark(mark)),
            _ => self.0.iter_mut().for_each(|observer| observer.mark(mark)),
        }
    }

    pub(crate) fn end(&mut self) {
        self.0.iter_mut().rev().for_each(|observer| observer.end());
    }

    /// Adds the observations of all observers to `observations`, which has the reports of the ends.
    pub(crate) fn report(self, mut observations: Observations) -> Observations {
        self.0.into_iter().for_each(|observer| observer.report(&mut observations));
        observations
    }
}

#[cfg(test)]
mod tests;
