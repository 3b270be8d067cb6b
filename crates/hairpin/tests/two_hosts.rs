//! `hairpin serve` and `--to`, with a server in another process instead of on another host.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::link_process::cpus_of;
use crate::support::contract::assert_kept;
use crate::support::served::{Served, address, log, ticket};
use crate::support::{PROGRAM, Place, Running, list, rounds, signal, text, until};

/// Every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it can be read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn every_experiment_reaches_a_server_by_its_ticket_and_no_file_has_the_secret() {
    let place = Place::new();
    let served = Served::new(&place);
    let secret = ticket(&place).split('#').nth(1).expect("a ticket has a secret").to_owned();
    for (number, plan) in [
        "round-trip --transport tcp,udp --count 50 --warmup 10 --rounds 2",
        "small-writes --exchanges 20 --rounds 1 --remedy default,nodelay",
        "message-rate --transport udp,tcp --duration 300ms --rounds 1",
        "bulk --direction up,down --duration 300ms --rounds 1",
        "offered-load --transport udp --rate 1000 --count 50 --rounds 1",
        "under-load --probe-connection own,per-message,shared --transport tcp --load-cpu same --idle 100ms --ramp 100ms \
         --duration 100ms --recovery 100ms --rounds 1",
    ]
    .iter()
    .enumerate()
    {
        let out = format!("run-{number}");
        let run = place.json((plan, ["--to", "@ticket", "--out", &out]));
        assert_kept(&run);
        let roles: Vec<&str> = list(&run["hosts"]).iter().map(|host| text(&host["role"])).collect();
        assert_eq!(roles, ["client", "server"], "{plan}");
        for case in list(&run["cases"]) {
            assert_eq!(case["case"]["path"]["kind"], "hosts", "{plan}: {case}");
            assert_eq!(case["case"]["path"]["host"], "127.0.0.1", "{plan}: {case}");
            assert_eq!(case["failed_rounds"].as_array().map_or(0, Vec::len), 0, "{plan}: {case}");
            for flow in list(&case["flows"]) {
                assert!(flow["ledger"]["received"].as_u64() > Some(0), "{plan}: {flow}");
            }
        }
        for file in files(&place.path(&out)) {
            let bytes = std::fs::read(&file).expect("it can be read");
            let has = bytes.windows(20).any(|window| window == &secret.as_bytes()[44..64]);
            assert!(!has, "{plan}: {}", file.display());
        }
    }
    assert!(!log(&place).contains(&secret[44..64]), "the log has the secret");
    until("the last session is over", || log(&place).matches("the run has ended").count() == 6);
    drop(served);
}

/// The facts of both ends of a case, the client's first.
fn facts(case: &Value) -> [serde_json::Map<String, Value>; 2] {
    let of = |end: &Value| {
        let pairs = list(&end["facts"]).iter().map(|fact| (text(&fact["name"]).to_owned(), fact["value"].clone()));
        pairs.collect()
    };
    [of(&case["ends"][0]), of(&case["ends"][1])]
}

#[test]
fn the_record_has_both_hosts_the_path_and_the_counts_of_each_direction() {
    let place = Place::new();
    let _served = Served::new(&place);
    let plan = "round-trip --transport tcp,udp --option dscp=46 --count 50 --warmup 10 --rounds 1 \
                --to @ticket --out run";
    let run = place.json(plan);
    for host in list(&run["hosts"]) {
        let interface = &host["environment"]["interface"];
        assert_eq!(interface["name"], "lo", "{interface}");
        assert!(interface["mtu_bytes"].as_u64() > Some(0) && interface["driver"].is_null(), "{interface}");
    }
    for case in list(&run["cases"]) {
        let is_tcp = case["case"]["flows"][0]["transport"] == "tcp";
        let [client, server] = facts(case);
        assert!([&client, &server].iter().all(|end| end["path.mtu_bytes"].as_f64() > Some(0.0)), "{case}");
        assert_eq!((&server["received.ttl"], &server["received.dscp"]), (&Value::from(64.0), &Value::from(46.0)));
        // Over IPv4 the kernel keeps no headers for a TCP client.
        let came = ["received.ttl", "received.dscp"].map(|name| client.get(name).and_then(Value::as_f64));
        assert_eq!(came, if is_tcp { [None; 2] } else { [Some(64.0), Some(46.0)] }, "{case}");
        assert_eq!(server.get("server.duplicated"), (!is_tcp).then_some(&Value::from(0.0)), "{case}");
        for way in ["up", "down"] {
            let way = &case["flows"][0]["ledger"][way];
            assert!(way["sent"].as_u64() >= Some(60) && way["sent"] == way["received"], "{way}");
            assert_eq!((&way["duplicated"], &way["reordered"]), (&Value::from(0), &Value::from(0)), "{way}");
        }
    }
    let table = place.hairpin("report run --csv").with_code(0).stdout;
    assert!(
        table.lines().next().unwrap().contains(",up_sent,up_received,up_duplicated,up_reordered,down_sent,"),
        "{table}"
    );
    let text = place.hairpin("report run --all").with_code(0).stdout;
    assert!(text.contains("Client: Linux") && text.contains("Server 127.0.0.1: Linux"), "{text}");
}

