//! Loads runs of older formats: each step upgrades the JSON by one version.

mod earlier_cards;
mod from_1;
mod from_2;
mod items;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Error, IgnoredAny};
use serde_json::Value;

pub use earlier_cards::earlier_cards;

use crate::round::RoundRecord;
use crate::run::{FORMAT, Run};
use crate::summary::CaseSummary;
use crate::trace::End;

/// Why a saved run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// JSON that does not match its format.
    #[error("the run does not match format {format}: {source} (hint: was run.json edited or truncated?)")]
    Shape {
        /// The format number in the file.
        format: u32,
        source: serde_json::Error,
    },
    #[error("the file is not JSON: {0} (hint: was the file edited or truncated?)")]
    Json(#[from] serde_json::Error),
    /// The file has no format number.
    #[error("the file has no `format` number (hint: is this the run.json of a Hairpin run?)")]
    NoFormat,
    /// Written by a newer Hairpin.
    #[error("the run has format {0}, this build reads up to {FORMAT} (hint: use a newer hairpin)")]
    Newer(u32),
}

/// One step: upgrades each kind of file of a run from format `n` to `n + 1`; `n` is the index in `STEPS` plus one.
struct Upgrade {
    /// `run.json`.
    run: fn(&mut Value),
    /// A line of `rounds.jsonl`.
    round: fn(&mut Value),
}

/// The steps, oldest first. A new format adds one line here and a saved run to `tests/formats/`.
const STEPS: &[Upgrade] =
    &[Upgrade { run: from_1::run, round: from_1::round }, Upgrade { run: from_2::run, round: from_2::round }];

/// Parses a text in format `format`; `lift` selects the function of each step.
fn parse_upgraded<T: DeserializeOwned>(
    text: &[u8],
    format: u32,
    lift: fn(&Upgrade) -> fn(&mut Value),
) -> serde_json::Result<T> {
    if format == FORMAT {
        // Parses directly, because a tree of values takes several times the memory.
        return serde_json::from_slice(text);
    }
    let mut json: Value = serde_json::from_slice(text)?;
    // Only an object has fields to upgrade; parsing reports anything else.
    if json.is_object() {
        for step in STEPS.iter().skip((format as usize).saturating_sub(1)) {
            lift(step)(&mut json);
        }
    }
    serde_json::from_value(json)
}

const FLOW_MISMATCH: &str = "the results do not match the flows of their case";

/// Reads a line of the `rounds.jsonl` of a run in format `format`.
///
/// # Errors
/// If the line is not a round in this format.
pub fn round(line: &[u8], format: u32) -> serde_json::Result<RoundRecord> {
    let record: RoundRecord = parse_upgraded(line, format, |step| step.round)?;
    if record.is_of_its_case() { Ok(record) } else { Err(serde_json::Error::custom(FLOW_MISMATCH)) }
}

/// Reads a `run.json` in the current or an older format. Returns the run in the current format, and the format of the
/// file, which is also the format of its `rounds.jsonl`.
///
/// # Errors [`LoadError`] if the text is not a run or has a newer format.
pub fn load(text: &str) -> Result<(Run, u32), LoadError> {
    let format = format_of(text)?;
    if format > FORMAT {
        return Err(LoadError::Newer(format));
    }
    let shape = |source| LoadError::Shape { format, source };
    let mut run: Run = parse_upgraded(text.as_bytes(), format, |step| step.run).map_err(shape)?;
    if !run.cases.iter().all(CaseSummary::is_of_its_case) {
        return Err(shape(serde_json::Error::custom(FLOW_MISMATCH)));
    }
    if run.host(End::Client).is_none() {
        return Err(shape(serde_json::Error::custom("the run has no host for the client")));
    }
    run.format = FORMAT;
    if run.cards.is_empty() {
        run.cards = earlier_cards();
    }
    Ok((run, format))
}

