//! The rule that errors are distinguished by kind: production code does not examine the text of an error.

use crate::source::{self, Source};

const SEARCH_METHODS: &[&str] = &[
    "contains",
    "ends_with",
    "eq",
    "find",
    "matches",
    "rfind",
    "rsplit_once",
    "split_once",
    "splitn",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
];

/// Expressions that return an error's text or a part of it.
const TEXTS: &[&str] = &[
    "err.to_string()",
    "error.to_string()",
    "source.to_string()",
    "failure.to_string()",
    "why.to_string()",
    ".cause",
    ".hint",
    ".reason",
    ".cause()",
    ".hint()",
];

/// Argument, without spaces, of a call that splits the hint off an error's text.
const HINT: &str = "\"(hint:\"";

pub(super) fn error_texts(source: &Source) -> Vec<(usize, String)> {
    if !source.is_code() {
        return Vec::new();
    }
    let code = source::production(&source.text, false);
    // Removes spaces and line ends, since chains of calls may have line breaks anywhere. Keeps each character's offset.
    let (places, letters): (Vec<usize>, Vec<char>) =
        code.char_indices().filter(|(_, letter)| letter.is_ascii_graphic()).unzip();
    let dense: String = letters.into_iter().collect();
    let looks = SEARCH_METHODS.iter().flat_map(|look| {
        let of_texts = TEXTS.iter().map(move |text| format!("{text}.{look}("));
        of_texts.chain([format!(".{look}({HINT}")])
    });
    let compared = TEXTS.iter().flat_map(|text| [format!("{text}==\""), format!("{text}!=\"")]);
    let mut lines: Vec<usize> = looks
        .chain(compared)
        .flat_map(|look| dense.match_indices(&look).map(|(at, _)| at).collect::<Vec<_>>())
        .map(|at| source::line_of(&code, places[at]))
        .collect();
    lines.sort_unstable();
    let what = "code examines an error's text (hint: give the error a kind, or separate fields for cause and hint)";
    lines.into_iter().map(|line| (line, what.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        error_texts(&source).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn code_that_examines_an_errors_text_is_reported() {
        for look in [
            "error.to_string().contains(\"refused\")",
            "error\n    .to_string()\n    .starts_with(\"refused\")",
            "failure.cause.contains(&other)",
            "failure.cause == \"refused\"",
            "why.reason.strip_prefix(\"cannot\")",
            "text.rsplit_once(\" (hint: \")",
        ] {
            let text = format!("fn f() {{\n    let _ = {look};\n}}\n");
            assert_eq!(lines("crates/a/src/b.rs", &text).len(), 1, "{look}");
        }
        assert_eq!(lines("crates/a/src/b.rs", "fn f() {\n    let _ = one.hint.find(' ');\n}\n"), [2]);
    }

    #[test]
    fn kinds_tests_and_other_texts_are_ignored() {
        let test = "#[cfg(test)]\nmod tests {\n    fn f() { assert!(error.to_string().contains(\"a\")); }\n}\n";
        assert!(lines("crates/a/src/b.rs", test).is_empty());
        assert!(lines("crates/a/tests/b.rs", "fn f() { error.to_string().contains(\"a\"); }").is_empty());
        let kinds = "fn f() { error.kind() == NotFound; line.contains(\"a\"); path.to_string().find('a'); }";
        assert!(lines("crates/a/src/b.rs", kinds).is_empty());
    }
}
