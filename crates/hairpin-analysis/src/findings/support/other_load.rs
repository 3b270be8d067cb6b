//! The same case with another load beside its probe.

use hairpin_model::arrivals::Arrivals;
use hairpin_model::case::{Case, EndSettings, Placement, WhichCpus};
use hairpin_model::finding::CounterExperiment;
use hairpin_model::flow::{ConnectionUse, Flow, Load, MESSAGE_BYTES, Pacing, WRITE_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::parse;
use hairpin_model::quantities::bit_rate_argument;

use super::loads::FULL;
use super::values::{NO_OPTIONS, set_in_words};
use super::{counter_experiment, paired};

/// The counter-experiment that runs the load on another CPU than the probe; `None` where it is on another already, and where a
/// placement leaves no other.
pub(in crate::findings) fn load_elsewhere(case: &Case, words: &str) -> Option<CounterExperiment> {
    let is_elsewhere = |flow: &Flow| flow.ends.unwrap_or(case.ends).cpus != case.ends.cpus;
    if case.ends.placement != Placement::SameCpu || case.loads().is_empty() || case.loads().iter().any(is_elsewhere) {
        return None;
    }
    let elsewhere = with_loads(case, |flow| {
        let ends = EndSettings { cpus: WhichCpus::Other, ..flow.ends.unwrap_or(case.ends) };
        Flow { ends: Some(ends), ..flow.clone() }
    });
    let values = [WhichCpus::Same, WhichCpus::Other].map(|which| which.to_string());
    Some(paired(counter_experiment(words, &[case], "load-cpu", &values), [case.clone(), elsewhere]))
}

/// The counter-experiment that offers each load at this rate, in bits of messages a second; `None` where it is offered at one
/// already.
pub(in crate::findings) fn load_at(case: &Case, bits_per_s: f64, words: &str) -> Option<CounterExperiment> {
    if case.loads().is_empty() || case.loads().iter().any(|flow| flow.load.rate_per_s().is_some()) {
        return None;
    }
    let argument = bit_rate_argument(three_digits(bits_per_s));
    // What is compared with it is the rate that the command line reads.
    let bits_per_s = parse::bits_per_s(&argument).ok()?;
    let limited = with_loads(case, |flow| {
        let own_bytes = flow.load.size_bytes();
        let size_bytes = if own_bytes == WRITE_BYTES { MESSAGE_BYTES } else { own_bytes };
        let offered_per_s = bits_per_s / 8.0 / size_bytes as f64;
        let load = Load::Offered { offered_per_s, size_bytes, arrivals: Arrivals::Fixed, pacing: Pacing::SleepSpin };
        Flow { load, ..flow.clone() }
    });
    let experiment = counter_experiment(words, &[case], "load-rate", &[FULL.to_owned(), argument]);
    Some(paired(experiment, [case.clone(), limited]))
}

/// The counter-experiment that sets an option on the connection of the load, which the probe may share.
pub(in crate::findings) fn with_load_option(
    case: &Case,
    name: OptionName,
    value: &str,
    words: &str,
) -> Option<CounterExperiment> {
    let load = case.loads().first()?;
    if load.options.get(name).is_some() {
        return None;
    }
    let changed = |flow: &Flow| Flow { options: flow.options.clone().with(name, value), ..flow.clone() };
    let mut other = with_loads(case, changed);
    if case.flow().connection_use == ConnectionUse::Shared {
        *other.flow_mut() = changed(case.flow());
    }
    let values = [case, &other].map(|case| sets(case).unwrap_or_else(|| NO_OPTIONS.to_owned()));
    Some(paired(counter_experiment(words, &[case], "load-option", &values), [case.clone(), other]))
}

/// The options of the load as `--load-option` takes them: a congestion control has a knob of its own.
fn sets(case: &Case) -> Option<String> {
    set_in_words(&case.loads().first()?.options.clone().without(OptionName::Congestion))
}

/// The greatest number of three digits that is no greater.
fn three_digits(number: f64) -> f64 {
    let digit = 10_f64.powf(number.max(1.0).log10().floor() - 2.0);
    (number / digit).floor() * digit
}

fn with_loads(case: &Case, change: impl Fn(&Flow) -> Flow) -> Case {
    let loads = case.loads().len();
    case.clone().with(|changed| changed.flows[1..=loads].iter_mut().for_each(|flow| *flow = change(flow)))
}
