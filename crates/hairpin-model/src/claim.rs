//! A claim: what a published text states, and the measurement and the rule that test it.
//!
//! The texts stand in `claims/*.toml`, a file each; `docs/claims.md` describes the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exchange::Writes;
pub use crate::figure_name::FigureName;
use crate::names::distinct;
pub use crate::selector::Selector;
use crate::time_sequence::EventKind;
use crate::words;

/// One published text: what it is, the runs that its claims share, and the claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The letter that its claims' ids begin with.
    pub letter: String,
    /// Its title, in our words.
    pub title: String,
    /// What it is.
    pub what: String,
    /// The name of the file that holds it.
    pub file: String,
    /// The machine or setting that its figures are from.
    pub setting: String,
    /// The runs by name.
    #[serde(default)]
    pub runs: BTreeMap<String, PlannedRun>,
    /// The claims in order.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A run that tests claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRun {
    /// The words after `hairpin`.
    pub command: String,
    /// Why it is measured like this.
    pub because: String,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// One number.
    Number(f64),
    /// From, to.
    Range([f64; 2]),
    /// Names in the order that the text puts them in, or the parts that it lists.
    Order(Vec<String>),
    /// Rows by name.
    Table(BTreeMap<String, Value>),
}

/// A published value with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The value.
    pub value: Value,
    /// Its unit: `ms`, `bytes/ms`, `x` for a ratio, or in words what an order is of.
    pub unit: String,
}

words! {
    /// What a claim, or a row of it, is about.
    pub enum About: "subject" {
        /// The path between two ends; where it has its ends on one host, loopback or an emulated link stands in for it.
        Path = "path",
        /// One machine.
        Machine = "machine",
        /// A path, or a setting of the kernel, that has to be made for it: given rates, delays and queues, a packet that is lost.
        SetUp = "set-up",
    }
}

/// A published statement. It has one row, without a name, or is a table of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "WrittenClaim")]
pub struct Claim {
    /// Its id, for instance `B1`.
    pub id: String,
    /// What the text says, in our words.
    pub text: String,
    /// What it publishes.
    pub published: Published,
    /// What it is about.
    pub about: About,
    /// What is tested of it, and how.
    pub rows: Vec<Row>,
}

/// One thing that a claim says.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name in the table; empty where the claim has one row only.
    pub name: String,
    /// What is published of it.
    pub published: Published,
    /// What it is about.
    pub about: About,
    /// How it is tested, or why it cannot be yet.
    pub means: Means,
    /// How it is tested between two hosts, where it takes another case than on one.
    pub between_hosts: Option<Box<Test>>,
    /// Where it tests another setting than the claim's: which. Its verdict stands beside the claim's and is no part of
    /// it.
    pub beside: Option<String>,
}

/// How a row is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// By this.
    Test(Box<Test>),
    /// It cannot be tested yet: this is the missing part.
    Missing(String),
    /// It is not tested between two hosts: this is why.
    Skipped(String),
}

/// A measurement and the rule that turns it into a verdict.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The name of the run.
    pub run: String,
    /// The rule.
    pub rule: Rule,
    /// Why this rule, decided before it was run.
    pub rule_because: String,
    /// What stands in for something of the text's setting that is not there, if anything does.
    #[serde(default)]
    pub stand_in: Option<String>,
    /// What stands in for the path; nothing does between two hosts.
    #[serde(default)]
    pub path_stand_in: Option<String>,
    /// Why the verdict is `cannot-tell` whatever is measured; for a stand-in that lacks what the claim speaks of.
    #[serde(default)]
    pub undecided: Option<String>,
    /// The same where that is so because of what stands in for the path.
    #[serde(default)]
    pub path_undecided: Option<String>,
}

