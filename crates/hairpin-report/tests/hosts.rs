//! Runs between two hosts, in the terminal and on the page: the hosts, the path, and packets in each direction.

use hairpin_model::case::PathKind;
use hairpin_model::ledger::NETWORK_UP;
use hairpin_model::trace::End;
use hairpin_model::{Environment, Fact, Fallback, Host, Interface, RemotePath, Run, Way, fact_names};
use hairpin_report::terminal::{render, render_brief};

use crate::shown::{joined, plain};
use crate::support;

/// The survey, with the server of two cases on another host.
fn two_hosts() -> Run {
    let mut run = support::survey(1);
    let of = |name: &str, speed_mbit_per_s| Interface {
        name: name.to_owned(),
        driver: Some("ixgbe".to_owned()),
        speed_mbit_per_s,
        mtu_bytes: Some(1500),
        ..Interface::default()
    };
    run.hosts[0].environment.interface = Some(of("eth0", Some(10_000)));
    let kernel = "Linux 6.12.9".to_owned();
    let environment =
        Environment { kernel, cpus_online: 8, interface: Some(of("ens3", None)), ..Environment::default() };
    run.hosts.push(Host { role: End::Server, environment });
    let row = &mut run.cases[0];
    row.case.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
    let ledger = &mut row.flows[0].ledger;
    ledger.up = Some(Way { sent: 500, received: 497, duplicated: 0, reordered: 2 });
    ledger.down = Some(Way { sent: 497, received: 497, ..Way::default() });
    ledger.lost.insert(NETWORK_UP.to_owned(), 3);
    row.ends[0].facts = vec![Fact::number(fact_names::PATH_MTU_BYTES, 1500.0)];
    row.ends[1].facts = vec![
        Fact::number(fact_names::PATH_MTU_BYTES, 1492.0),
        Fact::number(fact_names::RECEIVED_TTL, 57.0),
        Fact::number(fact_names::RECEIVED_DSCP, 46.0),
        Fact::number(fact_names::RECEIVED_ECN, 2.0),
    ];
    // Another transport knows fewer facts about the same path.
    let row = &mut run.cases[1];
    row.case.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
    row.ends[1].facts = vec![Fact::number(fact_names::PATH_MTU_BYTES, 1492.0)];
    run
}

const HOSTS: [&str; 2] = [
    "Client: Linux 6.18.0, Example Processor 2.60GHz, 2 CPUs, under KVM; eth0 (ixgbe, 10000 Mbit/s, MTU 1500 B)",
    "Server lab: Linux 6.12.9, 8 CPUs; ens3 (ixgbe, MTU 1500 B)",
];
const WAYS: &str = "3 lost (lost in the network on the way to the server), up 497 of 500 arrived, 2 reordered";
const PATHS: [&str; 2] =
    ["Client: path MTU 1500 B", "Server lab: path MTU 1492 B; received with TTL 57, DSCP 46, ECN 2"];

#[test]
fn the_terminal_shows_each_host_each_path_and_lost_packets() {
    let (all, brief) = (joined(&render(&two_hosts(), &plain(100))), joined(&render_brief(&two_hosts(), &plain(100))));
    HOSTS.iter().chain([&WAYS]).for_each(|line| assert!(all.contains(line), "{line}: {all}"));
    assert!(brief.contains(WAYS), "{brief}");
    PATHS.iter().for_each(|line| assert!(all.contains(&format!("Path: {line}")), "{all}"));
    assert_eq!(all.matches("Path: Server").count(), 1, "{all}");
    let of_one = joined(&render(&support::survey(1), &plain(100)));
    assert!(!of_one.contains("Client: Linux") && !of_one.contains("Path: "), "{of_one}");
}

#[test]
fn the_page_has_both_hosts_and_the_path_between_them() {
    let page = hairpin_report::html::render(&two_hosts()).replace("&#x2f;", "/");
    HOSTS.iter().chain(&PATHS).chain([&WAYS]).for_each(|line| assert!(page.contains(line), "{line}"));
    for title in ["Network interface of the server", "Machine of the server", "Path between the hosts"] {
        assert!(page.contains(title), "{title}");
        assert!(!hairpin_report::html::render(&support::survey(1)).contains(title), "{title} of one host");
    }
}

#[test]
fn a_fallback_transport_is_marked_and_the_mark_is_explained() {
    let mut run = two_hosts();
    let across = run.cases[0].case.path.across.as_mut().unwrap();
    let evidence = "10 datagrams were sent to UDP port 7420 in 1.0 s, and the server received none".to_owned();
    across.fallback = Some(Fallback { from: "udp".to_owned(), to: "tcp".to_owned(), evidence });
    let name = format!("{}*", run.cases[0].case.primary().transport);
    let told =
        "* tcp in place of udp: 10 datagrams were sent to UDP port 7420 in 1.0 s, and the server received none";
    for text in [render(&run, &plain(100)), render_brief(&run, &plain(100))] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(&name)), "{name}: {text}");
        assert_eq!(joined(&text).matches(told).count(), 1, "{text}");
    }
    assert!(joined(&render_brief(&run, &plain(80))).contains(told));
    let page = hairpin_report::html::render(&run).replace("&#x2f;", "/").replace('\u{a0}', " ");
    assert!(page.contains(told) && page.contains(&name), "{name}");
    let without = joined(&render(&two_hosts(), &plain(100)));
    assert!(!without.contains("in place of") && !without.contains(&name), "{without}");
}
