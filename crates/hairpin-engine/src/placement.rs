//! Assigns CPUs to the two ends.

use std::io;
use std::path::Path;

use hairpin_model::{EndSettings, Level, Placement, Refused, WhichCpus, WhyNot};
use serde::{Deserialize, Serialize};

use crate::system::cpu;
use crate::topology::{self, Cpu};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpus {
    /// All CPUs that this process may use.
    pub allowed: Vec<usize>,
    /// The client's CPU if the ends are on two CPUs.
    pub client: usize,
    /// The server's CPU if the ends are on two CPUs, else the CPU of both ends; `None` if only one CPU is allowed.
    pub server: Option<usize>,
    /// Whether both CPUs are threads of one core; `None` if unknown.
    pub share_core: Option<bool>,
    /// The placements by topology; empty if the user chose the CPUs.
    pub levels: Vec<Level>,
}

impl Cpus {
    /// Chooses two allowed CPUs: the first, and the nearest of another core if possible.
    pub fn choose() -> io::Result<Self> {
        Ok(Self::among(&topology::read(Path::new("/"), &cpu::allowed()?)))
    }

    /// Returns a copy that uses these CPUs. `same-cpu` puts both ends on the server's CPU; the placements by topology
    /// are removed.
    ///
    /// # Errors
    /// [`Refused`] for a CPU that this process may not use.
    pub fn at(&self, [client, server]: [usize; 2]) -> Result<Self, Refused> {
        if let Some(cpu) = [client, server].into_iter().find(|cpu| !self.allowed.contains(cpu)) {
            let why = if topology::exists(cpu) { "this process may not use that CPU" } else { "no such CPU" };
            let may: Vec<String> = self.allowed.iter().map(usize::to_string).collect();
            return Err(Refused::new(format!("--cpu {cpu}: {why}"), format!("one of {}", may.join(", "))));
        }
        let cpus = topology::read(Path::new("/"), &[client, server]);
        let share_core = if client == server { None } else { cpus[0].shares_core(&cpus[1]) };
        Ok(Self { client, server: Some(server), share_core, levels: Vec::new(), ..self.clone() })
    }

    fn among(cpus: &[Cpu]) -> Self {
        let (client, others) = cpus.split_first().unzip();
        let server = client.zip(others).and_then(|(client, others)| nearest(client, others.iter()));
        Self {
            allowed: cpus.iter().map(|cpu| cpu.number).collect(),
            client: client.map_or(0, |client| client.number),
            server: server.map(|server| server.number),
            share_core: client.zip(server).and_then(|(client, server)| client.shares_core(server)),
            levels: LEVELS.into_iter().map(|(level, lacks, hint)| (level, pairs(cpus, level, lacks, hint))).collect(),
        }
    }

    /// The CPUs of client and server with `placement`; `None` if the ends are not pinned.
    ///
    /// # Errors
    /// Why this machine lacks the placement.
    pub fn pair(&self, placement: Placement) -> Result<Option<[usize; 2]>, WhyNot> {
        if let Some((_, Err(why_not))) = self.levels.iter().find(|(level, _)| *level == placement) {
            return Err(why_not.clone());
        }
        Ok(self.cpus_for(placement))
    }

    /// The pairs of CPUs of a placement by topology; empty for other placements.
    fn level(&self, placement: Placement) -> &[[usize; 2]] {
        let level = self.levels.iter().find(|(level, _)| *level == placement);
        level.and_then(|(_, pairs)| pairs.as_deref().ok()).unwrap_or_default()
    }

    /// The CPUs of client and server; `None` if the ends are not pinned.
    pub fn cpus_of(&self, ends: &EndSettings) -> Option<[usize; 2]> {
        let second = || self.level(ends.placement).get(1).copied();
        match ends.cpus {
            WhichCpus::Same => self.cpus_for(ends.placement),
            WhichCpus::Other => second().or_else(|| self.others().cpus_for(ends.placement)),
        }
    }

