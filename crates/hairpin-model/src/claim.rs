//! A claim of a published text, with the measurement and the rule that test it.
//!
//! The texts are in `claims/*.toml`, one file each; `docs/claims.md` describes the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exchange::Writes;
pub use crate::figure_name::FigureName;
use crate::names::distinct;
pub use crate::selector::Selector;
use crate::time_sequence::EventKind;
use crate::words;

/// A published text, the runs that its claims share, and the claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// First letter of the claims' ids.
    pub letter: String,
    /// Title of the text, in our words.
    pub title: String,
    /// Kind of text.
    pub what: String,
    /// Name of the file with the text.
    pub file: String,
    /// Machine or setting of the published figures.
    pub setting: String,
    /// Runs by name.
    #[serde(default)]
    pub runs: BTreeMap<String, PlannedRun>,
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A run that tests claims.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRun {
    /// Arguments of `hairpin`.
    pub command: String,
    /// Why the run measures in this way.
    pub because: String,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(untagged)]
pub enum Value {
    Number(f64),
    /// From, to.
    Range([f64; 2]),
    /// Names in the order of the text, or a list from the text.
    Order(Vec<String>),
    /// Rows by name.
    Table(BTreeMap<String, Value>),
}

/// A published value with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub value: Value,
    /// Unit: `ms`, `bytes/ms`, `x` for a ratio; for an order, what is ordered, in words.
    pub unit: String,
}

words! {
    /// Subject of a claim or of a row.
    pub enum About: "subject" {
        /// The path between two ends; on one host, represented by loopback or an emulated link.
        Path = "path",
        Machine = "machine",
        /// A path or kernel setting made for the claim: given rates, delays and queues, a lost packet.
        SetUp = "set-up",
    }
}

/// A published statement: one unnamed row, or a table of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "WrittenClaim")]
pub struct Claim {
    /// For instance `B1`.
    pub id: String,
    /// What the text says, in our words.
    pub text: String,
    pub published: Published,
    pub about: About,
    pub rows: Vec<Row>,
}

/// One statement of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name in the table; empty if the claim has only one row.
    pub name: String,
    pub published: Published,
    pub about: About,
    /// How the row is tested, or why it is not tested.
    pub means: TestMethod,
    /// The test between two hosts, if it differs from the test on one host.
    pub between_hosts: Option<Box<Test>>,
    /// The row's setting, if it differs from the claim's. The verdict is then shown but does not count for the claim.
    pub beside: Option<String>,
}

/// How a row is tested.
#[derive(Clone, Debug, PartialEq)]
pub enum TestMethod {
    Test(Box<Test>),
    /// Not testable yet; names the missing part.
    Missing(String),
    /// Not tested between two hosts; gives the reason.
    Skipped(String),
}

/// A measurement and the rule that turns it into a verdict.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// Name of the run.
    pub run: String,
    pub rule: Rule,
    /// Why this rule was chosen, before the run.
    pub rule_because: String,
    /// What replaces a missing part of the text's setting, if anything.
    #[serde(default)]
    pub stand_in: Option<String>,
    /// What replaces the path; unused between two hosts.
    #[serde(default)]
    pub path_stand_in: Option<String>,
    /// Why the verdict is always `cannot-tell`: the replacement lacks what the claim is about.
    #[serde(default)]
    pub undecided: Option<String>,
    /// Why the verdict is always `cannot-tell`, if the replacement of the path is the reason; unused between two hosts.
    #[serde(default)]
    pub path_undecided: Option<String>,
}

impl Test {
    /// What replaces parts of the text's setting, the path included.
    pub fn stand_in(&self) -> Option<String> {
        let both: Vec<&str> =
            [&self.path_stand_in, &self.stand_in].into_iter().flatten().map(String::as_str).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Why the test cannot decide, if it cannot.
    pub fn undecided(&self) -> Option<&str> {
        self.path_undecided.as_deref().or(self.undecided.as_deref())
    }
}

/// The condition under which a claim holds. A rule decides only if the whole 95 % interval is on one side of the
/// bound.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rule {
    /// The figure is between published / factor and published * factor.
    Within {
        of: Measure,
        /// 1 or more.
        factor: f64,
    },
    /// The figure is in the published range, widened at both ends by the factor.
    Range {
        of: Measure,
        /// 1 or more.
        #[serde(default = "one")]
        factor: f64,
    },
    /// The figure is at least the bound.
    AtLeast {
        of: Measure,
        /// In the published unit; default: the published number.
        #[serde(default)]
        bound: Option<f64>,
    },
    /// The figure is at most the bound.
    AtMost {
        of: Measure,
        /// In the published unit; default: the published number.
        #[serde(default)]
        bound: Option<f64>,
    },
    /// At least this share of one case's figure disappears in another.
    Share {
        figure: FigureName,
        /// The case with the whole figure.
        whole: Selector,
        /// The case with the rest of the figure.
        rest: Selector,
        /// From 0 to 1.
        at_least: f64,
    },
    /// The figures of the cases increase in the published order.
    Order {
        figure: FigureName,
        /// One for each published name.
        cases: Vec<Selector>,
    },
    /// The run holds these outputs of the case.
    Kept { case: Selector, kept: Vec<Kept> },
    /// A capture of the case shows these packets, in this order.
    Packets { case: Selector, events: Vec<EventKind> },
    /// A traced exchange of the case has exactly these writes, and the answer is read after the last of them.
    Pattern { case: Selector, writes: Writes },
    /// No datagram arrived over the transport `from`, so the transport `to` replaced it.
    Fallback {
        case: Selector,
        /// The requested transport.
        from: String,
        /// The transport used.
        to: String,
    },
    /// The ratio of the second case's figure to the first's is larger at full load than at low load.
    Widens {
        figure: FigureName,
        /// Both cases at low load.
        low: Box<[Selector; 2]>,
        /// The run with the cases at low load; default: the test's own run.
        #[serde(default)]
        low_run: Option<String>,
        /// Both cases at full load, in the same order.
        full: Box<[Selector; 2]>,
    },
}

