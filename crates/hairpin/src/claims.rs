//! The published claims: reads the texts in `claims/` once, and selects claims.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use hairpin_model::{Claim, Hinted, Refused, Source, TestMethod, Text, names};

/// Every published text with its file name in `claims/`, sorted by letter. A test fails if a file is missing.
const FILES: &[(&str, &str)] = &[
    ("how-fast-can-tcp-be.toml", include_str!("../../../claims/how-fast-can-tcp-be.toml")),
    ("tcp-nodelay-and-cork.toml", include_str!("../../../claims/tcp-nodelay-and-cork.toml")),
    ("tcp-against-udp.toml", include_str!("../../../claims/tcp-against-udp.toml")),
    ("nagle-write-write-read.toml", include_str!("../../../claims/nagle-write-write-read.toml")),
    ("is-tcp-really-that-slow.toml", include_str!("../../../claims/is-tcp-really-that-slow.toml")),
    ("quic-at-high-rates.toml", include_str!("../../../claims/quic-at-high-rates.toml")),
];

const MAX_FILE_BYTES: u64 = 1 << 20;

/// File in a claims folder with the output of `--json`.
pub const TESTED: &str = "claims.json";

pub fn texts() -> &'static [Text] {
    static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| {
        let read = |(name, text): &(&str, &str)| {
            toml::from_str(text).unwrap_or_else(|error| panic!("claims/{name} is part of this program: {error}"))
        };
        FILES.iter().map(read).collect()
    });
    &TEXTS
}

/// Reads a user's file of claims.
///
/// # Errors
/// The file cannot be read, is larger than 1 MiB, is no text of claims (with the line), names a run that it does not
/// define, has ids or names of runs that cannot be used, or has the letter of a built-in text.
pub fn read_file(path: &Path) -> Result<Text, Refused> {
    let refused = |cause: String, hint: &str| Refused::new(format!("claims of {}: {cause}", path.display()), hint);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    let size = read.map_err(|error| refused(error.to_string(), "give a TOML file as in docs/claims.md"))?;
    if size as u64 > MAX_FILE_BYTES {
        return Err(refused("larger than 1 MiB".to_owned(), "split it"));
    }
    let described = "docs/claims.md describes the format";
    let text = String::from_utf8(bytes).map_err(|error| refused(error.to_string(), described))?;
    let text: Text =
        toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_owned(), described))?;
    if !matches!(text.letter.as_bytes(), [b'A'..=b'Z']) {
        return Err(refused(format!("letter `{}` is no letter from A to Z", text.letter), "use one capital letter"));
    }
    if texts().iter().any(|known| known.letter == text.letter) {
        return Err(refused(format!("letter {} is that of a built-in text", text.letter), "use another letter"));
    }
    // Runs and their folders have these names.
    let is_name = |name: &str| {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !name.is_empty() && name.bytes().all(is_fine)
    };
    if let Some(name) = text.runs.keys().find(|name| !is_name(name)) {
        return Err(refused(format!("run `{name}` has another name"), "use small letters, digits and hyphens"));
    }
    let mut ids = BTreeSet::new();
    for claim in &text.claims {
        let there = claim.between_hosts();
        let mut runs = claim.runs().into_iter().chain(there.runs());
        if let Some(run) = runs.find(|run| !text.runs.contains_key(*run)) {
            return Err(refused(
                format!("{} names no defined run: {run}", claim.id),
                "add [runs.NAME] with its command",
            ));
        }
        let number = claim.id.strip_prefix(&text.letter).and_then(|number| number.parse::<u32>().ok());
        if number.is_none_or(|number| claim.id != format!("{}{number}", text.letter)) {
            let hint = format!("call it {}1 or the like", text.letter);
            return Err(refused(format!("`{}` is no letter {} with a number", claim.id, text.letter), &hint));
        }
        if !ids.insert(&claim.id) {
            return Err(refused(format!("two claims are {}", claim.id), "rename one"));
        }
    }
    Ok(text)
}

