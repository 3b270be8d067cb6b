//! A claim of a published text, with the measurement and the rule that test it.
//!
//! The texts are in `claims/*.toml`, one file each; `docs/claims.md` describes the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exchange::Writes;
use crate::exchange_state::ExchangeState;
pub use crate::figure_name::FigureName;
use crate::names::distinct;
pub use crate::pool::Pool;
pub use crate::selector::Selector;
use crate::time_sequence::EventKind;
use crate::trace::End;
use crate::words;

/// A published text, the runs that its claims share, and the claims.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// First letter of the claims' ids.
    pub letter: String,
    pub title: String,
    /// As printed in the text, or `unknown`; so are `publisher`, `url` and `retrieved`.
    pub author: String,
    pub publisher: String,
    pub url: String,
    /// Date of retrieval.
    pub retrieved: String,
    /// Kind of text.
    pub what: String,
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

    /// What kind of claim.
    #[derive(Default)]
    pub enum ClaimKind: "kind" {
        #[default]
        Statement = "statement",
        /// Something to carry out, or an output to give.
        Procedure = "procedure",
        Question = "question",
    }

    /// What a row claims.
    pub enum Axis: "axis" {
        /// Which of several figures is larger.
        Direction = "direction",
        /// A figure or a ratio.
        Size = "size",
        Cause = "cause",
    }
}

/// A published statement: one unnamed row, or a table of several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "WrittenClaim")]
pub struct Claim {
    /// For instance `B1`.
    pub id: String,
    pub kind: ClaimKind,
    /// What the text says, in our words.
    pub text: String,
    /// Words of the text by which the claim is found there.
    pub quote: String,
    /// The mechanism, whatever the verdict.
    pub why: String,
    /// What follows for an engineer, whatever the verdict.
    pub so_what: String,
    /// Where the text contradicts itself.
    pub text_errors: Vec<String>,
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
    pub axis: Axis,
    /// How the row is tested, or why it is not tested.
    pub means: TestMethod,
    /// The test between two hosts, if it differs from the test on one host.
    pub between_hosts: Option<Box<Test>>,
    /// The side of a knob that the row is about.
    pub knob: Option<Knob>,
    /// Whether the figure is one of the text's hardware, which decides nothing here.
    pub other_hardware: bool,
    /// The row's setting, if it differs from the text's. The row is then shown and decides nothing.
    pub other_setting: Option<String>,
}

/// A setting with a value. Rows with other values of the same knob can give opposite verdicts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    pub name: String,
    pub value: String,
}

impl Row {
    /// Why the row only shows figures and decides nothing, if so.
    pub fn shown(&self) -> Option<&str> {
        let given_back = match &self.means {
            TestMethod::Test(test) => test.given_back(),
            TestMethod::Missing(_) | TestMethod::Skipped(_) => None,
        };
        let hardware = self.other_hardware.then_some("a figure of the text's own hardware");
        self.other_setting.as_deref().or(given_back).or(hardware)
    }
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
    /// The last change of the rule.
    pub changed: RuleChange,
    /// What replaces a missing part of the text's setting, if anything.
    pub stand_in: Option<String>,
    /// What replaces the path; unused between two hosts.
    pub path_stand_in: Option<String>,
    /// Why the figure is only what the set-up returns; it is shown and decides nothing.
    pub given_back: Option<String>,
    /// The same, if the replacement of the path is the reason; unused between two hosts.
    pub path_given_back: Option<String>,
}

/// Date and reason of the last change of a rule. `cargo xtask tidy` refuses a later change without a new record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleChange {
    /// For instance `2026-11-26`.
    pub on: String,
    pub because: String,
}

impl Test {
    /// What replaces parts of the text's setting, the path included.
    pub fn stand_in(&self) -> Option<String> {
        let both: Vec<&str> =
            [&self.path_stand_in, &self.stand_in].into_iter().flatten().map(String::as_str).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }

