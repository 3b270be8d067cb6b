//! Settings of processes that a program inherits from the thread that starts it.

use std::io;

use hairpin_model::parse;

use crate::system::cpu;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The CPUs on which it may run (sched_setaffinity(2)).
    Affinity(Vec<usize>),
    /// `SCHED_BATCH`: a thread that wakes does not preempt others (sched(7)).
    Batch,
    /// How late its timers may expire, in ns (prctl(2), `PR_SET_TIMERSLACK`).
    TimerSlack(u64),
}

impl Setting {
    /// Parses `affinity=0+1`, `scheduling=batch` or `timer-slack=1us`. `None` for any other text.
    pub fn parse(text: &str) -> Option<Result<Self, String>> {
        let (name, value) = text.split_once('=')?;
        match name {
            "affinity" => Some(affinity(value)),
            "scheduling" if value == "batch" => Some(Ok(Self::Batch)),
            "scheduling" => Some(Err(format!("unknown scheduling `{value}` (hint: use scheduling=batch)"))),
            "timer-slack" => {
                let ns = parse::duration_ns(value).map_err(|refused| refused.to_string());
                Some(ns.map(|ns| Self::TimerSlack(ns.max(1))))
            }
            _ => None,
        }
    }
}

fn affinity(value: &str) -> Result<Setting, String> {
    let allowed = cpu::allowed().unwrap_or_default();
    let cpus: Option<Vec<usize>> = value.split('+').map(|cpu| cpu.parse().ok()).collect();
    let cpus = cpus.filter(|cpus| cpus.iter().all(|cpu| allowed.contains(cpu)));
    cpus.map(Setting::Affinity)
        .ok_or_else(|| format!("affinity `{value}`: allowed are {allowed:?}, for instance 0+1"))
}

/// Starts something while the calling thread has these settings.
pub(super) fn with<T>(settings: &[Setting], start: impl FnOnce() -> T) -> io::Result<T> {
    if settings.is_empty() {
        return Ok(start());
    }
    let allowed = cpu::allowed()?;
    let set = settings.iter().try_for_each(|setting| match setting {
        Setting::Affinity(cpus) => cpu::pin(cpus),
        Setting::Batch => cpu::set_batch(true),
        Setting::TimerSlack(ns) => {
            cpu::set_timer_slack(*ns);
            Ok(())
        }
    });
    let started = set.map(|()| start());
    cpu::pin(&allowed)?;
    cpu::set_batch(false)?;
    cpu::set_timer_slack(0);
    started
}
