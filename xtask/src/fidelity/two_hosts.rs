//! Runs Hairpin and the bare loop with client and server on two hosts.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::base::{BareLoop, Base};
use super::build::{Build, To};
use super::combination::Combination;
use super::hosts::{Hosts, SERVER, Served};
use crate::{cpus, reported};

pub(super) struct TwoHosts {
    hosts: Hosts,
    served: Served,
    /// The client's CPU for placement cross-cpu, and the server's CPU.
    cpus: (u64, u64),
}

impl TwoHosts {
    pub(super) fn new(hairpin: &Build, scratch: &Path) -> Result<Self> {
        let cpus = cpus::first_two()?;
        let hosts = Hosts::new()?;
        let served = hosts.serve(hairpin.program(), cpus.1, scratch)?;
        Ok(Self { hosts, served, cpus })
    }

    /// Prepares Hairpin and the bare loop for a case. Runs Hairpin once before the rounds, to check its CPUs.
    pub(super) fn contestants(
        &self,
        hairpin: &Build,
        bare_loop: &Path,
        combination: Combination,
    ) -> Result<(Build, Base)> {
        let (other, server) = self.cpus;
        let client = if combination.placement == "same-cpu" { server } else { other };
        let to = To { enter: self.hosts.enter_client(), ticket: self.served.ticket.clone(), cpu: client };
        let hairpin = hairpin.to(to);
        let used = cpus_used(&hairpin.run(combination)?)?;
        ensure!(used == (client, server), "Hairpin was pinned to CPUs {client} and {server}, but used {used:?}");
        let server_host =
            [("--server-address", SERVER.to_owned()), ("--server-namespace", self.hosts.server_namespace())];
        let bare = BareLoop {
            program: bare_loop.to_owned(),
            way: vec!["--waiting".to_owned(), combination.waiting.to_owned()],
            cpus: format!("{client},{server}"),
            enter: self.hosts.enter_client(),
            server: server_host.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect(),
        };
        Ok((hairpin, Base::BareLoop(bare)))
    }
}

/// Returns the client's CPU on its host, and the server's CPU on the other host.
fn cpus_used(run: &Value) -> Result<(u64, u64)> {
    let of = |role: &str| match reported::cpus_used(run, role)[..] {
        [cpu] => Ok(cpu),
        _ => bail!("cannot find the CPU of the {role}: {:?}", run["hosts"]),
    };
    Ok((of("client")?, of("server")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_host_reports_its_own_cpu() {
        let host = |role: &str, cpus: &[u64]| json!({"role": role, "environment": {"cpus_used": cpus}});
        let of = |client: &[u64], server: &[u64]| {
            cpus_used(&json!({"hosts": [host("client", client), host("server", server)]}))
        };
        assert_eq!(of(&[2], &[5]).unwrap(), (2, 5));
        assert!(of(&[2], &[]).unwrap_err().to_string().starts_with("cannot find the CPU of the server"));
        assert!(of(&[1, 2], &[5]).is_err() && cpus_used(&json!({"hosts": [host("client", &[2])]})).is_err());
    }
}