impl Rule {
    /// The run that the rule needs in addition to the test's own.
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

/// A figure of a case, or its ratio to the same figure of another case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    pub figure: FigureName,
    pub case: Selector,
    /// The case to divide by.
    #[serde(default)]
    pub against: Option<Selector>,
    /// The run with the case `against`; default: the test's own run.
    #[serde(default)]
    pub against_run: Option<String>,
}

words! {
    /// Outputs that a run may hold for a case.
    pub enum Kept: "kept" {
        /// The median, p99 and the mean.
        Percentiles = "percentiles",
        /// Minimum and maximum.
        Extremes = "extremes",
        /// The percentile curve, which the page draws.
        Curve = "curve",
        /// Every sample of every round, which `hairpin report RUN --csv=samples` prints.
        Samples = "samples",
        /// Goodput over time, which the page draws.
        RateOverTime = "rate-over-time",
        /// CPU use of both ends over time.
        CpuOverTime = "cpu-over-time",
        /// Socket options as requested and as granted.
        Options = "options",
    }
}

/// Why a written claim is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadClaim {
    /// Not exactly one of `test`, `missing` and rows.
    #[error("{0} does not have exactly one of `test`, `missing` and rows (hint: give one of them)")]
    Means(String),
    /// A row without a published value.
    #[error("{0} has no published value (hint: add `published`, or a row of the claim's table)")]
    Unpublished(String),
    /// No row that counts is about the published number or range.
    #[error("no row of {0} is about the claim's published value (hint: omit `published` in one row)")]
    Uncarried(String),
    /// All rows have `beside`.
    #[error("no row of {0} counts for the claim's verdict (hint: omit `beside` in the row that tests the text)")]
    AllBeside(String),
}

/// A claim as written in its file.
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
            let means = test_method(&id, test, missing)?;
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
    let means = test_method(&place, row.test, row.missing)?;
    let WrittenRow { name, between_hosts, beside, .. } = row;
    Ok(Row { name, published, about: row.about.unwrap_or(about), means, between_hosts, beside })
}

fn test_method(place: &str, test: Option<Test>, missing: Option<String>) -> Result<TestMethod, BadClaim> {
    match (test, missing) {
        (Some(test), None) => Ok(TestMethod::Test(Box::new(test))),
        (None, Some(missing)) => Ok(TestMethod::Missing(missing)),
        _ => Err(BadClaim::Means(place.to_owned())),
    }
}

words! {
    /// How much of a claim can be tested.
    pub enum Coverage: "coverage" {
        /// All rows of the claim.
        Covered = "covered",
        /// Only some rows, or a row has a stand-in that leaves it undecided.
        Partly = "partly",
        /// No row of the claim.
        NotCovered = "not-covered",
    }
}

impl Claim {
    pub fn coverage(&self) -> Coverage {
        let decides = |row: &Row| match &row.means {
            TestMethod::Test(test) => test.undecided().is_none(),
            TestMethod::Missing(_) => false,
            TestMethod::Skipped(_) => true,
        };
        if self.tests().next().is_none() {
            Coverage::NotCovered
        } else if self.counting().all(decides) {
            Coverage::Covered
        } else {
            Coverage::Partly
        }
    }

