//! Lines of limited width: wrapping, hanging indents and styles.

use anstyle::{AnsiColor, Effects, Style};
use hairpin_model::printable;

use super::look::Look;
use crate::page_text::{keep_units, wrap_words};

pub(super) const PLAIN: Style = Style::new();
pub(super) const LEAD: Style = Style::new().effects(Effects::BOLD);
pub(super) const HEADING: Style = Style::new().effects(Effects::BOLD.insert(Effects::UNDERLINE));
pub(super) const DIM: Style = Style::new().effects(Effects::DIMMED);
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().effects(Effects::BOLD);
pub(super) const CODE: Style = AnsiColor::Cyan.on_default();

/// A no-break space, printed as an ordinary space.
pub(super) const NO_BREAK: &str = "\u{a0}";

pub(super) struct Page {
    text: String,
    pub(super) look: Look,
}

impl Page {
    pub(super) fn new(look: Look) -> Self {
        Self { text: String::new(), look: Look { width: look.width.max(40), ..look } }
    }

    pub(super) fn finish(self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    /// Adds a blank line, unless the last line is blank.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    pub(super) fn line(&mut self, style: Style, line: &str) {
        let line = line.trim_end();
        self.text.push_str(&self.paint(style, line));
        self.text.push('\n');
    }

    /// Adds a heading after a blank line, with a remark on the same line if it fits.
    pub(super) fn heading(&mut self, title: &str, remark: &str) {
        self.gap();
        let title_painted = self.paint(HEADING, title);
        let room = self.look.width.saturating_sub(title.chars().count() + 2);
        if remark.is_empty() || remark.chars().count() > room {
            self.text.push_str(&title_painted);
            self.text.push('\n');
            if !remark.is_empty() {
                self.paragraph(0, DIM, remark);
            }
        } else {
            let remark = self.paint(DIM, remark);
            self.text.push_str(&format!("{title_painted}  {remark}\n"));
        }
    }

    /// Adds a heading with a list, or nothing if the list is empty.
    pub(super) fn section(&mut self, title: &str, remark: &str, items: impl Iterator<Item = (Style, String)>) {
        for (place, (style, text)) in items.enumerate() {
            if place == 0 {
                self.heading(title, remark);
            }
            self.item("  ", style, &text);
        }
    }

    pub(super) fn titled(&mut self, style: Style, tag: &str, rest: &str) {
        let (tag, rest) = (self.paint(style, tag), self.paint(LEAD, &clean(rest)));
        self.text.push_str(&format!("{tag}: {rest}\n"));
    }

    pub(super) fn paragraph(&mut self, indent: usize, style: Style, text: &str) {
        self.item(&" ".repeat(indent), style, text);
    }

    pub(super) fn item(&mut self, label: &str, style: Style, text: &str) {
        let label = clean_keeping_blanks(label);
        let indent = label.chars().count();
        for (place, line) in wrap(text, self.look.width - indent).into_iter().enumerate() {
            let before = if place == 0 { label.clone() } else { " ".repeat(indent) };
            let line = self.paint(style, &line);
            self.text.push_str(&format!("{before}{line}\n"));
        }
    }

    /// Adds a wrapped command whose lines end in a backslash, so that it can be pasted.
    pub(super) fn command(&mut self, label: &str, style: Style, command: &str) {
        let indent = label.chars().count();
        let lines = wrap_words(shell_words(&clean_keeping_blanks(command)), self.look.width - indent - 2);
        let last = lines.len().saturating_sub(1);
        for (place, line) in lines.into_iter().enumerate() {
            let line = if place == last { line } else { format!("{line} \\") };
            let line = self.paint(style, &line);
            self.text.push_str(&format!("{label}{line}\n"));
        }
    }

    fn paint(&self, style: Style, text: &str) -> String {
        if self.look.colour && style != PLAIN && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

/// Replaces control characters by spaces, and joins repeated spaces.
pub(super) fn clean(text: &str) -> String {
    clean_keeping_blanks(text).split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn clean_keeping_blanks(text: &str) -> String {
    text.chars().map(|letter| if printable::steers(letter) { ' ' } else { letter }).collect()
}

/// Splits a command into words without unquoting them. Does not split quoted text, because a backslash at the end of
/// a line inside single quotes would be part of the word.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for letter in command.chars() {
        match letter {
            ' ' if !is_quoted && !is_escaped => words.push(String::new()),
            other => words.last_mut().expect("words are never empty").push(other),
        }
        is_quoted ^= letter == '\'' && !is_escaped;
        is_escaped = letter == '\\' && !is_quoted && !is_escaped;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Wraps a text into lines of at most `width` characters, or of one longer word. Keeps numbers and units together.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let text = keep_units(&clean(text));
    let words = text.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace(NO_BREAK, " "));
    wrap_words(words, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_but_not_at_no_break_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("one\u{a0}two three", 9), ["one two", "three"]);
        assert_eq!(wrap("  spaces   vanish ", 80), ["spaces vanish"]);
        assert_eq!(wrap("a wordthatislong b", 5), ["a", "wordthatislong", "b"]);
        assert!(wrap("", 10).is_empty());
        assert_eq!(wrap("took 21.3 s, so", 12), ["took 21.3 s,", "so"]);
        assert_eq!(wrap("sent 41 200 of", 9), ["sent", "41 200 of"]);
        assert_eq!(wrap("it took 21.3 s.", 12), ["it took", "21.3 s."]);
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(clean("tcp\u{1b}[31m\r\nred\u{202e}x"), "tcp [31m red x");
    }

    #[test]
    fn a_wrapped_command_can_be_pasted() {
        let mut page = Page::new(Look { width: 40, colour: false });
        page.command("  ", CODE, "hairpin round-trip --transport tcp --placement cross-cpu");
        assert_eq!(page.finish(), "  hairpin round-trip --transport tcp \\\n  --placement cross-cpu\n");
        let mut page = Page::new(Look { width: 40, colour: false });
        page.command(
            "  ",
            CODE,
            r"hairpin round-trip --link 'delay=1ms loss=1%' --link 'replay=it'\''s a trace' --size 4",
        );
        let lines = [
            r"  hairpin round-trip --link \",
            r"  'delay=1ms loss=1%' --link \",
            r"  'replay=it'\''s a trace' --size 4",
        ];
        assert_eq!(page.finish(), format!("{}\n", lines.join("\n")));
    }

    #[test]
    fn styles_appear_only_if_requested() {
        let text = |colour| {
            let mut page = Page::new(Look { width: 80, colour });
            page.paragraph(0, BAD, "bad");
            page.finish()
        };
        assert_eq!(text(false), "bad\n");
        assert!(text(true).starts_with("\u{1b}[") && text(true).ends_with("\u{1b}[0m\n"), "{:?}", text(true));
    }
}