    /// Why the figure is only what the set-up returns, if it is.
    pub fn given_back(&self) -> Option<&str> {
        self.path_given_back.as_deref().or(self.given_back.as_deref())
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
        /// In the published unit; default: the published number, or the lower end of the published range.
        bound: Option<f64>,
    },
    /// The figure is at most the bound.
    AtMost {
        of: Measure,
        /// In the published unit; default: the published number, or the upper end of the published range.
        bound: Option<f64>,
    },
    /// At least this share of one case's figure disappears in another.
    Share {
        figure: FigureName,
        /// The case with the whole figure.
        whole: Box<Selector>,
        /// The case with the rest of the figure.
        rest: Box<Selector>,
        /// From 0 to 1.
        at_least: f64,
    },
    /// The figures of the cases increase in the published order.
    Order {
        figure: FigureName,
        /// One for each published name.
        cases: Vec<Pool>,
        /// Figures are equal if the interval of their ratio is within 1 / (1 + margin) and 1 + margin.
        #[serde(default = "default_margin")]
        margin: f64,
    },
    /// In at least this share of the case's rounds, the figure reaches a bound.
    Often {
        figure: FigureName,
        case: Selector,
        /// In the published unit.
        reaches: f64,
        /// From 0 to 1.
        share: f64,
    },
    /// Traced exchanges of the case spend at least this share of their time in these states.
    States {
        case: Selector,
        states: Vec<ExchangeState>,
        /// Only at this end.
        #[serde(default)]
        at: Option<End>,
        /// From 0 to 1.
        at_least: f64,
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
        low_run: Option<String>,
        /// Both cases at full load, in the same order.
        full: Box<[Selector; 2]>,
        #[serde(default = "default_margin")]
        margin: f64,
    },
}

impl Rule {
    pub fn measure(&self) -> Option<&Measure> {
        match self {
            Self::Within { of, .. } | Self::Range { of, .. } | Self::AtLeast { of, .. } | Self::AtMost { of, .. } => {
                Some(of)
            }
            _ => None,
        }
    }

    pub fn other_run(&self) -> Option<&str> {
        match self {
            Self::Widens { low_run, .. } => low_run.as_deref(),
            other => other.measure()?.against_run.as_deref(),
        }
    }

    /// What a rule of this kind usually tests.
    pub fn usual_axis(&self) -> Axis {
        match self {
            Self::Order { .. } | Self::Widens { .. } => Axis::Direction,
            Self::Share { .. } | Self::Packets { .. } | Self::States { .. } => Axis::Cause,
            _ => Axis::Size,
        }
    }

    /// Whether the pools have one length, and several cases have others to divide by.
    fn has_equal_pools(&self) -> bool {
        match self {
            Self::Order { cases, .. } => {
                cases.iter().all(|pool| !pool.0.is_empty() && pool.0.len() == cases[0].0.len())
            }
            other => other.measure().is_none_or(|of| {
                !of.case.0.is_empty() && of.case.0.len() == of.against.as_ref().map_or(1, |against| against.0.len())
            }),
        }
    }

    /// The cases that the rule refers to, each with the name of its run if that is not the test's own.
    pub fn selectors(&self) -> Vec<(Option<&str>, &Selector)> {
        let own = |selector| (None, selector);
        match self {
            Self::Within { of, .. } | Self::Range { of, .. } | Self::AtLeast { of, .. } | Self::AtMost { of, .. } => {
                let against =
                    of.against.iter().flat_map(|pool| &pool.0).map(|case| (of.against_run.as_deref(), case));
                of.case.0.iter().map(own).chain(against).collect()
            }
            Self::Share { whole, rest, .. } => vec![own(whole), own(rest)],
            Self::Order { cases, .. } => cases.iter().flat_map(|pool| &pool.0).map(own).collect(),
            Self::Often { case, .. }
            | Self::States { case, .. }
            | Self::Kept { case, .. }
            | Self::Packets { case, .. }
            | Self::Pattern { case, .. }
            | Self::Fallback { case, .. } => vec![own(case)],
            Self::Widens { low, low_run, full, .. } => {
                low.iter().map(|case| (low_run.as_deref(), case)).chain(full.iter().map(own)).collect()
            }
        }
    }
}

fn one() -> f64 {
    1.0
}

fn default_margin() -> f64 {
    0.05
}

/// A figure of a case, or its ratio to the same figure of another case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    pub figure: FigureName,
    /// Several cases only with `against`.
    pub case: Pool,
    /// The case to divide by.
    pub against: Option<Pool>,
    /// The run with the case `against`; default: the test's own run.
    pub against_run: Option<String>,
}

words! {
    /// Outputs that a run may hold for a case.
    pub enum Kept: "kept" {
        Percentiles = "percentiles",
        Extremes = "extremes",
        /// The percentile curve, which the page draws.
        Curve = "curve",
        /// Every sample of every round, which `hairpin report RUN --csv=samples` prints.
        Samples = "samples",
        /// Goodput over time, which the page draws.
        RateOverTime = "rate-over-time",
        CpuOverTime = "cpu-over-time",
        Options = "options",
        TimerSlack = "timer-slack",
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
    /// All rows only show figures of other settings.
    #[error(
        "no row of {0} is about the text's own setting (hint: omit `other_setting` in the row that tests the text)"
    )]
    OtherSettings(String),
    /// Pools of different lengths, or several cases without others to divide by.
    #[error(
        "the pools of {0} differ in length, or several cases have none to divide by (hint: give lists of one length)"
    )]
    Pools(String),
}

