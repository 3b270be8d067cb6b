//! The first fields of a `run.json`, for lists of runs. Reads every format version and skips the other fields.

use serde::Deserialize;

use crate::run::{FORMAT, State};

/// Name of this tool in the runs that it writes.
pub const TOOL: &str = "hairpin";

/// The first fields of a saved run. They have the same names in all format versions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RunHeader {
    format: u32,
    tool: ToolName,
    /// Start time, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    pub state: State,
    pub plan: Question,
    #[serde(default)]
    pub answer: Headline,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct ToolName {
    name: String,
}

/// Part of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Question {
    pub experiment: String,
    pub question: String,
}

/// Part of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Headline {
    /// Empty while the run is in progress, and in runs of earlier versions.
    pub headline: String,
}

impl RunHeader {
    /// Reads the first fields of a `run.json`.
    ///
    /// # Errors The reason why the JSON is not a run of this tool, or is in a format that this version does not read.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let head: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if head.tool.name != TOOL {
            return Err(format!("it was written by the tool `{}`", head.tool.name));
        }
        if !(1..=FORMAT).contains(&head.format) {
            return Err(format!("it has format {}, this version reads 1 to {FORMAT}", head.format));
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_other_tools_and_unknown_formats_are_refused() {
        let json = |tool: &str, format: u32| {
            format!(
                r#"{{"format": {format}, "tool": {{"name": "{tool}"}}, "started_unix_s": 7, "state": "complete",
                "plan": {{"experiment": "survey", "question": "?", "knobs": []}}, "other": [1, 2]}}"#
            )
        };
        let head = RunHeader::read(json(TOOL, FORMAT).as_bytes()).unwrap();
        assert_eq!(
            (head.started_unix_s, head.plan.experiment.as_str(), head.answer.headline.as_str()),
            (7, "survey", "")
        );
        RunHeader::read(json(TOOL, 1).as_bytes()).unwrap();
        for (tool, format) in [("other", FORMAT), (TOOL, 0), (TOOL, FORMAT + 1)] {
            RunHeader::read(json(tool, format).as_bytes()).unwrap_err();
        }
        RunHeader::read(b"{}").unwrap_err();
    }
}
