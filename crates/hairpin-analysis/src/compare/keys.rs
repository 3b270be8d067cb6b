//! Matches the cases of one side to the cases of the other.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_model::{Case, CaseSummary, Load, Run, Unlike};

use super::choices::{Subject, cases, choices, difference};

/// Matches cases of two sides by all their choices. If no case matches, ignores one choice that has a single value on
/// each side and differs between the sides.
pub(super) struct Keys {
    changed: Option<(Subject, Unlike)>,
}

/// All choices of a case, and its replicate number in an A/A pair. Excludes injected faults, so that comparing two
/// runs shows the effect of a fault.
pub(super) type Key = (BTreeMap<Subject, String>, u8);

impl Keys {
    /// Returns the keys that pair cases of both sides; ignores a choice only if exact keys pair no case.
    pub(super) fn of(baselines: &[&Run], candidates: &[&Run]) -> Self {
        let exact = Self { changed: None };
        if exact.pair_some([baselines, candidates]) {
            return exact;
        }
        let sides = [baselines, candidates].map(cases);
        let abouts: BTreeSet<Subject> = sides.iter().flatten().flat_map(|case| choices(case).into_keys()).collect();
        // The rate of an open loop is never ignored: latencies at different offered loads are not comparable.
        let is_offered = |case: &&Case| matches!(case.primary().load, Load::Offered { .. });
        let offered = sides.iter().flatten().any(is_offered);
        let mut ignorable = abouts.into_iter().filter(|about| !(offered && *about == Subject::Rate));
        let changed = ignorable.find_map(|about| Self::ignoring(about, &sides));
        changed.filter(|keys| keys.pair_some([baselines, candidates])).unwrap_or(exact)
    }

    /// Returns keys without the choice `about`, if each side has a single value for it and the two values differ.
    fn ignoring(about: Subject, sides: &[Vec<&Case>; 2]) -> Option<Self> {
        let [one, other] = sides.each_ref().map(|cases| {
            let value = |case: &Case| choices(case).remove(&about);
            let first = cases.first().copied()?;
            cases.iter().all(|case| value(case) == value(first)).then_some((first, value(first)))
        });
        let ((one, one_value), (other, other_value)) = (one?, other?);
        (one_value != other_value).then(|| Self { changed: Some((about, difference(about, one, other))) })
    }

    fn pair_some(&self, sides: [&[&Run]; 2]) -> bool {
        let mut runs = sides.into_iter().flatten();
        let keys = |run: &Run| run.cases.iter().map(|case| self.key(case)).collect::<BTreeSet<Key>>();
        let Some(first) = runs.next() else { return false };
        let common = runs.fold(keys(first), |common, run| &common & &keys(run));
        !common.is_empty()
    }

    pub(super) fn ignored_difference(&self) -> Option<&Unlike> {
        self.changed.as_ref().map(|(_, unlike)| unlike)
    }

    pub(super) fn ignores(&self, about: Subject) -> bool {
        self.changed.as_ref().is_some_and(|(changed, _)| *changed == about)
    }

    /// Returns the key of a case; matching cases of both sides have equal keys.
    pub(super) fn key(&self, row: &CaseSummary) -> Key {
        let mut choices = choices(&row.case);
        if let Some((changed, _)) = &self.changed {
            choices.remove(changed);
        }
        (choices, row.case.replicate)
    }

