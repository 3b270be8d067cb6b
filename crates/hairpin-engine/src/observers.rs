//! The list of observers, and those of one end.

use hairpin_model::round::EndReport;

use crate::observer::{Context, Mark, Observations, Observer};
use crate::{cpu_time_line, drops, noise, probe, tracing, usage};

type Begin = for<'a> fn(Context<'a>) -> Option<Box<dyn Observer + 'a>>;

/// All observers; each decides which rounds and which ends it observes. The CPU time is the last to begin and the first
/// to end, so that it does not include that of the others.
const ALL: &[Begin] = &[
    noise::observer,
    probe::observer,
    tracing::observers::packets,
    tracing::observers::own_clock,
    drops::observer,
    cpu_time_line::observer,
    #[cfg(test)]
    crate::observer_double::observer,
    usage::observer,
];

/// The observers of one end of a round.
pub(crate) struct Observers<'a>(Vec<Box<dyn Observer + 'a>>);

impl<'a> Observers<'a> {
    pub(crate) fn begin(context: Context<'a>) -> Self {
        Self(ALL.iter().filter_map(|begin| begin(context)).collect())
    }

    pub(crate) fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Last => self.0.iter_mut().rev().for_each(|observer| observer.mark(mark)),
            _ => self.0.iter_mut().for_each(|observer| observer.mark(mark)),
        }
    }

    /// The load of this end is over.
    pub(crate) fn end(&mut self) {
        self.0.iter_mut().rev().for_each(|observer| observer.end());
    }

    /// Adds all that was observed to the report.
    pub(crate) fn report(self, report: EndReport) -> Observations {
        let mut observations = Observations { report, ..Observations::default() };
        self.0.into_iter().for_each(|observer| observer.report(&mut observations));
        observations
    }
}

#[cfg(test)]
mod tests;
