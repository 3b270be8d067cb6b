//! Finds differences between two runs that matter when their figures are compared.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_model::round::Purpose;
use hairpin_model::{CaseSummary, Extent, LinkEnds, LinkSummary, Path, Run, Unlike, quantities, words};

use super::choices::Subject;
use super::keys::Keys;

words! {
    /// The kinds of differences, in the order in which they are listed.
    enum DifferenceKind: "difference" {
        /// The machine or its kernel.
        Machine = "machine",
        Setting = "setting",
        Tool = "tool",
        /// How much was measured, and how.
        Plan = "plan",
    }
}

/// A property that depends on the placement.
const CPUS_USED: &str = "CPUs used";

/// Returns the side (0: baselines) that ran in its own network namespaces (for kernel settings), if only one did.
pub fn side_in_own_namespaces(baselines: &[&Run], candidates: &[&Run]) -> Option<usize> {
    let own = |run: &&Run| run.cases.iter().any(|row| !row.case.sysctls.is_empty() && !row.case.is_emulated());
    match [baselines, candidates].map(|runs| runs.iter().any(own)) {
        [true, false] => Some(0),
        [false, true] => Some(1),
        _ => None,
    }
}

/// Returns all differences between two runs that could affect the figures of the cases that both have, such as `machine:
/// kernel` or `setting: net.ipv4.tcp_congestion_control`; `-` is the value of a run without it. Excludes load and clock
/// calibration, which differ between any two runs.
pub fn unlike(baseline: &Run, candidate: &Run) -> Vec<Unlike> {
    let keys = Keys::of(&[baseline], &[candidate]);
    let [ours, theirs] = [baseline, candidate]
        .map(|run| run.cases.iter().map(|case| (keys.key(case), case.id.as_str())).collect::<BTreeMap<_, _>>());
    let in_common = [(baseline, &ours, &theirs), (candidate, &theirs, &ours)];
    let sides = in_common.map(|(run, own, other)| {
        let common = own.iter().filter(|(key, _)| other.contains_key(*key)).map(|(_, id)| *id);
        properties(run, &common.collect())
    });
    let extents_follow = keys.ignored_difference().is_some() && have_equal_knobs(baseline, candidate);
    let what: BTreeSet<_> = sides.iter().flat_map(BTreeMap::keys).collect();
    let described = what.into_iter().filter_map(|key| {
        let values = sides.each_ref().map(|side| side.get(key).cloned().unwrap_or_else(|| "-".to_owned()));
        let follows =
            key.1 == CPUS_USED && keys.ignores(Subject::Placement) || key.0 == DifferenceKind::Plan && extents_follow;
        (values[0] != values[1] && !follows).then(|| (key.clone(), values))
    });
    // A choice that matching ignored is reported separately.
    let links = (!keys.ignores(Subject::Link)).then(|| unlike_links(baseline, candidate)).flatten();
    let links = links.map(|values| ((DifferenceKind::Plan, "links".to_owned()), values));
    let mut differences: Vec<_> = described.chain(links).collect();
    differences.sort();
    differences
        .into_iter()
        .map(|((kind, what), [baseline, candidate])| Unlike { what: format!("{kind}: {what}"), baseline, candidate })
        .collect()
}

/// Whether both runs were given the same number of messages, warm-up and time-out. If so, differing numbers only
/// follow from the cases, for instance with the warm-up `auto`.
fn have_equal_knobs(baseline: &Run, candidate: &Run) -> bool {
    const ORDERS: &[&str] = &["count", "duration", "exchanges", "warmup", "timeout"];
    let asked = |run: &Run| {
        let knobs = run.plan.knobs.iter().filter(|(name, _)| ORDERS.contains(&name.as_str()));
        knobs.cloned().collect::<Vec<_>>()
    };
    baseline.plan.experiment == candidate.plan.experiment && asked(baseline) == asked(candidate)
}

