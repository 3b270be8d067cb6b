//! What sets the loads beside a probe apart on the command line.

use hairpin_model::case::{Case, WhichCpus};
use hairpin_model::flow::{Flow, LoadWays, MESSAGE_BYTES, WRITE_BYTES};
use hairpin_model::names;
use hairpin_model::options::{OptionName, Options};
use hairpin_model::quantities::bit_rate_argument;

use super::values::{NO_OPTIONS, Values, distinct, set_in_words};

/// The word for a load without a rate.
pub(super) const FULL: &str = "full";

/// What sets the loads of these cases apart, as `hairpin under-load` takes it.
pub(super) fn of_loads(cases: &[&Case]) -> Vec<Values> {
    let ways = distinct(cases, &|case| case.load_ways().map(|ways| ways.to_string()));
    let loaded: Vec<&Case> = cases.iter().copied().filter(|case| !case.loads().is_empty()).collect();
    let of = |word: &dyn Fn(&Flow) -> Option<String>| distinct(&loaded, &|case| word(&case.loads()[0]));
    let unless = |usual: &str, values: Vec<String>| if values == [usual] { Vec::new() } else { values };
    let which = |case: &Case| case.loads()[0].ends.map_or(case.ends.cpus, |ends| ends.cpus);
    let mut values = vec![
        ("load", unless(LoadWays::Up.word(), ways)),
        ("load-transport", of(&|flow| Some(flow.transport.clone()))),
        ("load-rate", unless(FULL, of(&|flow| Some(rate(flow))))),
        ("load-size", loaded.first().and_then(|case| size(&case.loads()[0])).into_iter().collect()),
        ("connections", unless("1", of(&|flow| Some(flow.connections.to_string())))),
    ];
    values.extend(option_sets(&loaded));
    // On the loopback the load runs on each of the CPUs where nothing is said.
    let is_said = loaded.iter().any(|case| !case.is_emulated() || which(case) != WhichCpus::Same);
    let cpus = if is_said { distinct(&loaded, &|case| Some(which(case).to_string())) } else { Vec::new() };
    values.push(("load-cpu", cpus));
    values
}

fn rate(flow: &Flow) -> String {
    match flow.load.rate_per_s() {
        Some(per_s) => bit_rate_argument(per_s * flow.load.size_bytes() as f64 * 8.0),
        None => FULL.to_owned(),
    }
}

/// The bytes of a write where they are not the usual ones.
fn size(flow: &Flow) -> Option<String> {
    let usual = if flow.load.rate_per_s().is_some() { MESSAGE_BYTES } else { WRITE_BYTES };
    Some(flow.load.size_bytes()).filter(|size_bytes| *size_bytes != usual).map(|size_bytes| size_bytes.to_string())
}

/// Congestion controls by a knob of their own where each load has one.
fn option_sets(loaded: &[&Case]) -> Vec<Values> {
    let congestion = |case: &Case| case.loads()[0].options.get(OptionName::Congestion).map(str::to_owned);
    let each_has_one = loaded.iter().all(|case| congestion(case).is_some());
    let rest = |options: &Options| {
        if each_has_one { options.clone().without(OptionName::Congestion) } else { options.clone() }
    };
    let set = |case: &Case| set_in_words(&rest(&case.loads()[0].options));
    let sets = names::distinct(loaded.iter().map(|case| set(case)));
    let sets = if sets == [None] { Vec::new() } else { sets };
    let controls = if each_has_one { distinct(loaded, &congestion) } else { Vec::new() };
    let words = sets.into_iter().map(|set| set.unwrap_or_else(|| NO_OPTIONS.to_owned()));
    vec![("congestion", controls), ("load-option", words.collect())]
}