    pub(super) fn label(&self, baseline: &CaseSummary, candidate: &CaseSummary) -> String {
        if self.changed.is_none() {
            return baseline.label.clone();
        }
        let others = candidate.case.words();
        let common = baseline.case.words().into_iter().filter(|word| others.contains(word));
        common.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::options::OptionName;
    use hairpin_model::{CpuIdle, Placement, Waiting};

    use super::*;
    use crate::compare::choices::choices_that_differ;
    use crate::compare::runs::compare_runs;
    use crate::fixture::Fixture;
    use crate::fixture::links::over;

    fn run(cases: &[Case]) -> Run {
        let mut fixture = Fixture::new();
        for case in cases {
            fixture.rounds_of(case, &[10_000; 6]);
        }
        fixture.run()
    }

    fn named(name: &str, line: &str, transport: &str) -> Case {
        over(line, Case::ping_pong(transport)).with(|changed| changed.path.name = Some(name.to_owned()))
    }

    /// Returns the labels of the compared cases, and the difference between the sides.
    fn compared(one: &[Case], other: &[Case]) -> (Vec<String>, Option<Unlike>) {
        let compared = compare_runs(&[&run(one)], &[&run(other)]);
        (compared.cases.into_iter().map(|case| case.label).collect(), compared.differs)
    }

    /// Returns the labels, and the two links if they are the difference.
    fn paired(one: &[Case], other: &[Case]) -> (Vec<String>, Option<(String, String)>) {
        let (labels, differs) = compared(one, other);
        assert!(differs.as_ref().is_none_or(|differs| differs.what == "link"), "{differs:?}");
        (labels, differs.map(|links| (links.baseline, links.candidate)))
    }

    fn links(one: &Case, other: &Case) -> Option<(String, String)> {
        paired(std::slice::from_ref(one), std::slice::from_ref(other)).1
    }

    #[test]
    fn runs_over_one_link_each_are_paired_for_any_links() {
        let vm = |transport| named("bridged-vm", "delay=2ms", transport);
        let lossy = |transport| named("bridged-vm up.loss=10%", "up.loss=10% delay=2ms", transport);
        let again = |case: Case| case.with(|changed| changed.replicate = 1);
        let (labels, links) =
            paired(&[vm("tcp"), vm("udp"), again(vm("tcp"))], &[lossy("udp"), lossy("tcp"), again(lossy("tcp"))]);
        assert_eq!(labels, ["tcp block same-cpu", "udp block same-cpu", "tcp block same-cpu (again)"]);
        assert_eq!(links, Some(("bridged-vm".to_owned(), "bridged-vm up.loss=10%".to_owned())));
    }

    #[test]
    fn cases_over_several_links_are_paired_only_over_equal_links() {
        let vm = || named("bridged-vm", "delay=2ms", "tcp");
        let unnamed = over("delay=2ms", Case::ping_pong("tcp"));
        assert_eq!(paired(&[vm()], &[unnamed]), (vec!["tcp block same-cpu over bridged-vm".to_owned()], None));
        let (lan, lte) = (over("delay=1ms", Case::ping_pong("tcp")), over("delay=30ms", Case::ping_pong("tcp")));
        assert_eq!(paired(&[vm(), lan.clone()], std::slice::from_ref(&lte)), (Vec::new(), None));
        let (labels, links) = paired(&[vm(), lan], &[vm(), lte]);
        assert_eq!((labels, links), (vec!["tcp block same-cpu over bridged-vm".to_owned()], None));
    }

    #[test]
    fn links_are_described_so_that_they_differ() {
        let vm = named("bridged-vm", "delay=2ms", "tcp");
        let words = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(links(&Case::ping_pong("tcp"), &vm), words("loopback", "bridged-vm"));
        let changed = named("bridged-vm", "delay=3ms", "tcp");
        assert_eq!(links(&vm, &changed), words("delay=2ms", "delay=3ms"));
    }

    fn with_options(case: Case, options: &str) -> Case {
        case.with(|changed| changed.primary_mut().options = hairpin_model::options::Options::parse(options).unwrap())
    }

    fn again(case: Case) -> Case {
        case.with(|changed| changed.replicate = 1)
    }

    fn told(differs: Option<Unlike>) -> String {
        differs.map_or_else(String::new, |one| format!("{}: {} / {}", one.what, one.baseline, one.candidate))
    }

    #[test]
    fn cases_that_differ_in_one_choice_are_paired_without_it() {
        let tcp = || Case::ping_pong("tcp");
        let changed = |change: fn(&mut Case)| tcp().with(change);
        let sized = |message, answer| tcp().with(|case| case.primary_mut().load.set_sizes(message, answer));
        let plain = "tcp block same-cpu";
        let under = |congestion: &str| {
            let options = hairpin_model::options::Options::default().with(OptionName::Congestion, congestion);
            crate::fixture::under_load::probed_over_link().with(|case| case.flows[1].options = options)
        };
        for (one, other, label, difference) in [
            (tcp(), Case::ping_pong("udp"), "block same-cpu", "transport: tcp / udp"),
            (tcp(), changed(|case| case.ends.waiting = Waiting::Spin), "tcp same-cpu", "waiting: block / spin"),
            (
                tcp(),
                changed(|case| case.ends.placement = Placement::CrossCpu),
                "tcp block",
                "placement: same-cpu / cross-cpu",
            ),
            (tcp(), changed(|case| case.ends.cpu_idle = CpuIdle::Shallow), plain, "CPU idle state: deep / shallow"),
            (
                under("cubic"),
                under("bbr"),
                "udp block same-cpu 64 B 100/s over rate=10mbit queue=256KiB delay=5ms",
                "load option congestion: cubic / bbr",
            ),
            (sized(64, 64), sized(65_536, 65_536), plain, "size: 64 B / 64 KiB"),
            (sized(64, 64), sized(64, 8), plain, "size: 64 B / 64 B, answer 8 B"),
            (
                tcp(),
                changed(|case| case.primary_mut().load = case.primary().load.paced(1000.0)),
                plain,
                "rate: closed loop / 1000/s",
            ),
            (with_options(tcp(), "nodelay=on"), tcp(), plain, "option nodelay: on / default"),
            (
                with_options(tcp(), "nodelay=on,sndbuf=8192"),
                with_options(tcp(), "nodelay=off,sndbuf=8192"),
                "tcp block same-cpu sndbuf=8192",
                "option nodelay: on / off",
            ),
            (
                with_options(tcp(), "nodelay=on,sndbuf=8192"),
                tcp(),
                plain,
                "options: nodelay=on sndbuf=8192 / default",
            ),
            (
                tcp(),
                changed(|case| case.sysctls = "net.ipv4.tcp_sack=0".parse().unwrap()),
                plain,
                "sysctl net.ipv4.tcp_sack: default / 0",
            ),
        ] {
            let (labels, differs) = compared(std::slice::from_ref(&one), std::slice::from_ref(&other));
            assert_eq!((labels, told(differs)), (vec![label.to_owned()], difference.to_owned()));
            let (labels, _) = compared(&[one.clone(), again(one)], &[again(other.clone()), other]);
            assert_eq!(labels, [label.to_owned(), format!("{label} (again)")], "an A/A pair stays an A/A pair");
        }
    }

    #[test]
    fn equal_cases_are_preferred_to_pairs_that_differ() {
        let nodelay = |value: &str| with_options(Case::ping_pong("tcp"), &format!("nodelay={value}"));
        let (on, off, plain) = (nodelay("on"), nodelay("off"), Case::ping_pong("tcp"));
        let (labels, differs) = compared(&[plain.clone(), on], &[off, plain]);
        assert_eq!((labels, told(differs)), (vec!["tcp block same-cpu".to_owned()], String::new()));
    }

    #[test]
    fn ambiguous_cases_and_cases_with_two_differences_are_not_paired() {
        let sized = |bytes| Case::ping_pong("tcp").with(|case| case.primary_mut().load.set_sizes(bytes, bytes));
        let none = (Vec::new(), None);
        let differ = |one: &[Case], other: &[Case]| {
            let (one, other) = (run(one), run(other));
            choices_that_differ(&[&one], &[&other]).into_iter().map(|one| told(Some(one))).collect::<Vec<_>>()
        };
        let (several, others) = ([sized(64), sized(128)], [sized(256)]);
        assert_eq!(compared(&several, &others), none);
        assert_eq!(differ(&several, &others), ["size: 64 B and 128 B / 256 B"]);
        let (one, two) = ([sized(64)], [with_options(sized(65), "nodelay=on")]);
        assert_eq!(compared(&one, &two), none);
        assert_eq!(differ(&one, &two), ["option nodelay: default / on", "size: 64 B / 65 B"]);
    }

    #[test]
    fn all_runs_of_a_side_have_the_same_choice() {
        let nodelay = |value: &str| run(&[with_options(Case::ping_pong("tcp"), &format!("nodelay={value}"))]);
        let (on, off) = (nodelay("on"), nodelay("off"));
        let differs = |one: &[&Run], other: &[&Run]| told(compare_runs(one, other).differs);
        assert_eq!(differs(&[&on, &on], &[&off, &off]), "option nodelay: on / off");
        assert_eq!(differs(&[&on, &off], &[&off, &off]), "");
        assert!(compare_runs(&[&on, &off], &[&off]).cases.is_empty());
    }
}
