//! A link's figures, and the line of text that defines them.

pub mod error;
mod parse;

use std::fmt;

use hairpin_model::link::Direction;

use crate::figures::Codel;
pub use crate::figures::PathProfile;
use crate::quantity::Share;
use crate::stage::Contradiction;
use crate::stages;

pub const DEFAULT_MTU_BYTES: u32 = 1500;

/// MTU of Linux's loopback interface. Only the `loopback` profile has this MTU: no IP packet exceeds 65535 bytes.
const LOOPBACK_MTU_BYTES: u32 = 65_536;

/// A link's figures.
///
/// `Display` writes the canonical line, with the words in the order of the stages; parsing this line gives the same
/// figures. Figures equal in both directions are written once; `up.` or `down.` limits a word to one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Maximum size of an IP packet in bytes.
    pub mtu_bytes: u32,
    pub up: PathProfile,
    /// From the server to the client.
    pub down: PathProfile,
}

impl Default for Profile {
    /// A link that passes every packet immediately.
    fn default() -> Self {
        Self { mtu_bytes: DEFAULT_MTU_BYTES, up: PathProfile::default(), down: PathProfile::default() }
    }
}

impl Profile {
    /// The kernel's own loopback, without a link and so without an emulator.
    pub fn loopback() -> Self {
        Self { mtu_bytes: LOOPBACK_MTU_BYTES, ..Self::default() }
    }

    pub fn is_loopback(&self) -> bool {
        *self == Self::loopback()
    }

    pub fn path(&self, direction: Direction) -> &PathProfile {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    pub fn path_mut(&mut self, direction: Direction) -> &mut PathProfile {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Round-trip time in ns from the delays alone, without jitter, queues and transmission times.
    pub fn round_trip_ns(&self) -> u64 {
        self.up.delay.base_ns.saturating_add(self.down.delay.base_ns)
    }

    /// Whether either direction flips bits.
    pub fn may_corrupt(&self) -> bool {
        [&self.up, &self.down].into_iter().any(|path| path.corrupt != Share::NONE)
    }

    /// Names of the traces that the profile replays. [`crate::link::Link::new`] needs their content.
    pub fn traces(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            [&self.up, &self.down].into_iter().filter_map(|path| path.bottleneck.replay.as_deref()).collect();
        names.dedup();
        names
    }

    /// The stages of a direction in order, each with a description of its figures.
    pub fn figures(&self, direction: Direction) -> Vec<(&'static str, String)> {
        let path = self.path(direction);
        stages::ALL.iter().filter_map(|stage| Some((stage.name, (stage.figures)(path, self.mtu_bytes)?))).collect()
    }

    /// The same link without stage `stage` in both directions; `None` if the profile has no words for this stage.
    pub fn without(&self, stage: &str) -> Option<Self> {
        let words = stages::ALL.iter().find(|listed| listed.name == stage)?.words;
        let figures_of_stage = |name: &str| words.iter().any(|word| word.name == name);
        let line = self.to_string();
        let kept = line.split(' ').filter(|word| {
            let name = word.split('=').next().unwrap_or_default();
            let bare = name.strip_prefix("up.").or_else(|| name.strip_prefix("down.")).unwrap_or(name);
            // `up=` and `down=` without a word are rates.
            !figures_of_stage(if matches!(bare, "up" | "down") { "rate" } else { bare })
        });
        let kept: Vec<&str> = kept.collect();
        let without = if kept.is_empty() { Self::default() } else { kept.join(" ").parse().ok()? };
        (without != *self).then_some(without)
    }

    /// The same link with CoDel added to each queue that lacks it; `None` if there is no such queue. CoDel changes
    /// nothing in a direction whose packets hardly wait.
    pub fn with_codel(&self) -> Option<Self> {
        let mut with = self.clone();
        for path in [&mut with.up, &mut with.down] {
            if path.bottleneck.sends() {
                path.bottleneck.codel = path.bottleneck.codel.or(Some(Codel::RECOMMENDED));
            }
        }
        (with != *self).then_some(with)
    }

    /// The first impossible figure and its direction. Always `None` for a parsed profile.
    pub fn contradiction(&self) -> Option<(Direction, Contradiction)> {
        let check = |direction| {
            let path = self.path(direction);
            let found = stages::ALL.iter().find_map(|stage| (stage.check)(path, self.mtu_bytes));
            found.map(|contradiction| (direction, contradiction))
        };
        check(Direction::Up).or_else(|| check(Direction::Down))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_loopback() {
            return out.pad(hairpin_model::case::LOOPBACK);
        }
        let mut words: Vec<String> = Vec::new();
        words.extend((self.mtu_bytes != DEFAULT_MTU_BYTES).then(|| format!("mtu={}B", self.mtu_bytes)));
        for word in stages::ALL.iter().flat_map(|stage| stage.words) {
            let [up, down] = [&self.up, &self.down].map(word.shown);
            if up == down {
                words.extend(up.map(|value| format!("{}={value}", word.name)));
                continue;
            }
            for (direction, value) in [("up", up), ("down", down)] {
                words.extend(value.map(|value| match word.name {
                    "rate" => format!("{direction}={value}"),
                    name => format!("{direction}.{name}={value}"),
                }));
            }
        }
        if words.is_empty() {
            words.push("delay=0ms".to_owned());
        }
        out.pad(&words.join(" "))
    }
}
