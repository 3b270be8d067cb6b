//! Common programs across a link. Some of these programs are rarely installed.

use std::os::unix::fs::MetadataExt;

use hairpin_testing::{or_skip, program, skip};
use serde_json::Value;

use crate::support::across::{assert_closes, assert_log_is_the_record, count, log, run, told};
use crate::support::{Arguments, PROGRAM, Place, Running, can_link, can_link_as};

#[test]
fn ping_goes_there_and_back() {
    or_skip!(can_link());
    or_skip!(program("ping"));
    let place = Place::new();
    let flags = "--link delay=20ms --seed 1 --log packets --json";
    let script = "ping -c 3 -i 0.2 $HAIRPIN_FAR && ping -6 -c 3 -i 0.2 $HAIRPIN_FAR_IPV6";
    let ran = run(&place, flags, script).with_code(0);
    assert_eq!(ran.stderr.matches("3 packets transmitted, 3 received, 0% packet loss").count(), 2, "{ran:#?}");
    // The delay of 20 ms in each direction is a minimum.
    let words = ran.stderr.split_whitespace();
    let times: Vec<f64> = words.filter_map(|word| word.strip_prefix("time=")?.parse().ok()).collect();
    assert!(times.len() == 6 && times.iter().all(|ms| *ms >= 40.0), "{times:?}");
    let record = &ran.json()["link"];
    assert_closes(record);
    assert_log_is_the_record(&log(&place.path("packets")), record);
    for direction in ["up", "down"] {
        assert_eq!(count(&record[direction]["packets"], "in"), 6, "the pings and no other packets: {record}");
    }
}

#[test]
fn an_end_that_goes_down_and_comes_up_is_reached_again() {
    or_skip!(can_link());
    or_skip!(program("ping"));
    or_skip!(program("ip"));
    let script = "ip link set eth0 down && ip link set eth0 up && ping -c 3 -i 0.2 $HAIRPIN_FAR";
    let ran = run(&Place::new(), "--link delay=1ms --json", script).with_code(0);
    assert!(ran.stderr.contains("3 packets transmitted, 3 received, 0% packet loss"), "{ran:#?}");
    assert_closes(&ran.json()["link"]);
}

#[test]
fn a_packet_larger_than_the_mtu_is_dropped_and_counted() {
    or_skip!(can_link());
    or_skip!(program("ping"));
    or_skip!(program("ip"));
    // Headers add 28 bytes: only the first of these four sizes fits.
    let script = "ip link set eth0 mtu 9000; for size in 1472 1473 1490 8900; do \
                  ping -c 1 -W 1 -M do -s $size $HAIRPIN_FAR >&2; done; true";
    let told = told(&Place::new(), "--link delay=1ms", script);
    let record = &told["link"];
    assert_closes(record);
    assert_eq!((count(&record["packets"], "in"), count(&record["packets"], "out")), (5, 2), "{record}");
    assert_eq!(record["packets"]["dropped"]["mtu"], 3, "{record}");
}

#[test]
fn curl_fetches_a_page_from_a_server_at_the_far_end() {
    or_skip!(can_link());
    or_skip!(program("curl"));
    or_skip!(program("python3"));
    let place = Place::new();
    let page: String = (0..30_000).map(|line| format!("line {line}\n")).collect();
    std::fs::write(place.path("page"), &page).expect("the place can be written to");
    let link = "delay=5ms up=20mbit down=50mbit loss=1%";
    let flags = ["--link", link, "--seed", "3", "--far", "exec python3 -m http.server"];
    let script = "curl --silent --show-error --max-time 60 -o fetched http://$HAIRPIN_FAR:8000/page";
    let record = &told(&place, flags, script)["link"];
    assert!(std::fs::read_to_string(place.path("fetched")).expect("it was fetched") == page, "every byte");
    assert_closes(record);
    let least = u64::try_from(page.len() / 1448).expect("a small number");
    assert!(count(&record["down"]["packets"], "in") > least, "in packets of at most the MTU: {record}");
}

#[test]
fn iperf3_measures_across_a_link() {
    or_skip!(can_link());
    or_skip!(program("iperf3"));
    let place = Place::new();
    let link = "delay=2ms rate=20mbit queue=64KiB";
    let flags = ["--link", link, "--seed", "3", "--far", "exec iperf3 --server --one-off"];
    let record = &told(&place, flags, "iperf3 --client $HAIRPIN_FAR --json --bytes 1M >iperf3.json")["link"];
    assert_closes(record);
    let text = std::fs::read_to_string(place.path("iperf3.json")).expect("it has measured");
    let measured: Value = serde_json::from_str(&text).expect("it prints JSON");
    let sent = measured["end"]["sum_sent"]["bytes"].as_u64().expect("a number of bytes");
    let received = measured["end"]["sum_received"]["bytes"].as_u64().expect("a number of bytes");
    assert!(sent >= 1_000_000 && count(&record["up"]["packets"], "out") >= received / 1448, "{sent} {record}");
}

#[test]
fn an_ordinary_user_runs_programs_across_a_link() {
    or_skip!(can_link());
    let place = Place::new();
    // Runs as nobody, in a folder that all users can write to, with a program that all users can run.
    let open = "chmod 0777 . tmp && cp \"$0\" hairpin && chmod 0755 hairpin";
    Running::start(place.command("bash").args(["-c", open, PROGRAM])).end().with_code(0);
    let as_nobody = |words: Vec<String>| {
        let mut command = place.command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "./hairpin"]).args(words);
        Running::start(&mut command).end()
    };
    let listed = as_nobody("link list --json".words());
    if listed.code != Some(0) {
        skip!("`setpriv --reuid 65534` is refused here");
    }
    or_skip!(can_link_as(&listed.json()));
    let script = "id -u; exec 3<>/dev/tcp/$HAIRPIN_FAR/7; printf hello >&3; head -c 5 <&3; touch made";
    let flags = "link run --link delay=2ms --seed 1 --log packets --json --";
    let ran = as_nobody((flags, ["bash", "-c", script]).words()).with_code(0);
    assert!(ran.stderr.contains("0\nhello"), "the command appears to be root: {ran:#?}");
    let record = &ran.json()["link"];
    assert_closes(record);
    assert_log_is_the_record(&log(&place.path("packets")), record);
    assert!(count(&record["up"]["packets"], "in") > 4, "{record}");
    let owner = |name: &str| std::fs::metadata(place.path(name)).expect("it was made").uid();
    assert_eq!((owner("made"), owner("packets")), (65534, 65534), "the new files belong to the user");
    let flags = "round-trip --placement same-cpu --transport tcp --link delay=1ms --count 5 --rounds 1 --json";
    let environment = &as_nobody(flags.words()).with_code(0).json()["hosts"][0]["environment"];
    assert_eq!((&environment["root"], &environment["network_namespace"]), (&false.into(), &"own".into()));
    let killed = as_nobody(("link run --link delay=2ms -- bash -c", ["kill -s TERM $$"]).words());
    killed.with_code(143);
}
