//! The ledger of published claims: the texts in `claims/`, read once, and those of their claims that are asked for.

use std::sync::LazyLock;

use hairpin_model::claim::{Claim, Text};
use hairpin_model::hint::Hinted;
use hairpin_model::judged_claim::Source;
use hairpin_model::names::{self, UnknownName};
use hairpin_model::refused::Refused;

/// Every published text, by its file in `claims/`, in the order of their letters. A test fails when a file is missing.
const FILES: &[(&str, &str)] = &[
    ("how-fast-can-tcp-be.toml", include_str!("../../../claims/how-fast-can-tcp-be.toml")),
    ("tcp-nodelay-and-cork.toml", include_str!("../../../claims/tcp-nodelay-and-cork.toml")),
    ("tcp-against-udp.toml", include_str!("../../../claims/tcp-against-udp.toml")),
    ("nagle-write-write-read.toml", include_str!("../../../claims/nagle-write-write-read.toml")),
    ("is-tcp-really-that-slow.toml", include_str!("../../../claims/is-tcp-really-that-slow.toml")),
];

/// The file of a claims folder that holds what `--json` prints.
pub const TESTED: &str = "claims.json";

/// The texts.
///
/// # Panics
/// Never: the files are part of the program, and a test reads them.
#[must_use]
pub fn texts() -> &'static [Text] {
    static TEXTS: LazyLock<Vec<Text>> = LazyLock::new(|| {
        let read = |(name, text): &(&str, &str)| {
            toml::from_str(text).unwrap_or_else(|error| panic!("claims/{name} is part of this program: {error}"))
        };
        FILES.iter().map(read).collect()
    });
    &TEXTS
}

/// No claim and no text goes by the name; where it begins with a text's letter, the hint names that text's claims.
fn unknown_claim(unknown: UnknownName) -> Refused {
    let is_of = |text: &&Text| {
        let number = unknown.given.strip_prefix(&text.letter);
        number.is_some_and(|number| number.chars().all(|letter| letter.is_ascii_digit()))
    };
    let text = texts().iter().find(is_of).map(|text| (text, text.claims.first(), text.claims.last()));
    match text {
        Some((Text { letter, .. }, Some(Claim { id: first, .. }), Some(Claim { id: last, .. }))) => {
            Refused::new(unknown.cause(), format!("text {letter} has {first} to {last}"))
        }
        _ => unknown.into(),
    }
}

/// A text and those of its claims that are asked for.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The text.
    pub text: &'static Text,
    /// The claims, in its order.
    pub claims: Vec<Claim>,
}

/// The flags of what there is only where both ends are on one host.
const OF_ONE_HOST: [&str; 6] = ["--placement", "--ends", "--load-cpu", "--link", "--cpu-idle", "--sysctl"];

/// The words of a run's command as they are between two hosts: without what only makes sense on one host.
#[must_use]
pub fn between_hosts(words: Vec<String>) -> Vec<String> {
    let mut left = Vec::with_capacity(words.len());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if OF_ONE_HOST.contains(&word.as_str()) {
            words.next();
        } else {
            left.push(word);
        }
    }
    left
}

impl Chosen {
    /// The names of the runs that test these claims, each once, in the order in which they are first needed.
    #[must_use]
    pub fn runs(&self) -> Vec<&str> {
        names::distinct(self.claims.iter().flat_map(Claim::runs))
    }

    /// The same claims as they are tested between two hosts.
    #[must_use]
    pub fn between_hosts(self) -> Self {
        Self { claims: self.claims.iter().map(Claim::between_hosts).collect(), ..self }
    }

    /// What is told of the text.
    #[must_use]
    pub fn source(&self) -> Source {
        let Text { letter, title, what, file, setting, .. } = self.text;
        let [letter, title, what, file, setting] = [letter, title, what, file, setting].map(String::clone);
        Source { letter, title, what, file, setting }
    }
}

/// The claims that are meant by ids such as `B1` and letters such as `B`, without regard to capitals; all of them
/// where nothing is asked for.
///
/// # Errors
/// [`Refused`], with the ids that the text of that letter has, or else the nearest id.
pub fn choose(asked: &[String]) -> Result<Vec<Chosen>, Refused> {
    let known: Vec<&str> = texts()
        .iter()
        .flat_map(|text| std::iter::once(&text.letter).chain(text.claims.iter().map(|claim| &claim.id)))
        .map(String::as_str)
        .collect();
    let mut wanted = Vec::new();
    for name in asked {
        wanted.push(names::find("claim", &name.to_uppercase(), &known).map_err(unknown_claim)?);
    }
    let is_wanted = |text: &Text, claim: &Claim| {
        wanted.is_empty() || wanted.contains(&text.letter.as_str()) || wanted.contains(&claim.id.as_str())
    };
    let of_text = |text: &'static Text| Chosen {
        text,
        claims: text.claims.iter().filter(|claim| is_wanted(text, claim)).cloned().collect(),
    };
    Ok(texts().iter().map(of_text).filter(|chosen| !chosen.claims.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use hairpin_model::shell;

    use super::between_hosts;

    #[test]
    fn what_one_host_has_is_taken_out_of_a_command_and_nothing_else() {
        let left = |command: &str| shell::command(&between_hosts(shell::words(command)));
        let plan = "hairpin under-load --transport tcp,udp --link 'home-uplink up.loss=0%' --load none,up --load-cpu same \
                    --link plc --placement same-cpu --cpu-idle shallow --rounds 6";
        assert_eq!(left(plan), "hairpin under-load --transport tcp,udp --load none,up --rounds 6");
        let plan =
            "hairpin round-trip --ends threads --sysctl net.ipv4.tcp_sack=0 --waiting poll --option nodelay=on";
        assert_eq!(left(plan), "hairpin round-trip --waiting poll --option nodelay=on");
    }
}
