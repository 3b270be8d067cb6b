//! Typography of HTML pages.

use hairpin_model::quantities::{is_thousands, is_unit};

/// Puts no-break spaces between numbers and units and between groups of thousands; writes µs for us.
pub(crate) fn nbsp(text: &str) -> String {
    keep_units(text).replace("\u{a0}us", "\u{a0}µs")
}

/// Puts no-break spaces between numbers and units and between groups of thousands.
pub(crate) fn keep_units(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for word in text.split_inclusive(' ') {
        let name = word.trim_end_matches(' ');
        let after_number =
            kept.strip_suffix(' ').is_some_and(|kept| kept.ends_with(|last: char| last.is_ascii_digit()));
        if after_number && (is_unit(name) || is_thousands(name)) {
            kept.pop();
            kept.push('\u{a0}');
        }
        kept.push_str(word);
    }
    kept
}

/// Splits a command at spaces, so that the page does not break words at hyphens.
pub(crate) fn command_words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Wraps words into lines of at most `letters` characters; a longer word gets its own line.
pub(crate) fn wrap_words(words: impl IntoIterator<Item: AsRef<str>>, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = word.as_ref();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
