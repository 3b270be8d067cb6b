//! Runs server and client of another program on two CPUs, and reads the namespace's counters. Both processes end after
//! the measurement, or when this program ends.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::counters::Received;
use super::namespace::CONGESTION;
use crate::process::{Held, POLL_INTERVAL};

/// Ports of the servers, which are free: no other program runs in the namespace.
pub(super) const SOCKPERF_PORT: u16 = 11111;
pub(super) const IPERF3_PORT: u16 = 5201;

/// Time limit for a server to listen, and for a client to send.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum arrivals per polling interval while traffic flows, in messages of 64 B. A handshake is smaller.
const MIN_ARRIVALS_PER_POLL: f64 = 64.0;

const WARM_UP: Duration = Duration::from_millis(200);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commands {
    server: Vec<String>,
    client: Vec<String>,
}

/// Returns the commands of sockperf in throughput mode, in which `--tcp-avoid-nodelay` sets TCP_NODELAY.
pub(super) fn sockperf<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Commands {
    let address = format!("-i 127.0.0.1 -p {SOCKPERF_PORT}");
    let is_tcp = words.clone().any(|word| word == "--tcp");
    let server = format!("sockperf server {address} {}", if is_tcp { "--tcp" } else { "" });
    let client = format!("sockperf throughput {address} -m 64 -t 60");
    Commands { server: split(&server), client: [split(&client), words.map(str::to_owned).collect()].concat() }
}

/// Returns the commands of iperf3. The server ends with the client. UDP has no congestion control.
pub(super) fn iperf3<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Commands {
    let is_udp = words.clone().any(|word| word == "-u");
    let congestion = if is_udp { String::new() } else { format!("-C {CONGESTION}") };
    let client = format!("iperf3 -c 127.0.0.1 -p {IPERF3_PORT} -t 60 {congestion}");
    let server = format!("iperf3 -s -1 -p {IPERF3_PORT}");
    Commands { server: split(&server), client: [split(&client), words.map(str::to_owned).collect()].concat() }
}

fn split(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// Runs server and client. After a warm-up of `WARM_UP`, returns the datagrams and stream bytes per second over `time`.
pub(super) fn rates(
    commands: &Commands,
    port: u16,
    is_udp: bool,
    cpus: (u64, u64),
    time: Duration,
) -> Result<(f64, f64)> {
    let mut server = start(&commands.server, cpus.1)?;
    // iperf3 also uses a TCP connection for UDP.
    let listens_on_tcp = !is_udp || commands.server[0] == "iperf3";
    server.wait_until("listen", START_TIMEOUT, || listens(port, listens_on_tcp))?;
    let mut client = start(&commands.client, cpus.0)?;
    let mut before = Received::now()?;
    let flows = || {
        let now = Received::now()?;
        let (datagrams, bytes) = now.per_s_since(&before);
        before = now;
        let messages_per_s = if is_udp { datagrams } else { bytes / 64.0 };
        Ok(messages_per_s * POLL_INTERVAL.as_secs_f64() > MIN_ARRIVALS_PER_POLL)
    };
    client.wait_until("send", START_TIMEOUT, flows)?;
    thread::sleep(WARM_UP);
    let before = Received::now()?;
    thread::sleep(time);
    let after = Received::now()?;
    client.lives().context("during the measurement")?;
    Ok(after.per_s_since(&before))
}

/// Whether a listening TCP socket, or any UDP socket, has the port in this namespace.
fn listens(port: u16, tcp: bool) -> Result<bool> {
    let (names, state) = if tcp { (["tcp", "tcp6"], "0A") } else { (["udp", "udp6"], "07") };
    for name in names {
        // Without IPv6 the file does not exist.
        let table = fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        if has_port(&table, port, state) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_port(table: &str, port: u16, state: &str) -> bool {
    let ending = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|local| local.ends_with(&ending)) && columns.nth(1) == Some(state)
    })
}

/// Starts a program on one CPU. The kernel kills it when this program ends.
fn start(words: &[String], cpu: u64) -> Result<Held> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "taskset", "-c", &cpu.to_string()]).args(words);
    Held::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockperf_and_iperf3_get_equal_parameters() {
        let tcp = sockperf("--tcp --tcp-avoid-nodelay".split(' '));
        assert_eq!(tcp.server.join(" "), "sockperf server -i 127.0.0.1 -p 11111 --tcp");
        let client = "sockperf throughput -i 127.0.0.1 -p 11111 -m 64 -t 60 --tcp --tcp-avoid-nodelay";
        assert_eq!(tcp.client.join(" "), client);
        assert_eq!(iperf3("-l 64".split(' ')).client.join(" "), "iperf3 -c 127.0.0.1 -p 5201 -t 60 -C cubic -l 64");
        let udp = iperf3("-u -b 0".split(' '));
        assert_eq!(udp.client.join(" "), "iperf3 -c 127.0.0.1 -p 5201 -t 60 -u -b 0");
    }

    #[test]
    fn a_listening_port_is_found() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1451 00000000:0000 0A 0:0\n   \
                     1: 0100007F:0016 0100007F:1452 01 0:0\n";
        assert!(has_port(table, 0x1451, "0A"));
        assert!(!has_port(table, 0x16, "0A") && !has_port(table, 0x1452, "01") && !has_port(table, 0x451, "0A"));
    }

    #[test]
    fn a_process_that_ends_early_is_named_and_a_dropped_process_is_killed() {
        let mut ended = start(&split("false"), 0).unwrap();
        let why = ended.wait_until("listen", START_TIMEOUT, || Ok(false)).unwrap_err().to_string();
        assert_eq!(why, "`setpriv --pdeathsig KILL taskset -c 0 false` ended early: exit status: 1");
        let mut lives = start(&split("sleep 600"), 0).unwrap();
        lives.wait_until("listen", START_TIMEOUT, || Ok(true)).unwrap();
        let process = format!("/proc/{}", lives.child.id());
        drop(lives);
        assert!(!std::path::Path::new(&process).exists());
    }
}