fn format_of(text: &str) -> Result<u32, LoadError> {
    #[derive(Deserialize)]
    struct RunHeader {
        format: u32,
    }
    serde_json::from_str::<IgnoredAny>(text)?;
    let head: Option<RunHeader> = serde_json::from_str(text).ok();
    head.map(|head| head.format).filter(|format| *format > 0).ok_or(LoadError::NoFormat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::SavedCards;
    use crate::environment::Environment;
    use crate::run::{Plan, Tool};

    #[test]
    fn each_format_has_a_step_to_the_next() {
        assert_eq!(STEPS.len() + 1, FORMAT as usize);
    }

    #[test]
    fn a_run_without_cards_gets_the_earlier_ones_and_others_keep_theirs() {
        let mut json = serde_json::json!({
            "format": 1, "tool": Tool::default(), "command_line": [], "started_unix_s": 0, "duration_ns": 0,
            "state": "complete", "seed": 1, "plan": Plan::default(), "environment": Environment::default(),
            "cases": [], "comparisons": [], "findings": [], "skipped": [],
        });
        let cards = load(&json.to_string()).unwrap().0.cards;
        assert_eq!(["tcp", "udp6"].map(|name| cards.reliable(name)), [true, false]);
        assert_eq!(cards, earlier_cards());
        let own: SavedCards = [("carrier-pigeon", *cards.get("udp").unwrap())].into_iter().collect();
        json["cards"] = serde_json::to_value(&own).unwrap();
        assert_eq!(load(&json.to_string()).unwrap().0.cards, own);
    }

    /// Calls `check` with each node of the value replaced by each kind of JSON value. Replaces all nodes if proptest
    /// runs 512 cases or more per property, else only every nth node.
    fn each_mutation(whole: &Value, check: impl Fn(&Value)) {
        fn places(value: &Value, place: String, into: &mut Vec<String>) {
            match value {
                Value::Array(list) => {
                    list.iter().take(2).enumerate().for_each(|(at, one)| places(one, format!("{place}/{at}"), into));
                }
                Value::Object(fields) => fields.iter().for_each(|(name, one)| {
                    places(one, format!("{place}/{}", name.replace('/', "~1")), into);
                }),
                _ => {}
            }
            into.push(place);
        }
        let mut all = Vec::new();
        places(whole, String::new(), &mut all);
        assert!(all.len() > 50, "{all:?}");
        let step = (512 / proptest::test_runner::Config::default().cases.max(1)).max(1);
        for place in all.into_iter().step_by(step as usize) {
            for other in serde_json::json!([null, 5, "x", [], ["x"], {}]).as_array().expect("a list") {
                let mut mutated = whole.clone();
                *mutated.pointer_mut(&place).expect("the place exists") = other.clone();
                check(&mutated);
            }
        }
    }

    #[test]
    fn mutations_of_format_1_never_panic() {
        let run = include_str!("../../../hairpin/tests/formats/1/run.json");
        each_mutation(&serde_json::from_str(run).unwrap(), |mutated| drop(load(&mutated.to_string())));
        let rounds = include_str!("../../../hairpin/tests/formats/1-small-writes/rounds.jsonl");
        let line = rounds.lines().next().unwrap();
        assert!(round(line.as_bytes(), 1).is_ok());
        each_mutation(&serde_json::from_str(line).unwrap(), |mutated| drop(round(mutated.to_string().as_bytes(), 1)));
    }

    #[test]
    fn mutations_of_format_2_never_panic() {
        let run = include_str!("../../../hairpin/tests/formats/2-round-trip/run.json");
        each_mutation(&serde_json::from_str(run).unwrap(), |mutated| drop(load(&mutated.to_string())));
        let rounds = include_str!("../../../hairpin/tests/formats/2-under-load/rounds.jsonl");
        let line = rounds.lines().nth(1).unwrap();
        assert_eq!(round(line.as_bytes(), 2).unwrap().order.case.flows.len(), 4);
        each_mutation(&serde_json::from_str(line).unwrap(), |mutated| drop(round(mutated.to_string().as_bytes(), 2)));
    }

    /// With a missing, duplicate or wrong flow, a report would show the figures of another flow.
    #[test]
    fn results_that_do_not_match_their_case_are_refused() {
        let rounds = include_str!("../../../hairpin/tests/formats/2-under-load/rounds.jsonl");
        let whole = serde_json::to_value(round(rounds.lines().nth(1).unwrap().as_bytes(), 2).unwrap()).unwrap();
        let read = |record: &Value| round(record.to_string().as_bytes(), FORMAT);
        assert!(read(&whole).is_ok());
        for (place, other) in [
            ("/outcome/flows/1/id", "probe"),
            ("/outcome/flows/1/id", "other"),
            ("/outcome/flows/0/role", "load"),
            ("/outcome/ends/3/flow", "other"),
            ("/order/case/flows/2/id", "load"),
        ] {
            let mut damaged = whole.clone();
            *damaged.pointer_mut(place).expect("the place exists") = other.into();
            let told = read(&damaged).unwrap_err().to_string();
            assert!(told.contains("flows"), "{place}: {told}");
        }
        let run = include_str!("../../../hairpin/tests/formats/2-bulk/run.json");
        let mut run = serde_json::to_value(load(run).unwrap().0).unwrap();
        assert!(load(&run.to_string()).is_ok());
        run["cases"][0]["flows"][1]["id"] = "other".into();
        assert!(load(&run.to_string()).is_err());
    }

    #[test]
    fn invalid_runs_are_refused_with_the_cause() {
        assert!(matches!(load("{"), Err(LoadError::Json(_))));
        assert!(matches!(load("{}"), Err(LoadError::NoFormat)));
        assert!(matches!(load(r#"{"format": 99}"#), Err(LoadError::Newer(99))));
        assert!(matches!(load(r#"{"format": 1}"#), Err(LoadError::Shape { format: 1, .. })));
    }
}
