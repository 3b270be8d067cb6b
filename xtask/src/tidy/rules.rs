//! Rules that check one file at a time.

use crate::source::Source;

/// Faults of one file: line number from 1, and a description.
pub(super) type Faults = Vec<(usize, String)>;

/// Marks of unfinished work, in halves, so that this file does not contain any.
const UNFINISHED: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("XX", "X")];

/// Prefixes of paths that depend on the machine.
const MACHINE_PATHS: &[(&str, &str)] = &[("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/")];

/// Hosts of package registries, since builds must not depend on a particular registry or mirror.
const REGISTRIES: &[(&str, &str)] = &[
    ("index.crat", "es.io"),
    ("static.crat", "es.io"),
    ("py", "pi.org"),
    ("files.python", "hosted.org"),
    ("registry.npm", "js.org"),
    ("proxy.go", "lang.org"),
    ("deb.deb", "ian.org"),
];

pub(super) fn unfinished(source: &Source) -> Faults {
    found(source, UNFINISHED, |word, before| {
        let inside_name = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
        (!inside_name).then(|| format!("`{word}` (hint: finish the work, or open an issue)"))
    })
}

pub(super) fn machine_paths(source: &Source) -> Faults {
    found(source, MACHINE_PATHS, |path, before| {
        let starts = before.is_none_or(|before| before.is_whitespace() || "\"'`(=:[<".contains(before));
        starts.then(|| format!("a machine-specific path (`{path}`)"))
    })
}

pub(super) fn registry_hosts(source: &Source) -> Faults {
    found(source, REGISTRIES, |host, _| Some(format!("the host of a package registry (`{host}`)")))
}

/// Finds words given in halves. `fault` gets each word and the character before it.
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

pub(super) fn module_docs(source: &Source) -> Faults {
    let first = (1..).zip(source.text.lines()).find(|(_, line)| !line.trim().is_empty());
    match first {
        Some((_, line)) if line.starts_with("//! ") => Faults::new(),
        Some((number, _)) => vec![(number, "the file does not begin with `//! ` and its purpose".to_owned())],
        None => vec![(1, "an empty file".to_owned())],
    }
}

const MAX_LINES: usize = 600;

pub(super) fn length(source: &Source) -> Faults {
    let lines = source.text.lines().count();
    let what = format!("the limit is {MAX_LINES} lines (hint: split the file by purpose)");
    if lines > MAX_LINES { vec![(lines, what)] } else { Faults::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::lines;

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
    fn a_file_without_its_purpose_is_reported() {
        assert_eq!(lines(module_docs, "//! What it is for.\nfn f() {}\n"), [0; 0]);
        assert_eq!(lines(module_docs, "\n// A comment.\n"), [2]);
        assert_eq!(lines(module_docs, "//!\n"), [1]);
        assert_eq!(lines(module_docs, ""), [1]);
    }

    #[test]
    fn a_long_file_is_reported() {
        assert_eq!(lines(length, &"x\n".repeat(MAX_LINES)), [0; 0]);
        assert_eq!(lines(length, &"x\n".repeat(MAX_LINES + 1)), [MAX_LINES + 1]);
    }
}