/// A claim as written in its file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    #[serde(default)]
    kind: ClaimKind,
    text: String,
    quote: String,
    why: String,
    so_what: String,
    #[serde(default)]
    text_errors: Vec<String>,
    published: Published,
    about: About,
    axis: Option<Axis>,
    #[serde(default)]
    other_hardware: bool,
    other_setting: Option<String>,
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
    axis: Option<Axis>,
    knob: Option<Knob>,
    #[serde(default)]
    other_hardware: bool,
    published: Option<Published>,
    about: Option<About>,
    test: Option<Test>,
    between_hosts: Option<Box<Test>>,
    missing: Option<String>,
    other_setting: Option<String>,
}

impl TryFrom<WrittenClaim> for Claim {
    type Error = BadClaim;

    fn try_from(mut written: WrittenClaim) -> Result<Self, BadClaim> {
        let of_claim = WrittenRow {
            name: String::new(),
            axis: written.axis,
            knob: None,
            other_hardware: written.other_hardware,
            published: Some(written.published.clone()),
            about: None,
            test: written.test.take(),
            between_hosts: written.between_hosts.take(),
            missing: written.missing.take(),
            other_setting: written.other_setting.take(),
        };
        let rows = if written.rows.is_empty() {
            vec![of_claim]
        } else if of_claim.test.is_some() || of_claim.missing.is_some() || of_claim.between_hosts.is_some() {
            return Err(BadClaim::Means(written.id));
        } else {
            std::mem::take(&mut written.rows)
        };
        let rows = rows.into_iter().map(|row| checked_row(&written, row)).collect::<Result<Vec<Row>, _>>()?;
        let WrittenClaim { id, kind, text, quote, why, so_what, text_errors, published, about, .. } = written;
        if rows.iter().all(|row| row.other_setting.is_some()) {
            return Err(BadClaim::OtherSettings(id));
        }
        Ok(Self { id, kind, text, quote, why, so_what, text_errors, published, about, rows })
    }
}

fn checked_row(claim: &WrittenClaim, row: WrittenRow) -> Result<Row, BadClaim> {
    let place = if row.name.is_empty() { claim.id.clone() } else { format!("row `{}` of {}", row.name, claim.id) };
    let published = match (row.published, &claim.published.value) {
        (Some(published), _) => published,
        (None, Value::Table(table)) => {
            let value = table.get(&row.name).cloned().ok_or_else(|| BadClaim::Unpublished(place.clone()))?;
            Published { value, unit: claim.published.unit.clone() }
        }
        (None, _) => claim.published.clone(),
    };
    let means = match (row.test, row.missing) {
        (Some(test), None) => TestMethod::Test(Box::new(test)),
        (None, Some(missing)) => TestMethod::Missing(missing),
        _ => return Err(BadClaim::Means(place)),
    };
    let own = if let TestMethod::Test(test) = &means { Some(&test.rule) } else { None };
    let rules = || own.into_iter().chain(row.between_hosts.as_ref().map(|test| &test.rule));
    if rules().any(|rule| !rule.has_equal_pools()) {
        return Err(BadClaim::Pools(place));
    }
    let usual = rules().next().map_or(Axis::Size, Rule::usual_axis);
    let WrittenRow { name, axis, knob, other_hardware, between_hosts, about, other_setting, .. } = row;
    let (axis, about) = (axis.unwrap_or(usual), about.unwrap_or(claim.about));
    Ok(Row { name, published, about, axis, means, between_hosts, knob, other_hardware, other_setting })
}

impl Claim {
    pub fn tests(&self) -> impl Iterator<Item = &Test> {
        self.rows.iter().filter_map(|row| match &row.means {
            TestMethod::Test(test) => Some(&**test),
            TestMethod::Missing(_) | TestMethod::Skipped(_) => None,
        })
    }

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

    pub fn missing(&self) -> Vec<&str> {
        distinct(self.rows.iter().filter_map(|row| match &row.means {
            TestMethod::Missing(part) => Some(part.as_str()),
            TestMethod::Test(_) | TestMethod::Skipped(_) => None,
        }))
    }
}

#[cfg(test)]
mod tests;