impl Test {
    /// What stands in for something of the text's setting, the path or another.
    #[must_use]
    pub fn stand_in(&self) -> Option<String> {
        let both: Vec<&str> =
            [&self.path_stand_in, &self.stand_in].into_iter().flatten().map(String::as_str).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Why it decides nothing, if it does not.
    #[must_use]
    pub fn undecided(&self) -> Option<&str> {
        self.path_undecided.as_deref().or(self.undecided.as_deref())
    }
}

/// What makes a claim hold. A rule speaks only where the whole 95 % interval does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// The figure is the published number, up or down by the factor.
    Within {
        /// What is measured.
        of: Measure,
        /// From 1 on.
        factor: f64,
    },
    /// The figure is in the published range, both ends moved outwards by the factor.
    Range {
        /// What is measured.
        of: Measure,
        /// From 1 on.
        #[serde(default = "one")]
        factor: f64,
    },
    /// The figure is the bound or more.
    AtLeast {
        /// What is measured.
        of: Measure,
        /// In the published unit; without it the published number.
        #[serde(default)]
        bound: Option<f64>,
    },
    /// The figure is the bound or less.
    AtMost {
        /// What is measured.
        of: Measure,
        /// In the published unit; without it the published number.
        #[serde(default)]
        bound: Option<f64>,
    },
    /// Of the figure of one case at least this share is gone in another.
    Share {
        /// The figure.
        figure: FigureName,
        /// The case that has all of it.
        whole: Selector,
        /// The case that has the rest.
        rest: Selector,
        /// From 0 to 1.
        at_least: f64,
    },
    /// The cases come in the published order: each has a smaller figure than the next.
    Order {
        /// The figure.
        figure: FigureName,
        /// The cases, one for each published name.
        cases: Vec<Selector>,
    },
    /// The run holds these outputs of the case.
    Kept {
        /// The case.
        case: Selector,
        /// The outputs.
        kept: Vec<Kept>,
    },
    /// A capture of the case shows these packets, in this order.
    Packets {
        /// The case.
        case: Selector,
        /// The packets.
        events: Vec<EventKind>,
    },
    /// A traced exchange of the case has these writes and no others, and the answer is read after the last of them.
    Pattern {
        /// The case.
        case: Selector,
        /// The writes.
        writes: Writes,
    },
    /// Over datagrams nothing came through, and another transport took their place.
    Fallback {
        /// The case.
        case: Selector,
        /// What was asked for.
        from: String,
        /// What carried the messages.
        to: String,
    },
    /// The second case's figure is more times the first's at full load than it is at a low one.
    Widens {
        /// The figure.
        figure: FigureName,
        /// The two cases at the low load.
        low: Box<[Selector; 2]>,
        /// The run that has them; without it the test's own.
        #[serde(default)]
        low_run: Option<String>,
        /// The two cases at full load, in the same order.
        full: Box<[Selector; 2]>,
    },
}

impl Rule {
    /// The run that it needs beside the test's own.
    #[must_use]
    pub fn other_run(&self) -> Option<&str> {
        match self {
            Self::Within { of, .. } | Self::Range { of, .. } | Self::AtLeast { of, .. } | Self::AtMost { of, .. } => {
                of.against_run.as_deref()
            }
            Self::Widens { low_run, .. } => low_run.as_deref(),
            Self::Share { .. }
            | Self::Order { .. }
            | Self::Kept { .. }
            | Self::Packets { .. }
            | Self::Pattern { .. }
            | Self::Fallback { .. } => None,
        }
    }
}

fn one() -> f64 {
    1.0
}

/// A figure of a case, or the ratio of that figure to the same figure of another case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The figure.
    pub figure: FigureName,
    /// The case.
    pub case: Selector,
    /// The case that it is divided by.
    #[serde(default)]
    pub against: Option<Selector>,
    /// The run that has that case; without it the test's own.
    #[serde(default)]
    pub against_run: Option<String>,
}

words! {
    /// What a run may hold of a case.
    pub enum Kept: "kept" {
        /// The median, p99 and the mean.
        Percentiles = "percentiles",
        /// The smallest and the greatest.
        Extremes = "extremes",
        /// The percentile curve, which the page draws.
        Curve = "curve",
        /// Every sample of every round, which `hairpin report RUN --csv=samples` prints.
        Samples = "samples",
        /// The goodput over the time of a round, which the page draws.
        RateOverTime = "rate-over-time",
        /// The CPU use of both ends over that time.
        CpuOverTime = "cpu-over-time",
        /// What was asked of the sockets' options and what was granted.
        Options = "options",
    }
}

/// Why a written claim is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClaim {
    /// Not one of `test`, `missing` and rows.
    #[error("{0} has none or several of a test, a missing part and rows (hint: give exactly one of them)")]
    Means(String),
    /// Nothing is published of a row.
    #[error("{0} has no published value (hint: add `published`, or a row of the claim's table)")]
    Unpublished(String),
    /// The claim publishes a number or a range, and no row that counts is about it.
    #[error("no row of {0} is about its published value (hint: omit `published` in the row that tests it)")]
    Uncarried(String),
    /// All rows stand beside the claim.
    #[error("no row of {0} counts for its verdict (hint: omit `beside` in the row that tests what the text says)")]
    AllBeside(String),
}

/// A claim as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    text: String,
    published: Published,
    about: About,
    test: Option<Test>,
    between_hosts: Option<Box<Test>>,
    missing: Option<String>,
    #[serde(default, rename = "row")]
    rows: Vec<WrittenRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    name: String,
    published: Option<Published>,
    about: Option<About>,
    test: Option<Test>,
    between_hosts: Option<Box<Test>>,
    missing: Option<String>,
    beside: Option<String>,
}

impl TryFrom<WrittenClaim> for Claim {
    type Error = BadClaim;

