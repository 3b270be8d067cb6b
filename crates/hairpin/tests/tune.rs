//! `hairpin tune`: a program that stalls, one that no option helps, and input that is refused.

use hairpin_testing::{or_skip, works};
use serde_json::{Value, json};

use crate::support::{PROGRAM, Place, can_link, list, text};

const STALLS: &str = "small-writes --transport tcp --placement same-cpu --writes 2x2 --warmup 1 --exchanges 8 --rounds 1 --quiet --remedy";

fn tune(place: &Place, flags: &[&str], command: &[&str]) -> Value {
    let words = ["tune", "--json", "--quiet"].into_iter().chain(flags.iter().copied()).chain(["--"]);
    place.hairpin(words.chain(command.iter().copied()).collect::<Vec<_>>()).with_code(0).json()
}

#[test]
fn the_change_that_a_stall_suggests_is_made_on_the_programs_sockets() {
    or_skip!(can_link());
    let place = Place::new();
    let command: Vec<&str> = [PROGRAM].into_iter().chain(STALLS.split(' ')).chain(["default"]).collect();
    let told = tune(&place, &["--own-network", "--runs", "2"], &command);
    assert_eq!((&told["metric"], &told["runs"]), (&json!("exchange"), &json!(2)), "{told:#}");
    let first = &list(&told["tune"])[0];
    assert_eq!(
        (&first["change"], &first["because"]),
        (&json!("nodelay=on"), &json!("nagle-meets-delayed-ack")),
        "{told:#}"
    );
    assert_eq!(first["held"], true, "{first:#}");
    assert!(first["predicted"]["low"].as_f64().is_some_and(|low| low > 0.0), "{first:#}");
    assert!(text(&first["keep"]).contains("TCP_NODELAY, 1"), "{first:#}");
    for arm in ["baseline", "same_again", "supervised"] {
        assert!(told[arm]["value"].is_number() && told[arm]["low"].is_number(), "{arm}: {told:#}");
    }
    assert_eq!(place.processes(), [0; 0], "nothing runs afterwards");
}

#[test]
fn the_metric_may_be_a_number_in_the_output_and_the_changes_those_of_the_user() {
    let place = Place::new();
    let told = tune(
        &place,
        &["--match", "took ([0-9.]+) ms", "--runs", "3", "--change", "nodelay=on", "--change", "sndbuf=64KiB"],
        &["sh", "-c", "echo took 7 ms; echo took 5 ms"],
    );
    assert_eq!((&told["metric"], &told["baseline"]["value"]), (&json!("output"), &json!(5.0)), "the last match");
    let verdicts: Vec<_> =
        list(&told["tune"]).iter().map(|change| (text(&change["change"]), text(&change["verdict"]))).collect();
    assert_eq!(verdicts, [("nodelay=on", "not-made"), ("sndbuf=65536", "not-made")], "it has no socket");
    assert_eq!(told["tune"][0]["because"], Value::Null);
}

#[test]
fn changes_are_made_at_both_ends_of_a_link() {
    or_skip!(can_link());
    or_skip!(works(&["perl", "-MSocket", "-e", "1"]));
    let place = Place::new();
    let server = r#"socket(my $l, PF_INET, SOCK_STREAM, 6); bind($l, sockaddr_in(7000, INADDR_ANY)); listen($l, 5);
        while (accept(my $c, $l)) { sysread($c, my $b, 9); syswrite($c, unpack("i", getsockopt($c, 6, 1))); close $c }"#;
    let client = r#"socket(my $c, PF_INET, SOCK_STREAM, 6); connect($c, sockaddr_in(7000, inet_aton($ENV{HAIRPIN_FAR}))) or die;
        syswrite($c, "x"); sysread($c, my $b, 9) or die; print "far $b near ", unpack("i", getsockopt($c, 6, 1)), "\n";"#;
    let far = format!("perl -MSocket -e '{server}'");
    let flags = ["--link", "delay=1ms", "--far", &far, "--runs", "2", "--change", "nodelay=on"];
    let words = ["tune", "--json", "--quiet"].into_iter().chain(flags);
    let ran = place.hairpin(words.chain(["--", "perl", "-MSocket", "-e", client]).collect::<Vec<_>>()).with_code(0);
    let told: Value = ran.json();
    assert_eq!((&told["metric"], &told["tune"][0]["held"]), (&json!("exchange"), &json!(true)), "{told:#}");
    // One run to explain, two of each of three arms without a change, and two with it.
    let count = |line: &str| ran.stderr.lines().filter(|one| *one == line).count();
    assert_eq!((count("far 0 near 0"), count("far 1 near 1")), (7, 2), "{}", ran.stderr);
}

