//! Names typed by the user, with the nearest match for unknown ones, and lists of names for printing.

use crate::hint::{Hint, Hinted};

/// An unknown name, with the nearest known one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.cause(), Hint(&self.hint()))]
pub struct UnknownName {
    /// Kind of name, for instance `transport`.
    pub kind: &'static str,
    /// What the user typed.
    pub given: String,
    /// The nearest known name, if one is close.
    pub nearest: Option<String>,
    pub known: Vec<String>,
}

impl Hinted for UnknownName {
    fn cause(&self) -> String {
        format!("unknown {} `{}`", self.kind, self.given)
    }

    fn hint(&self) -> String {
        let is_known = |new: &str| self.known.iter().any(|known| known == new);
        let renamed = RENAMED.iter().find(|(_, old, new)| *old == self.given && is_known(new));
        if let Some((_, _, new)) = renamed {
            return format!("it was renamed to `{new}`");
        }
        let shown = SHOWN.iter().find(|(shown, name)| *shown == self.given && is_known(name));
        if let Some((_, name)) = shown {
            return format!("write it as `{name}`");
        }
        match &self.nearest {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("one of {}", self.known.join(", ")),
        }
    }
}

/// Words of reports, with their different names on the command line.
const SHOWN: &[(&str, &str)] =
    &[("busy-polling", "spin"), ("blocking", "block"), ("two-cpus", "cross-cpu"), ("not-pinned", "unpinned")];

/// Renamed words: the kind of name, the old word, and the new word.
pub const RENAMED: &[(&str, &str, &str)] = &[
    ("limit", "duration", "turn"),
    ("placement", "together", "same-cpu"),
    ("placement", "apart", "cross-cpu"),
    ("placement", "free", "unpinned"),
    ("remedy", "none", "default"),
];

/// Finds `given` in `known`; the error has the nearest known name.
pub fn find<'k>(kind: &'static str, given: &str, known: &[&'k str]) -> Result<&'k str, UnknownName> {
    place(kind, given, known).map(|place| known[place])
}

/// Index of `given` in `known`; the error has the nearest known name.
pub fn place(kind: &'static str, given: &str, known: &[&str]) -> Result<usize, UnknownName> {
    known.iter().position(|name| *name == given).ok_or_else(|| UnknownName {
        kind,
        given: given.to_owned(),
        nearest: nearest(given, known).map(str::to_owned),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    })
}

/// The known name nearest to `given`, if close enough to be a typo.
///
/// A name one edit away (insertion, deletion, substitution or swap: Damerau-Levenshtein) is always close, because
/// Jaro-Winkler alone finds no similarity between `tpc` and `tcp`. Beyond one edit Jaro-Winkler decides.
pub fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    let given = given.to_lowercase();
    known
        .iter()
        .copied()
        .map(|name| (similarity(&given, &name.to_lowercase()), name))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn similarity(given: &str, name: &str) -> f64 {
    let one_slip = name.len() > 2 && strsim::osa_distance(given, name) == 1;
    strsim::jaro_winkler(given, name).max(if one_slip { 0.9 } else { 0.0 })
}

/// Returns each value once, in order of first occurrence.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// Groups values by key; keys are in order of first occurrence.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// All names in a sentence: `a, b and c`.
pub fn joined(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => names.concat(),
    }
}

/// The first `most` names in a sentence: `tcp, udp and 3 others`. Gives all names if only one would be omitted.
pub fn shortened(names: &[impl AsRef<str>], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 | 1 => joined(names),
        others => {
            let first: Vec<&str> = names[..most].iter().map(AsRef::as_ref).collect();
            format!("{} and {others} others", first.join(", "))
        }
    }
}

/// Does nothing: without the feature `schema`, words have no schema.
#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! word_schema {
    ($name:ident) => {};
}

/// The conversions that `#[serde(try_from = "String", into = "String")]` needs, for a type saved as text.
macro_rules! saved_as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = $crate::refused::Refused;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}
pub(crate) use saved_as_text;

/// Declares enums whose variants are words of the command line and of the saved run.
#[macro_export]
macro_rules! words {
    ($($(#[$meta:meta])* $vis:vis enum $name:ident : $kind:literal { $($(#[$vmeta:meta])* $variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $name { $($(#[$vmeta])* #[serde(rename = $word)] $variant),+ }

        $crate::word_schema!($name);

        impl $name {
            /// Every value, in display order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The words of all values, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The value's word on the command line, in JSON and in tables.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::names::UnknownName;
            fn from_str(given: &str) -> Result<Self, Self::Err> {
                $crate::names::place($kind, given, Self::WORDS).map(|place| Self::ALL[place])
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Placement;
    use crate::exchange::Remedy;

    #[test]
    fn a_renamed_word_is_refused_with_its_new_name() {
        assert!(
            "together"
                .parse::<Placement>()
                .unwrap_err()
                .to_string()
                .ends_with("(hint: it was renamed to `same-cpu`)")
        );
        for (kind, old, new) in RENAMED {
            match *kind {
                "placement" => assert!(old.parse::<Placement>().is_err() && new.parse::<Placement>().is_ok()),
                "remedy" => assert!(old.parse::<Remedy>().is_err() && new.parse::<Remedy>().is_ok()),
                "limit" => {
                    let told = crate::Limits::parse(&format!("{old}=60s")).unwrap_err().to_string();
                    assert!(told.ends_with(&format!("(hint: it was renamed to `{new}`)")), "{told}");
                }
                other => panic!("no such kind of names: {other}"),
            }
        }
    }

    #[test]
    fn a_typo_gets_the_nearest_name() {
        let unknown = find("transport", "unix-steam", &["tcp", "unix-stream", "udp"]).unwrap_err();
        assert_eq!(unknown.nearest.as_deref(), Some("unix-stream"));
        let waiting = find("waiting", "busy-polling", &["block", "poll", "spin"]).unwrap_err();
        assert_eq!(waiting.to_string(), "unknown waiting `busy-polling` (hint: write it as `spin`)");
        assert_eq!(unknown.to_string(), "unknown transport `unix-steam` (hint: did you mean `unix-stream`?)");
    }

    #[test]
    fn lists_of_names_read_well() {
        let names = ["a", "b", "c", "d"];
        assert_eq!([joined(&names[..1]), joined(&names[..2]), joined(&names)], ["a", "a and b", "a, b, c and d"]);
        assert_eq!([shortened(&names[..3], 2), shortened(&names, 2)], ["a, b and c", "a, b and 2 others"]);
        assert_eq!(joined(&[""; 0]), "");
    }

    #[test]
    fn two_swapped_letters_are_one_edit_in_a_short_name_too() {
        assert_eq!(nearest("tpc", &["udp", "tcp", "pipe"]), Some("tcp"));
        assert_eq!(nearest("shn", &["tcp", "shm"]), Some("shm"));
    }

    #[test]
    fn capitals_do_not_change_the_nearest_name() {
        assert_eq!(nearest("B11", &["A1", "B1", "E21"]), Some("B1"));
    }

    #[test]
    fn a_name_without_a_near_match_gets_the_list() {
        let unknown = find("transport", "zzz", &["tcp", "udp"]).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown transport `zzz` (hint: one of tcp, udp)");
    }

    #[test]
    fn values_are_grouped_by_their_key_in_order() {
        let pairs = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(grouped(pairs), [("b", vec![1, 3]), ("a", vec![2])]);
        assert_eq!(grouped::<u8, u8>([]), []);
    }
}
