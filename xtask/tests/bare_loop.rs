//! The bare loop measures on every transport: it ends, verifies its messages, and prints what `fidelity` reads.

use std::process::Command;

use serde_json::Value;

fn bare_loop(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_bare-loop")).args(arguments).output().expect("it was built with this test")
}

/// The first CPU that this process may use.
fn a_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let list =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux tells it").trim();
    list.split([',', '-']).next().expect("at least one CPU").to_owned()
}

#[test]
fn every_transport_is_measured() {
    let cpus = format!("{0},{0}", a_cpu());
    for transport in ["tcp", "udp", "unix-stream", "pipe", "shm"] {
        for stamps in ["on", "off"] {
            let output = bare_loop(&[
                "--transport",
                transport,
                "--waiting",
                "block",
                "--cpus",
                &cpus,
                "--count",
                "200",
                "--warmup",
                "10",
                "--echo-stamps",
                stamps,
            ]);
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
fn what_cannot_be_measured_is_refused() {
    for (arguments, expected) in [
        (&["--transport", "tpc"][..], "unknown transport `tpc`"),
        (&["--transport", "tcp", "--cpus", "100000,100000"], "cannot measure tcp"),
    ] {
        let output = bare_loop(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
}
