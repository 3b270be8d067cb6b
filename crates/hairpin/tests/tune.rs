//! `hairpin tune`: a program that stalls, one that no option helps, and input that is refused.

use hairpin_testing::or_skip;
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
    assert_eq!(verdicts, [("nodelay=on", "no-effect"), ("sndbuf=65536", "no-effect")]);
    assert_eq!(told["tune"][0]["because"], Value::Null);
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let place = Place::new();
    for (flags, command, code, told) in [
        (&["--change", "nodlay=on"][..], &["true"][..], 2, "unknown option `nodlay` (hint: did you mean `nodelay`?)"),
        (&["--change", "net.ipv4.tcp_sack=0"], &["true"], 2, "(hint: add --own-network)"),
        (&["--match", "took (.*"], &["true"], 2, "--match `took (.*`: "),
        (&["--match", "took .*"], &["true"], 2, "has no group (hint: put the number in parentheses"),
        (&["--metric", "output"], &["true"], 2, "--metric output needs --match (hint: "),
        (
            &["--match", "took (.*)", "--change", "nodelay=on"],
            &["true"],
            5,
            "no number that --match finds in its output",
        ),
        (&[], &["false"], 3, "ended with exit status: 1 (hint: tune needs a command that succeeds)"),
        (&[], &["no-such-program"], 127, "cannot run `no-such-program`"),
        (&["--runs", "1"], &["true"], 2, "2..=1000"),
    ] {
        let words: Vec<&str> =
            ["tune", "--quiet"].iter().chain(flags).chain(&["--"]).chain(command).copied().collect();
        let ran = place.hairpin(words).with_code(code);
        assert!(ran.stderr.contains(told) && ran.stdout.is_empty(), "{flags:?}: {ran:#?}");
    }
}