    /// The CPUs for a second pair of ends: other CPUs as far as available, else the same CPUs.
    fn others(&self) -> Self {
        let own = [Some(self.client), self.server];
        let mut others = self.allowed.iter().copied().filter(|cpu| !own.contains(&Some(*cpu)));
        // With two CPUs, a second `same-cpu` pair uses `self.client`: the first such pair runs on `self.server`.
        let server = others.next().unwrap_or(self.client);
        let client = others.next().or(self.server).unwrap_or(self.client);
        Self { client, server: Some(server), share_core: None, ..self.clone() }
    }

    /// The CPUs of client and server with `placement`; `None` if the ends are not pinned.
    fn cpus_for(&self, placement: Placement) -> Option<[usize; 2]> {
        let server = self.server.unwrap_or(self.client);
        match placement {
            Placement::Unpinned => None,
            // `Pinned` uses different CPUs for client and server, because in tests both hosts may be one machine.
            Placement::CrossCpu | Placement::Pinned => Some([self.client, server]),
            Placement::SameCpu => Some([server; 2]),
            Placement::SameCore | Placement::SameCache | Placement::SameNode | Placement::CrossNode => {
                self.level(placement).first().copied()
            }
        }
    }

    /// The CPU for the emulator of a link: if possible a CPU that no flow uses, else a CPU that the primary flow does
    /// not use, else the CPU of the primary flow's server. `None` if the primary flow is not pinned.
    pub fn cpu_for_relay(&self, primary: &EndSettings, flows: &[EndSettings]) -> Option<usize> {
        let [client, server] = self.cpus_of(primary)?;
        let taken: Vec<usize> = flows.iter().filter_map(|flow| self.cpus_of(flow)).flatten().collect();
        let mut away = self.allowed.iter().copied().filter(|cpu| *cpu != client && *cpu != server);
        away.clone().find(|cpu| !taken.contains(cpu)).or_else(|| away.next()).or(Some(server))
    }
}

/// The placements by topology, each with the reason and the hint if no two CPUs are placed so.
const LEVELS: [(Placement, &str, &str); 4] = [
    (Placement::SameCore, "no two CPUs that this process may use are known to be threads of one core", "cross-cpu"),
    (
        Placement::SameCache,
        "no two cores that this process may use are known to share their last-level cache",
        "cross-cpu",
    ),
    (
        Placement::SameNode,
        "no two cores that this process may use are known to be on one NUMA node with separate last-level caches",
        "same-cache",
    ),
    (Placement::CrossNode, "this process may use the CPUs of one NUMA node only", "cross-cpu"),
];

/// Returns up to two pairs of CPUs that are placed so, without common CPUs.
fn pairs(cpus: &[Cpu], level: Placement, lacks: &str, hint: &str) -> Result<Vec<[usize; 2]>, WhyNot> {
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for client in cpus {
        let is_free = |cpu: &Cpu| pairs.len() < 2 && !pairs.as_flattened().contains(&cpu.number);
        let servers = cpus.iter().filter(|server| is_free(server) && level_of(client, server) == Some(level));
        let server = if is_free(client) { nearest(client, servers) } else { None };
        pairs.extend(server.map(|server| [client.number, server.number]));
    }
    if pairs.is_empty() { Err(WhyNot::new(lacks, format!("use --placement {hint}"))) } else { Ok(pairs) }
}

/// The placement by topology of two CPUs; `None` if unknown, or if both are the same CPU.
fn level_of(client: &Cpu, server: &Cpu) -> Option<Placement> {
    match (client.shares_core(server), client.shares_node(server), client.shares_last_cache(server)) {
        _ if client.number == server.number => None,
        (Some(true), _, _) => Some(Placement::SameCore),
        (_, Some(false), _) => Some(Placement::CrossNode),
        (Some(false), _, Some(true)) => Some(Placement::SameCache),
        (Some(false), Some(true), _) => Some(Placement::SameNode),
        _ => None,
    }
}

fn nearest<'c>(client: &Cpu, others: impl Iterator<Item = &'c Cpu>) -> Option<&'c Cpu> {
    others.min_by_key(|other| client.distance(other))
}