/// The properties of a run that could affect the figures of the cases `in_common`.
fn properties(run: &Run, in_common: &BTreeSet<&str>) -> BTreeMap<(DifferenceKind, String), String> {
    let environment = run.environment();
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let numbers = |values: &[usize]| values.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    let share_core = environment.cpus_share_core.map_or("unknown", |share| if share { "yes" } else { "no" });
    let machine = [
        ("kernel", environment.kernel.clone()),
        ("architecture", environment.architecture.clone()),
        ("CPU model", environment.cpu_model.clone()),
        ("CPUs online", environment.cpus_online.to_string()),
        ("CPUs allowed", numbers(&environment.cpus_allowed)),
        (CPUS_USED, numbers(&environment.cpus_used)),
        ("CPUs share a core", share_core.to_owned()),
        ("CPU quota", environment.cpu_quota.map_or_else(|| "-".to_owned(), |cpus| cpus.to_string())),
        ("scheduling", word(&environment.scheduling)),
        ("frequency limit", environment.frequency_limit.map_or_else(|| "-".to_owned(), |share| share.to_string())),
        ("hypervisor", word(&environment.hypervisor)),
        ("container", word(&environment.container)),
        ("clock source", environment.clock.source.clone()),
        ("kernel clock source", environment.clock.kernel_source.clone()),
        ("governor", word(&environment.governor)),
        ("idle states", environment.idle_states.join(" ")),
    ];
    let tool = [
        ("name", run.tool.name.clone()),
        ("version", run.tool.version.clone()),
        ("commit", word(&run.tool.commit)),
        ("build", run.tool.build.clone()),
    ];
    let named = |kind: DifferenceKind, prefix: &'static str, values: &BTreeMap<String, String>| {
        values.iter().map(move |(name, value)| ((kind, format!("{prefix}{name}")), value.clone())).collect::<Vec<_>>()
    };
    let mut all: BTreeMap<(DifferenceKind, String), String> = BTreeMap::new();
    all.extend(machine.map(|(name, value)| ((DifferenceKind::Machine, name.to_owned()), value)));
    all.extend(named(DifferenceKind::Machine, "mitigation ", &environment.mitigations));
    all.extend(named(DifferenceKind::Setting, "", &environment.settings));
    all.extend(named(DifferenceKind::Setting, "loopback ", &environment.loopback));
    all.extend(tool.map(|(name, value)| ((DifferenceKind::Tool, name.to_owned()), value)));
    all.extend(
        link_ends(run, in_common).map(|ends| ((DifferenceKind::Setting, "TCP of the links' ends".to_owned()), ends)),
    );
    all.extend(orders(run, in_common).map(|(name, value)| ((DifferenceKind::Plan, name.to_owned()), value)));
    all
}

