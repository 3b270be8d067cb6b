//! `cargo xtask arrows`: the rules on dependencies that cargo-deny cannot check.
//!
//! No shipped crate depends on the test crate. Each pure crate bans clocks, files and sockets in its own clippy.toml
//! and forbids unsafe code. `unsafe` occurs only in the `system` modules. deny.toml says which crate may depend on
//! which.

use std::path::Path;

use anyhow::{Context, Result, bail};
use hairpin_testing::contract::list;
use serde_json::Value;

use crate::process;
use crate::source::{self, Source};

/// The crate for tests and chores: only a development dependency, except of the chores.
const TESTING: &str = "hairpin-testing";

/// Crates without a clock, a file, a socket, a thread or an environment variable.
const PURE: &[&str] = &["hairpin-model", "hairpin-analysis", "hairpin-experiments", "hairpin-link", "hairpin-report"];

/// Minimum bans of a pure crate's clippy.toml.
const BANS: &[&str] = &[
    "std::time::Instant",
    "std::time::SystemTime",
    "std::fs::File",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::process::Command",
    "std::thread::spawn",
    "std::env::var",
];

/// Where `unsafe` is allowed, and why.
const FENCED: &[(&str, &str)] = &[
    ("crates/hairpin-transports/src/linux/system", "the system calls of the transports"),
    ("crates/hairpin-loops/src/linux/system", "the clock"),
    ("crates/hairpin-engine/src/linux/system", "pinning, processes, namespaces and packet sockets"),
    ("xtask/src/bin/bare-loop/", "the bare loop makes its system calls by hand"),
    ("xtask/src/bin/bare-rates/", "the bare one-way loop makes its system calls by hand"),
    ("xtask/src/bin/link-traffic/", "datagrams with the kernel's stamps come by hand too"),
    ("crates/hairpin-transports/tests", "a counting allocator, and signals that interrupt a call"),
    ("crates/hairpin-engine/tests", "a counting allocator"),
    ("crates/hairpin-link/tests", "a counting allocator; the crate itself forbids unsafe"),
    ("crates/hairpin/tests", "signals to the processes that a test started"),
    ("xtask/src/system.rs", "the resources of one child process, which std does not tell"),
];

/// Runs all checks on the workspace; returns a line for the summary.
///
/// # Errors
/// Every fault, or why the workspace could not be read.
pub(crate) fn run(root: &Path) -> Result<String> {
    let metadata = process::metadata(root)?;
    let mut faults = forbidden_arrows(&metadata);
    let deny = std::fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?;
    faults.extend(unlisted(&metadata, &deny));
    for name in PURE {
        let folder = root.join("crates").join(name);
        let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
        faults.extend(unfenced(name, &read("src/lib.rs"), &read("clippy.toml")));
    }
    let sources = source::files(root, &["rs"])?;
    faults.extend(stray_unsafe(&sources));
    if faults.is_empty() {
        Ok(format!("{} pure crates, {} files", PURE.len(), sources.len()))
    } else {
        bail!("{}", faults.join("\n"))
    }
}

/// Crates that deny.toml does not restrict.
fn unlisted(metadata: &Value, deny: &str) -> Vec<String> {
    let names = list(metadata, "packages").iter().filter_map(|package| package["name"].as_str());
    let inner = names.filter(|name| name.starts_with("hairpin-") && *name != TESTING);
    inner
        .filter(|name| !deny.contains(&format!("{{ crate = \"{name}\", wrappers = [")))
        .map(|name| format!("deny.toml does not say which crates may use {name}"))
        .collect()
}

/// Dependencies that cargo-deny cannot forbid, as it does not know their kinds.
fn forbidden_arrows(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for package in list(metadata, "packages") {
        let from = package["name"].as_str().unwrap_or_default();
        for dependency in list(package, "dependencies") {
            let to = dependency["name"].as_str().unwrap_or_default();
            if to == TESTING && from != "xtask" && dependency["kind"] != "dev" {
                faults.push(format!("{from} must not depend on {to} but for its tests: it is not shipped"));
            }
        }
    }
    faults
}

