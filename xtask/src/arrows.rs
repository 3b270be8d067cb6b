//! `cargo xtask arrows`: the arrows between crates, against the table of the design, and the fences around purity.
//!
//! Checked for normal, build and test dependencies alike: a test that needs a forbidden crate stands in the wrong
//! crate. Beside the arrows: each pure crate bans clocks, files and sockets in its own clippy.toml and forbids
//! unsafe code; and `unsafe` stands only in the folders that exist for it.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::process;
use crate::source::{self, Source};

/// A crate of the workspace, what it may depend on, and why on nothing else.
struct Allowed {
    name: &'static str,
    may_use: &'static [&'static str],
    why: &'static str,
}

/// The crate for tests and chores: any crate may use it as a development dependency, and nothing that is shipped may.
const TESTING: &str = "hairpin-testing";

/// The table of the design. A crate that is not in it has no place yet.
const TABLE: &[Allowed] = &[
    Allowed { name: "hairpin-model", may_use: &[], why: "the nouns stand on nothing" },
    Allowed {
        name: "hairpin-analysis",
        may_use: &["hairpin-model"],
        why: "slices in, numbers out: no clock, file, socket or thread may be in its reach",
    },
    Allowed {
        name: "hairpin-experiments",
        may_use: &["hairpin-model"],
        why: "knobs and results in, rounds out: an experiment orders rounds and never runs them",
    },
    Allowed {
        name: "hairpin-link",
        may_use: &["hairpin-model"],
        why: "packets and time in, packets and fates out: time is an argument there",
    },
    Allowed { name: "hairpin-report", may_use: &["hairpin-model"], why: "it shows a run and never computes one" },
    Allowed {
        name: "hairpin-transports",
        may_use: &["hairpin-model"],
        why: "a transport carries bytes and must not be able to stamp, pace or judge them",
    },
    Allowed {
        name: "hairpin-loops",
        may_use: &["hairpin-model", "hairpin-transports", "hairpin-link"],
        why: "what runs for each message is compiled apart from what runs once a round",
    },
    Allowed {
        name: "hairpin-engine",
        may_use: &["hairpin-model", "hairpin-transports", "hairpin-link", "hairpin-loops"],
        why: "what measures must not know what the figures are for",
    },
    Allowed {
        name: "hairpin-hosts",
        may_use: &["hairpin-model", "hairpin-transports", "hairpin-engine"],
        why: "TLS, keys and what strangers send stay away from what measures",
    },
    Allowed {
        name: "hairpin",
        may_use: &[
            "hairpin-model",
            "hairpin-analysis",
            "hairpin-experiments",
            "hairpin-link",
            "hairpin-report",
            "hairpin-transports",
            "hairpin-engine",
            "hairpin-hosts",
        ],
        why: "it may use every crate that has a place in the table",
    },
    Allowed { name: "hairpin-testing-macros", may_use: &[], why: "it is a part of the harness" },
    Allowed {
        name: TESTING,
        may_use: &["hairpin-testing-macros"],
        why: "tests of every crate say by it what cannot run here",
    },
    Allowed {
        name: "xtask",
        may_use: &[TESTING],
        why: "the bare loop must share no code with Hairpin, and the binary is run as its users run it",
    },
];

/// Crates without a clock, a file, a socket, a thread or an environment variable.
const PURE: &[&str] = &["hairpin-model", "hairpin-analysis", "hairpin-experiments", "hairpin-link", "hairpin-report"];

/// What a pure crate's clippy.toml must at least ban.
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

/// Outside crates that are nothing but contact with the system: no pure crate has a use for them.
const SYSTEM_CRATES: &[&str] =
    &["libc", "nix", "rustix", "socket2", "netlink-sys", "tokio", "mio", "io-uring", "signal-hook"];

/// Where `unsafe` may stand, and why.
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

/// One arrow of the workspace as it is.
#[derive(Debug, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    /// `dependency`, `dev-dependency` or `build-dependency`.
    kind: String,
}

/// Runs all checks on the workspace; answers a line for the summary.
///
/// # Errors
/// Every fault in words, or why the workspace could not be read.
pub(crate) fn run(root: &Path) -> Result<String> {
    let metadata = process::metadata(root)?;
    let names = names(&metadata);
    let arrows = arrows(&metadata);
    let mut faults = forbidden_arrows(&names, &arrows);
    faults.extend(impure_dependencies(&metadata));
    for name in names.iter().filter(|name| PURE.contains(&name.as_str())) {
        let folder = root.join("crates").join(name);
        let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_default();
        faults.extend(unfenced(name, &read("src/lib.rs"), &read("clippy.toml")));
    }
    let sources = source::files(root, &["rs"])?;
    faults.extend(stray_unsafe(&sources));
    if faults.is_empty() {
        Ok(format!("{} crates, {} arrows, {} files", names.len(), arrows.len(), sources.len()))
    } else {
        bail!("{}", faults.join("\n"))
    }
}

fn packages(metadata: &Value) -> impl Iterator<Item = (&str, &[Value])> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().filter_map(|package| {
        Some((package["name"].as_str()?, package["dependencies"].as_array().map_or(&[][..], Vec::as_slice)))
    })
}

fn names(metadata: &Value) -> Vec<String> {
    packages(metadata).map(|(name, _)| name.to_owned()).collect()
}

/// The arrows between crates of the workspace.
fn arrows(metadata: &Value) -> Vec<Arrow> {
    let names = names(metadata);
    let mut arrows = Vec::new();
    for (from, dependencies) in packages(metadata) {
        for dependency in dependencies {
            let to = dependency["name"].as_str().unwrap_or_default();
            if names.iter().any(|name| name == to) {
                arrows.push(Arrow { from: from.to_owned(), to: to.to_owned(), kind: kind_of(dependency) });
            }
        }
    }
    arrows
}

