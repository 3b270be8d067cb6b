//! Every stage, a file (or a folder) each. A test fails when one in this folder is not in [`ALL`].
//!
//! The order is that of a path in the world. What the path cannot carry at all never enters it: packets larger than the
//! MTU, and everything while the path is down. Then comes the bottleneck, where packets wait for a rate. What has been
//! sent crosses a medium that loses, damages or repeats it. The distance comes last: it delays what is left, and what
//! takes another way is overtaken.

pub mod corrupt;
pub mod delay;
pub mod duplicate;
pub mod loss;
pub mod mtu;
pub mod outage;
pub mod queue;
pub mod reorder;

use delay::Delay;
use loss::Loss;
use outage::Outage;
use queue::Bottleneck;
use reorder::Reorder;

use crate::quantity::{BadValue, Share};
use crate::stage::{Card, Contradiction, Site, Stage};
use crate::word::Word;

/// Every stage, in the order in which a packet passes them.
pub const ALL: &[&dyn Listed] = &[
    &Entry { card: &MTU, of: |path| path, of_mut: |path| path },
    &Entry { card: &outage::CARD, of: |path| &path.outages, of_mut: |path| &mut path.outages },
    &Entry { card: &queue::CARD, of: |path| &path.bottleneck, of_mut: |path| &mut path.bottleneck },
    &Entry { card: &loss::CARD, of: |path| &path.loss, of_mut: |path| &mut path.loss },
    &Entry { card: &corrupt::CARD, of: |path| &path.corrupt, of_mut: |path| &mut path.corrupt },
    &Entry { card: &duplicate::CARD, of: |path| &path.duplicate, of_mut: |path| &mut path.duplicate },
    &Entry { card: &delay::CARD, of: |path| &path.delay, of_mut: |path| &mut path.delay },
    &Entry { card: &reorder::CARD, of: |path| &path.reorder, of_mut: |path| &mut path.reorder },
];

const MTU: Card<PathProfile> = mtu::card();

/// The figures of one direction: what each of the stages is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathProfile {
    /// When it is down.
    pub outages: Vec<Outage>,
    /// What packets wait for, and how many may.
    pub bottleneck: Bottleneck,
    /// What it loses.
    pub loss: Loss,
    /// In which share of packets a bit is flipped.
    pub corrupt: Share,
    /// Which share of packets is sent twice.
    pub duplicate: Share,
    /// How long it takes.
    pub delay: Delay,
    /// What is held back.
    pub reorder: Option<Reorder>,
}

/// A stage as the list has it: its card, applied to its part of a direction's figures.
pub trait Listed: Sync {
    /// Its name, in ledgers and logs.
    fn name(&self) -> &'static str;
    /// What it models, in one line.
    fn models(&self) -> &'static str;
    /// The reasons for which it drops.
    fn reasons(&self) -> &'static [&'static str];
    /// The words by which a profile asks for it.
    fn words(&self) -> Vec<Box<dyn PathWord>>;
    /// What is impossible or contradictory in the direction's figures.
    fn check(&self, path: &PathProfile, mtu_bytes: u32) -> Option<Contradiction>;
    /// Its figures in words; null where the direction has no such stage.
    fn figures(&self, path: &PathProfile, mtu_bytes: u32) -> Option<String>;
    /// The stage itself; null where the direction has no such stage.
    fn build(&self, path: &PathProfile, site: &Site<'_>) -> Option<Box<dyn Stage>>;
}

/// A word of the profile language, applied to a direction's figures: see [`Word`].
pub trait PathWord {
    /// Its name.
    fn name(&self) -> &'static str;
    /// An example with its value.
    fn example(&self) -> &'static str;
    /// What it says, in one line, with units.
    fn says(&self) -> &'static str;
    /// Reads a value.
    ///
    /// # Errors
    /// [`BadValue`] with what is wrong and what would be right.
    fn read(&self, path: &mut PathProfile, value: &str) -> Result<(), BadValue>;
    /// The value as a profile shows it; null where the figures are as if the word were not there.
    fn shown(&self, path: &PathProfile) -> Option<String>;
    /// What it needs to say anything, and an example of that.
    fn needs(&self) -> Option<(&'static str, &'static str)>;
    /// Whether that is there.
    fn has_what_it_needs(&self, path: &PathProfile) -> bool;
    /// Makes the figures as if the word were not there.
    fn clear(&self, path: &mut PathProfile);
}

/// A card, and where its figures are among those of a direction.
struct Entry<F: 'static> {
    card: &'static Card<F>,
    of: fn(&PathProfile) -> &F,
    of_mut: fn(&mut PathProfile) -> &mut F,
}

impl<F: 'static> Listed for Entry<F> {
    fn name(&self) -> &'static str {
        self.card.name
    }

    fn models(&self) -> &'static str {
        self.card.models
    }

    fn reasons(&self) -> &'static [&'static str] {
        self.card.reasons
    }

    fn words(&self) -> Vec<Box<dyn PathWord>> {
        let Self { card, of, of_mut } = *self;
        card.words.iter().map(|word| Box::new(WordOf { word, of, of_mut }) as Box<dyn PathWord>).collect()
    }

    fn check(&self, path: &PathProfile, mtu_bytes: u32) -> Option<Contradiction> {
        (self.card.check)((self.of)(path), mtu_bytes)
    }

    fn figures(&self, path: &PathProfile, mtu_bytes: u32) -> Option<String> {
        (self.card.figures)((self.of)(path), mtu_bytes)
    }

    fn build(&self, path: &PathProfile, site: &Site<'_>) -> Option<Box<dyn Stage>> {
        (self.card.build)((self.of)(path), site)
    }
}

struct WordOf<F: 'static> {
    word: &'static Word<F>,
    of: fn(&PathProfile) -> &F,
    of_mut: fn(&mut PathProfile) -> &mut F,
}

impl<F: 'static> PathWord for WordOf<F> {
    fn name(&self) -> &'static str {
        self.word.name
    }

    fn example(&self) -> &'static str {
        self.word.example
    }

    fn says(&self) -> &'static str {
        self.word.says
    }

    fn read(&self, path: &mut PathProfile, value: &str) -> Result<(), BadValue> {
        (self.word.read)((self.of_mut)(path), value)
    }

    fn shown(&self, path: &PathProfile) -> Option<String> {
        (self.word.shown)((self.of)(path))
    }

    fn needs(&self) -> Option<(&'static str, &'static str)> {
        self.word.about.as_ref().map(|about| (about.needs, about.example))
    }

    fn has_what_it_needs(&self, path: &PathProfile) -> bool {
        self.word.about.as_ref().is_none_or(|about| (about.there)((self.of)(path)))
    }

    fn clear(&self, path: &mut PathProfile) {
        if let Some(about) = &self.word.about {
            (about.clear)((self.of_mut)(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_in_this_folder_is_in_the_list_and_the_other_way_round() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stages");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().replace('_', "-"))
            .filter(|stem| stem != "mod")
            .collect();
        let listed: BTreeSet<String> = ALL.iter().map(|stage| stage.name().to_owned()).collect();
        assert_eq!(files, listed);
        assert_eq!(listed.len(), ALL.len(), "two stages have one name");
    }

    #[test]
    fn no_word_of_the_language_belongs_to_two_stages() {
        let words: Vec<&str> = ALL.iter().flat_map(|stage| stage.words()).map(|word| word.name()).collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{words:?}");
    }
}
