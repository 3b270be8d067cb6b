//! Reads the files of the repository, and blanks out comments and literals in Rust code.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

use crate::process;

pub(crate) struct Source {
    /// Path relative to the root, with `/` between folders: `crates/hairpin-model/src/lib.rs`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// Whether the file is Rust code of a crate, without files for its tests.
    pub(crate) fn is_code(&self) -> bool {
        let path = &self.path;
        let in_source = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
        in_source && !path.split(['/', '.']).any(|part| part == "tests")
    }

    /// Like [`Self::is_code`], without the crate for tests.
    pub(crate) fn is_production(&self) -> bool {
        self.is_code() && !self.path.starts_with("crates/hairpin-testing/")
    }
}

/// Reads all files below `root` with one of the `extensions`, in order of path, except those that git ignores.
pub(crate) fn files(root: &Path, extensions: &[&str]) -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    git.args(extensions.iter().map(|extension| format!("*.{extension}")));
    let listed = process::run(&mut git, Duration::from_mins(1))?.succeeded().context("git ls-files")?.stdout;
    let read = |path: &str| {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(Source { path: path.to_owned(), text })
    };
    // A removed file is listed until its removal is staged.
    let paths: BTreeSet<&str> = listed.split_terminator('\0').filter(|path| root.join(path).is_file()).collect();
    paths.into_iter().map(read).collect()
}

/// Returns the line number, from 1, of byte `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the byte offsets of `word` in `text`, except inside of longer names.
pub(crate) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let part_of_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !part_of_name(before) && !part_of_name(bytes.get(at + word.len()))
    })
}

/// Blanks out comments in Rust code, and with `literals_too` also quoted literals. Keeps byte offsets and line ends.
pub(crate) fn without_comments(text: &str, literals_too: bool) -> String {
    let mut code = String::with_capacity(text.len());
    for token in tokenize(text, FrontmatterAllowed::No) {
        let part = &text[code.len()..code.len() + token.len as usize];
        let is_blank = match token.kind {
            TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => true,
            TokenKind::Literal { kind: LiteralKind::Int { .. } | LiteralKind::Float { .. }, .. } => false,
            TokenKind::Literal { .. } => literals_too,
            _ => false,
        };
        if is_blank { code.extend(blank(part)) } else { code.push_str(part) }
    }
    code
}

/// Returns as many spaces as `text` has bytes, with the same line ends.
fn blank(text: &str) -> impl Iterator<Item = char> {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' })
}

/// Blanks out comments and test-only items in Rust code, and with `literals_too` also quoted literals.
pub(crate) fn production(text: &str, literals_too: bool) -> String {
    const FOR_TESTS: &str = "#[cfg(test)]";
    let mut visible = without_comments(text, true);
    let mut code = without_comments(text, literals_too);
    while let Some(at) = visible.find(FOR_TESTS) {
        let end = item_end(&visible, at + FOR_TESTS.len());
        for text in [&mut visible, &mut code] {
            let spaces: String = blank(&text[at..end]).collect();
            text.replace_range(at..end, &spaces);
        }
    }
    code
}

/// Returns the end of the item that begins at byte `at`: the end of its block, or the first semicolon before a block.
pub(crate) fn item_end(blank: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, letter) in blank[at..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + offset + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    blank.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_everything_else_is_kept() {
        let text =
            "let a = \"//x\"; // gone\n/* a /* b */ c */ let c = '\"'; fn f<'q>(x: &'q str) {} r#\"z\"w\"#; r#type";
        let code = without_comments(text, true);
        assert_eq!(code.len(), text.len());
        assert_eq!(
            code.split_whitespace().collect::<Vec<_>>().join(" "),
            "let a = ; let c = ; fn f<'q>(x: &'q str) {} ; r#type"
        );
        assert!(without_comments(text, false).contains("\"//x\""));
        assert!(!without_comments(text, false).contains("gone"));
    }

    #[test]
    fn test_only_items_are_blanked() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { 1 }\n}\n#[cfg(test)]\npub(crate) mod c;\nfn d() {}\n";
        let production = production(text, true);
        assert_eq!(production.split_whitespace().collect::<Vec<_>>().join(" "), "fn a() {} fn d() {}");
        assert_eq!(production.lines().count(), text.lines().count());
        let text =
            "fn a() { \"é\" } // \"b\"\n#[cfg(test)]\nmod tests { const C: &str = \"ö}\"; }\nfn d() { \"e\" }\n";
        let code = super::production(text, false);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), "fn a() { \"é\" } fn d() { \"e\" }");
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn text_that_ends_inside_a_literal_does_not_panic() {
        for text in ["\"a", "\"a\\", "'\\", "/* a", "r#\"a", "r##", "'", "b'x", "'é'"] {
            assert_eq!(without_comments(text, true).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_name() {
        let text = "unsafe_code, is_unsafe, unsafe {";
        assert_eq!(words(text, "unsafe").collect::<Vec<_>>(), [24]);
    }
}
