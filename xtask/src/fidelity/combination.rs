//! The measured cases, each with the number of messages per round and its rule.

use std::time::Duration;

use anyhow::{Result, bail};

use super::judge::Rule;

/// A case, as command-line arguments.
#[derive(Clone, Copy)]
pub(super) struct Combination {
    pub(super) transport: &'static str,
    pub(super) waiting: &'static str,
    pub(super) placement: &'static str,
}

const TRANSPORTS: &[&str] = &["tcp", "udp", "unix-stream", "pipe", "shm"];

/// Transports between two hosts.
const BETWEEN_HOSTS: &[&str] = &["tcp", "udp"];

/// Waiting and placement of the cases. Both programs refuse to spin on one CPU.
const MODES: &[(&str, &str)] = &[("block", "same-cpu"), ("block", "cross-cpu"), ("spin", "cross-cpu")];

/// Messages per round. They take a fraction of a second, so that the rounds of a case are close in time.
const COUNT: u64 = 4_000;
const COUNT_OF_SPINNING_SHM: u64 = 200_000;
pub(super) const WARM_UP: u64 = 500;

/// Time limit of a round.
pub(super) const LIMIT: Duration = Duration::from_mins(2);

impl Combination {
    pub(super) fn all(only: &[String], two_hosts: bool) -> Result<Vec<Self>> {
        let transports = if two_hosts { BETWEEN_HOSTS } else { TRANSPORTS };
        if let Some(unknown) = only.iter().find(|name| !transports.contains(&name.as_str())) {
            bail!("unknown transport `{unknown}` (hint: one of {})", transports.join(", "));
        }
        let wanted = transports.iter().filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == *name));
        let combine = |transport: &'static str| {
            MODES.iter().map(move |&(waiting, placement)| Self { transport, waiting, placement })
        };
        Ok(wanted.flat_map(|transport| combine(transport)).collect())
    }

    pub(super) fn count(self) -> u64 {
        if (self.transport, self.waiting) == ("shm", "spin") { COUNT_OF_SPINNING_SHM } else { COUNT }
    }

    /// Returns how close Hairpin must be to the bare loop.
    pub(super) fn rule(self) -> Rule {
        match (self.transport, self.waiting, self.placement) {
            (_, "block", "cross-cpu") => Rule::WithinSpread,
            ("shm", "spin", _) => Rule::Within(0.05),
            _ => Rule::Within(0.03),
        }
    }

    /// Returns how close Hairpin must be to another build.
    pub(super) fn rule_against(self) -> Rule {
        match (self.waiting, self.placement) {
            ("block", "cross-cpu") => Rule::NotAboveSpread,
            _ => Rule::Below(0.02),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_rule() {
        let all = Combination::all(&[], false).unwrap();
        assert_eq!(all.len(), 15);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::WithinSpread).count(), 5);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::Within(0.05)).count(), 1);
        assert_eq!(Combination::all(&["udp".to_owned()], false).unwrap().len(), 3);
        assert_eq!(all.iter().filter(|combination| combination.rule_against() == Rule::NotAboveSpread).count(), 5);
        assert_eq!(all.iter().filter(|combination| combination.rule_against() == Rule::Below(0.02)).count(), 10);
        assert!(Combination::all(&["utp".to_owned()], false).is_err());
        assert_eq!(Combination::all(&[], true).unwrap().len(), 6);
        assert!(Combination::all(&["pipe".to_owned()], true).is_err());
    }
}
