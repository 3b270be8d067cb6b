//! Typography of HTML pages.

use hairpin_model::quantities::{is_thousands, is_unit};

/// Puts no-break spaces between numbers and units and between groups of thousands; writes µs for us.
pub(crate) fn nbsp(text: &str) -> String {
    let mut nbsp = String::with_capacity(text.len());
    let mut before: Option<&str> = None;
    for word in text.split(' ') {
        let after_number = before.is_some_and(|before| before.ends_with(|last: char| last.is_ascii_digit()));
        if before.is_some() {
            nbsp.push(if after_number && (is_unit(word) || is_thousands(word)) { '\u{a0}' } else { ' ' });
        }
        if after_number && is_unit(word) && word.starts_with("us") {
            nbsp.push_str(&word.replacen("us", "µs", 1));
        } else {
            nbsp.push_str(word);
        }
        before = Some(word);
    }
    nbsp
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