fn kind_of(dependency: &Value) -> String {
    match dependency["kind"].as_str() {
        Some(kind) => format!("{kind}-dependency"),
        None => "dependency".to_owned(),
    }
}

fn forbidden_arrows(names: &[String], arrows: &[Arrow]) -> Vec<String> {
    let strangers = names.iter().filter(|name| allowed(name).is_none()).map(|name| {
        format!(
            "{name} is in the workspace but not in the table of arrows (hint: a crate exists only where an arrow \
             must be impossible; if that is so here, add it to TABLE in xtask/src/arrows.rs and to ARCHITECTURE.md)"
        )
    });
    let forbidden = arrows.iter().filter_map(|arrow| {
        let row = allowed(&arrow.from)?;
        let for_tests = arrow.to == TESTING && arrow.kind == "dev-dependency";
        (!for_tests && !row.may_use.contains(&arrow.to.as_str())).then(|| in_words(row, arrow))
    });
    strangers.chain(forbidden).collect()
}

fn allowed(name: &str) -> Option<&'static Allowed> {
    TABLE.iter().find(|row| row.name == name)
}

fn in_words(row: &Allowed, arrow: &Arrow) -> String {
    let may_use = match row.may_use {
        [] => "no crate of the workspace".to_owned(),
        some => format!("only {}", some.join(", ")),
    };
    let Arrow { from, to, kind } = arrow;
    format!("{from} must not depend on {to} ({kind}): {}; it may use {may_use}", row.why)
}

fn impure_dependencies(metadata: &Value) -> Vec<String> {
    let pure = packages(metadata).filter(|(name, _)| PURE.contains(name));
    pure.flat_map(|(name, dependencies)| dependencies.iter().map(move |dependency| (name, dependency)))
        .filter_map(|(name, dependency)| {
            let to = dependency["name"].as_str()?;
            let kind = kind_of(dependency);
            SYSTEM_CRATES.contains(&to).then(|| {
                format!("{name} must not depend on {to} ({kind}): it is pure, and {to} is contact with the system")
            })
        })
        .collect()
}

/// What a pure crate lacks of its fences.
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

/// The paths that a clippy.toml disallows and gives a reason for.
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

    fn workspace(arrows: &[(&str, &str, Option<&str>)]) -> Value {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        names.extend(arrows.iter().map(|arrow| arrow.0).filter(|name| allowed(name).is_none()));
        let packages: Vec<Value> = names
            .iter()
            .map(|name| {
                let own = arrows.iter().filter(|arrow| arrow.0 == *name);
                let dependencies: Vec<Value> = own.map(|(_, to, kind)| json!({"name": to, "kind": kind})).collect();
                json!({"name": name, "dependencies": dependencies})
            })
            .collect();
        json!({ "packages": packages })
    }

    fn faults(given: &[(&str, &str, Option<&str>)]) -> Vec<String> {
        let metadata = workspace(given);
        let mut faults = forbidden_arrows(&names(&metadata), &arrows(&metadata));
        faults.extend(impure_dependencies(&metadata));
        faults
    }

    #[test]
    fn arrows_of_the_design_are_allowed() {
        assert_eq!(
            faults(&[
                ("hairpin-engine", "hairpin-transports", None),
                ("hairpin-engine", "hairpin-link", Some("dev")),
                ("hairpin-report", "hairpin-model", None),
                ("hairpin-analysis", "rand_xoshiro", None),
                ("hairpin-report", "hairpin-testing", Some("dev")),
                ("hairpin-transports", "libc", None),
                ("xtask", "clap", None),
                ("xtask", "hairpin-testing", None),
            ]),
            [""; 0]
        );
    }

    #[test]
    fn arrows_that_must_never_exist_are_named_in_words() {
        let forbidden = [
            ("hairpin-model", "hairpin-analysis"),
            ("hairpin-analysis", "hairpin-engine"),
            ("hairpin-experiments", "hairpin-analysis"),
            ("hairpin-link", "hairpin-transports"),
            ("hairpin-report", "hairpin-analysis"),
            ("hairpin-transports", "hairpin-engine"),
            ("hairpin-engine", "hairpin-analysis"),
            ("hairpin-engine", "hairpin-experiments"),
            ("hairpin-engine", "hairpin"),
            ("xtask", "hairpin"),
            ("hairpin-engine", "hairpin-testing"),
        ];
        for (from, to) in forbidden {
            let faults = faults(&[(from, to, None)]);
            assert_eq!(faults.len(), 1, "{from} to {to}");
            assert!(faults[0].starts_with(&format!("{from} must not depend on {to} (dependency): ")), "{faults:?}");
        }
    }

    #[test]
    fn a_test_or_build_dependency_is_an_arrow_too() {
        for kind in ["dev", "build"] {
            let faults = faults(&[("hairpin-report", "hairpin-engine", Some(kind))]);
            let expected = format!(
                "hairpin-report must not depend on hairpin-engine ({kind}-dependency): it shows a run and never \
                 computes one; it may use only hairpin-model"
            );
            assert_eq!(faults, [expected]);
        }
    }

    #[test]
    fn a_crate_without_a_place_and_a_pure_crate_with_system_calls_are_found() {
        let stranger = faults(&[("hairpin-utils", "serde", None)]);
        assert!(stranger[0].starts_with("hairpin-utils is in the workspace but not in the table"), "{stranger:?}");
        let impure = faults(&[("hairpin-link", "libc", None)]);
        assert!(impure[0].contains("hairpin-link must not depend on libc"), "{impure:?}");
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
