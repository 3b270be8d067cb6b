//! Settings of TCP at the ends of a link, and packets that the ends drop after the link.

use hairpin_testing::{or_skip, program};
use serde_json::{Value, json};

use super::TALK;
use crate::support::across::{count, run, run_with_ready_far, told};
use crate::support::{Place, can_link};

/// Prints the congestion control of a connection to the far echo, over both IP versions.
const ASK: &str = r#"python3 -c '
import os, socket
for far in ("HAIRPIN_FAR", "HAIRPIN_FAR_IPV6"):
    with socket.create_connection((os.environ[far], 7)) as stream:
        print(stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
' >congestion; cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem >buffers"#;

#[test]
fn tcp_at_the_ends_uses_the_settings_of_the_link_not_of_the_host() {
    or_skip!(can_link());
    or_skip!(program("python3"));
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("Linux");
    let default = if available.split_whitespace().any(|name| name == "cubic") { "cubic" } else { "reno" };
    let place = Place::new();
    for (asked, used) in [(None, default), (Some("reno"), "reno")] {
        let asked = asked.map_or(String::new(), |name| format!("--congestion {name}"));
        let ran = run(&place, ("--link delay=1ms --json", asked), ASK).with_code(0);
        let ends = &ran.json()["link"]["ends"];
        assert_eq!(ends["congestion_control"], used);
        assert_eq!(ends["tcp_rmem_bytes"], json!([4096, 131_072, 33_554_432]));
        assert_eq!(ends["tcp_wmem_bytes"], json!([4096, 16_384, 33_554_432]));
        let line = format!("\nends  {used}");
        assert!(ran.stderr.contains(&line) && ran.stderr.contains("send buffer at most 32 MiB\n"), "{ran:#?}");
        let read = |name: &str| std::fs::read_to_string(place.path(name)).expect("the script wrote it");
        assert_eq!(read("congestion"), format!("{used}\n{used}\n"));
        assert_eq!(read("buffers"), "4096\t131072\t33554432\n4096\t16384\t33554432\n");
    }
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_refused_before_anything_runs() {
    let place = Place::new();
    let ran = run(&place, "--link delay=1ms --congestion nosuch", "echo ran").with_code(2);
    assert_eq!(ran.stdout, "");
    let told = "error: this kernel has no congestion control `nosuch` (hint: one of ";
    assert!(ran.stderr.starts_with(told) && ran.stderr.contains("reno"), "{ran:#?}");
}

/// Listens, but reads nothing until it gets SIGTERM. Then counts the datagrams in its receive buffer.
const FULL: &str = r#"exec python3 -c '
import os, signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
server.bind((os.environ["HAIRPIN_FAR"], 9))
server.setblocking(False)
signal.sigwait([signal.SIGTERM])
held = 0
try:
    while server.recv(2000):
        held += 1
except BlockingIOError:
    pass
open("held", "w").write(str(held))
'"#;

#[test]
fn drops_at_an_end_after_the_link_are_reported() {
    or_skip!(can_link());
    or_skip!(program("python3"));
    let place = Place::new();
    let send = "exec 3<>/dev/udp/$HAIRPIN_FAR/9; for i in $(seq 100); do printf %1000d $i >&3; done; sleep 0.1";
    let ran = run_with_ready_far(&place, ["--link", "delay=0ms", "--far", FULL, "--json"], send).with_code(0);
    let record: Value = ran.json()["link"].clone();
    let held: u64 = std::fs::read_to_string(place.path("held")).expect("it counted").parse().expect("a number");
    let dropped = count(&record["dropped_after"]["far"], "UdpRcvbufErrors");
    assert_eq!(held + dropped, count(&record["up"]["packets"], "out"), "{record}");
    assert!(dropped > 0, "{record}");
    assert_eq!(record["dropped_after"]["near"], json!({}));
    let line = format!("\nfar   {dropped} datagrams dropped after the link: receive buffer full (UdpRcvbufErrors)\n");
    assert!(ran.stderr.contains(&line), "{ran:#?}");
}

#[test]
fn a_late_link_is_invalid_in_json_and_causes_a_warning() {
    or_skip!(can_link());
    or_skip!(program("python3"));
    let place = Place::new();
    for flags in ["--link delay=1ms", "--link delay=1ms --quiet"] {
        let ran = run(&place, (flags, "--json"), &format!("({TALK}) >answers")).with_code(0);
        let json = ran.json();
        let why = json["invalid_because"].as_array().expect("a list");
        assert_eq!(json["valid"].as_bool(), Some(why.is_empty()));
        let warned: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("warning: link-late: ")).collect();
        assert_eq!(warned.len(), why.len(), "{ran:#?}");
        let named = |(warned, why): (&&str, &Value)| warned.contains(why.as_str().expect("a sentence"));
        assert!(warned.iter().zip(why).all(named), "{ran:#?}");
    }
    // The relay holds at most 256 MiB, so it and its sockets have no room for some of 320 MB within the delay.
    let send = "head -c 320000000 /dev/zero | python3 -c '\nimport os, socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwhile data := sys.stdin.buffer.read(1400): s.sendto(data, (os.environ[\"HAIRPIN_FAR\"], 9))'";
    let told = told(&place, "--link delay=60min --quiet", send);
    let why = told["invalid_because"].as_array().expect("a list");
    assert_eq!((&told["valid"], why.len(), &told["exit_code"]), (&json!(false), 1, &json!(0)));
    assert!(why[0].as_str().expect("a sentence").contains(" had no room for "), "{why:?}");
}
