//! Makes text from files, peers and command lines safe to print.
//!
//! Control characters and characters that change the direction of text affect a terminal. A saved run may contain any
//! of them, so all printed text goes through this module.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character can control a terminal or hide text. These are control characters (C0, DEL, C1), the marks of
/// Unicode's bidirectional algorithm (UAX #9), and the line and paragraph separators.
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text on one line: characters that [`steers`] matches are escaped as `\u{1b}`, including line breaks and tabs.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, as_in_rust)
}

/// The text with its line breaks and tabs; other characters that [`steers`] matches are escaped as `\u{1b}`.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| matches!(letter, '\n' | '\t'), as_in_rust)
}

/// Like [`lines`], but keeps style sequences (`ESC [ 1 ; 31 m`).
pub fn styled(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| steers(letter) && letter != '\n') {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\u{1b}') {
        safe.push_str(&lines(&rest[..place]));
        let length = style_length(&rest[place..]);
        let (head, tail) = rest[place..].split_at(length.unwrap_or(1));
        safe.push_str(&if length.is_some() { Cow::Borrowed(head) } else { line(head) });
        rest = tail;
    }
    safe.push_str(&lines(rest));
    Cow::Owned(safe)
}

/// Length in bytes of the style sequence at the start of the text; `None` without one.
fn style_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// Escapes characters in JSON that [`steers`] matches, as `\u001b`, without changing its value. Keeps line breaks,
/// which JSON has only between values.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |letter| letter == '\n',
        |safe, letter| {
            write!(safe, "\\u{:04x}", u32::from(letter)).expect("a String takes any text");
        },
    )
}

fn escaped(text: &str, stays: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.chars().any(|letter| steers(letter) && !stays(letter)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if steers(letter) && !stays(letter) {
            escape(&mut safe, letter);
        } else {
            safe.push(letter);
        }
    }
    Cow::Owned(safe)
}

fn as_in_rust(safe: &mut String, letter: char) {
    safe.extend(letter.escape_unicode());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One character of each kind, and the bounds of each range.
    const STEERING: &str = "\0\u{7}\u{8}\r\u{b}\u{1b}\u{1f}\u{7f}\u{80}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";

    #[test]
    fn terminal_controls_are_escaped() {
        assert!(STEERING.chars().all(steers));
        for safe in [line(STEERING), lines(STEERING), styled(STEERING), json(STEERING)] {
            assert!(!safe.chars().any(steers), "{safe:?}");
        }
        assert_eq!(line("a\u{1b}[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\u{a}\\u{202e}");
        assert_eq!(lines("a\r\n\tb"), "a\\u{d}\n\tb");
        let plain = "µs ± 1 é 漢 \u{a0}";
        assert!(matches!(line(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn only_style_sequences_pass() {
        assert_eq!(styled("\u{1b}[1;31mred\u{1b}[0m\n"), "\u{1b}[1;31mred\u{1b}[0m\n");
        for steering in ["\u{1b}[2J", "\u{1b}]0;title\u{7}", "\u{1b}[31", "\u{1b}", "\u{1b}[3\u{9b}m", "\u{9b}31m"] {
            assert!(!styled(steering).chars().any(steers), "{steering:?}");
        }
    }
}
