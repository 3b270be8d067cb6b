//! Parses a profile from its line.
//!
//! Words are separated by white space. The first word may be the name of a built-in profile, which the other words
//! modify. Any other word is `NAME=VALUE` for both directions; a leading `up.` or `down.` limits the word to one
//! direction. `up=RATE` and `down=RATE` are short for `up.rate=RATE` and `down.rate=RATE`. Values for one direction
//! override values for both directions, wherever they are in the line.

use std::ops::Range;
use std::str::FromStr;

use hairpin_model::Refused;
use hairpin_model::link::Direction;
use hairpin_model::names::nearest;

use crate::builtin;
use crate::profile::error::ProfileError;
use crate::profile::{PathProfile, Profile};
use crate::quantity::{bytes, whole};
use crate::stages;
use crate::stages::queue::{DEFAULT_PACKETS, Limit};
use crate::word::{Requirement, Word};

const MAX_LINE_BYTES: usize = 100_000;

/// Minimum MTU: that of IPv4 (RFC 791).
const MIN_MTU: u64 = 68;

/// Maximum MTU: the longest IPv4 packet.
const MAX_MTU: u64 = 65_535;

/// Names that other tools use for some of the words.
const FOREIGN_NAMES: &[(&str, &str)] = &[
    ("bandwidth", "rate"),
    ("bw", "rate"),
    ("buffer", "queue"),
    ("latency", "delay"),
    ("limit", "queue"),
    ("speed", "rate"),
];

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let line = ProfileLine(text);
        if text.len() > MAX_LINE_BYTES {
            return Err(line.fault(0..0, "the line is too long", format!("at most {MAX_LINE_BYTES} bytes")));
        }
        let mut words = line.words();
        let mut profile = match words.first() {
            None => {
                let hint = format!(
                    "for instance delay=20ms up=5mbit down=50mbit, or one of {}",
                    builtin::names().join(", ")
                );
                return Err(line.fault(0..0, "the profile is empty", hint));
            }
            Some(first) if !text[first.clone()].contains('=') => line.named(words.remove(0), &words)?,
            Some(_) => Self::default(),
        };
        let settings = words.into_iter().map(|range| line.setting(range)).collect::<Result<Vec<_>, _>>()?;
        line.refuse_twice(&settings)?;
        for general_first in [true, false] {
            for setting in settings.iter().filter(|setting| setting.scope.is_none() == general_first) {
                line.apply(setting, &mut profile)?;
            }
        }
        line.normalize(&settings, &mut profile)?;
        Ok(profile)
    }
}

/// A word of the line, parsed.
struct Setting {
    scope: Option<Direction>,
    what: What,
    /// The range of the whole word in the line.
    range: Range<usize>,
    value: Range<usize>,
}

enum What {
    Mtu,
    Word(&'static Word),
}

impl What {
    fn name(&self) -> &'static str {
        match self {
            Self::Mtu => "mtu",
            Self::Word(word) => word.name,
        }
    }
}

fn language() -> impl Iterator<Item = &'static Word> {
    stages::ALL.iter().flat_map(|stage| stage.words)
}

struct ProfileLine<'a>(&'a str);

