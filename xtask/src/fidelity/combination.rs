//! The measured cases, each with the number of messages per round and its rule.

use std::time::Duration;

use anyhow::{Result, bail};

use super::judge::Rule;

#[derive(Clone, Copy)]
pub(super) enum Cases {
    OnOneHost,
    BetweenHosts,
    /// Other ways to wait than block and spin.
    Waits,
}

/// A case, as command-line arguments.
#[derive(Clone, Copy)]
pub(super) struct Combination {
    pub(super) transport: &'static str,
    pub(super) waiting: &'static str,
    pub(super) placement: &'static str,
}

const TRANSPORTS: &[&str] = &["tcp", "udp", "unix-stream", "pipe", "shm"];

const BETWEEN_HOSTS: &[&str] = &["tcp", "udp"];

/// Waiting and placement of the cases. Both programs refuse to spin on one CPU.
const MODES: &[(&str, &str)] = &[("block", "same-cpu"), ("block", "cross-cpu"), ("spin", "cross-cpu")];

/// Ways to wait for an answer over tcp, on one CPU and on two.
const WAITS: &[&str] = &["poll", "epoll", "spin-then-block", "uring", "async"];
const PLACEMENTS: &[&str] = &["same-cpu", "cross-cpu"];

/// Messages per round: they take some tenths of a second, much longer than a turn and than Hairpin takes to start.
const COUNT: u64 = 40_000;
const COUNT_WITH_WAKE_UPS: u64 = 10_000;
const COUNT_OF_SPINNING_SHM: u64 = 1_000_000;
pub(super) const WARM_UP: u64 = 500;

pub(super) const LIMIT: Duration = Duration::from_mins(2);

impl Combination {
    /// Returns the cases; of `--waits` with these ways to wait only, else with these transports only.
    pub(super) fn all(only: &[String], cases: Cases) -> Result<Vec<Self>> {
        let names = match cases {
            Cases::Waits => WAITS,
            Cases::BetweenHosts => BETWEEN_HOSTS,
            Cases::OnOneHost => TRANSPORTS,
        };
        if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
            bail!("no case has `{unknown}` (hint: one of {})", names.join(", "));
        }
        let wanted = names.iter().filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == *name));
        let combine = |name: &&'static str| match cases {
            Cases::Waits => {
                let placements =
                    PLACEMENTS.iter().filter(|placement| (*name, **placement) != ("spin-then-block", "same-cpu"));
                placements.map(|&placement| Self::new("tcp", name, placement)).collect::<Vec<_>>()
            }
            _ => MODES.iter().map(|&(waiting, placement)| Self::new(name, waiting, placement)).collect(),
        };
        Ok(wanted.flat_map(combine).collect())
    }

    fn new(transport: &'static str, waiting: &'static str, placement: &'static str) -> Self {
        Self { transport, waiting, placement }
    }

    pub(super) fn count(self) -> u64 {
        match (self.transport, self.waiting, self.placement) {
            ("shm", "spin", _) => COUNT_OF_SPINNING_SHM,
            (_, waiting, "cross-cpu") if !waiting.starts_with("spin") => COUNT_WITH_WAKE_UPS,
            _ => COUNT,
        }
    }

    /// Returns how close Hairpin must be to the bare loop.
    pub(super) fn rule(self) -> Rule {
        match (self.transport, self.waiting, self.placement) {
            (_, "uring" | "async", _) => Rule::Below(0.05),
            (_, waiting, _) if WAITS.contains(&waiting) => Rule::Below(0.03),
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
        let all = Combination::all(&[], Cases::OnOneHost).unwrap();
        assert_eq!(all.len(), 15);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::WithinSpread).count(), 5);
        assert_eq!(all.iter().filter(|combination| combination.rule() == Rule::Within(0.05)).count(), 1);
        assert_eq!(Combination::all(&["udp".to_owned()], Cases::OnOneHost).unwrap().len(), 3);
        assert_eq!(all.iter().filter(|combination| combination.rule_against() == Rule::NotAboveSpread).count(), 5);
        assert_eq!(all.iter().filter(|combination| combination.rule_against() == Rule::Below(0.02)).count(), 10);
        assert!(Combination::all(&["utp".to_owned()], Cases::OnOneHost).is_err());
        assert_eq!(Combination::all(&[], Cases::BetweenHosts).unwrap().len(), 6);
        assert!(Combination::all(&["pipe".to_owned()], Cases::BetweenHosts).is_err());
        let waits = Combination::all(&[], Cases::Waits).unwrap();
        assert_eq!(waits.iter().filter(|combination| combination.rule() == Rule::Below(0.05)).count(), 4);
        assert_eq!(waits.iter().filter(|combination| combination.rule() == Rule::Below(0.03)).count(), 5);
    }
}