#[test]
fn what_was_measured_before_a_run_failed_is_reported() {
    let place = Place::new();
    let words =
        ["tune", "--json", "--quiet", "--match", "took ([0-9]+)", "--runs", "5", "--change", "nodelay=on", "--"];
    // The tenth run fails: two turns of four arms are complete.
    let script = "echo run >> runs; echo took 5; test $(wc -l < runs) -lt 10";
    let ran = place.hairpin(words.into_iter().chain(["sh", "-c", script]).collect::<Vec<_>>()).with_code(3);
    let told: Value = ran.json();
    assert_eq!((&told["runs"], &told["baseline"]["value"]), (&json!(2), &json!(5.0)));
    assert!(ran.stderr.contains("ended with exit code 1 (hint: "), "{}", ran.stderr);
}

/// As in a container whose seccomp filter refuses pidfd_getfd(2).
#[test]
fn without_a_needed_call_tune_says_so() {
    or_skip!(works(&["perl", "-e", "1"]));
    let place = Place::new();
    let script = r#"my ($getfd, $prctl, $seccomp) = (438, PRCTL, SECCOMP); my $f = pack("(SCCL)4", 0x20, 0, 0, 0, 0x15, 0, 1, $getfd, 6, 0, 0,
        0x50001, 6, 0, 0, 0x7fff0000); my $p = pack("Sx6P", 4, $f);
        syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($seccomp, 1, 0, $p) == 0 or die; exec @ARGV;"#;
    let [prctl, seccomp] = if cfg!(target_arch = "x86_64") { ["157", "317"] } else { ["167", "277"] };
    let script = script.replace("PRCTL", prctl).replace("SECCOMP", seccomp);
    let mut command = place.command("perl");
    command.args(["-e", &script, PROGRAM, "tune", "--change", "nodelay=on", "--", "true"]);
    let ran = command.output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{told}");
    assert!(told.contains("pidfd_getfd(2), which some containers forbid"), "{told}");
}

/// The kernel allows one listener for a filter and those above it.
#[test]
fn a_program_that_is_supervised_already_is_refused() {
    let place = Place::new();
    let inner = [PROGRAM, "tune", "--change", "nodelay=on", "--", "true"];
    let outer = ["tune", "--quiet", "--runs", "2", "--change", "nodelay=on", "--"];
    let ran = place.hairpin(outer.into_iter().chain(inner).collect::<Vec<_>>()).with_code(3);
    assert!(ran.stderr.contains("cannot set options of the program: Device or resource busy"), "{}", ran.stderr);
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let place = Place::new();
    for (flags, command, code, told) in [
        (&["--change", "nodlay=on"][..], &["true"][..], 2, "unknown option `nodlay` (hint: did you mean `nodelay`?)"),
        (&["--change", "net.ipv4.tcp_sack=0"], &["true"], 2, "(hint: add --own-network or --link)"),
        (&["--match", "took (.*"], &["true"], 2, "--match `took (.*`: "),
        (&["--match", "took .*"], &["true"], 2, "has no group (hint: put the number in parentheses"),
        (&["--metric", "output"], &["true"], 2, "--metric output needs --match (hint: "),
        (
            &["--match", "took (.*)", "--change", "nodelay=on"],
            &["true"],
            5,
            "no number that --match finds in its output",
        ),
        (&[], &["false"], 3, "ended with exit code 1 (hint: tune needs a command that succeeds)"),
        (&[], &["no-such-program"], 127, "cannot run `no-such-program`"),
        (&["--runs", "1"], &["true"], 2, "2..=1000"),
        (&["--change", "affinity=9999"], &["true"], 2, "affinity `9999`: allowed are"),
        (&["--change", "timer-slack=long"], &["true"], 2, "(hint: "),
        (&["--far", "true"], &["true"], 2, "--link"),
    ] {
        let words: Vec<&str> =
            ["tune", "--quiet"].iter().chain(flags).chain(&["--"]).chain(command).copied().collect();
        let ran = place.hairpin(words).with_code(code);
        assert!(ran.stderr.contains(told) && ran.stdout.is_empty(), "{flags:?}: {ran:#?}");
    }
}