#[test]
fn each_host_records_the_cpu_that_its_end_was_given() {
    let place = Place::new();
    let cpu = cpus_of(std::process::id())[0];
    let _served = Served::start(&place, &format!("--bind 127.0.0.1:0 --cpu {cpu}"));
    let plan = format!("round-trip --transport tcp --count 50 --rounds 1 --to @ticket --cpu {cpu} --out run");
    let run = place.json(&plan);
    let used = list(&run["hosts"]).iter().map(|host| &host["environment"]["cpus_used"]);
    assert_eq!(used.collect::<Vec<_>>(), [&Value::from([cpu]), &Value::from([cpu])], "{run}");
}

#[test]
fn on_one_host_each_end_runs_on_the_cpu_that_it_was_given() {
    let place = Place::new();
    let allowed = cpus_of(std::process::id());
    let (client, server) = (allowed[allowed.len() - 1], allowed[0]);
    let pinned = |server: usize, folder: &str| {
        let plan = format!("round-trip --transport tcp --count 50 --rounds 1 --cpu {client},{server} --out {folder}");
        place.hairpin(&plan).with_code(0);
        let round = &rounds(&place.path(folder))[0];
        list(&round["outcome"]["ends"]).iter().map(|end| end["pinned_cpu"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(pinned(server, "two"), [Value::from(client), Value::from(server)]);
    assert_eq!(pinned(client, "one"), [Value::from(client), Value::from(client)]);
    let refused = format!("round-trip --cpu {client},{server} --placement cross-node");
    place.hairpin(&refused).refused().told("--placement cross-node does not exist with --cpu");
}

#[test]
fn evidence_of_each_host_is_on_its_own_clock_and_a_finding_states_what_is_unknown() {
    let place = Place::new();
    let _served = Served::new(&place);
    let plan = "small-writes --exchanges 20 --rounds 1 --remedy default --to @ticket --out run";
    let run = place.json(plan);
    let sequence = &run["cases"][0]["trace"]["sequence"];
    assert_eq!(sequence["of_client_alone"], true, "{sequence}");
    let is_call = |event: &&Value| ["read", "write"].contains(&text(&event["kind"]));
    let mut calls = list(&sequence["events"]).iter().filter(is_call);
    assert!(calls.all(|event| event["end"] == "client"), "{sequence}");
    let finding = list(&run["findings"]).iter().find(|finding| finding["code"] == "nagle-meets-delayed-ack");
    let summary = text(&finding.expect("it is found")["summary"]).to_owned();
    assert!(summary.contains("the server or the network delays that ACK"), "{summary}");
    assert!(summary.contains("how much of it the network took is unknown"), "{summary}");
    let traces = files(&place.path("run/traces"));
    assert!(!traces.is_empty());
    for trace in traces {
        let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
        assert_eq!(trace["server_has_own_clock"], true);
        assert!(list(&trace["server"]["calls"]).iter().any(|call| call["kind"] == "read"), "{trace}");
    }
}

#[test]
fn two_hosts_have_no_one_way_latency_and_flags_that_need_one_host_are_refused() {
    let place = Place::new();
    let _served = Served::new(&place);
    let plan = "offered-load --transport udp,pipe --rate 1000 --count 50 --rounds 1 --to @ticket --out run";
    let run = place.json(plan);
    assert!(run["cases"][0]["flows"][0]["latency_ns"]["p50"].is_null(), "{run}");
    let skipped = run["skipped"].to_string();
    assert!(skipped.contains("pipe") && skipped.contains("it works on one machine only"), "{skipped}");
    for (flags, expected) in [
        ("--link delay=1ms", "--link and --to cannot be combined"),
        ("--sysctl net.ipv4.tcp_sack=0", "--sysctl and --to cannot be combined"),
        ("--port 5000", "--port and --to cannot be combined"),
    ] {
        let plan = format!("round-trip --to @ticket {flags}");
        place.hairpin(&plan).refused().told(expected);
    }
}

#[test]
fn a_damaged_ticket_a_revoked_ticket_and_a_ticket_for_another_key_are_distinguished() {
    let place = Place::new();
    let mut served = Served::new(&place);
    let good = ticket(&place);
    let mut wrong = good.clone().into_bytes();
    let place_of_letter = wrong.len() - 30;
    wrong[place_of_letter] = if wrong[place_of_letter] == b'x' { b'y' } else { b'x' };
    std::fs::write(place.path("wrong"), wrong).unwrap();
    place.hairpin("round-trip --to @wrong").with_code(3).told("the ticket has a wrong letter");

    let id = log(&place).split("--revoke ").nth(1).expect("the log names it").trim().to_owned();
    let revoke = |id: &str| {
        let mut command = place.command(PROGRAM);
        Running::start(command.args(["serve", "--revoke", id]).env("XDG_STATE_HOME", place.path("state"))).end()
    };
    revoke(&id).with_code(0);
    revoke(&id).refused();
    let try_it = || place.hairpin("round-trip --to @ticket --quick");
    until("the ticket is revoked", || try_it().stderr.contains("not known here, or was revoked"));

    let address = address(&place);
    signal("INT", served.running.id());
    until("the server has ended", || std::net::TcpStream::connect(&address).is_err());
    std::fs::write(place.path("old"), good).unwrap();
    std::fs::remove_dir_all(place.path("state")).unwrap();
    std::fs::remove_file(place.path("ticket")).unwrap();
    served = Served::start(&place, &format!("--bind {address}"));
    place.hairpin("round-trip --to @old --quick").with_code(3).told("is not the server of the ticket");
    drop(served);
    let gone = place.hairpin("round-trip --to @ticket --quick").with_code(3);
    gone.told("Connection refused").told("is `hairpin serve` running");
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_round_fails_that_round_with_its_cause() {
    let place = Place::new();
    let mut served = Served::new(&place);
    let plan = "round-trip --transport tcp --duration 3600s --rounds 1 --to @ticket --json";
    let running = place.start(plan);
    signal("KILL", served.running.busy_server());
    let run = running.end().with_code(3).json();
    let failed = text(&run["cases"][0]["failed_rounds"][0]).to_owned();
    assert!(failed.contains("the server"), "{failed}");
    let again = place.start(plan);
    served.running.busy_server();
    drop(served);
    let run = again.end().with_code(3).json();
    let failed = text(&run["cases"][0]["failed_rounds"][0]).to_owned();
    assert!(failed.contains("the server"), "{failed}");
}

#[test]
fn a_client_that_is_killed_leaves_nothing_at_the_server() {
    let place = Place::new();
    let mut served = Served::new(&place);
    let plan = "round-trip --transport udp --duration 3600s --rounds 1 --to @ticket --quiet";
    let running = place.start(plan);
    let server = served.running.busy_server();
    signal("KILL", running.id());
    until("its server process has ended", || !Path::new(&format!("/proc/{server}/stat")).exists());
    until("its session is over", || log(&place).contains("the run has ended"));
    drop(served);
    drop(running);
}

#[test]
fn strangers_are_not_answered_and_block_no_client() {
    let place = Place::new();
    let served = Served::new(&place);
    let address = address(&place);
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let mut rude = TcpStream::connect(&address).unwrap();
    rude.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    rude.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    // The connection may be reset or closed.
    drop(rude.read_to_end(&mut answer));
    assert!(answer.is_empty(), "{answer:?}");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut hello = [0; 40];
    hello[..2].copy_from_slice(&[4, 1]);
    hello[34..].copy_from_slice(b"hrpn\xb5\x1e");
    for datagram in [&hello[..], b"x", &[0; 1400]] {
        udp.send_to(datagram, &address).unwrap();
    }
    assert!(udp.recv(&mut [0; 100]).is_err(), "no datagram is answered without a cookie that a round announced");
    let run = place.json("round-trip --to @ticket --transport tcp,udp --quick --out run");
    assert_eq!(run["state"], Value::from("complete"));
    drop(silent);
    drop(served);
}