#[derive(Clone, Debug)]
pub struct SelectedClaims {
    pub text: Text,
    /// The claims, in the text's order.
    pub claims: Vec<Claim>,
}

const ONE_HOST_FLAGS: [&str; 6] = ["--placement", "--ends", "--load-cpu", "--link", "--cpu-idle", "--sysctl"];

/// Removes flags that apply only on one host from a run's command.
pub fn between_hosts(words: Vec<String>) -> Vec<String> {
    let mut left = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if ONE_HOST_FLAGS.contains(&word.as_str()) {
            words.next();
        } else {
            left.push(word);
        }
    }
    left
}

impl SelectedClaims {
    /// Names of the runs that test these claims, each once, in order of first use.
    pub fn runs(&self) -> Vec<&str> {
        names::distinct(self.claims.iter().flat_map(Claim::runs))
    }

    #[must_use]
    pub fn between_hosts(self) -> Self {
        Self { claims: self.claims.iter().map(Claim::between_hosts).collect(), ..self }
    }

    /// The claims without tests of other settings, which decide nothing.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let rows = self.claims.iter_mut().flat_map(|claim| &mut claim.rows);
        for row in rows.filter(|row| row.other_setting.is_some() && matches!(row.means, TestMethod::Test(_))) {
            row.means = TestMethod::Skipped("--quick omits it".to_owned());
        }
        self
    }

    pub fn source(&self) -> Source {
        let Text { letter, title, author, publisher, url, retrieved, what, setting, .. } = self.text.clone();
        Source { letter, title, author, publisher, url, retrieved, what, setting, quote: String::new() }
    }
}

/// The claims of these texts with the given ids, such as `B1`, or letters, such as `B`, in either case; all claims if
/// none is given.
///
/// # Errors
/// A name is unknown. The hint has the first and last id of each text.
pub fn choose(texts: &[&Text], asked: &[String]) -> Result<Vec<SelectedClaims>, Refused> {
    let known: Vec<&str> = texts
        .iter()
        .flat_map(|text| std::iter::once(&text.letter).chain(text.claims.iter().map(|claim| &claim.id)))
        .map(String::as_str)
        .collect();
    let mut wanted = Vec::new();
    for name in asked {
        let ids = |text: &&Text| Some(format!("{} to {}", text.claims.first()?.id, text.claims.last()?.id));
        let there_are = || format!("there are {}", names::joined(&texts.iter().filter_map(ids).collect::<Vec<_>>()));
        let found = names::find("claim", &name.to_uppercase(), &known);
        wanted.push(found.map_err(|unknown| Refused::new(unknown.cause(), there_are()))?);
    }
    let is_wanted = |text: &Text, claim: &Claim| {
        wanted.is_empty() || wanted.contains(&text.letter.as_str()) || wanted.contains(&claim.id.as_str())
    };
    let of_text = |text: &&Text| SelectedClaims {
        text: (*text).clone(),
        claims: text.claims.iter().filter(|claim| is_wanted(text, claim)).cloned().collect(),
    };
    Ok(texts.iter().map(of_text).filter(|chosen| !chosen.claims.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use hairpin_model::shell;

    use super::between_hosts;

    #[test]
    fn only_flags_of_one_host_are_removed_from_a_command() {
        let left = |command: &str| shell::command(&between_hosts(shell::words(command)));
        let plan = "hairpin under-load --transport tcp,udp --link 'home-uplink up.loss=0%' --load none,up --load-cpu same \
                    --link plc --placement same-cpu --cpu-idle shallow --rounds 6";
        assert_eq!(left(plan), "hairpin under-load --transport tcp,udp --load none,up --rounds 6");
        let plan =
            "hairpin round-trip --ends threads --sysctl net.ipv4.tcp_sack=0 --waiting poll --option nodelay=on";
        assert_eq!(left(plan), "hairpin round-trip --waiting poll --option nodelay=on");
    }
}