    fn try_from(written: WrittenClaim) -> Result<Self, BadClaim> {
        let WrittenClaim { id, text, published, about, test, between_hosts, missing, rows } = written;
        let rows = if rows.is_empty() {
            let means = means(&id, test, missing)?;
            let (name, published) = (String::new(), published.clone());
            vec![Row { name, published, about, means, between_hosts, beside: None }]
        } else if test.is_some() || missing.is_some() || between_hosts.is_some() {
            return Err(BadClaim::Means(id));
        } else {
            rows.into_iter().map(|row| named_row(&id, &published, about, row)).collect::<Result<_, _>>()?
        };
        let claim = Self { id, text, published, about, rows };
        let needs_a_row = matches!(claim.published.value, Value::Number(_) | Value::Range(_));
        if claim.counting().next().is_none() {
            Err(BadClaim::AllBeside(claim.id))
        } else if needs_a_row && claim.headline().is_none() {
            Err(BadClaim::Uncarried(claim.id))
        } else {
            Ok(claim)
        }
    }
}

fn named_row(id: &str, of_claim: &Published, about: About, row: WrittenRow) -> Result<Row, BadClaim> {
    let place = format!("row `{}` of {id}", row.name);
    let published = match (row.published, &of_claim.value) {
        (Some(published), _) => published,
        (None, Value::Table(table)) => {
            let value = table.get(&row.name).cloned().ok_or_else(|| BadClaim::Unpublished(place.clone()))?;
            Published { value, unit: of_claim.unit.clone() }
        }
        (None, _) => of_claim.clone(),
    };
    let means = means(&place, row.test, row.missing)?;
    let WrittenRow { name, between_hosts, beside, .. } = row;
    Ok(Row { name, published, about: row.about.unwrap_or(about), means, between_hosts, beside })
}

fn means(place: &str, test: Option<Test>, missing: Option<String>) -> Result<Means, BadClaim> {
    match (test, missing) {
        (Some(test), None) => Ok(Means::Test(Box::new(test))),
        (None, Some(missing)) => Ok(Means::Missing(missing)),
        _ => Err(BadClaim::Means(place.to_owned())),
    }
}

words! {
    /// How much of a claim can be tested.
    pub enum Coverage: "coverage" {
        /// All of it.
        Covered = "covered",
        /// Some of its rows, or some of them by a stand-in that leaves them undecided.
        Partly = "partly",
        /// Nothing.
        NotCovered = "not-covered",
    }
}

