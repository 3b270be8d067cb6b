//! The JSON documents of `hairpin list`, `runs` and `link`, as plain data.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::card::Card;
use crate::case::Placement;
use crate::finding::FindingCard;
use crate::link::LinkRecord;
use crate::options::OptionName;

/// `hairpin list --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Catalog {
    pub transports: Vec<ListedTransport>,
    pub experiments: Vec<ListedExperiment>,
    pub remedies: Vec<ListedRemedy>,
    pub findings: Vec<FindingCard>,
    pub options: Vec<ListedOption>,
    pub links: Vec<ListedLink>,
    /// The placements that pin both ends on this host.
    pub placements: Vec<ListedPlacement>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedPlacement {
    pub name: Placement,
    /// The CPUs of client and server on this machine; null if it lacks the placement.
    pub cpus: Option<[usize; 2]>,
    /// Why this machine lacks the placement; null if it has it.
    pub why_not: Option<String>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedTransport {
    #[serde(flatten)]
    pub card: Card,
    /// What the transport promises, in words.
    pub promises: String,
    pub can_run: bool,
    /// A version or a short fact; if the transport cannot run, the reason.
    pub detail: String,
    /// What would help; null if the transport can run.
    pub hint: Option<String>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedExperiment {
    pub name: &'static str,
    pub question: &'static str,
    pub knobs: Vec<ListedKnob>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedKnob {
    /// The flag without its dashes.
    pub name: &'static str,
    /// Placeholder of the value in the help; empty for a switch.
    pub value_name: &'static str,
    pub help: &'static str,
    pub default: &'static [&'static str],
    /// Whether the flag takes a comma-separated list.
    pub many: bool,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedRemedy {
    pub name: &'static str,
    pub summary: &'static str,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedOption {
    pub name: OptionName,
    pub summary: &'static str,
    /// The accepted values, in words.
    pub values: String,
}

/// A link profile: `hairpin link show --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct ListedLink {
    /// Name of a built-in profile; `name`, `summary` and `because` are null for other profiles.
    pub name: Option<&'static str>,
    pub summary: Option<&'static str>,
    /// The profile in one line.
    pub line: String,
    /// Sources of the profile's figures.
    pub because: Option<&'static str>,
    /// Stages from near to far; empty for the kernel's loopback.
    pub up: Vec<ListedStage>,
    /// Stages from far to near.
    pub down: Vec<ListedStage>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedStage {
    pub stage: &'static str,
    /// The stage's figures in words.
    pub figures: String,
}

/// `hairpin link list --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Links {
    pub profiles: Vec<ListedLink>,
    pub relay: Relay,
}

/// Whether links can run here, with `detail` if they can, else with `reason` and `hint`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Relay {
    pub can_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// `hairpin link run --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct LinkRun<'a> {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The command at the far end, if any.
    pub far: &'a Option<String>,
    pub exit_code: u8,
    /// Whether the link was on time.
    pub valid: bool,
    pub invalid_because: Vec<String>,
    /// The profile as given.
    pub profile: &'a str,
    /// Name of a built-in profile; null for other profiles.
    pub name: Option<&'static str>,
    pub seed: u64,
    /// Addresses of the ends: IPv4 with the keys `near` and `far`, IPv6 with `near_ipv6` and `far_ipv6`.
    pub addresses: BTreeMap<&'static str, String>,
    pub link: &'a LinkRecord,
}

/// `hairpin runs --json`.
#[derive(Serialize, crate::JsonSchema)]
pub struct Runs {
    pub folder: String,
    /// Newest first.
    pub runs: Vec<ListedRun>,
    /// Folders of tested claims, newest first.
    pub claims: Vec<ListedClaims>,
    /// Other entries of the folder, by name.
    pub skipped: Vec<SkippedEntry>,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedRun {
    /// The run's name in the folder.
    pub folder: String,
    /// When the run began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    pub experiment: String,
    pub question: String,
    pub headline: String,
    /// `running`, `complete`, `interrupted`, or `unfinished` if the run was killed or its end could not be saved.
    pub state: &'static str,
    /// Size of all files of the run.
    pub size_bytes: u64,
}

#[derive(Serialize, crate::JsonSchema)]
pub struct ListedClaims {
    /// The name in the folder.
    pub folder: String,
    /// When the test began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Number of claims.
    pub claims: u64,
}

#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct SkippedEntry {
    pub name: String,
    pub reason: String,
}
