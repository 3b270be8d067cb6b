//! Runs between two hosts: a line per host, packets in each direction, and facts about the path.

use hairpin_model::fact::number;
use hairpin_model::names::distinct;
use hairpin_model::quantities::{count, counted};
use hairpin_model::trace::End;
use hairpin_model::{EndSummary, Environment, Fact, Fallback, Host, Interface, Ledger, Run, Way, fact_names};

/// Returns one line per host; empty for a run on one host.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    if run.hosts.len() < 2 {
        return Vec::new();
    }
    run.hosts.iter().map(|host| line(run, host)).collect()
}

/// `Server lab.example.org: Linux 6.12, Intel Xeon, 8 CPUs; eth0 (ixgbe, 10000 Mbit/s full duplex, MTU 1500 B)`.
fn line(run: &Run, host: &Host) -> String {
    let interface = host.environment.interface.as_ref().map(|one| format!("; {}", interface(one)));
    format!("{}: {}{}", name(run, host.role), machine_of(&host.environment), interface.unwrap_or_default())
}

pub(crate) fn machine_of(environment: &Environment) -> String {
    let mut parts: Vec<String> =
        [&environment.kernel, &environment.cpu_model].into_iter().filter(|text| !text.is_empty()).cloned().collect();
    parts.extend((environment.cpus_online > 0).then(|| counted(environment.cpus_online as u64, "CPU")));
    parts.extend(environment.cpu_quota.map(|cpus| format!("quota of {cpus} CPUs")));
    let hypervisor = environment.hypervisor.as_ref().filter(|name| *name != "none");
    parts.extend(hypervisor.map(|name| format!("under {name}")));
    parts.join(", ")
}

/// Returns `Client`, `Server`, or `Server lab.example.org`.
pub(crate) fn name(run: &Run, role: End) -> String {
    let of_server = run.plan.cases.iter().chain(run.cases.iter().map(|row| &row.case)).find_map(|case| case.host());
    match (role, of_server) {
        (End::Client, _) => "Client".to_owned(),
        (End::Server, None) => "Server".to_owned(),
        (End::Server, Some(host)) => format!("Server {host}"),
    }
}

fn interface(one: &Interface) -> String {
    let speed = one.speed_mbit_per_s.map(|speed| {
        let duplex = one.duplex.as_ref().map(|duplex| format!(" {duplex} duplex"));
        format!("{speed} Mbit/s{}", duplex.unwrap_or_default())
    });
    let mtu = one.mtu_bytes.map(|bytes| format!("MTU {bytes} B"));
    let about: Vec<String> = one.driver.clone().into_iter().chain(speed).chain(mtu).collect();
    if about.is_empty() { one.name.clone() } else { format!("{} ({})", one.name, about.join(", ")) }
}

pub(crate) fn rows(one: &Interface) -> Vec<(String, String)> {
    let of = |name: &str, value: Option<String>| value.map(|value| (name.to_owned(), value));
    let own = [
        of("name", Some(one.name.clone())),
        of("driver", one.driver.clone()),
        of("speed", one.speed_mbit_per_s.map(|speed| format!("{speed} Mbit/s"))),
        of("duplex", one.duplex.clone()),
        of("MTU", one.mtu_bytes.map(|bytes| format!("{bytes} B"))),
        of("queue discipline", one.qdisc.clone()),
    ];
    own.into_iter().flatten().chain(one.offloads.clone()).collect()
}

/// Returns one text per direction with lost, duplicated or reordered packets: `up 497 of 500 arrived, 2 reordered`.
pub(crate) fn ways(ledger: &Ledger) -> Vec<String> {
    let both = [("up", ledger.up), ("down", ledger.down)];
    both.into_iter().filter_map(|(direction, way)| way_in_words(direction, way?)).collect()
}

