//! Reads the files of the repository, and blanks out comments and literals in Rust code.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

pub(crate) struct Source {
    /// Path relative to the root, with `/` between folders: `crates/hairpin-model/src/lib.rs`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Folders without sources: build output, runs, git.
const IGNORED_FOLDERS: &[&str] = &["target", "hairpin-runs", ".git"];

/// Reads all files below `root` with one of the `extensions`, in order of path.
pub(crate) fn files(root: &Path, extensions: &[&str]) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let name = entry.file_name();
            let kind =
                entry.file_type().with_context(|| format!("cannot read the type of {}", entry.path().display()))?;
            if kind.is_dir() && !IGNORED_FOLDERS.iter().any(|skipped| name == *skipped) {
                folders.push(entry.path());
            } else if kind.is_file() && has_extension(&entry.path(), extensions) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| read(root, &path)).collect()
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted))
}

fn read(root: &Path, path: &PathBuf) -> Result<Source> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
    Ok(Source { path, text })
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
fn item_end(blank: &str, at: usize) -> usize {
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
