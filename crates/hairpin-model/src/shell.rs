//! Quoting of commands in POSIX shell syntax (Shell Command Language, section 2.2).

/// The words as one line to paste into a shell.
pub fn command(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// The word, in single quotes if a shell would interpret it.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=,:+%@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Splits a line at whitespace, except in single quotes, which may occur within a word. Ignores other shell syntax. An
/// unclosed quote extends to the end.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            blank if blank.is_whitespace() && !is_quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_quoted() {
        assert_eq!(quoted("delay=2ms"), "delay=2ms");
        assert_eq!(quoted("up=5mbit delay=23.5ms±1ms"), "'up=5mbit delay=23.5ms±1ms'");
        assert_eq!(quoted("replay=it's;rm"), r"'replay=it'\''s;rm'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_printed_command_splits_into_the_same_words() {
        let asked = ["--link", "home-uplink up.loss=0%", "--size", "4", ""].map(str::to_owned);
        let line = command(&asked);
        assert_eq!(line, "--link 'home-uplink up.loss=0%' --size 4 ''");
        assert_eq!(words(&line), asked);
        assert_eq!(words("  a  b='c d'e\n"), ["a", "b=c de"]);
        assert_eq!(words("a 'b c"), ["a", "b c"]);
        assert!(words(" ").is_empty());
    }
}
