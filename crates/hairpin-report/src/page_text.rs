//! Typography of pages.

use hairpin_model::quantities::{is_thousands, is_unit};

/// Ties a number to its unit, and the thousands of a number, with no-break blanks; writes µs for us.
pub(crate) fn tied(text: &str) -> String {
    let mut tied = String::with_capacity(text.len());
    let mut before: Option<&str> = None;
    for word in text.split(' ') {
        let after_number = before.is_some_and(|before| before.ends_with(|last: char| last.is_ascii_digit()));
        if before.is_some() {
            tied.push(if after_number && (is_unit(word) || is_thousands(word)) { '\u{a0}' } else { ' ' });
        }
        if after_number && is_unit(word) && word.starts_with("us") {
            tied.push_str(&word.replacen("us", "µs", 1));
        } else {
            tied.push_str(word);
        }
        before = Some(word);
    }
    tied
}

/// The words of a command, so that none is broken at a hyphen.
pub(crate) fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}
/// Fills lines of at most `letters` characters; a longer word has its own line.
pub(crate) fn filled(words: impl IntoIterator<Item: AsRef<str>>, letters: usize) -> Vec<String> {
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