impl Claim {
    /// How much of it can be tested.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let decides = |row: &Row| match &row.means {
            Means::Test(test) => test.undecided().is_none(),
            Means::Missing(_) => false,
            Means::Skipped(_) => true,
        };
        if self.tests().next().is_none() {
            Coverage::NotCovered
        } else if self.counting().all(decides) {
            Coverage::Covered
        } else {
            Coverage::Partly
        }
    }

    /// The rows that count for its verdict.
    pub fn counting(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.beside.is_none())
    }

    /// The place of the row whose figure is the claim's: the first that counts and is about the claim's own published
    /// value. A table has none, nor has an order whose rows each have their own.
    #[must_use]
    pub fn headline(&self) -> Option<usize> {
        self.rows.iter().position(|row| row.beside.is_none() && row.published == self.published)
    }

    /// The tests of its rows.
    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        self.rows.iter().filter_map(|row| match &row.means {
            Means::Test(test) => Some(&**test),
            Means::Missing(_) | Means::Skipped(_) => None,
        })
    }

    /// The names of the runs that its tests need, each once.
    #[must_use]
    pub fn runs(&self) -> Vec<&str> {
        distinct(self.tests().flat_map(|test| std::iter::once(test.run.as_str()).chain(test.rule.other_run())))
    }

    /// Why rows of it are not tested between two hosts, each reason once.
    #[must_use]
    pub fn skipped(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter_map(|row| match &row.means {
            Means::Skipped(why) => Some(why.as_str()),
            Means::Test(_) | Means::Missing(_) => None,
        }))
    }

    /// The parts that are missing, each once.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter_map(|row| match &row.means {
            Means::Missing(part) => Some(part.as_str()),
            Means::Test(_) | Means::Skipped(_) => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(json: serde_json::Value) -> Result<Claim, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    fn within(transport: &str) -> serde_json::Value {
        serde_json::json!({
            "run": "r", "rule_because": "b",
            "rule": {"kind": "within", "factor": 2, "of": {"figure": "p50", "case": {"transport": transport}}}
        })
    }

    #[test]
    fn a_claim_without_rows_has_one_without_a_name() {
        let written = serde_json::json!({
            "id": "A1", "text": "t", "about": "path", "published": {"value": 0.25, "unit": "ms"}, "test": within("tcp")
        });
        let claim = claim(written).unwrap();
        assert_eq!((claim.rows.len(), claim.rows[0].name.as_str()), (1, ""));
        assert_eq!(claim.rows[0].published, claim.published);
        assert_eq!((claim.tests().count(), claim.missing().len()), (1, 0));
    }

    #[test]
    fn a_row_takes_its_published_value_from_the_claims_table() {
        let written = serde_json::json!({
            "id": "A12", "text": "t", "about": "path",
            "published": {"value": {"near": [0.1, 0.5], "far": 10}, "unit": "ms"},
            "row": [{"name": "near", "test": within("tcp")}, {"name": "far", "missing": "a link"}]
        });
        let claim = claim(written).unwrap();
        assert_eq!(claim.rows[0].published, Published { value: Value::Range([0.1, 0.5]), unit: "ms".to_owned() });
        assert_eq!(claim.rows[1].published.value, Value::Number(10.0));
        assert_eq!((claim.missing(), claim.coverage()), (vec!["a link"], Coverage::Partly));
    }

    #[test]
    fn what_is_not_one_of_the_three_is_refused_by_name() {
        let published = serde_json::json!({"value": ["a", "b"], "unit": "order"});
        let both = serde_json::json!({"id": "A1", "text": "", "about": "path", "published": published, "test": within("x"), "missing": "y"});
        assert!(claim(both).unwrap_err().starts_with("A1 has none or several"));
        let none = serde_json::json!({"id": "A2", "text": "", "about": "path", "published": published});
        assert!(claim(none).unwrap_err().starts_with("A2 has none or several"));
        let table = serde_json::json!({"value": {"a": 1}, "unit": "ms"});
        let stray = serde_json::json!({"id": "A3", "text": "", "about": "path", "published": table, "row": [{"name": "b", "missing": "y"}]});
        assert!(claim(stray).unwrap_err().starts_with("row `b` of A3 has no published value"));
        let typo = serde_json::json!({"id": "A4", "text": "", "about": "path", "published": table, "mising": "y"});
        assert!(claim(typo).unwrap_err().contains("unknown field `mising`"));
    }

    #[test]
    fn the_figure_of_a_claim_is_that_of_the_first_row_about_its_own_value() {
        let ratio = serde_json::json!({"value": 100, "unit": "x"});
        let written = |rows: serde_json::Value| {
            let published = serde_json::json!({"value": 490.24, "unit": "bytes/ms"});
            claim(serde_json::json!({"id": "B2", "text": "t", "about": "path", "published": published, "row": rows}))
        };
        let against = serde_json::json!({"name": "against none", "published": ratio, "test": within("tcp")});
        let rate = serde_json::json!({"name": "rate", "test": within("tcp")});
        let beside = serde_json::json!({"name": "fair", "beside": "another setting", "test": within("udp")});
        assert_eq!(written(serde_json::json!([beside, against, rate])).unwrap().headline(), Some(2));
        let none = written(serde_json::json!([against, beside])).unwrap_err();
        assert!(none.starts_with("no row of B2 is about its published value"), "{none}");
        let all_beside = written(serde_json::json!([beside])).unwrap_err();
        assert!(all_beside.starts_with("no row of B2 counts for its verdict"), "{all_beside}");
        let order = serde_json::json!({"value": ["a", "b"], "unit": "order"});
        let own = serde_json::json!([{"name": "a", "published": ratio, "test": within("tcp")}]);
        let order =
            claim(serde_json::json!({"id": "A9", "text": "", "about": "path", "published": order, "row": own}))
                .unwrap();
        assert_eq!(order.headline(), None, "an order need not be a row's");
    }

    #[test]
    fn only_what_can_be_decided_covers_a_claim() {
        let coverage = |rows: serde_json::Value| {
            let published = serde_json::json!({"value": 4, "unit": "ms"});
            claim(serde_json::json!({"id": "D1", "text": "", "about": "path", "published": published, "row": rows}))
                .unwrap()
                .coverage()
        };
        let mut set = within("udp");
        set["undecided"] = "It was set.".into();
        let [tested, set] = [within("tcp"), set].map(|test| serde_json::json!({"name": "n", "test": test}));
        let missing = serde_json::json!({"name": "m", "missing": "a link"});
        let beside = serde_json::json!({"name": "o", "beside": "another", "missing": "a link"});
        assert_eq!(coverage(serde_json::json!([tested, beside])), Coverage::Covered);
        assert_eq!(coverage(serde_json::json!([tested, missing])), Coverage::Partly);
        assert_eq!(coverage(serde_json::json!([set])), Coverage::Partly);
        assert_eq!(coverage(serde_json::json!([missing])), Coverage::NotCovered);
    }
}
