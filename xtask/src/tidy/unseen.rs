//! Rules that every test is compiled and run, and that no test passes by returning early.

use std::collections::BTreeSet;

use super::rules::Faults;
use crate::source::{self, Source};
use crate::suite;

/// Languages of code blocks in documentation. Not Rust, since doctests are disabled except in [`COMPILED`].
const LANGUAGES: &[&str] = &["text", "json", "toml", "sh"];

/// The crates whose documentation examples are compiled.
const COMPILED: [&str; 2] = ["crates/hairpin/src/", "crates/hairpin-socket/src/"];

/// Reports tests that return early. Tests should assert, or call `skip!`: CI rejects skips that are not listed.
pub(super) fn returns(source: &Source) -> Faults {
    let blank = source::without_comments(&source.text, true);
    let mut faults = Faults::new();
    for (at, _) in blank.match_indices("#[test]") {
        let text = &blank[at..source::item_end(&blank, at)];
        faults.extend(source::words(text, "return").map(|found| {
            let what = "a test returns early (hint: call `hairpin_testing::skip!` if it cannot run here)";
            (source::line_of(&blank, at + found), what.to_owned())
        }));
    }
    faults
}

/// Reports ignored tests, except tests that another test starts in a separate process; these have the prefix `child_`.
pub(super) fn ignored(source: &Source) -> Faults {
    let blank = source::without_comments(&source.text, true);
    let mut faults = Faults::new();
    for (at, attribute) in blank.match_indices("#[ignore") {
        let Some(end) = blank[at..].find(']') else { continue };
        let reason = &source.text[at + attribute.len()..at + end];
        let rest = &blank[at + end..];
        let name = rest.find("fn ").map_or("", |name| rest[name + 3..].split('(').next().unwrap_or_default());
        let is_child = name.starts_with("child_");
        let reason = reason.trim_start_matches([' ', '=']).trim_start_matches('"');
        if !(is_child && reason.starts_with("child of ")) {
            let what = format!(
                "`{name}` is ignored (hint: call `hairpin_testing::skip!` if it cannot run here, or name it `child_{name}` with \
                 #[ignore = \"child of TEST\"])"
            );
            faults.push((source::line_of(&blank, at), what));
        }
    }
    faults
}

/// Reports documentation examples that are never compiled.
pub(super) fn doctests(source: &Source) -> Faults {
    if COMPILED.iter().any(|folder| source.path.starts_with(folder)) {
        return Faults::new();
    }
    let docs = (1..).zip(source.text.lines()).filter_map(|(number, line)| {
        let line = line.trim_start();
        Some((number, line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim()))
    });
    let fences = docs.filter_map(|(number, line)| Some((number, line.strip_prefix("```")?)));
    // Every second fence closes a code block.
    let opening = fences.step_by(2).filter(|(_, language)| !LANGUAGES.contains(language));
    let what =
        format!("a code block that is never compiled (hint: name its language, one of {})", LANGUAGES.join(", "));
    opening.map(|(number, _)| (number, what.clone())).collect()
}

/// Reports Rust files that are not part of a target: their tests would never run.
pub(super) fn orphans(sources: &[Source]) -> Vec<String> {
    let roots: BTreeSet<String> = manifests(sources).flat_map(|manifest| roots_of(&manifest, sources)).collect();
    let files = sources.iter().filter(|source| source.path.ends_with(".rs") && !roots.contains(&source.path));
    let orphans = files.filter(|file| {
        let module = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
        let parents = sources.iter().filter(|parent| {
            let stem = parent.path.trim_end_matches(".rs");
            let inside = stem.rsplit_once('/').is_some_and(|(own, _)| own == folder);
            stem == folder || inside && (stem.ends_with("/mod") || roots.contains(&parent.path))
        });
        !parents.into_iter().any(|parent| {
            let code = source::without_comments(&parent.text, true);
            source::words(&code, &format!("mod {name}")).any(|at| code[at + 4 + name.len()..].starts_with(';'))
        })
    });
    let hint = "hint: declare the module in the target's main file";
    orphans.map(|file| format!("{}: never compiled ({hint})", file.path)).collect()
}

struct Manifest {
    folder: String,
    table: toml::Table,
}

fn manifests(sources: &[Source]) -> impl Iterator<Item = Manifest> {
    sources.iter().filter_map(|source| {
        let folder = source.path.strip_suffix("Cargo.toml").filter(|folder| !folder.is_empty())?;
        Some(Manifest { folder: folder.to_owned(), table: source.text.parse().ok()? })
    })
}

fn roots_of(manifest: &Manifest, sources: &[Source]) -> Vec<String> {
    let own = sources.iter().filter_map(|source| source.path.strip_prefix(&manifest.folder));
    let finds_tests = manifest.table["package"].get("autotests").and_then(toml::Value::as_bool).unwrap_or(true);
    let found = own.filter(|path| match path.split('/').collect::<Vec<_>>()[..] {
        ["src", "lib.rs" | "main.rs"] | ["src", "bin", _, "main.rs"] | ["build.rs"] => true,
        ["tests", _] => finds_tests,
        ["examples", _] => true,
        _ => false,
    });
    let named = targets(&manifest.table).filter_map(|target| target.get("path")?.as_str());
    found.chain(named).map(|path| format!("{}{path}", manifest.folder)).collect()
}

