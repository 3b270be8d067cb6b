//! The program as its users start it: alone, with commands of `hairpin`, and as both ends on two hosts.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use hairpin::hosts::dial::NotKnown;
use hairpin::hosts::ticket::Ticket;
use hairpin::model::binding::Binding;
use hairpin::remote::Remote;
use serde_json::Value;
use tempfile::TempDir;

fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-transport"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// Exit code 5 is accepted: on a busy machine all rounds may be disturbed.
fn ran(folder: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        program(folder, arguments).env("HAIRPIN_ALL_ROUNDS", "1").output().expect("it can be started");
    assert!(matches!(status.code(), Some(0 | 5)), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("it prints UTF-8")
}

/// Sent and received messages of each case, by the flow's transport.
fn counts(run: &str) -> Vec<(String, Value, Value)> {
    let run: Value = serde_json::from_str(run).expect("it prints JSON");
    let cases = run["cases"].as_array().expect("it has cases");
    let of_case = |case: &Value| {
        let (name, ledger) = (&case["case"]["flows"][0]["transport"], &case["flows"][0]["ledger"]);
        (name.as_str().unwrap_or_default().to_owned(), ledger["sent"].clone(), ledger["received"].clone())
    };
    cases.iter().map(of_case).collect()
}

#[test]
fn its_result_is_printed_beside_that_of_tcp() {
    let folder = TempDir::new().expect("there is room");
    let text = ran(folder.path(), &[]);
    for name in ["tcp", "framed"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {text}");
    }
}

#[test]
fn the_commands_have_one_transport_more() {
    let folder = TempDir::new().expect("there is room");
    let list = ran(folder.path(), &["list"]);
    assert!(list.contains("messages over TCP, each behind its length"), "{list}");
    let ends = ["--placement", "unpinned", "--waiting", "block,poll,spin", "--rounds", "1", "--json"];
    let run = ran(
        folder.path(),
        &[&["round-trip", "--transport", "framed", "--size", "4,70000", "--count", "20"], &ends[..]].concat(),
    );
    assert_eq!(counts(&run), vec![("framed".to_owned(), 20.into(), 20.into()); 6]);
    let run = ran(
        folder.path(),
        &[
            "message-rate",
            "--transport",
            "framed",
            "--duration",
            "50ms",
            "--warmup",
            "10ms",
            "--rounds",
            "1",
            "--json",
        ],
    );
    for (name, sent, received) in counts(&run) {
        assert!(name == "framed" && sent == received && sent.as_u64() > Some(0), "{sent} {received}");
    }
}

/// Killed on drop.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn both_ends_are_this_program_and_another_is_refused() {
    let folder = TempDir::new().expect("there is room");
    let mut serve = program(folder.path(), &["serve", "--bind", "127.0.0.1:0", "--quiet"]);
    let serve = serve.env("XDG_STATE_HOME", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut serving = Serving(serve.expect("it can be started"));
    let mut ticket = String::new();
    BufReader::new(serving.0.stdout.take().expect("piped")).read_line(&mut ticket).expect("it prints its ticket");
    let to = ["round-trip", "--transport", "framed,tcp", "--to", ticket.trim(), "--count", "20", "--rounds", "1"];
    let run = ran(folder.path(), &[&to[..], &["--json"]].concat());
    // On a busy machine a message may be late.
    let answered = counts(&run).into_iter().filter(|(.., received)| received.as_u64() > Some(0));
    assert_eq!(answered.map(|(name, ..)| name).collect::<Vec<_>>(), ["framed", "tcp"]);
    // This process has the built-in transports alone.
    let ticket = Ticket::parse(ticket.trim()).expect("it is the server's");
    let Err(NotKnown::Refused(refused)) = Remote::connect(ticket, Binding::default()) else {
        panic!("another program is refused")
    };
    let refused = refused.to_string();
    assert!(refused.contains("is another program: its own transports are `framed`, here they are ``"), "{refused}");
}
