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

/// Wraps words into lines of at most `width` columns. A longer word gets its own line, unless it is of an East Asian
/// script, which has no blanks: it is split.
pub(crate) fn wrap_words(words: impl IntoIterator<Item: AsRef<str>>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.into_iter().flat_map(|word| pieces(word.as_ref(), width)) {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let last = pieces.last_mut().expect("pieces are never empty");
        if is_wide(letter) && !last.is_empty() && columns(last) + 2 > width {
            pieces.push(letter.into());
        } else {
            last.push(letter);
        }
    }
    pieces
}

pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|letter| if is_wide(letter) { 2 } else { 1 }).sum()
}

/// Whether a letter is two columns wide, as those of East Asian scripts are.
fn is_wide(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_two_columns_are_wrapped() {
        assert_eq!(wrap_words(["使用", "socket"], 11), ["使用 socket"]);
        assert_eq!(wrap_words(["使用", "socket"], 10), ["使用", "socket"]);
        assert_eq!(wrap_words(["示例", "选项的程序示例", "x"], 5), ["示例", "选项", "的程", "序示", "例 x"]);
        assert_eq!(wrap_words(["a-long-word"], 5), ["a-long-word"]);
        assert_eq!(wrap_words(["a-long-word,选项"], 5), ["a-long-word,", "选项"]);
    }
}
