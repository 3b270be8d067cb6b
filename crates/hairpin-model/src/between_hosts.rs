//! How a claim is tested between two hosts, over a real path instead of a stand-in.

use crate::claim::{About, Claim, Row, Rule, Selector, Test, TestMethod};

impl Claim {
    /// The claim as tested between two hosts. A row about a path uses its `between_hosts` test, or else its own; rows
    /// that need one host are skipped with the reason.
    pub fn between_hosts(&self) -> Self {
        let row = |row: &Row| Row { means: test_method(row), ..row.clone() };
        Self { rows: self.rows.iter().map(row).collect(), ..self.clone() }
    }
}

fn test_method(row: &Row) -> TestMethod {
    match (row.about, &row.between_hosts, &row.means) {
        (About::Machine, ..) => TestMethod::Skipped("it is about one machine".to_owned()),
        (About::SetUp, ..) => TestMethod::Skipped(
            "it needs a special set-up, and the network between two hosts cannot be set up".to_owned(),
        ),
        (About::Path, Some(test), _) => TestMethod::Test(test.clone()),
        (About::Path, None, TestMethod::Test(test)) => match test.rule.needs_one_host() {
            Some(what) => TestMethod::Skipped(format!("the rule is about {what}, which two hosts do not have")),
            None => {
                TestMethod::Test(Box::new(Test { path_stand_in: None, path_given_back: None, ..(**test).clone() }))
            }
        },
        (About::Path, None, other) => other.clone(),
    }
}

impl Rule {
    /// Returns the first setting that needs both ends on one host.
    fn needs_one_host(&self) -> Option<String> {
        self.selectors().into_iter().find_map(|(_, selector)| selector.needs_one_host())
    }
}

impl Selector {
    /// Returns the first setting that needs both ends on one host.
    fn needs_one_host(&self) -> Option<String> {
        let own = [
            self.link.as_ref().map(|link| format!("the link `{link}`")),
            self.placement.map(|placement| format!("the placement {placement}")),
            self.cpus.map(|_| "a load on chosen CPUs".to_owned()),
            self.ends.map(|ends| format!("ends that are {ends}")),
            self.cpu_idle.map(|_| "CPUs that are kept awake".to_owned()),
        ];
        own.into_iter().flatten().next().or_else(|| self.of_load.as_ref()?.needs_one_host())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(rows: serde_json::Value) -> Claim {
        let published = json!({"value": ["a", "b"], "unit": "order"});
        let written = json!({
            "id": "E1", "text": "t", "quote": "q", "why": "w", "so_what": "s", "about": "path",
            "published": published, "row": rows
        });
        serde_json::from_value(written).unwrap()
    }

    fn test(case: serde_json::Value) -> serde_json::Value {
        json!({
            "run": "r", "rule_because": "b", "path_stand_in": "an emulated link", "stand_in": "a FIFO",
            "path_given_back": "its delay was set", "changed": {"on": "2026-11-26", "because": "c"},
            "rule": {"kind": "kept", "kept": ["curve"], "case": case}
        })
    }

    /// A test whose ratio is over a pool of cases.
    fn pooled(against: serde_json::Value) -> serde_json::Value {
        let tcp = json!({"transport": "tcp"});
        let of = json!({"figure": "p50", "case": [tcp, tcp], "against": against});
        let changed = json!({"on": "2026-11-26", "because": "c"});
        json!({"run": "r", "rule_because": "b", "changed": changed, "rule": {"kind": "at-most", "of": of}})
    }

    fn skipped(claim: &Claim) -> Vec<&str> {
        let reasons = claim.between_hosts().rows.into_iter().map(|row| match row.means {
            TestMethod::Skipped(why) => why,
            other => panic!("{other:?}"),
        });
        reasons.map(|why| &*why.leak()).collect()
    }

    #[test]
    fn rows_about_one_machine_or_a_set_up_are_skipped() {
        let rows = json!([
            {"name": "m", "about": "machine", "test": test(json!({}))},
            {"name": "s", "about": "set-up", "test": test(json!({})), "between_hosts": test(json!({}))},
        ]);
        let why = "it needs a special set-up, and the network between two hosts cannot be set up";
        assert_eq!(skipped(&claim(rows)), ["it is about one machine", why]);
    }

    #[test]
    fn a_rule_about_a_setting_of_one_host_is_skipped() {
        let row = |name: &str, case: serde_json::Value| json!({"name": name, "test": test(case)});
        let rows = json!([
            row("link", json!({"transport": "tcp", "link": "home-uplink"})),
            row("placement", json!({"placement": "same-cpu"})),
            row("ends", json!({"ends": "threads"})),
            row("cpus", json!({"of_load": {"cpus": "other"}})),
            row("awake", json!({"cpu_idle": "shallow"})),
            json!({"name": "pool", "test": pooled(json!([{"transport": "udp"}, {"placement": "cross-cpu"}]))}),
        ]);
        let expected = [
            "the link `home-uplink`",
            "the placement same-cpu",
            "ends that are threads",
            "a load on chosen CPUs",
            "CPUs that are kept awake",
            "the placement cross-cpu",
        ];
        let expected = expected.map(|what| format!("the rule is about {what}, which two hosts do not have"));
        assert_eq!(skipped(&claim(rows)), expected);
    }

    #[test]
    fn a_real_path_needs_no_stand_in_and_its_own_test_replaces_the_other() {
        let case = json!({"transport": "tcp"});
        let own = json!({
            "run": "own", "rule_because": "b", "given_back": "g", "changed": {"on": "2026-11-26", "because": "c"},
            "rule": {"kind": "kept", "kept": ["curve"], "case": case}
        });
        let rows = json!([
            {"name": "same rule", "test": test(case)},
            {"name": "another", "test": test(json!({"link": "plc"})), "between_hosts": own},
            {"name": "only there", "missing": "another host", "between_hosts": own},
            {"name": "nowhere", "missing": "a budget"},
        ]);
        let on_one = claim(rows);
        let stand_in = |claim: &Claim| claim.tests().next().and_then(Test::stand_in);
        assert_eq!(stand_in(&on_one).as_deref(), Some("an emulated link; a FIFO"));
        let shown = |claim: &Claim| -> Vec<Option<String>> {
            claim.rows.iter().map(|row| row.shown().map(str::to_owned)).collect()
        };
        let set = Some("its delay was set".to_owned());
        assert_eq!(shown(&on_one), [set.clone(), set, None, None]);
        let between = on_one.between_hosts();
        assert_eq!(stand_in(&between).as_deref(), Some("a FIFO"));
        let given_back = Some("g".to_owned());
        assert_eq!(shown(&between), [None, given_back.clone(), given_back, None]);
        assert_eq!(between.runs(), ["r", "own"]);
        assert_eq!((on_one.missing(), between.missing()), (vec!["another host", "a budget"], vec!["a budget"]));
    }
}