fn way_in_words(direction: &str, way: Way) -> Option<String> {
    let Way { sent, received, duplicated, reordered } = way;
    let parts: Vec<String> = [(duplicated, "duplicated"), (reordered, "reordered")]
        .into_iter()
        .filter(|(times, _)| *times > 0)
        .map(|(times, what)| format!(", {} {what}", count(times)))
        .collect();
    let is_whole = sent == received && parts.is_empty();
    (!is_whole).then(|| format!("{direction} {} of {} arrived{}", count(received), count(sent), parts.concat()))
}

/// Explains each fallback: `tcp in place of udp: 10 datagrams were sent ...`.
pub(crate) fn fallbacks(run: &Run) -> Vec<String> {
    let fallbacks = run.cases.iter().filter_map(|row| row.case.fallback());
    distinct(fallbacks.map(|Fallback { from, to, evidence }| format!("{to} in place of {from}: {evidence}")))
}

/// Returns the facts that each end knows about the path, without duplicates: `Server lab: path MTU 1500 B; received
/// with TTL 57, DSCP 0, ECN 0`.
pub(crate) fn paths(run: &Run) -> Vec<String> {
    let ends = run.cases.iter().filter(|row| row.case.host().is_some()).flat_map(|row| &row.ends);
    let line = |end: &EndSummary| Some(format!("{}: {}", name(run, end.role), path_facts(&end.facts)?));
    let mut lines = distinct(ends.filter_map(line));
    lines.sort();
    // Omit a line if another line begins with it.
    let says_more = |line: &str| lines.iter().any(|other| other.len() > line.len() && other.starts_with(line));
    lines.iter().filter(|line| !says_more(line)).cloned().collect()
}

fn path_facts(facts: &[Fact]) -> Option<String> {
    let mtu = number(facts, fact_names::PATH_MTU_BYTES).map(|bytes| format!("path MTU {bytes:.0} B"));
    let names =
        [("TTL", fact_names::RECEIVED_TTL), ("DSCP", fact_names::RECEIVED_DSCP), ("ECN", fact_names::RECEIVED_ECN)];
    let came: Vec<String> =
        names.into_iter().filter_map(|(word, name)| Some(format!("{word} {:.0}", number(facts, name)?))).collect();
    let came = (!came.is_empty()).then(|| format!("received with {}", came.join(", ")));
    let known: Vec<String> = mtu.into_iter().chain(came).collect();
    (!known.is_empty()).then(|| known.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_is_reported_if_it_lost_duplicated_or_reordered_anything() {
        let way = |received, duplicated, reordered| Some(Way { sent: 500, received, duplicated, reordered });
        let told = |up, down| ways(&Ledger { up, down, ..Ledger::default() });
        assert_eq!(told(way(500, 0, 0), None), Vec::<String>::new());
        assert_eq!(
            told(way(498, 1, 0), way(500, 0, 3)),
            ["up 498 of 500 arrived, 1 duplicated", "down 500 of 500 arrived, 3 reordered"]
        );
    }

    #[test]
    fn an_interface_is_described_by_its_known_facts() {
        let one = Interface { name: "eth0".to_owned(), ..Interface::default() };
        assert_eq!(interface(&one), "eth0");
        let known = Interface {
            driver: Some("ixgbe".to_owned()),
            speed_mbit_per_s: Some(10_000),
            duplex: Some("full".to_owned()),
            mtu_bytes: Some(1500),
            ..one
        };
        assert_eq!(interface(&known), "eth0 (ixgbe, 10000 Mbit/s full duplex, MTU 1500 B)");
        assert_eq!(rows(&known).len(), 5);
    }

    #[test]
    fn facts_of_an_end_about_the_path_are_reported() {
        let facts = [
            Fact::number(fact_names::PATH_MTU_BYTES, 1500.0),
            Fact::number(fact_names::RECEIVED_TTL, 57.0),
            Fact::number(fact_names::RECEIVED_DSCP, 46.0),
        ];
        assert_eq!(path_facts(&facts).as_deref(), Some("path MTU 1500 B; received with TTL 57, DSCP 46"));
        assert_eq!(path_facts(&facts[..1]).as_deref(), Some("path MTU 1500 B"));
        assert_eq!(path_facts(&[]), None);
    }
}