fn targets(table: &toml::Table) -> impl Iterator<Item = &toml::Value> {
    let lists = ["bin", "test", "example"].into_iter().filter_map(|kind| table.get(kind)?.as_array());
    lists.flatten()
}

/// Reports tests in targets with `test = false`, unless `cargo xtask ci` runs the target by name.
pub(super) fn targets_without_tests(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for manifest in manifests(sources) {
        let untested = targets(&manifest.table)
            .filter(|target| target.get("test").is_some_and(|on| on.as_bool() == Some(false)))
            .filter(|target| {
                let package = manifest.table.get("package").and_then(|package| package.get("name")?.as_str());
                let name = target.get("name").and_then(toml::Value::as_str);
                !package.zip(name).is_some_and(|(package, name)| suite::runs(package, name))
            });
        for path in untested.filter_map(|target| target.get("path")?.as_str()) {
            let path = format!("{}{path}", manifest.folder);
            // All files of a program with its own folder are in the folder.
            let own = if path.contains("/src/bin/") { path.trim_end_matches("main.rs") } else { &path };
            let holds =
                sources.iter().filter(|source| source.path.starts_with(own) && source.text.contains("#[test]"));
            faults.extend(holds.map(|source| format!("{}: tests in a target with `test = false`", source.path)));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, source};

    #[test]
    fn a_test_that_returns_is_found() {
        let bad = "#[test]\nfn a() {\n    let Some(x) = y() else {\n        return;\n    };\n}\n";
        assert_eq!(lines(returns, bad), [4]);
        assert_eq!(lines(returns, "#[test]\nfn a() {\n    if b { return eprintln!(\"skipped\") }\n}\n"), [3]);
        let good = "#[test]\nfn a() {\n    // return\n    assert_eq!(b, \"return\");\n}\nfn c() { return; }\n";
        assert_eq!(lines(returns, good), [0; 0]);
    }

    #[test]
    fn a_test_that_never_runs_is_found() {
        let text = |reason: &str, name: &str| format!("#[test]\n#[ignore{reason}]\nfn {name}() {{}}\n");
        for (reason, name) in
            [("", "a"), (" = \"needs ping\"", "a"), (" = \"child of b\"", "a"), (" = \"needs c\"", "child_a")]
        {
            assert_eq!(lines(ignored, &text(reason, name)), [2], "{reason} {name}");
        }
        assert_eq!(lines(ignored, &text(" = \"child of b, which starts it\"", "child_a")), [0; 0]);
    }

    #[test]
    fn an_example_that_is_never_compiled_is_found() {
        let text = |language: &str| format!("//! Words.\n//!\n//! ```{language}\n//! code\n//! ```\n");
        assert_eq!((lines(doctests, &text("")), lines(doctests, &text("rust"))), (vec![3], vec![3]));
        assert_eq!(lines(doctests, &text("text")), [0; 0]);
        assert_eq!(doctests(&source("crates/hairpin/src/lib.rs", &text("no_run"))), []);
    }

    #[test]
    fn a_file_that_is_never_compiled_is_found() {
        let package = "[package]\nname = \"x\"\n";
        let named = format!("{package}autotests = false\n[[test]]\nname = \"all\"\npath = \"tests/all.rs\"\n");
        let orphans = |manifest: &str, extra: &str| {
            orphans(&[
                source("x/Cargo.toml", manifest),
                source("x/src/lib.rs", "mod a;\n"),
                source("x/src/a.rs", "mod inner;\n"),
                source("x/src/a/inner.rs", ""),
                source("x/tests/all.rs", &format!("mod b;\nmod support;\n// mod c;\n{extra}")),
                source("x/tests/b.rs", ""),
                source("x/tests/c.rs", ""),
                source("x/tests/support/mod.rs", "mod deep;"),
                source("x/tests/support/deep.rs", ""),
            ])
        };
        let told = "x/tests/c.rs: never compiled (hint: declare the module in the target's main file)";
        assert_eq!(orphans(&named, ""), [told]);
        assert_eq!(orphans(&named, "mod c;\n"), [""; 0]);
        assert_eq!(orphans(package, ""), [""; 0], "cargo finds the target");
    }

    #[test]
    fn a_test_in_a_target_without_tests_is_found() {
        let manifest = "[package]\nname = \"x\"\n[[bin]]\nname = \"y\"\npath = \"src/bin/y/main.rs\"\ntest = false\n";
        let test = "#[test]\nfn a() {}\n";
        let faults = |manifest: &str| {
            let files = [("x/Cargo.toml", manifest), ("x/src/lib.rs", test), ("x/src/bin/y/b.rs", test)];
            targets_without_tests(&files.map(|(path, text)| source(path, text)))
        };
        assert_eq!(faults(manifest), ["x/src/bin/y/b.rs: tests in a target with `test = false`"]);
        let by_name = manifest
            .replace("name = \"x\"", "name = \"hairpin\"")
            .replace("[[bin]]\nname = \"y\"", "[[test]]\nname = \"lab\"");
        assert_eq!(faults(&by_name), [""; 0]);
        assert_eq!(faults(&manifest.replace("false", "true")), [""; 0]);
    }
}