impl ProfileLine<'_> {
    fn fault(&self, range: Range<usize>, problem: impl Into<String>, hint: impl Into<String>) -> ProfileError {
        ProfileError { text: self.0.to_owned(), range, problem: problem.into(), hint: hint.into() }
    }

    fn words(&self) -> Vec<Range<usize>> {
        let start = self.0.as_ptr() as usize;
        self.0
            .split_whitespace()
            .map(|word| {
                let at = word.as_ptr() as usize - start;
                at..at + word.len()
            })
            .collect()
    }

    /// Finds a built-in profile. `loopback` allows no other words.
    fn named(&self, name: Range<usize>, others: &[Range<usize>]) -> Result<Profile, ProfileError> {
        let given = &self.0[name.clone()];
        let Some(found) = builtin::find(given) else {
            return Err(self.no_such_name(given, name));
        };
        let profile = found.profile();
        match others.first() {
            Some(other) if profile.is_loopback() => Err(self.fault(
                other.clone(),
                "`loopback` is the kernel's loopback without emulation, so it takes no other words",
                "omit `loopback` or all other words",
            )),
            _ => Ok(profile),
        }
    }

    fn no_such_name(&self, given: &str, range: Range<usize>) -> ProfileError {
        let names = builtin::names();
        if let Some(name) = nearest(given, &names) {
            let problem = format!("no built-in profile is called `{given}`");
            return self.fault(range, problem, format!("did you mean `{name}`?"));
        }
        let bare = given.strip_prefix("up.").or_else(|| given.strip_prefix("down.")).unwrap_or(given);
        if let Some(word) = language().find(|word| word.name == bare) {
            return self.fault(range, format!("`{given}` has no value"), format!("for instance {}", word.example));
        }
        let problem = format!("`{given}` is neither a built-in profile nor NAME=VALUE");
        self.fault(range, problem, format!("for instance delay=20ms, or one of {}", names.join(", ")))
    }

    /// Splits a word into its parts.
    fn setting(&self, range: Range<usize>) -> Result<Setting, ProfileError> {
        let text = &self.0[range.clone()];
        let Some((name, _)) = text.split_once('=') else {
            return Err(match builtin::find(text) {
                Some(_) => self.fault(range, "a built-in profile must be the first word", "put the profile first"),
                None => self.no_such_name(text, range),
            });
        };
        let name_range = range.start..range.start + name.len();
        let value = name_range.end + 1..range.end;
        let (scope, bare) = match name {
            "up" | "down" => (name.parse().ok(), "rate"),
            _ => match name.split_once('.') {
                Some((scope, bare)) => (Some(self.scope(scope, range.start)?), bare),
                None => (None, name),
            },
        };
        let what = match (bare, scope) {
            ("mtu", None) => What::Mtu,
            ("mtu", Some(_)) => {
                let value = Some(&self.0[value]).filter(|value| !value.is_empty()).unwrap_or("1500B");
                return Err(self.fault(
                    name_range,
                    "the MTU cannot be set for one direction",
                    format!("write it as mtu={value}"),
                ));
            }
            _ => match language().find(|word| word.name == bare) {
                Some(word) => What::Word(word),
                None => return Err(self.no_such_word(bare, name_range)),
            },
        };
        if value.is_empty() {
            let example = if let What::Word(word) = &what { word.example } else { "mtu=1500B" };
            return Err(self.fault(range, format!("`{name}` has no value"), format!("for instance {example}")));
        }
        Ok(Setting { scope, what, range, value })
    }

    fn scope(&self, scope: &str, start: usize) -> Result<Direction, ProfileError> {
        scope.parse().map_err(|_| {
            let problem = format!("`{scope}` is not a direction");
            self.fault(
                start..start + scope.len(),
                problem,
                "put `up.` or `down.` before a word to set it for one direction",
            )
        })
    }

    fn no_such_word(&self, bare: &str, range: Range<usize>) -> ProfileError {
        let known: Vec<&str> = language().map(|word| word.name).chain(["mtu", "up", "down"]).collect();
        let elsewhere = FOREIGN_NAMES.iter().find(|(other, _)| *other == bare).map(|(_, word)| *word);
        let hint = match elsewhere.or_else(|| nearest(bare, &known)) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("one of {}", known.join(", ")),
        };
        self.fault(range, format!("no word is called `{bare}`"), hint)
    }

    fn refuse_twice(&self, settings: &[Setting]) -> Result<(), ProfileError> {
        for (at, setting) in settings.iter().enumerate() {
            let same = |other: &&Setting| other.what.name() == setting.what.name() && other.scope == setting.scope;
            if let Some(first) = settings[..at].iter().find(same) {
                let problem = format!("the word is given twice, first as `{}`", &self.0[first.range.clone()]);
                return Err(self.fault(setting.range.clone(), problem, "keep one of them"));
            }
        }
        Ok(())
    }

    fn apply(&self, setting: &Setting, profile: &mut Profile) -> Result<(), ProfileError> {
        let value = &self.0[setting.value.clone()];
        let bad = |bad: Refused| self.fault(setting.value.clone(), bad.what, bad.hint);
        match &setting.what {
            What::Mtu => {
                let bytes = whole(value).or_else(|_| bytes(value)).map_err(bad)?;
                let fits = (MIN_MTU..=MAX_MTU).contains(&bytes).then(|| u32::try_from(bytes).ok()).flatten();
                let problem = || format!("an MTU of {bytes} bytes is not possible");
                let hint = || format!("from {MIN_MTU} to {MAX_MTU} bytes, for instance mtu=1500B");
                profile.mtu_bytes = fits.ok_or_else(|| self.fault(setting.value.clone(), problem(), hint()))?;
            }
            What::Word(word) => {
                for direction in setting.directions() {
                    (word.read)(profile.path_mut(direction), value).map_err(bad)?;
                }
            }
        }
        Ok(())
    }

    /// Clears figures without effect, fills in the default queue, and refuses contradictions.
    fn normalize(&self, settings: &[Setting], profile: &mut Profile) -> Result<(), ProfileError> {
        for setting in settings {
            let What::Word(word) = &setting.what else { continue };
            let Some(Requirement { needs, example, there, .. }) = &word.about else { continue };
            if !setting.directions().any(|direction| there(profile.path(direction))) {
                let problem = format!("`{}` has no effect without {needs}", word.name);
                return Err(self.fault(setting.range.clone(), problem, format!("add {needs}: {example}")));
            }
        }
        for path in [&mut profile.up, &mut profile.down] {
            clear_unused(path);
            if path.bottleneck.sends() && path.bottleneck.limit == Limit::default() {
                path.bottleneck.limit.packets = Some(DEFAULT_PACKETS);
            }
        }
        match profile.contradiction() {
            None => Ok(()),
            Some((direction, contradiction)) => {
                let range = self.range_at_fault(settings, direction, contradiction.word);
                Err(self.fault(range, contradiction.problem, contradiction.hint))
            }
        }
    }

    /// The range of the word at fault; the whole line if the word comes from a built-in profile.
    fn range_at_fault(&self, settings: &[Setting], direction: Direction, word: &str) -> Range<usize> {
        let said = |scope| settings.iter().find(|setting| setting.what.name() == word && setting.scope == scope);
        said(Some(direction)).or_else(|| said(None)).map_or(0..self.0.len(), |setting| setting.range.clone())
    }
}

impl Setting {
    fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        let scope = self.scope;
        Direction::ALL.iter().copied().filter(move |direction| scope.is_none_or(|scope| scope == *direction))
    }
}

fn clear_unused(path: &mut PathProfile) {
    for about in language().filter_map(|word| word.about) {
        if !(about.there)(path) {
            (about.clear)(path);
        }
    }
}