/// Describes the extents that were set for the rounds of the common cases; equal texts mean equal extents.
fn orders(run: &Run, in_common: &BTreeSet<&str>) -> [(&'static str, String); 3] {
    let timed = || {
        let rounds = run.rounds.iter().filter(|round| in_common.contains(round.case_id.as_str()));
        rounds.map(|round| &round.order).filter(|order| order.purpose == Purpose::Timed)
    };
    let time_outs = timed().map(|order| Extent::DurationNs(order.timeout_ns));
    [
        ("messages per round", extents(timed().map(|order| order.extent))),
        ("warm-up per round", extents(timed().map(|order| order.warm_up))),
        ("time-out", extents(time_outs)),
    ]
}

/// Describes the TCP settings at the ends of the links of the common cases; `None` if no case has a link. Runs that
/// did not set the ends' settings used the host's.
fn link_ends(run: &Run, in_common: &BTreeSet<&str>) -> Option<String> {
    let links = run.cases.iter().filter(|case| in_common.contains(case.id.as_str()));
    let links = links.filter_map(|case| case.path.relay.as_ref());
    let told =
        |link: &LinkSummary| link.ends.as_ref().map_or_else(|| "as on the host".to_owned(), LinkEnds::settings);
    let told: BTreeSet<String> = links.map(told).collect();
    (!told.is_empty()).then(|| told.into_iter().collect::<Vec<_>>().join("; "))
}

/// Returns the links of both runs if they differ.
fn unlike_links(baseline: &Run, candidate: &Run) -> Option<[String; 2]> {
    let sides = [baseline, candidate].map(links);
    let differ = !sides[0].keys().eq(sides[1].keys());
    let told = |links: BTreeMap<String, String>| links.into_values().collect::<Vec<_>>().join("; ");
    differ.then(|| sides.map(|links| if links.is_empty() { "none".to_owned() } else { told(links) }))
}

/// Returns the description of every link, with its name and its replayed traces. The key omits the name: one name can
/// have different figures, and links with equal figures are equal even if their names differ.
fn links(run: &Run) -> BTreeMap<String, String> {
    let emulated = run.cases.iter().filter(|row| row.case.is_emulated());
    let link = |row: &CaseSummary| {
        let Path { link, name, across: _ } = &row.case.path;
        let traces = row.path.relay.iter().flat_map(|link| &link.traces);
        let traces: String = traces.map(|(name, digest)| format!(", {name} of digest {digest}")).collect();
        let told = name.as_ref().map_or_else(|| link.clone(), |name| format!("{name} ({link})"));
        (format!("{link}{traces}"), format!("{told}{traces}"))
    };
    emulated.map(link).collect()
}

/// Returns `15 messages` or `differs between cases: 1, 15, 195 messages`; without duplicates.
fn extents(of: impl Iterator<Item = Extent>) -> String {
    let (mut counts, mut durations) = (BTreeSet::new(), BTreeSet::new());
    for extent in of {
        match extent {
            Extent::Count(count) => counts.insert(count),
            Extent::DurationNs(ns) => durations.insert(ns),
        };
    }
    let mut words: Vec<String> = durations.iter().map(|ns| quantities::duration(*ns as f64)).collect();
    words.dedup();
    words.extend(counts.iter().map(u64::to_string));
    let unit = match counts.iter().next_back() {
        None => "",
        Some(1) => " message",
        Some(_) => " messages",
    };
    let differs = if words.len() > 1 { "differs between cases: " } else { "" };
    format!("{differs}{}{unit}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::fixture::Fixture;

    fn run(transport: &str) -> Run {
        let mut fixture = Fixture::new();
        fixture.rounds_of(&Case::ping_pong(transport), &[1000]);
        fixture.environment.kernel = "Linux 6.18".to_owned();
        let congestion = ("net.ipv4.tcp_congestion_control".to_owned(), "bbr".to_owned());
        fixture.environment.settings.extend([congestion]);
        fixture.run()
    }

    #[test]
    fn a_run_has_no_differences_from_itself_under_any_load() {
        let mut later = run("tcp");
        later.hosts[0].environment.load = vec![9.0];
        assert_eq!(unlike(&run("tcp"), &later), []);
    }

    #[test]
    fn the_only_side_with_kernel_settings_ran_in_its_own_namespace() {
        let plain = run("tcp");
        let mut with = plain.clone();
        with.cases[0].case.sysctls = "net.ipv4.tcp_sack=0".parse().unwrap();
        assert_eq!(side_in_own_namespaces(&[&plain], &[&with]), Some(1));
        assert_eq!(side_in_own_namespaces(&[&with], &[&plain, &plain]), Some(0));
        assert_eq!(side_in_own_namespaces(&[&with], &[&with]), None);
        assert_eq!(side_in_own_namespaces(&[&plain], &[&plain]), None);
    }

    #[test]
    fn extents_that_differ_between_cases_are_listed_in_order() {
        let counts = |counts: &[u64]| extents(counts.iter().copied().map(Extent::Count));
        assert_eq!(counts(&[15, 15]), "15 messages");
        assert_eq!(counts(&[1]), "1 message");
        assert_eq!(counts(&[195, 1, 15, 1]), "differs between cases: 1, 15, 195 messages");
        assert_eq!(extents([Extent::DurationNs(80_000_000)].into_iter()), "80.0 ms");
        assert_eq!(counts(&[]), "");
    }

    #[test]
    fn differences_are_named_with_both_values() {
        let mut other = run("udp");
        other.hosts[0].environment.settings.insert("net.ipv4.tcp_congestion_control".to_owned(), "cubic".to_owned());
        other.hosts[0].environment.mitigations.insert("retbleed".to_owned(), "IBRS".to_owned());
        other.tool.build = "debug".to_owned();
        let differences = unlike(&run("tcp"), &other);
        let words: Vec<String> =
            differences.iter().map(|one| format!("{}: {} / {}", one.what, one.baseline, one.candidate)).collect();
        let expected = [
            "machine: mitigation retbleed: - / IBRS",
            "setting: net.ipv4.tcp_congestion_control: bbr / cubic",
            "tool: build:  / debug",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn links_with_one_name_and_different_figures_are_unlike() {
        let named = |name: Option<&str>, line: &str| {
            let mut fixture = Fixture::new();
            let link_name = name.map(str::to_owned);
            let case = Case::ping_pong("tcp").with(|changed| {
                changed.path.link = line.to_owned();
                changed.path.name = link_name;
            });
            fixture.rounds_of(&case, &[4_000_000]);
            fixture.run()
        };
        let over = |line: &str| named(Some("bridged-vm"), line);
        let one = over("delay=2ms");
        let unnamed = unlike(&one, &named(None, "delay=2ms"));
        assert!(unnamed.iter().all(|one| one.what != "plan: links"), "names are ignored: {unnamed:?}");
        assert_eq!(unlike(&one, &over("delay=2ms")), []);
        assert_eq!(unlike(&one, &over("delay=3ms")), [], "matching ignores the link");
        let mut several = one.clone();
        several.cases.extend(over("delay=9ms").cases);
        let differences = unlike(&several, &over("delay=3ms"));
        let links = differences.iter().find(|one| one.what == "plan: links").unwrap();
        let expected = ("bridged-vm (delay=2ms); bridged-vm (delay=9ms)", "bridged-vm (delay=3ms)");
        assert_eq!((links.baseline.as_str(), links.candidate.as_str()), expected);
        let replayed = |digest: &str| {
            let mut run = one.clone();
            let traces = BTreeMap::from([("a.trace".to_owned(), digest.to_owned())]);
            run.cases[0].path.relay = Some(LinkSummary { traces, ..LinkSummary::default() });
            run
        };
        assert_eq!(unlike(&replayed("1f"), &replayed("1f")), []);
        let differences = unlike(&replayed("1f"), &replayed("2e"));
        assert_eq!(differences[0].candidate, "bridged-vm (delay=2ms), a.trace of digest 2e");
    }

    #[test]
    fn different_settings_at_the_ends_of_links_are_a_difference() {
        let with = |ends: Option<LinkEnds>| {
            let mut run = run("tcp");
            run.cases[0].path.relay = Some(LinkSummary { ends, ..LinkSummary::default() });
            run
        };
        let cubic = LinkEnds { congestion_control: "cubic".to_owned(), ..LinkEnds::default() };
        let small = LinkEnds { tcp_wmem_bytes: [4096, 16_384, 4_194_304], ..cubic.clone() };
        assert_eq!(unlike(&with(Some(cubic.clone())), &with(Some(cubic.clone()))), []);
        let [one] = &unlike(&with(None), &with(Some(small.clone())))[..] else { panic!("it is one difference") };
        assert_eq!(one.what, "setting: TCP of the links' ends");
        assert_eq!((one.baseline.as_str(), one.candidate.clone()), ("as on the host", small.settings()));
        assert_eq!(unlike(&with(Some(cubic)), &with(Some(small))).len(), 1);
    }

    #[test]
    fn cases_of_only_one_run_do_not_make_the_plans_differ() {
        let both = |warm_ups: &[(&str, u64)]| {
            let mut fixture = Fixture::new();
            for (transport, _) in warm_ups {
                fixture.rounds_of(&Case::ping_pong(transport), &[1000]);
            }
            let mut run = fixture.run();
            for round in &mut run.rounds {
                let of = warm_ups.iter().find(|(transport, _)| round.order.case.primary().transport == *transport);
                round.order.warm_up = Extent::Count(of.unwrap().1);
            }
            run
        };
        let plan = |one: &Run, other: &Run| {
            unlike(one, other).into_iter().filter(|one| one.what.starts_with("plan: ")).collect::<Vec<_>>()
        };
        let one = both(&[("tcp", 500), ("udp", 40)]);
        assert_eq!(plan(&one, &both(&[("tcp", 500)])), []);
        assert_eq!(plan(&both(&[("tcp", 500)]), &one), []);
        let differences = plan(&one, &both(&[("tcp", 400)]));
        assert_eq!((differences.len(), differences[0].baseline.as_str()), (1, "500 messages"));
    }

    #[test]
    fn rounds_of_different_length_are_unlike() {
        let mut other = run("tcp");
        other.rounds[0].order.extent = Extent::DurationNs(2_000_000_000);
        let differences = unlike(&run("tcp"), &other);
        assert!(differences.len() == 1 && differences[0].what.starts_with("plan: "), "{differences:?}");
        assert_eq!((differences[0].baseline.as_str(), differences[0].candidate.as_str()), ("100 messages", "2.00 s"));
    }
}
