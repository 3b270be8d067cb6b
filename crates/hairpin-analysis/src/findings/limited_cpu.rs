//! `limited-cpu`: the environment gives the ends less CPU than the hardware has.
//!
//! Evidence: the policy and nice value of Hairpin at the start of the run, which its ends inherit, and the frequencies that
//! cpufreq allows (Documentation/admin-guide/pm/cpufreq.rst), of the first host with a limit.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{Environment, Finding, FindingCard, Run, finding_keys as keys};

use super::support::{blank, evidence};

pub(super) const CARD: FindingCard = FindingCard {
    code: "limited-cpu",
    about: About::Run,
    what: "the ends had a low priority, or the CPU frequency was limited",
    why: "the figures are those of the limits and not of the transport on this hardware",
};

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let environments = || run.hosts.iter().map(|host| &host.environment);
    let scheduling = environments().filter_map(low_priority).next();
    let frequency = environments().filter_map(|environment| environment.frequency_limit).reduce(f64::min);
    if scheduling.is_none() && frequency.is_none() {
        return Vec::new();
    }
    let frequency = frequency.map(|share| evidence(keys::FREQUENCY_LIMIT, share));
    let finding = Finding { evidence: frequency.into_iter().collect(), ..blank(&CARD, Severity::Warning) };
    vec![match scheduling {
        Some(words) => finding.with(keys::SCHEDULING, words),
        None => finding,
    }]
}

fn low_priority(environment: &Environment) -> Option<&str> {
    let words = environment.scheduling.as_deref()?;
    let nice = words.rsplit(' ').next().and_then(|nice| nice.parse::<i32>().ok());
    let is_low =
        words.starts_with("SCHED_IDLE") || words.starts_with("SCHED_BATCH") || nice.is_some_and(|nice| nice > 0);
    is_low.then_some(words)
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::Fixture;

    fn found(scheduling: Option<&str>, frequency_limit: Option<f64>) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        fixture.rounds_of(&Case::ping_pong("tcp"), &[10_000; 4]);
        let mut run = fixture.run();
        let environment = &mut run.hosts[0].environment;
        (environment.scheduling, environment.frequency_limit) = (scheduling.map(str::to_owned), frequency_limit);
        detect(&run)
    }

    #[test]
    fn low_priorities_and_low_frequencies_are_found() {
        for words in ["SCHED_OTHER, nice 10", "SCHED_IDLE, nice 0", "SCHED_BATCH, nice 0"] {
            assert_eq!(found(Some(words), None)[0].word(keys::SCHEDULING), Some(words));
        }
        let both = &found(Some("SCHED_OTHER, nice 1"), Some(0.5))[0];
        assert_eq!(both.figure(keys::FREQUENCY_LIMIT).map(|figure| figure.value), Some(0.5));
    }

    #[test]
    fn usual_and_high_priorities_are_not_found() {
        for words in [None, Some("SCHED_OTHER, nice -5"), Some("SCHED_FIFO, nice 0")] {
            assert_eq!(found(words, None), [], "{words:?}");
        }
    }
}