/// Pins the calling thread to `cpu`, or to all CPUs of `allowed` if `cpu` is `None`.
pub fn place(cpu: Option<usize>, allowed: &[usize]) -> io::Result<()> {
    match cpu {
        Some(cpu) => cpu::pin(&[cpu]),
        None => cpu::pin(allowed),
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;
    use crate::topology::trees::*;

    fn among(machine: &str, numbers: &[usize]) -> Cpus {
        Cpus::among(&topology::read(tree(machine).path(), numbers))
    }

    /// A machine with these CPUs, of which nothing is known.
    fn unknown(numbers: &[usize]) -> Cpus {
        among("", numbers)
    }

    /// The CPUs of `cross-cpu`, `same-core`, `same-cache`, `same-node` and `cross-node`; `-` where they are lacking.
    fn placed(machine: &str, numbers: &[usize]) -> String {
        let cpus = among(machine, numbers);
        let places = std::iter::once(Placement::CrossCpu).chain(LEVELS.map(|(level, ..)| level));
        let words = places.map(|placement| match cpus.pair(placement) {
            Ok(Some([client, server])) => format!("{client},{server}"),
            Ok(None) => unreachable!("all of these are pinned"),
            Err(why_not) => {
                assert!(why_not.to_string().contains("this process may use"), "{why_not}");
                "-".to_owned()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn placements_follow_the_topology() {
        let all: Vec<usize> = (0..16).collect();
        assert_eq!(placed(LAPTOP, &all[..8]), "0,2 0,1 0,2 - -");
        assert_eq!(placed(LAPTOP, &all[4..8]), "4,5 - 4,5 - -", "the efficiency cores");
        assert_eq!(placed(LAPTOP, &[3, 4, 7]), "3,4 - 3,4 - -");
        assert_eq!(placed(ONE_SOCKET, &[0, 1, 2]), "0,1 - 0,1 - -");
        let two_sockets = [0, 1, 2, 3, 4, 6, 8, 10, 12, 14];
        assert_eq!(placed(TWO_SOCKETS, &two_sockets), "0,2 0,8 0,2 0,4 0,1", "CPU 1 is far away");
        assert_eq!(placed(TWO_SOCKETS, &[0, 3, 8, 12]), "0,12 0,8 - 0,12 0,3", "only allowed CPUs count");
        assert_eq!(placed(TWO_SOCKETS, &[6, 14]), "6,14 6,14 - - -", "a second thread if there is no other core");
        assert_eq!(placed(SMT_OFF, &[0, 1, 2, 3]), "0,2 - 0,2 - 0,1");
        assert_eq!(placed(ARM, &[0, 1, 2, 3]), "0,1 - - 0,1 -");
        assert_eq!(placed(ARM, &[0, 3]), "0,3 - - 0,3 -");
        assert_eq!(placed(TWO_CPUS, &[0, 1]), "0,1 0,1 - - -");
        assert_eq!(placed("", &[0, 1]), "0,1 - - - -", "without any file");
        assert_eq!(among(TWO_SOCKETS, &two_sockets).share_core, Some(false));
        assert_eq!([among(TWO_CPUS, &[0, 1]).share_core, unknown(&[0, 1]).share_core], [Some(true), None]);
    }

    #[test]
    fn a_second_pair_is_placed_like_the_first() {
        let at = |numbers: &[usize], placement| {
            let ends = EndSettings { placement, cpus: WhichCpus::Other, ..Case::ping_pong("tcp").ends };
            among(TWO_SOCKETS, numbers).cpus_of(&ends).unwrap()
        };
        let all = [0, 1, 2, 3, 4, 6, 8, 10, 12, 14];
        assert_eq!(at(&all, Placement::SameCore), [2, 10]);
        assert_eq!(at(&all, Placement::SameCache), [1, 3]);
        assert_eq!(at(&all, Placement::SameNode), [2, 6]);
        assert_eq!(at(&all, Placement::CrossNode), [2, 3]);
    }

    #[test]
    fn given_cpus_are_checked_and_used() {
        let cpus = unknown(&[0, 1, 4]).at([4, 0]).unwrap();
        assert_eq!(
            [Placement::CrossCpu, Placement::SameCpu].map(|place| cpus.pair(place)),
            [Ok(Some([4, 0])), Ok(Some([0, 0]))]
        );
        let refused = unknown(&[0, 1]).at([0, 4097]).unwrap_err();
        assert_eq!((refused.what.as_str(), refused.hint.as_str()), ("--cpu 4097: no such CPU", "one of 0, 1"));
        let refused = unknown(&[1]).at([0, 1]).unwrap_err();
        assert_eq!(refused.what, "--cpu 0: this process may not use that CPU");
    }

    #[test]
    fn placements_name_the_cpu_of_each_end() {
        let cpus = unknown(&[0, 1]);
        assert_eq!(cpus.cpus_for(Placement::CrossCpu), Some([0, 1]));
        assert_eq!(cpus.cpus_for(Placement::SameCpu), Some([1, 1]));
        assert_eq!(cpus.cpus_for(Placement::Unpinned), None);
    }

    #[test]
    fn a_second_pair_of_ends_has_other_cpus_if_possible() {
        let ends = |placement, cpus| {
            let ends = EndSettings { cpus, ..hairpin_model::case::Case::ping_pong("tcp").ends };
            EndSettings { placement, ..ends }
        };
        let at = |allowed: &[usize], placement, which| unknown(allowed).cpus_of(&ends(placement, which)).unwrap();
        let (same, cross) = (Placement::SameCpu, Placement::CrossCpu);
        assert_eq!(at(&[0, 1], same, WhichCpus::Same), [1, 1]);
        assert_eq!(at(&[0, 1], same, WhichCpus::Other), [0, 0]);
        assert_eq!(at(&[0, 1], cross, WhichCpus::Other), [1, 0]);
        assert_eq!(at(&[0, 1, 2], same, WhichCpus::Other), [2, 2]);
        assert_eq!(at(&[0, 1, 2, 3], cross, WhichCpus::Other), [3, 2]);
    }

    #[test]
    fn a_relay_avoids_the_cpus_of_both_ends_if_possible() {
        let beside = |allowed: &[usize], placement, others: &[WhichCpus]| {
            let usual = Case::ping_pong("tcp").ends;
            let flows = others.iter().map(|cpus| EndSettings { placement, cpus: *cpus, ..usual });
            let flows: Vec<EndSettings> = flows.collect();
            unknown(allowed).cpu_for_relay(&flows[0], &flows)
        };
        let relay = |allowed: &[usize], placement| beside(allowed, placement, &[WhichCpus::Same]);
        let with_load = [WhichCpus::Same, WhichCpus::Other];
        assert_eq!(beside(&[0, 1, 2], Placement::SameCpu, &with_load), Some(0), "the load is on 2");
        assert_eq!(beside(&[0, 1], Placement::SameCpu, &with_load), Some(0), "on the load's CPU, not on the probe's");
        assert_eq!(relay(&[0, 1], Placement::SameCpu), Some(0), "the ends share CPU 1");
        assert_eq!(relay(&[0, 1], Placement::CrossCpu), Some(1), "on the server's CPU");
        assert_eq!(relay(&[0, 1, 2], Placement::CrossCpu), Some(2));
        assert_eq!(relay(&[3], Placement::CrossCpu), Some(3));
        assert_eq!(relay(&[0, 1, 2], Placement::Unpinned), None);
    }

    #[test]
    fn a_pinned_thread_runs_where_it_was_pinned() {
        let cpus = Cpus::choose().unwrap();
        std::thread::spawn(move || {
            place(Some(cpus.client), &cpus.allowed).unwrap();
            assert_eq!(crate::system::cpu::allowed().unwrap(), [cpus.client]);
            place(None, &cpus.allowed).unwrap();
            assert_eq!(crate::system::cpu::allowed().unwrap(), cpus.allowed);
        })
        .join()
        .unwrap();
    }
}
