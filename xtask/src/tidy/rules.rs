//! Rules that check one file at a time.

use crate::source::{self, Source};

/// Faults of one file: line number from 1, and a description.
type Faults = Vec<(usize, String)>;

/// Words of unfinished work, in halves, so that this file does not contain them.
const UNFINISHED: &[(&str, &str)] =
    &[("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("to", "do!"), ("unimple", "mented!")];

/// Folders that exist on one machine and not on the next.
const MACHINE_PATHS: &[(&str, &str)] = &[("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/")];

/// Hosts of package registries: a build must not depend on which of them, or whose mirror, is reachable.
const REGISTRIES: &[(&str, &str)] = &[
    ("index.crat", "es.io"),
    ("static.crat", "es.io"),
    ("py", "pi.org"),
    ("files.python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("proxy.go", "lang.org"),
    ("deb.deb", "ian.org"),
];

/// No tabs, no trailing spaces, one line end at the end of the file.
pub(super) fn spaces(source: &Source) -> Faults {
    let text = &source.text;
    let mut faults = Faults::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        if line.contains('\t') {
            faults.push((number, "a tab".to_owned()));
        }
        if line.ends_with([' ', '\t', '\r']) {
            faults.push((number, "a space at the end of the line".to_owned()));
        }
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        faults.push((text.lines().count(), "the file does not end in exactly one line end".to_owned()));
    }
    faults
}

/// No marks of unfinished work: it is done, or it is an issue.
pub(super) fn unfinished(source: &Source) -> Faults {
    found(source, UNFINISHED, |word, before| {
        let inside_name = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
        (!inside_name).then(|| format!("`{word}` (hint: finish it, or open an issue)"))
    })
}

/// No path of one machine.
pub(super) fn machine_paths(source: &Source) -> Faults {
    found(source, MACHINE_PATHS, |path, before| {
        let starts = before.is_none_or(|before| before.is_whitespace() || "\"'`(=:[<".contains(before));
        starts.then(|| format!("a path of one machine (`{path}`)"))
    })
}

/// No host of a package registry.
pub(super) fn registry_hosts(source: &Source) -> Faults {
    found(source, REGISTRIES, |host, _| Some(format!("the host of a package registry (`{host}`)")))
}

/// Occurrences of words (given in halves) for which `fault` returns one, given the character before it.
fn found(source: &Source, halves: &[(&str, &str)], fault: impl Fn(&str, Option<char>) -> Option<String>) -> Faults {
    let mut faults = Faults::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        for (first, second) in halves {
            let word = format!("{first}{second}");
            let occurrences = line.match_indices(&word);
            faults.extend(
                occurrences
                    .filter_map(|(at, _)| fault(&word, line[..at].chars().next_back()))
                    .map(|what| (number, what)),
            );
        }
    }
    faults
}

/// Every exemption from a lint has a reason.
pub(super) fn exemptions_without_reason(source: &Source) -> Faults {
    let code = source::without_comments(&source.text, false);
    let blank = source::without_comments(&source.text, true);
    let mut faults = Faults::new();
    for (at, _) in blank.match_indices('#') {
        let Some(attribute) = attribute_at(&blank, at) else { continue };
        let name = exemption(attribute);
        let reasoned = code[at..at + attribute.len()].split("reason").skip(1).any(|rest| {
            let value = rest.trim_start().strip_prefix('=').map(str::trim_start);
            value.is_some_and(|value| value.starts_with('"') && !value.starts_with("\"\""))
        });
        if let Some(name) = name.filter(|_| !reasoned) {
            let what = format!("`{name}` without a reason (hint: #[expect(lint, reason = \"...\")])");
            faults.push((source::line_of(&blank, at), what));
        }
    }
    faults
}

/// The attribute that begins at byte `at`, brackets included, in text without comments and literals.
fn attribute_at(blank: &str, at: usize) -> Option<&str> {
    let rest = &blank[at..];
    let opening = rest.find('[')?;
    if !matches!(rest[1..opening].trim(), "" | "!") {
        return None;
    }
    let mut depth = 0_usize;
    for (offset, character) in rest.char_indices() {
        match character {
            '[' => depth += 1,
            ']' if depth == 1 => return Some(&rest[..=offset]),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `allow` or `expect`, if the attribute is (or, inside `cfg_attr`, holds) an exemption.
fn exemption(attribute: &str) -> Option<&'static str> {
    ["allow", "expect"].into_iter().find(|name| {
        source::words(attribute, name).any(|at| attribute[at + name.len()..].trim_start().starts_with('('))
    })
}

/// Every file begins with its purpose.
pub(super) fn module_docs(source: &Source) -> Faults {
    let first = (1..).zip(source.text.lines()).find(|(_, line)| !line.trim().is_empty());
    match first {
        Some((_, line)) if line.starts_with("//! ") => Faults::new(),
        Some((number, _)) => vec![(number, "the file does not begin with `//! ` and what it is for".to_owned())],
        None => vec![(1, "an empty file".to_owned())],
    }
}

/// Each clippy.toml (a crate's own replaces the workspace's) limits functions to 70 lines.
pub(super) fn function_length_threshold(source: &Source) -> Faults {
    const THRESHOLD: &str = "too-many-lines-threshold = 70";
    let concerned = source.path == "clippy.toml" || source.path.ends_with("/clippy.toml");
    if concerned && !source.text.lines().any(|line| line == THRESHOLD) {
        return vec![(1, format!("clippy is not told `{THRESHOLD}`"))];
    }
    Faults::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { path: "crates/x/clippy.toml".to_owned(), text: text.to_owned() }
    }

    fn lines(rule: fn(&Source) -> Faults, text: &str) -> Vec<usize> {
        rule(&source(text)).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn tabs_and_trailing_spaces_are_found() {
        assert_eq!(lines(spaces, "a\n\tb\nc \nd\r\n"), [2, 3, 4]);
        assert_eq!(lines(spaces, "a"), [1]);
        assert_eq!(lines(spaces, "a\n\n"), [2]);
        assert_eq!(lines(spaces, "a b\n\nc\n"), [0; 0]);
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_in_comments() {
        for (first, second) in UNFINISHED {
            assert_eq!(lines(unfinished, &format!("a\n// {first}{second}: b\n")), [2], "{first}{second}");
        }
        assert_eq!(lines(unfinished, &format!("a.{}{}() is_{}{}\n", "auto", "do", "to", "do!")), [0; 0]);
    }

    #[test]
    fn machine_paths_and_registries_are_found() {
        for (first, second) in MACHINE_PATHS {
            assert_eq!(lines(machine_paths, &format!("let a = \"{first}{second}me\";\n")), [1], "{first}{second}");
        }
        assert_eq!(lines(machine_paths, &format!("see crates{}{}x\n", "/wo", "rk/")), [0; 0]);
        for (first, second) in REGISTRIES {
            assert_eq!(lines(registry_hosts, &format!("https://{first}{second}/x\n")), [1], "{first}{second}");
        }
        assert_eq!(lines(registry_hosts, "https://docs.kernel.org/\n"), [0; 0]);
    }

    #[test]
    fn an_exemption_without_a_reason_is_found() {
        for bad in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[expect(\n    dead_code\n)]",
            "#[expect(dead_code, reason = \"\")]",
            "#[cfg_attr(test, allow(dead_code))]",
            "#[allow(dead_code)] // reason = \"in a comment\"",
        ] {
            assert_eq!(lines(exemptions_without_reason, &format!("//! x\n{bad}\n")), [2], "{bad}");
        }
        for good in [
            "#[expect(dead_code, reason = \"why\")]",
            "#![allow(\n    dead_code,\n    reason = \"why\"\n)]",
            "#[derive(Debug)] let x = y.expect(\"z\");",
            "// #[allow(dead_code)]",
            "let text = \"#[allow(dead_code)]\";",
            "let x = r#type; a[0].expect(\"x\")",
        ] {
            assert_eq!(lines(exemptions_without_reason, &format!("//! x\n{good}\n")), [0; 0], "{good}");
        }
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_for_is_found() {
        assert_eq!(lines(module_docs, "//! What it is for.\nfn f() {}\n"), [0; 0]);
        assert_eq!(lines(module_docs, "\n// A comment.\n"), [2]);
        assert_eq!(lines(module_docs, "//!\n"), [1]);
        assert_eq!(lines(module_docs, ""), [1]);
    }

    #[test]
    fn a_clippy_file_with_another_threshold_is_found() {
        assert_eq!(lines(function_length_threshold, "too-many-lines-threshold = 70\n"), [0; 0]);
        assert_eq!(lines(function_length_threshold, "too-many-lines-threshold = 700\n"), [1]);
    }
}