    /// The rows that count for the claim's verdict.
    pub fn counting(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.beside.is_none())
    }

    /// Index of the row with the claim's figure: the first row that counts and has the claim's own published value.
    /// `None` for tables, and for orders whose rows each have their own value.
    pub fn headline(&self) -> Option<usize> {
        self.rows.iter().position(|row| row.beside.is_none() && row.published == self.published)
    }

    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        self.rows.iter().filter_map(|row| match &row.means {
            TestMethod::Test(test) => Some(&**test),
            TestMethod::Missing(_) | TestMethod::Skipped(_) => None,
        })
    }

    /// Names of the runs that the claim's tests need, each once.
    pub fn runs(&self) -> Vec<&str> {
        distinct(self.tests().flat_map(|test| std::iter::once(test.run.as_str()).chain(test.rule.other_run())))
    }

    /// Reasons why rows are not tested between two hosts, each once.
    pub fn skipped(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter_map(|row| match &row.means {
            TestMethod::Skipped(why) => Some(why.as_str()),
            TestMethod::Test(_) | TestMethod::Missing(_) => None,
        }))
    }

    /// Missing parts, each once.
    pub fn missing(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter_map(|row| match &row.means {
            TestMethod::Missing(part) => Some(part.as_str()),
            TestMethod::Test(_) | TestMethod::Skipped(_) => None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(json: serde_json::Value) -> Result<Claim, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    /// A claim with this published value and these rows.
    fn of_rows(id: &str, published: serde_json::Value, rows: serde_json::Value) -> Result<Claim, String> {
        claim(json!({"id": id, "text": "t", "about": "path", "published": published, "row": rows}))
    }

    fn within(transport: &str) -> serde_json::Value {
        json!({
            "run": "r", "rule_because": "b",
            "rule": {"kind": "within", "factor": 2, "of": {"figure": "p50", "case": {"transport": transport}}}
        })
    }

    #[test]
    fn a_claim_without_rows_has_one_without_a_name() {
        let written = json!({
            "id": "A1", "text": "t", "about": "path", "published": {"value": 0.25, "unit": "ms"}, "test": within("tcp")
        });
        let claim = claim(written).unwrap();
        assert_eq!((claim.rows.len(), claim.rows[0].name.as_str()), (1, ""));
        assert_eq!(claim.rows[0].published, claim.published);
        assert_eq!((claim.tests().count(), claim.missing().len()), (1, 0));
    }

    #[test]
    fn a_row_takes_its_published_value_from_the_claims_table() {
        let published = json!({"value": {"near": [0.1, 0.5], "far": 10}, "unit": "ms"});
        let rows = json!([{"name": "near", "test": within("tcp")}, {"name": "far", "missing": "a link"}]);
        let claim = of_rows("A12", published, rows).unwrap();
        assert_eq!(claim.rows[0].published, Published { value: Value::Range([0.1, 0.5]), unit: "ms".to_owned() });
        assert_eq!(claim.rows[1].published.value, Value::Number(10.0));
        assert_eq!((claim.missing(), claim.coverage()), (vec!["a link"], Coverage::Partly));
    }

    #[test]
    fn a_claim_needs_exactly_one_of_test_missing_and_rows() {
        let published = json!({"value": ["a", "b"], "unit": "order"});
        let both = json!({"id": "A1", "text": "", "about": "path", "published": published, "test": within("x"), "missing": "y"});
        assert!(claim(both).unwrap_err().starts_with("A1 does not have exactly one of"));
        let none = json!({"id": "A2", "text": "", "about": "path", "published": published});
        assert!(claim(none).unwrap_err().starts_with("A2 does not have exactly one of"));
        let table = json!({"value": {"a": 1}, "unit": "ms"});
        let stray = of_rows("A3", table.clone(), json!([{"name": "b", "missing": "y"}]));
        assert!(stray.unwrap_err().starts_with("row `b` of A3 has no published value"));
        let typo = json!({"id": "A4", "text": "", "about": "path", "published": table, "mising": "y"});
        assert!(claim(typo).unwrap_err().contains("unknown field `mising`"));
    }

    #[test]
    fn the_headline_is_the_first_counting_row_with_the_claims_published_value() {
        let ratio = json!({"value": 100, "unit": "x"});
        let written = |rows| of_rows("B2", json!({"value": 490.24, "unit": "bytes/ms"}), rows);
        let against = json!({"name": "against none", "published": ratio, "test": within("tcp")});
        let rate = json!({"name": "rate", "test": within("tcp")});
        let beside = json!({"name": "fair", "beside": "another setting", "test": within("udp")});
        assert_eq!(written(json!([beside, against, rate])).unwrap().headline(), Some(2));
        let none = written(json!([against, beside])).unwrap_err();
        assert!(none.starts_with("no row of B2 is about the claim's published value"), "{none}");
        let all_beside = written(json!([beside])).unwrap_err();
        assert!(all_beside.starts_with("no row of B2 counts for the claim's verdict"), "{all_beside}");
        let order = json!({"value": ["a", "b"], "unit": "order"});
        let own = json!([{"name": "a", "published": ratio, "test": within("tcp")}]);
        assert_eq!(of_rows("A9", order, own).unwrap().headline(), None, "no row needs the claim's published order");
    }

    #[test]
    fn only_decidable_rows_cover_a_claim() {
        let coverage = |rows| of_rows("D1", json!({"value": 4, "unit": "ms"}), rows).unwrap().coverage();
        let mut set = within("udp");
        set["undecided"] = "It was set.".into();
        let [tested, set] = [within("tcp"), set].map(|test| json!({"name": "n", "test": test}));
        let missing = json!({"name": "m", "missing": "a link"});
        let beside = json!({"name": "o", "beside": "another", "missing": "a link"});
        assert_eq!(coverage(json!([tested, beside])), Coverage::Covered);
        assert_eq!(coverage(json!([tested, missing])), Coverage::Partly);
        assert_eq!(coverage(json!([set])), Coverage::Partly);
        assert_eq!(coverage(json!([missing])), Coverage::NotCovered);
    }
}
