//! The rule that production code uses a transport's card instead of its name: only the transports' files contain names.

use crate::source::{self, Source};

/// Folder of the transports; each file is named after its transport.
const TRANSPORTS: &str = "crates/hairpin-transports/src/transports/";

/// Files that may contain transport names, with the allowed names (empty: all) and the reason.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("crates/hairpin-model/src/end_settings.rs", &["fifo"], "the scheduling policy SCHED_FIFO"),
    ("crates/hairpin-model/src/upgrade/earlier_cards.rs", &[], "the cards of runs that were saved without cards"),
    (
        "crates/hairpin-engine/src/linux/links/guest.rs",
        &["tcp", "tcp6", "udp", "udp6"],
        "names of files in /proc/net",
    ),
    ("crates/hairpin-engine/src/linux/cgroup.rs", &["memory"], "name of a control group controller"),
    ("crates/hairpin-report/src/html/facts.rs", &["memory"], "the machine's memory"),
];

const OWN_LIST: &str = "const TRANSPORTS: &[&str] = &[";
const EXPERIMENTS: &str = "crates/hairpin-experiments/src/experiments/";

/// Reports string literals in other files that are a transport's name or a prefix of several names.
pub(super) fn transport_names(sources: &[Source]) -> Vec<String> {
    let names = names(sources);
    let others = sources.iter().filter(|source| source.is_production() && !source.path.starts_with(TRANSPORTS));
    others.flat_map(|source| faults(source, &names)).collect()
}

/// Returns the transports' names by their files (`unix_stream.rs`), with `6` for IPv6, and the parts before a hyphen.
fn names(sources: &[Source]) -> Vec<String> {
    let files = sources.iter().filter_map(|source| source.path.strip_prefix(TRANSPORTS)?.strip_suffix(".rs"));
    files
        .filter(|file| *file != "mod")
        .flat_map(|file| {
            let name = file.replace('_', "-");
            let beginning = name.split_once('-').map(|(first, _)| [first.to_owned(), format!("{first}-")]);
            let itself = [format!("{name}6"), name];
            itself.into_iter().chain(beginning.into_iter().flatten())
        })
        .collect()
}

fn faults(source: &Source, names: &[String]) -> Vec<String> {
    let exception = EXCEPTIONS.iter().find(|(path, ..)| *path == source.path).map(|(_, words, _)| *words);
    let code = source::production(&source.text, false);
    let mut faults = Vec::new();
    for name in names {
        let is_excepted = exception.is_some_and(|words| words.is_empty() || words.contains(&name.as_str()));
        for (at, _) in code.match_indices(&format!("\"{name}\"")).filter(|_| !is_excepted) {
            if is_own_list(&source.path, &code[..at]) || code[..at].ends_with("feature = ") {
                continue;
            }
            let line = source::line_of(&code, at);
            faults.push(format!(
                "{}:{line}: \"{name}\" is a transport's name (hint: use the card; saved runs contain the cards)",
                source.path
            ));
        }
    }
    faults
}

/// Whether the text after `before` is in an experiment's own list of transports.
fn is_own_list(path: &str, before: &str) -> bool {
    path.starts_with(EXPERIMENTS) && before.rfind(OWN_LIST).is_some_and(|start| !before[start..].contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let files =
            ["mod", "tcp", "shm", "unix_stream"].map(|file| source(&format!("{TRANSPORTS}{file}.rs"), "\"tcp\""));
        transport_names(&files.into_iter().chain([source(path, text)]).collect::<Vec<_>>())
    }

    #[test]
    fn a_transports_name_in_other_code_is_reported() {
        let text = "//! Not \"tcp\".\nfn f(name: &str) -> bool {\n    name == \"tcp\"\n}\n";
        let hint = "(hint: use the card; saved runs contain the cards)";
        assert_eq!(
            found("crates/a/src/b.rs", text),
            [format!("crates/a/src/b.rs:3: \"tcp\" is a transport's name {hint}")]
        );
        for word in ["tcp6", "shm", "unix-stream", "unix-", "unix"] {
            let compared = format!("fn f(name: &str) -> bool {{ name.starts_with(\"{word}\") }}");
            assert_eq!(found("crates/a/src/b.rs", &compared).len(), 1, "{word}");
        }
    }

    #[test]
    fn prose_tests_and_lists_of_an_experiment_are_ignored() {
        let test = "#[cfg(test)]\nmod tests {\n    const NAME: &str = \"tcp\";\n}\n";
        for (path, text) in [
            ("crates/a/src/b.rs", test),
            ("crates/a/src/b/tests.rs", "const NAME: &str = \"tcp\";"),
            ("crates/a/tests/b.rs", "const NAME: &str = \"tcp\";"),
            ("crates/a/src/b.rs", "const HINT: &str = \"use tcp or shm\";"),
            ("crates/hairpin-experiments/src/experiments/b.rs", "const TRANSPORTS: &[&str] = &[\"tcp\", \"shm\"];"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
        let more = "const TRANSPORTS: &[&str] = &[\"tcp\"];\nconst OTHER: &[&str] = &[\"shm\"];";
        assert_eq!(found("crates/hairpin-experiments/src/experiments/b.rs", more).len(), 1);
        assert_eq!(found("crates/hairpin-engine/src/linux/links/guest.rs", "[\"tcp\", \"shm\"]").len(), 1);
    }
}
