//! The built-in profiles and the sources of their figures.
//!
//! A figure is published, derived from published figures, or our own choice; [`Builtin::because`] says which. Sources
//! give round-trip times, but a profile gives the delay of one direction, which is half of the published value.

use std::sync::LazyLock;

use crate::profile::Profile;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    /// The modelled path, in one line.
    pub summary: &'static str,
    /// The canonical line of the profile.
    pub line: &'static str,
    /// The source of each figure.
    pub because: &'static str,
}

impl Builtin {
    pub fn profile(&self) -> Profile {
        if self.line == hairpin_model::case::LOOPBACK {
            return Profile::loopback();
        }
        self.line.parse().expect("a test parses every built-in line")
    }
}

/// All built-in profiles, shortest path first: in the file, each has four lines, in the order of the fields.
pub static ALL: LazyLock<Vec<Builtin>> = LazyLock::new(|| {
    let read = |profile: &'static str| {
        let lines: Vec<&str> = profile.lines().collect();
        let [name, summary, line, because] = lines.try_into().expect("a test reads every built-in profile");
        Builtin { name, summary, line, because }
    };
    include_str!("builtin.txt").split("\n\n").map(read).collect()
});

pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|builtin| builtin.name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hairpin_model::link::Direction;

    use super::*;
    use crate::link::Link;
    use crate::simulate::simulate;
    use crate::tests::fixture::{SEED, packets};

    const MIB: f64 = 1_048_576.0;

    #[test]
    fn every_line_parses_and_is_displayed_unchanged() {
        for builtin in ALL.iter() {
            let parsed: Profile = builtin.name.parse().unwrap();
            assert_eq!(parsed, builtin.profile());
            assert_eq!(parsed.to_string(), builtin.line, "{}", builtin.name);
            assert!(!builtin.summary.ends_with('.') && builtin.because.ends_with('.'), "{}", builtin.name);
        }
        let distinct: BTreeSet<_> = ALL.iter().map(|builtin| builtin.name).collect();
        assert_eq!(distinct.len(), ALL.len());
    }

    #[test]
    fn the_links_page_shows_every_profile_and_its_sources() {
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let page = plain(include_str!("../../../docs/links.md"));
        for builtin in ALL.iter() {
            for text in [builtin.name, builtin.summary, builtin.line, builtin.because] {
                assert!(page.contains(&plain(text)), "docs/links.md does not contain: {text}");
            }
        }
    }

    /// TCP goodput at the profile's rate, in MiB/s: 1448 of 1500 bytes are payload.
    fn goodput_mib_per_s(direction: Direction) -> f64 {
        let profile = find("home-uplink").unwrap().profile();
        let rate = profile.path(direction).bottleneck.rate_bits_per_s.unwrap();
        rate as f64 / 8.0 * 1448.0 / 1500.0 / MIB
    }

    #[test]
    fn the_home_uplink_carries_the_published_tcp_goodput() {
        let up = goodput_mib_per_s(Direction::Up);
        assert!((100.0 / up - 158.0).abs() < 0.5, "{up}");
        assert!((goodput_mib_per_s(Direction::Down) - 10.03).abs() < 0.005);
    }

    /// Loss of 74 899 datagrams of 1400 B sent at this rate, in percent.
    // The casts are exact: the numbers are small.
    fn lost_percent(mib_per_s: f64) -> f64 {
        let gap_ns = 1400.0 / MIB / mib_per_s * 1e9;
        let mut link = Link::new(&find("home-uplink").unwrap().profile(), SEED, &[]).unwrap();
        let _ = simulate(&mut link, &packets((0..74_899).map(|number| ((number as f64 * gap_ns) as u64, 1428))));
        let counts = link.path(Direction::Up).packets();
        counts.dropped.values().sum::<u64>() as f64 / 74_899.0 * 100.0
    }

    #[test]
    fn the_home_uplink_has_the_published_loss_of_a_blast_and_of_a_paced_stream() {
        assert!((lost_percent(43.28) - 95.88).abs() < 0.02, "{}", lost_percent(43.28));
        assert!((lost_percent(0.623) - 0.015).abs() < 0.015, "{}", lost_percent(0.623));
        // These losses are only near the published 20.93 % and 44.29 %, as the profile's text states.
        assert!((lost_percent(0.812) - 18.2).abs() < 0.1, "{}", lost_percent(0.812));
        assert!((lost_percent(1.181) - 42.9).abs() < 0.1, "{}", lost_percent(1.181));
    }
}
