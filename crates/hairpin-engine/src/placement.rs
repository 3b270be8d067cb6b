//! Assigns CPUs to the two ends.

use std::io;

use hairpin_model::{EndSettings, Placement, Refused, WhichCpus};
use serde::{Deserialize, Serialize};

use crate::system::cpu;

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
}

impl Cpus {
    /// Chooses two allowed CPUs, on different cores if possible.
    pub fn choose() -> io::Result<Self> {
        Ok(Self::among(&cpu::allowed()?, cpu::core_of))
    }

    /// Returns a copy that pins every pinned end to `cpu`.
    pub fn only(&self, cpu: usize) -> Result<Self, Refused> {
        if self.allowed.contains(&cpu) {
            return Ok(Self { client: cpu, server: Some(cpu), share_core: None, ..self.clone() });
        }
        let may: Vec<String> = self.allowed.iter().map(usize::to_string).collect();
        Err(Refused::new(
            format!("--cpu {cpu}: this process may not use that CPU"),
            format!("one of {}", may.join(", ")),
        ))
    }

    fn among(allowed: &[usize], core: impl Fn(usize) -> Option<u64>) -> Self {
        let client = allowed.first().copied().unwrap_or(0);
        let others = allowed.iter().copied().skip(1);
        let server = others.clone().find(|other| core(*other) != core(client)).or_else(|| others.clone().next());
        let share_core = server.and_then(|server| Some(core(server)? == core(client)?));
        Self { allowed: allowed.to_vec(), client, server, share_core }
    }

    /// The CPU of an end (the client if `is_client`, else the server); `None` if the end is not pinned.
    pub fn cpu_for_end(&self, ends: &EndSettings, is_client: bool) -> Option<usize> {
        match ends.cpus {
            WhichCpus::Same => self.cpu_for(ends.placement, is_client),
            WhichCpus::Other => self.others().cpu_for(ends.placement, is_client),
        }
    }

    /// The CPUs for a second pair of ends: other CPUs as far as available, else the same CPUs.
    fn others(&self) -> Self {
        let own = [Some(self.client), self.server];
        let mut others = self.allowed.iter().copied().filter(|cpu| !own.contains(&Some(*cpu)));
        // With two CPUs, a second pair that shares one CPU uses the CPU of the first client.
        let server = others.next().unwrap_or(self.client);
        let client = others.next().or(self.server).unwrap_or(self.client);
        Self { client, server: Some(server), share_core: None, ..self.clone() }
    }

    /// The CPU of an end with `placement`; `None` if the end is not pinned.
    pub fn cpu_for(&self, placement: Placement, is_client: bool) -> Option<usize> {
        match placement {
            Placement::Unpinned => None,
            // In a test both hosts may be the same machine.
            Placement::CrossCpu | Placement::Pinned if is_client => Some(self.client),
            Placement::CrossCpu | Placement::SameCpu | Placement::Pinned => Some(self.server.unwrap_or(self.client)),
        }
    }
}

impl Cpus {
    /// The CPU for the emulator of a link: if possible a CPU that no flow uses, else a CPU that the primary flow does
    /// not use, else the CPU of the primary flow's server. `None` if the primary flow is not pinned.
    pub fn cpu_for_relay(&self, primary: &EndSettings, flows: &[EndSettings]) -> Option<usize> {
        let of = |flow: &EndSettings| [true, false].map(|is_client| self.cpu_for_end(flow, is_client));
        let [Some(client), Some(server)] = of(primary) else { return None };
        let taken: Vec<Option<usize>> = flows.iter().flat_map(of).collect();
        let mut away = self.allowed.iter().copied().filter(|cpu| *cpu != client && *cpu != server);
        away.clone().find(|cpu| !taken.contains(&Some(*cpu))).or_else(|| away.next()).or(Some(server))
    }
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

    #[test]
    fn different_cores_are_preferred() {
        let siblings = |cpu: usize| Some(cpu as u64 / 2);
        let cpus = Cpus::among(&[0, 1, 2, 3], siblings);
        assert_eq!((cpus.client, cpus.server, cpus.share_core), (0, Some(2), Some(false)));
        let cpus = Cpus::among(&[4, 5], siblings);
        assert_eq!((cpus.client, cpus.server, cpus.share_core), (4, Some(5), Some(true)));
    }

    #[test]
    fn placements_name_the_cpu_of_each_end() {
        let cpus = Cpus::among(&[0, 1], |cpu| Some(cpu as u64));
        assert_eq!(cpus.cpu_for(Placement::CrossCpu, true), Some(0));
        assert_eq!(cpus.cpu_for(Placement::CrossCpu, false), Some(1));
        assert_eq!(cpus.cpu_for(Placement::SameCpu, true), cpus.cpu_for(Placement::SameCpu, false));
        assert_eq!(cpus.cpu_for(Placement::Unpinned, true), None);
    }

    #[test]
    fn a_second_pair_of_ends_has_other_cpus_if_possible() {
        let ends = |placement, cpus| {
            let ends = EndSettings { cpus, ..hairpin_model::case::Case::ping_pong("tcp").ends };
            EndSettings { placement, ..ends }
        };
        let at = |allowed: &[usize], placement, which| {
            let cpus = Cpus::among(allowed, |cpu| Some(cpu as u64));
            [true, false].map(|is_client| cpus.cpu_for_end(&ends(placement, which), is_client).unwrap())
        };
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
            Cpus::among(allowed, |cpu| Some(cpu as u64)).cpu_for_relay(&flows[0], &flows)
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
