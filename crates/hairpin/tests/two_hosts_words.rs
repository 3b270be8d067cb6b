//! Errors for a server on another host that is misspelt, unavailable or not reached.

use serde_json::Value;

use crate::support::served::{Served, ticket};
use crate::support::{PROGRAM, Place, list, text};

/// Runs the program with these arguments and that `HAIRPIN_TO`. Returns its exit code and, on one line, its errors.
fn said(place: &Place, words: &str, environment: Option<&str>) -> (Option<i32>, String) {
    let mut command = place.command(PROGRAM);
    command.args(words.split_whitespace()).env("XDG_STATE_HOME", place.path("state"));
    if let Some(to) = environment {
        command.env("HAIRPIN_TO", to);
    }
    let output = command.output().expect("the program starts");
    let said = String::from_utf8(output.stderr).expect("it is text");
    (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_missing_or_invalid_ticket_is_refused_with_a_hint() {
    let place = Place::new();
    let _served = Served::new(&place);
    let edited = ticket(&place).replacen("127.0.0.1", "lab.example.org", 1);
    std::fs::write(place.path("edited"), edited).unwrap();
    for (words, environment, expected) in [
        ("round-trip --to ticket", None, "--to: `ticket` is a file, not a ticket (hint: --to @ticket reads the"),
        ("check ticket", None, "TICKET: `ticket` is a file, not a ticket (hint: @ticket reads the ticket from it)"),
        ("check", Some("ticket"), "HAIRPIN_TO: `ticket` is a file, not a ticket (hint: HAIRPIN_TO=@ticket reads"),
        ("round-trip --to @edited", None, "or its host or port was edited: its checksum does not fit (hint: copy it"),
        (
            "check",
            None,
            "neither an argument nor HAIRPIN_TO has one (hint: `hairpin check @FILE`, or HAIRPIN_TO=@FILE,",
        ),
        ("check", Some("nonsense"), "error: HAIRPIN_TO: not a ticket: it has no `#`"),
        ("check --to @ticket", None, "(hint: `hairpin check @FILE`: the ticket is an argument)"),
        ("round-trip --fallback tcp", None, "--fallback needs --to or HAIRPIN_TO"),
    ] {
        let (code, said) = said(&place, words, environment);
        let is_meant_for_one = words.ends_with("@edited");
        assert_eq!(code, Some(if is_meant_for_one { 3 } else { 2 }), "{words}: {said}");
        assert!(said.contains(expected), "{words}: {said}");
        assert!(!said.contains("other users of this host"), "no secret was on the command line: {said}");
    }
}

#[test]
fn an_unreachable_server_from_the_environment_is_reported_with_the_variable() {
    let place = Place::new();
    drop(Served::new(&place));
    let (code, by_environment) = said(&place, "check", Some("@ticket"));
    assert!(by_environment.starts_with("error: HAIRPIN_TO: cannot connect to 127.0.0.1:"), "{by_environment}");
    assert_eq!(code, Some(3));
    let (_, by_flag) = said(&place, "check @ticket", None);
    assert!(by_flag.starts_with("error: cannot connect to 127.0.0.1:"), "{by_flag}");
}

#[test]
fn an_address_and_a_port_that_a_server_cannot_have_are_refused_with_a_hint() {
    let place = Place::new();
    let served = Served::new(&place);
    let taken = crate::support::served::address(&place);
    for (bind, expected) in [
        (
            "192.0.2.55",
            "no interface of this host has the address: `ip address` lists all, 0.0.0.0 means all of IPv4",
        ),
        (&*taken, "; --bind 127.0.0.1:0 uses any free port)"),
    ] {
        let (code, said) = said(&place, &format!("serve --bind {bind}"), None);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    drop(served);
}

#[test]
fn a_run_between_two_hosts_records_its_settings_and_its_checks_name_the_server() {
    let place = Place::new();
    let _served = Served::new(&place);
    let plan = "small-writes --exchanges 20 --rounds 1 --remedy default --trace off --to @ticket --out run";
    let run = place.json(plan);
    let knob = |name: &str| {
        let pair = list(&run["plan"]["knobs"]).iter().find(|pair| pair[0] == name);
        pair.map_or(Value::Null, |pair| pair[1].clone())
    };
    assert_eq!(
        (knob("placement"), knob("path"), knob("link")),
        (["pinned"].into(), ["127.0.0.1"].into(), Value::Null)
    );
    let findings = list(&run["findings"]);
    let commands: Vec<&str> = findings
        .iter()
        .filter(|finding| !finding["counter_experiment"].is_null())
        .map(|finding| text(&finding["counter_experiment"]["command"]))
        .collect();
    assert!(!commands.is_empty(), "{run}");
    for command in commands {
        assert!(command.ends_with(" --to @ticket") && !command.contains("--placement"), "{command}");
    }
}
