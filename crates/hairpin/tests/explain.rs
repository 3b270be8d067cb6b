//! `hairpin explain`: programs that run and captures of packets. The programs are this one: small writes without a remedy wait
//! for delayed acknowledgments, with one write they do not.

use hairpin_testing::{or_skip, skip};
use serde_json::{Value, json};

use crate::support::{PROGRAM, Place, can_link, list, text};

const STALLS: &str =
    "small-writes --transport tcp --placement same-cpu --writes 2x2 --warmup 1 --exchanges 8 --rounds 2 --remedy";

fn explain(place: &Place, remedy: &str, flags: &[&str]) -> Value {
    let words = STALLS.split(' ').chain([remedy, "--quiet"]);
    let command = ["explain", "--json"].into_iter().chain(flags.iter().copied()).chain(["--", PROGRAM]).chain(words);
    place.hairpin(command.collect::<Vec<_>>()).with_code(0).json()
}

fn codes(told: &Value) -> Vec<&str> {
    list(&told["causes"]).iter().map(|cause| text(&cause["code"])).collect()
}

#[test]
fn a_command_that_stalls_is_explained_and_its_fixed_form_is_not() {
    or_skip!(can_link());
    let place = Place::new();
    let told = explain(&place, "default", &["--own-network"]);
    assert_eq!(codes(&told).first(), Some(&"nagle-meets-delayed-ack"), "{told:#}");
    assert_eq!((&told["tier"], &told["exit_code"]), (&json!("own-namespace"), &json!(0)));
    let first = &told["causes"][0];
    assert!(text(&first["text"]["fix"]).contains("TCP_NODELAY at the client"), "{first:#}");
    assert!(first["share"].as_f64().is_some_and(|share| share > 0.5), "{first:#}");
    let fixed = explain(&place, "one-write", &["--own-network"]);
    assert!(!codes(&fixed).contains(&"nagle-meets-delayed-ack"), "{fixed:#}");
    assert_eq!(place.processes(), [0; 0], "nothing runs afterwards");
}

#[test]
fn samples_alone_show_the_same_command_without_any_privilege() {
    let place = Place::new();
    let told = explain(&place, "default", &[]);
    // With the privilege to capture, packets are there too.
    assert!(["samples", "packets"].contains(&text(&told["tier"])), "{told:#}");
    assert!(told["programs"]["samples"].as_u64().is_some_and(|samples| samples > 0), "{told:#}");
    assert!(!list(&told["connections"]).is_empty(), "{told:#}");
}

#[test]
fn the_capture_of_a_run_is_explained_from_its_file() {
    or_skip!(can_link());
    let place = Place::new();
    place.hairpin((STALLS, ["default", "--quiet", "--out", "run"])).with_code(0);
    let captures = std::fs::read_dir(place.path("run/captures")).into_iter().flatten().flatten();
    let Some(capture) =
        captures.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|one| one == "pcapng"))
    else {
        skip!("no capture was made");
    };
    let told = place.hairpin(["explain", "--json", capture.to_str().unwrap()]).with_code(0).json();
    assert_eq!((codes(&told).first(), &told["tier"]), (Some(&"nagle-meets-delayed-ack"), &json!("file")), "{told:#}");
    let page = place.hairpin(["explain", capture.to_str().unwrap()]).with_code(0);
    assert!(
        page.stdout.contains("delayed acknowledgment") && page.stdout.lines().all(|line| line.chars().count() <= 100)
    );
}

#[test]
fn the_exit_code_is_the_commands_own_and_what_it_leaves_running_is_ended() {
    let place = Place::new();
    for (script, code) in
        [("exit 7", 7), ("kill -s TERM $$", 143), ("sleep 60 & exit 3", 3), ("setsid sleep 60 & exit 4", 4)]
    {
        let ran = place.hairpin(["explain", "--", "sh", "-c", script]).with_code(code);
        assert!(ran.stdout.starts_with("No TCP connection was seen"), "{ran:#?}");
    }
    assert_eq!(place.processes(), [0; 0]);
    let ran = place.hairpin(["explain", "--", "no-such-program"]).with_code(127);
    assert!(ran.stderr.contains("cannot run `no-such-program`"), "{ran:#?}");
    let ran = place.hairpin(["explain", "--", "sh", "-c", "echo out; echo err >&2"]).with_code(0);
    assert!(ran.stderr.contains("out\n") && !ran.stdout.contains("out\n"), "{ran:#?}");
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let place = Place::new();
    std::fs::write(place.path("text"), "no capture").expect("the place can be written to");
    for (words, told) in [
        (&["explain"][..], "required arguments were not provided"),
        (&["explain", "absent.pcap"], "cannot read absent.pcap: No such file or directory"),
        (&["explain", "text"], "no pcap or pcapng file (hint: tcpdump -w FILE"),
        (&["explain", "."], "cannot read .: "),
        (&["explain", "--pid", "4194304"], "no process has the id 4194304 (hint: "),
        (&["explain", "text", "--port", "7"], "cannot be used with"),
        (&["explain", "--link", "delay=1ms"], "required arguments were not provided"),
    ] {
        let ran = place.hairpin(words.to_vec()).with_code(2);
        assert!(ran.stderr.contains(told) && ran.stdout.is_empty(), "{words:?}: {ran:#?}");
    }
}
