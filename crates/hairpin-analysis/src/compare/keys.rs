//! Which case of one run is which case of another.

use hairpin_model::case::Case;
use hairpin_model::comparison::DifferentLinks;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;

/// How the cases of two runs find each other: by their identity, and where the runs have [`DifferentLinks`] by what it
/// would be without the link.
pub(super) struct Keys {
    pub(super) links: Option<DifferentLinks>,
}

impl Keys {
    pub(super) fn of(baseline: &Run, candidate: &Run) -> Self {
        let links =
            only_path(baseline).zip(only_path(candidate)).filter(|(one, other)| one.path.link != other.path.link);
        Self {
            links: links.map(|(one, other)| DifferentLinks {
                baseline: told_apart(one, other),
                candidate: told_apart(other, one),
            }),
        }
    }

    /// What the same case of both runs has in common. A fault that was injected is what they are compared for.
    pub(super) fn key(&self, row: &CaseSummary) -> String {
        let case = if self.links.is_some() { row.case.without_link() } else { row.case.clone() };
        case.with(|changed| changed.injected_fault = None).id()
    }

    /// That in words.
    pub(super) fn label(&self, row: &CaseSummary) -> String {
        if self.links.is_some() { row.case.without_link().label() } else { row.label.clone() }
    }
}

/// A case over the link that all cases of the run go over; null where they go over several.
fn only_path(run: &Run) -> Option<&Case> {
    let first = &run.cases.first()?.case;
    run.cases.iter().all(|row| row.case.path.link == first.path.link).then_some(first)
}

/// The link of a case, so that it cannot be taken for that of the other: `home-uplink up.loss=3%`.
fn told_apart(case: &Case, other: &Case) -> String {
    let name = |case: &Case| case.path.name.clone().unwrap_or_else(|| case.path.link.clone());
    let of_one_name = name(case) == name(other) && case.path.link != other.path.link;
    if of_one_name { case.path.link.clone() } else { name(case) }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// The labels of what was compared, and the links where they differ.
    fn paired(one: &[Case], other: &[Case]) -> (Vec<String>, Option<(String, String)>) {
        let compared = compare_runs(&[&run(one)], &[&run(other)]);
        let labels = compared.cases.into_iter().map(|case| case.label).collect();
        (labels, compared.links.map(|links| (links.baseline, links.candidate)))
    }

    fn links(one: &Case, other: &Case) -> Option<(String, String)> {
        paired(std::slice::from_ref(one), std::slice::from_ref(other)).1
    }

    #[test]
    fn runs_over_one_link_each_are_paired_whatever_their_links() {
        let vm = |transport| named("bridged-vm", "delay=2ms", transport);
        let lossy = |transport| named("bridged-vm up.loss=10%", "up.loss=10% delay=2ms", transport);
        let again = |case: Case| case.with(|changed| changed.replicate = 1);
        let (labels, links) =
            paired(&[vm("tcp"), vm("udp"), again(vm("tcp"))], &[lossy("udp"), lossy("tcp"), again(lossy("tcp"))]);
        assert_eq!(labels, ["tcp block same-cpu", "udp block same-cpu", "tcp block same-cpu (again)"]);
        assert_eq!(links, Some(("bridged-vm".to_owned(), "bridged-vm up.loss=10%".to_owned())));
    }

    #[test]
    fn over_one_link_or_several_a_case_is_paired_with_itself_only() {
        let vm = || named("bridged-vm", "delay=2ms", "tcp");
        let unnamed = over("delay=2ms", Case::ping_pong("tcp"));
        assert_eq!(paired(&[vm()], &[unnamed]), (vec!["tcp block same-cpu over bridged-vm".to_owned()], None));
        let (lan, lte) = (over("delay=1ms", Case::ping_pong("tcp")), over("delay=30ms", Case::ping_pong("tcp")));
        assert_eq!(paired(&[vm(), lan.clone()], std::slice::from_ref(&lte)), (Vec::new(), None));
        let (labels, links) = paired(&[vm(), lan], &[vm(), lte]);
        assert_eq!((labels, links), (vec!["tcp block same-cpu over bridged-vm".to_owned()], None));
    }

    #[test]
    fn links_are_told_so_that_they_differ() {
        let vm = named("bridged-vm", "delay=2ms", "tcp");
        let words = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(links(&Case::ping_pong("tcp"), &vm), words("loopback", "bridged-vm"));
        let changed = named("bridged-vm", "delay=3ms", "tcp");
        assert_eq!(links(&vm, &changed), words("delay=2ms", "delay=3ms"));
    }
}
