//! The command line flags of the loads next to a probe.

use hairpin_model::case::{Case, WhichCpus};
use hairpin_model::flow::{Flow, LoadWays, MESSAGE_BYTES, WRITE_BYTES};
use hairpin_model::names;
use hairpin_model::options::{OptionName, Options};
use hairpin_model::quantities::bit_rate_argument;

use super::values::{NO_OPTIONS, Values, distinct, set_in_words};

/// The value for a load without a rate.
pub(super) const FULL: &str = "full";

/// The knobs of these cases' loads, for `hairpin under-load`.
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
    // On loopback the default is a case for each value of `--load-cpu`, so it must be given.
    let is_said = loaded.iter().any(|case| !case.crosses_a_network() || which(case) != WhichCpus::Same);
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

/// The bytes of a write if not the default.
fn size(flow: &Flow) -> Option<String> {
    let usual = if flow.load.rate_per_s().is_some() { MESSAGE_BYTES } else { WRITE_BYTES };
    Some(flow.load.size_bytes()).filter(|size_bytes| *size_bytes != usual).map(|size_bytes| size_bytes.to_string())
}

/// Congestion controls have their own knob if every load has one.
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

#[cfg(test)]
mod tests {
    use hairpin_model::case::EndSettings;
    use hairpin_model::flow::Load;

    use super::super::command::command;
    use hairpin_model::flow::Direction;

    use super::*;
    use crate::fixture::links::{between_hosts, over};
    use crate::fixture::under_load::{probed, probed_over_link};

    fn told(cases: &[&Case]) -> String {
        command(cases, "rounds", &["5".to_owned()])
    }

    fn with_options(case: Case, options: &str) -> Case {
        case.with(|case| case.flows[1].options = Options::parse(options).unwrap())
    }

    #[test]
    fn a_case_under_load_is_repeated_by_under_load_with_non_default_options() {
        let probe = "hairpin under-load --transport udp --waiting block --placement same-cpu --rate 100";
        let up = || probed(&[Direction::Up]);
        assert_eq!(told(&[&up()]), format!("{probe} --load-transport tcp --load-cpu same --rounds 5"));
        assert_eq!(told(&[&probed(&[])]), format!("{probe} --load none --rounds 5"));
        let down = probed(&[Direction::Down]).with(|case| case.flows[1].connections = 4);
        let both = probed(&[Direction::Up, Direction::Down]).with(|case| case.flows[1].connections = 4);
        assert_eq!(
            told(&[&down, &both]),
            format!("{probe} --load down,both --load-transport tcp --connections 4 --load-cpu same --rounds 5")
        );
        let closed =
            up().with(|case| case.primary_mut().load = Load::PingPong { size_bytes: 100, reply_size_bytes: 100 });
        assert_eq!(
            told(&[&closed]),
            "hairpin under-load --transport udp --waiting block --placement same-cpu --size 100 --closed-loop \
             --load-transport tcp --load-cpu same --rounds 5"
        );
    }

    #[test]
    fn a_load_rate_and_a_write_size_are_in_the_command() {
        let offered = probed(&[Direction::Up]).with(|case| {
            case.flows[1].load = Load::Offered {
                offered_per_s: 5e6 / 8.0 / 1400.0,
                size_bytes: 1400,
                arrivals: hairpin_model::arrivals::Arrivals::Fixed,
                pacing: hairpin_model::flow::Pacing::SleepSpin,
            };
        });
        assert!(
            told(&[&offered]).contains(" --load-transport tcp --load-rate 5mbit --load-cpu same "),
            "{}",
            told(&[&offered])
        );
        let full = probed(&[Direction::Up]);
        assert!(told(&[&full, &offered]).contains(" --load-rate full,5mbit "));
        let small = full.with(|case| case.flows[1].load.set_sizes(4096, 0));
        assert!(
            told(&[&small]).contains(" --load-transport tcp --load-size 4096 --load-cpu same "),
            "{}",
            told(&[&small])
        );
    }

    #[test]
    fn congestion_controls_have_a_knob_of_their_own_where_each_load_has_one() {
        let cubic = with_options(probed_over_link(), "congestion=cubic");
        let bbr = with_options(probed_over_link(), "congestion=bbr,nodelay=on");
        let link = "--responsiveness off --link 'rate=10mbit queue=256KiB delay=5ms' --rounds 5";
        let before =
            "hairpin under-load --transport udp --waiting block --placement same-cpu --rate 100 --load-transport tcp";
        assert_eq!(told(&[&cubic]), format!("{before} --congestion cubic {link}"));
        assert_eq!(
            told(&[&cubic, &bbr]),
            format!("{before} --congestion cubic,bbr --load-option none --load-option nodelay=on {link}")
        );
        assert_eq!(
            told(&[&probed_over_link(), &cubic]),
            format!("{before} --load-option none --load-option congestion=cubic {link}")
        );
    }

    #[test]
    fn the_load_cpu_is_in_the_command_if_not_default() {
        let elsewhere = |case: &Case| {
            let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends };
            case.clone().with(|case| case.flows[1].ends = Some(ends))
        };
        let link = over("delay=5ms", probed(&[Direction::Up]));
        assert!(!told(&[&link]).contains("--load-cpu"));
        assert!(told(&[&elsewhere(&link)]).contains(" --load-cpu other "));
        let loopback = link.without_link();
        assert!(told(&[&loopback, &elsewhere(&loopback)]).contains(" --load-cpu same,other "));
    }

    #[test]
    fn responsiveness_is_in_the_command_if_not_default() {
        let foreign = |mut case: Case| {
            case.flows.push(Flow::ping_pong("tcp").in_role(hairpin_model::flow::FlowRole::ForeignProbe));
            case
        };
        assert!(!told(&[&foreign(probed_over_link())]).contains("--responsiveness"));
        assert!(told(&[&foreign(probed(&[Direction::Up]))]).contains(" --responsiveness on "));
        let elsewhere = || between_hosts(probed(&[Direction::Up]));
        assert!(!told(&[&foreign(elsewhere())]).contains("--responsiveness"), "{}", told(&[&foreign(elsewhere())]));
        assert!(told(&[&elsewhere()]).contains(" --responsiveness off "));
        assert!(!told(&[&elsewhere()]).contains("--load-cpu"), "its loads have one place");
    }
}
