//! The list of allowed skips. Every skip has a reason, and `cargo xtask ci` accepts only listed skips.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;
use serde_json::Value;

const LIST: &str = "xtask/allowed-skips.toml";

#[derive(Debug, PartialEq, Eq)]
struct AllowedSkip {
    what: String,
    reason: String,
}

#[derive(Debug, Default)]
pub(crate) struct AllowedSkips(Vec<AllowedSkip>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    /// Name of a transport, label of a case, name of a tool, or package and name of a test.
    pub(crate) what: String,
    pub(crate) reason: String,
}

/// How a check ended, if not in an error.
pub(crate) enum Done {
    Passed(String),
    Skipped(Skip),
}

impl Done {
    pub(crate) fn skipped(what: &str, reason: &str) -> Self {
        Self::Skipped(Skip { what: what.to_owned(), reason: reason.to_owned() })
    }
}

impl AllowedSkips {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
        Self::parse(&text).with_context(|| LIST.to_owned())
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse().context("the file is not TOML")?;
        if let Some(key) = table.keys().find(|key| *key != "skip") {
            bail!("unknown table `{key}` (hint: each entry is a [[skip]])");
        }
        let entries = table.get("skip").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
        let entries = entries.iter().map(|entry| {
            let text = |name: &str| {
                let text = entry.get(name).and_then(toml::Value::as_str).filter(|text| !text.is_empty());
                text.map(str::to_owned).with_context(|| format!("a [[skip]] has no `{name}`"))
            };
            text("why")?;
            Ok(AllowedSkip { what: text("what")?, reason: text("reason")? })
        });
        Ok(Self(entries.collect::<Result<_>>()?))
    }

    pub(crate) fn not_listed(&self, skips: &[Skip]) -> Vec<String> {
        let strangers = skips.iter().filter(|skip| {
            !self.0.iter().any(|allowed| allowed.what == skip.what && skip.reason.contains(&allowed.reason))
        });
        strangers
            .map(|Skip { what, reason }| {
                format!("{what} was skipped: {reason} (hint: if this is intended, add it to {LIST})")
            })
            .collect()
    }
}

pub(crate) fn of(run: &Value) -> Vec<Skip> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let skipped = contract::list(run, "skipped").iter();
    skipped
        .map(|skip| Skip {
            what: text(skip.get("case").unwrap_or(&skip["transport"])),
            reason: text(&skip["reason"]),
        })
        .collect()
}

/// Parses a list of skips written by tests: one per line, with a tab between name and reason.
pub(crate) fn listed(text: &str) -> Vec<Skip> {
    let skip = |line: &str| {
        let (what, reason) = line.split_once('\t').unwrap_or((line, ""));
        Skip { what: what.to_owned(), reason: reason.to_owned() }
    };
    text.lines().map(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_skip_passes_only_with_a_listed_name_and_reason() {
        let list = "[[skip]]\nwhat = \"memory\"\nreason = \"one process\"\nwhy = \"in-process\"\n";
        let allowed = AllowedSkips::parse(list).unwrap();
        let run = json!({"skipped": [
            {"transport": "memory", "reason": "both ends are one process (hint: --ends threads)"},
            {"transport": "memory", "reason": "no memory"},
            {"transport": "udp", "case": "udp spin same-cpu", "reason": "one process"},
        ]});
        let faults = allowed.not_listed(&of(&run));
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("memory was skipped: no memory"), "{faults:?}");
        assert!(faults[1].starts_with("udp spin same-cpu was skipped: one process"), "{faults:?}");
    }

    #[test]
    fn a_skipped_test_is_a_fault_unless_it_is_listed() {
        let skips = listed("hairpin link_run::a\tno ping (hint: install it)\nhairpin links::b\trefused\n");
        let faults = AllowedSkips::default().not_listed(&skips);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("hairpin link_run::a was skipped: no ping (hint: "), "{faults:?}");
        let list = "[[skip]]\nwhat = \"hairpin links::b\"\nreason = \"refused\"\nwhy = \"a container\"\n";
        assert_eq!(AllowedSkips::parse(list).unwrap().not_listed(&skips), faults[..1]);
        assert_eq!(listed(""), []);
    }

    #[test]
    fn an_incomplete_entry_is_refused() {
        let why = |text: &str| AllowedSkips::parse(text).unwrap_err().to_string();
        assert_eq!(why("[[skip]]\nwhat = \"a\"\nreason = \"b\""), "a [[skip]] has no `why`");
        assert_eq!(why("[[skip]]\nwhat = \"a\"\nwhy = \"b\""), "a [[skip]] has no `reason`");
        assert!(why("[[skips]]\n").starts_with("unknown table `skips`"));
    }
}