/// Restrictions that a pure crate lacks.
fn unfenced(name: &str, lib: &str, clippy: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !source::without_comments(lib, true).contains("#![forbid(unsafe_code)]") {
        faults
            .push(format!("crates/{name}/src/lib.rs: a pure crate says #![forbid(unsafe_code)], this one does not"));
    }
    let banned = banned_paths(clippy);
    faults.extend(BANS.iter().filter(|ban| !banned.iter().any(|path| path == *ban)).map(|ban| {
        format!("crates/{name}/clippy.toml: {ban} is not banned with a reason (hint: copy the bans of hairpin-model)")
    }));
    faults
}

/// The paths that a clippy.toml disallows with a reason.
fn banned_paths(clippy: &str) -> Vec<String> {
    let Ok(table) = clippy.parse::<toml::Table>() else { return Vec::new() };
    ["disallowed-types", "disallowed-methods"]
        .iter()
        .filter_map(|key| table.get(*key)?.as_array())
        .flatten()
        .filter(|ban| ban.get("reason").and_then(toml::Value::as_str).is_some_and(|reason| !reason.is_empty()))
        .filter_map(|ban| Some(ban.get("path")?.as_str()?.to_owned()))
        .collect()
}

fn stray_unsafe(sources: &[Source]) -> Vec<String> {
    let outside = sources.iter().filter(|source| !FENCED.iter().any(|(place, _)| source.path.starts_with(place)));
    outside
        .filter_map(|source| {
            let code = source::without_comments(&source.text, true);
            let at = source::words(&code, "unsafe").next()?;
            let places: Vec<&str> = FENCED.iter().map(|(place, _)| *place).collect();
            Some(format!(
                "{}:{}: `unsafe` outside its fence (hint: it may stand in {})",
                source.path,
                source::line_of(&code, at),
                places.join(", ")
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_crate_for_tests_is_not_shipped() {
        let faults = |from: &str, to: &str, kind: Option<&str>| {
            let dependencies = [json!({"name": to, "kind": kind})];
            forbidden_arrows(&json!({"packages": [{"name": from, "dependencies": dependencies}]}))
        };
        assert_eq!(faults("hairpin-report", "hairpin-testing", Some("dev")), [""; 0]);
        assert_eq!(faults("xtask", "hairpin-testing", None), [""; 0]);
        for kind in [None, Some("build")] {
            let shipped = faults("hairpin-report", "hairpin-testing", kind);
            assert!(shipped[0].starts_with("hairpin-report must not depend on hairpin-testing"), "{shipped:?}");
        }
    }

    #[test]
    fn a_crate_that_deny_toml_does_not_restrict_is_found() {
        let metadata = json!({"packages": [{"name": "hairpin"}, {"name": "hairpin-a"}, {"name": "hairpin-b"}]});
        let faults = unlisted(&metadata, "{ crate = \"hairpin-a\", wrappers = [] }");
        assert_eq!(faults, ["deny.toml does not say which crates may use hairpin-b"]);
    }

    #[test]
    fn a_pure_crate_without_its_fences_is_found() {
        let bans: Vec<String> = BANS.iter().map(|ban| format!("{{ path = \"{ban}\", reason = \"pure\" }}")).collect();
        let clippy = format!("disallowed-types = [{}]", bans.join(", "));
        assert_eq!(unfenced("hairpin-link", "//! Doc.\n#![forbid(unsafe_code)]\n", &clippy), [""; 0]);
        assert_eq!(unfenced("hairpin-link", "// #![forbid(unsafe_code)]\n", &clippy).len(), 1);
        let without_reason = clippy.replacen(", reason = \"pure\"", "", 1);
        let faults = unfenced("hairpin-link", "#![forbid(unsafe_code)]", &without_reason);
        assert!(faults[0].contains("clippy.toml: std::time::Instant is not banned"), "{faults:?}");
        assert_eq!(unfenced("hairpin-link", "#![forbid(unsafe_code)]", "").len(), BANS.len());
    }

    #[test]
    fn unsafe_is_found_outside_its_fence_only_and_only_as_code() {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let injected = [
            source("crates/hairpin-engine/src/clock.rs", "//! Doc.\nfn f() { unsafe { g() } }\n"),
            source("crates/hairpin-engine/src/linux/system/tsc.rs", "fn f() { unsafe { g() } }"),
            source(
                "crates/hairpin-model/src/lib.rs",
                "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";",
            ),
        ];
        let faults = stray_unsafe(&injected);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/hairpin-engine/src/clock.rs:2: `unsafe` outside its fence"));
    }
}
