//! All stages, each in its own file or folder. A test fails if a stage in this folder is not in [`ALL`].
//!
//! The stages are in the order of a real path. Packets that the path cannot carry never enter it: packets larger than
//! the MTU, and all packets while the path is down. Next is the bottleneck, where packets wait for a rate. Sent
//! packets cross a medium that loses, damages or repeats them. The distance is last: it delays the remaining packets,
//! and packets on a detour are overtaken.

pub mod corrupt;
pub mod delay;
pub mod duplicate;
pub mod loss;
pub mod mtu;
pub mod outage;
pub mod queue;
pub mod reorder;

use crate::stage::Card;

/// All stages, in the order in which packets pass through them.
pub const ALL: &[Card] =
    &[mtu::CARD, outage::CARD, queue::CARD, loss::CARD, corrupt::CARD, duplicate::CARD, delay::CARD, reorder::CARD];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_list_has_exactly_the_files_of_this_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stages");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().replace('_', "-"))
            .filter(|stem| stem != "mod")
            .collect();
        let listed: BTreeSet<String> = ALL.iter().map(|stage| stage.name.to_owned()).collect();
        assert_eq!(files, listed);
        assert_eq!(listed.len(), ALL.len(), "two stages have the same name");
    }

    #[test]
    fn no_word_of_the_language_belongs_to_two_stages() {
        let words: Vec<&str> = ALL.iter().flat_map(|stage| stage.words).map(|word| word.name).collect();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{words:?}");
    }
}
