//! Tests that the bare loops measure every transport, verify or count their messages, and print the figures that
//! `fidelity` and `rates` read.

use std::process::{Command, Output};

use serde_json::Value;

fn bare_loop(arguments: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_bare-loop");
    Command::new(program).args(arguments.split_whitespace()).output().expect("the program was built with this test")
}

/// Returns the first CPU that this process may use.
fn a_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux lists it").trim();
    list.split([',', '-']).next().expect("at least one CPU").to_owned()
}

#[test]
fn every_transport_is_measured() {
    let cpus = format!("{0},{0}", a_cpu());
    for transport in ["tcp", "udp", "unix-stream", "pipe", "shm"] {
        for stamps in ["on", "off"] {
            let asked = format!("--transport {transport} --waiting block --cpus {cpus} --count 200 --warmup 10");
            let output = bare_loop(&format!("{asked} --echo-stamps {stamps}"));
            assert!(output.status.success(), "{transport}: {}", String::from_utf8_lossy(&output.stderr));
            let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(told["samples"], 200, "{transport}");
            let figure = |name: &str| told[name].as_f64().expect(name);
            assert!(figure("min_ns") > 0.0, "{transport}: {told}");
            assert!(figure("min_ns") <= figure("p50_ns") && figure("p50_ns") <= figure("p99_ns"), "{told}");
            assert!(figure("resolution_ns") > 0.0 && figure("ns_per_tick") > 0.0, "{told}");
        }
    }
}

#[test]
fn every_case_counts_the_messages_of_its_calls() {
    let cpu = a_cpu();
    // Each case has the maximum number of messages per receive call.
    for (case, most) in [
        ("--transport tcp --read-size 640", 10.0),
        ("--transport tcp --nodelay on --batch 64 --congestion reno", 1024.0),
        ("--transport udp", 1.0),
        ("--transport udp --batch 64 --gso on", 1023.0),
        ("--transport unix-stream --size 131072", 1.0),
        ("--transport pipe --size 131072", 1.0),
    ] {
        let output = bare_loop(&format!("rates {case} --cpus {cpu},{cpu} --warmup-ms 20 --duration-ms 60"));
        assert!(output.status.success(), "{case}: {}", String::from_utf8_lossy(&output.stderr));
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let figure = |name: &str| told[name].as_f64().expect(name);
        assert!(figure("received") > 0.0 && figure("sent") > 0.0, "{case}: {told}");
        assert!(figure("received") <= figure("receiver_calls") * most, "{case}: {told}");
        let size = if case.contains("131072") { 131_072.0 } else { 64.0 };
        let bytes_per_s = figure("received_per_s") * size;
        assert!((figure("bytes_per_s") / bytes_per_s - 1.0).abs() < 1e-3, "{case}: {told}");
    }
}

#[test]
#[cfg(feature = "libraries")]
fn every_library_makes_round_trips_and_counts_messages() {
    let cpu = a_cpu();
    let of_sockets = ["tls", "websocket"].map(|transport| (transport, "none"));
    let of_futures = ["tcp-streams", "http1", "rest", "http2", "grpc", "grpc-stream", "quic", "quic-datagram"];
    let of_futures = of_futures.into_iter().flat_map(|transport| [(transport, "loop"), (transport, "tokio")]);
    for (transport, runtime) in of_sockets.into_iter().chain(of_futures) {
        let told = |load: &str| {
            let asked = format!("library --transport {transport} --runtime {runtime} --cpus {cpu},{cpu} {load}");
            let output = bare_loop(&asked);
            assert!(output.status.success(), "{asked}: {}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
        };
        assert_eq!(told("--count 50 --warmup 5")["samples"], 50, "{transport} on {runtime}");
        let rates = told("--size 256 --warmup-ms 5 --duration-ms 20");
        let figure = |name: &str| rates[name].as_f64().expect(name);
        let bytes_per_s = figure("received_per_s") * 256.0;
        assert!(bytes_per_s > 0.0 && (figure("bytes_per_s") / bytes_per_s - 1.0).abs() < 0.1, "{transport}: {rates}");
    }
    for runtime in ["tokio", "uring"] {
        let output = bare_loop(&format!("library --transport tcp --runtime {runtime} --cpus {cpu},{cpu} --count 50"));
        let is_complete = String::from_utf8_lossy(&output.stdout).contains("\"samples\": 50");
        // The system may forbid io_uring.
        let refused = b"bare-loop: cannot measure a library: ";
        assert!(is_complete || runtime == "uring" && output.stderr.starts_with(refused), "{runtime}: {output:?}");
    }
    let refused = bare_loop(&format!("library --transport tls --runtime tokio --cpus {cpu},{cpu}"));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("tls cannot have this runtime"), "{refused:?}");
}

#[test]
fn invalid_command_lines_are_refused() {
    for (arguments, expected) in [
        ("--transport tpc", "invalid value 'tpc' for '--transport"),
        ("--transport tcp --cpus 100000,100000", "cannot measure tcp"),
        ("rates --transport tpc", "invalid value 'tpc' for '--transport"),
        ("rates --transport tcp --cpus 100000,100000", "cannot measure tcp"),
        ("rates --transport tcp --congestion none-such", "cannot measure tcp"),
        ("rates --transport pipe --cpus 0,1 --waiting spin", "--waiting spin needs a socket, not pipe"),
    ] {
        let output = bare_loop(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}
