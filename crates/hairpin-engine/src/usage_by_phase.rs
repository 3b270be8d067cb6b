//! Usage of the processes of all ends in each phase of a round. The usage is read from outside the processes, so the
//! ends make no calls for it.

use hairpin_model::trace::End;
use hairpin_model::{ByPhase, EndReport, FlowId, PhaseUsage};

use crate::observer::{Context, FlowProcesses, Mark, Observations, Observer};
use crate::usage::of_process;

pub(crate) struct UsageByPhase {
    processes: Vec<FlowProcesses>,
    /// For each phase boundary passed, the usage of each end until then.
    readings: Vec<Vec<(FlowId, End, PhaseUsage)>>,
}

impl Observer for UsageByPhase {
    fn begin(_: Context<'_>) -> Option<Self> {
        Some(Self { processes: Vec::new(), readings: Vec::new() })
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Connected(processes) => self.processes = processes.to_vec(),
            Mark::Phase => self.readings.push(self.processes.iter().flat_map(read).collect()),
            _ => {}
        }
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        for end in &mut to.ends {
            end.phase_usage = self.of(end);
        }
    }
}

fn read(FlowProcesses { flow, processes }: &FlowProcesses) -> impl Iterator<Item = (FlowId, End, PhaseUsage)> {
    let ends = [End::Client, End::Server].into_iter().zip(processes);
    ends.filter_map(move |(role, process)| Some((flow.clone(), role, of_process((*process)?)?)))
}

impl UsageByPhase {
    /// The usage of an end by phase. For a phase boundary after the end has exited, uses the end's total usage.
    fn of(&self, report: &EndReport) -> Option<ByPhase<PhaseUsage>> {
        let read = |bound: usize| {
            let mut ends = self.readings.get(bound)?.iter();
            ends.find(|(flow, end, _)| *flow == report.flow && *end == report.role).map(|(_, _, usage)| *usage)
        };
        let at = |bound: usize| read(bound).or_else(|| report.used_in_all.filter(|_| bound > 0));
        let between = |bound: usize| {
            let (from, until) = (at(bound)?, at(bound + 1)?);
            Some(PhaseUsage {
                cpu_ns: until.cpu_ns.saturating_sub(from.cpu_ns),
                waited_for_cpu_ns: until.waited_for_cpu_ns.saturating_sub(from.waited_for_cpu_ns),
            })
        };
        Some(ByPhase { idle: between(0)?, ramp: between(1)?, loaded: between(2)?, recovering: between(3)? })
    }
}
