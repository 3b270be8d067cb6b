//! Programs across a link: output and logs of `hairpin link run`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Arguments, PROGRAM, Place, Ran, Running, list};

/// `hairpin link run` with these flags, and a script at the near end.
pub(crate) fn with_script(place: &Place, flags: impl Arguments, script: &str) -> Command {
    let mut command = place.command(PROGRAM);
    command.args(["link", "run"]).args(flags.words()).args(["--", "bash", "-c", script]);
    command
}

pub(crate) fn run(place: &Place, flags: impl Arguments, script: &str) -> Ran {
    Running::start(&mut with_script(place, flags, script)).end()
}

/// Like [`run`], but repeats the run until the far command listens within the 2 s for which Hairpin waits.
pub(crate) fn run_with_ready_far(place: &Place, flags: impl Arguments, script: &str) -> Ran {
    let tried = (0..50).map(|_| run(place, &flags, script));
    let mut ready = tried.filter(|ran| !ran.stderr.contains("(nothing listens yet)"));
    ready.next().expect("the far command listens within 2 s in one of 50 trials")
}

/// Like [`run`] with `--json`. Returns the JSON; the exit code must be 0.
pub(crate) fn told(place: &Place, flags: impl Arguments, script: &str) -> Value {
    run(place, (flags, "--json"), script).with_code(0).json()
}

pub(crate) fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} is no number: {value}"))
}

/// Fails unless every ledger of the record closes: both directions and all of their stages.
pub(crate) fn assert_closes(record: &Value) {
    let dropped = |counts: &Value| -> u64 {
        let dropped = counts["dropped"].as_object().expect("by stage or reason");
        dropped.values().map(|count| count.as_u64().expect("a count")).sum()
    };
    let closes = |counts: &Value| {
        let entered = count(counts, "in") + count(counts, "duplicated");
        assert_eq!(entered, count(counts, "out") + dropped(counts) + count(counts, "inside"), "{counts}");
    };
    closes(&record["packets"]);
    for direction in ["up", "down"] {
        closes(&record[direction]["packets"]);
        list(&record[direction]["stages"]).iter().for_each(closes);
    }
    for term in ["in", "out", "duplicated", "inside"] {
        let of = |direction: &str| count(&record[direction]["packets"], term);
        assert_eq!(count(&record["packets"], term), of("up") + of("down"), "{term}: {record}");
    }
}

/// The lines of a link's log without its header, split into columns.
pub(crate) fn log(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).expect("the log was written");
    let mut lines = text.lines();
    let header = "# direction number copy size_bytes arrived_ns due_ns released_ns fate";
    assert_eq!(lines.next(), Some(header));
    lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Fails unless the log has a line for every packet and copy, with the fates that the record counts.
pub(crate) fn assert_log_is_the_record(lines: &[Vec<String>], record: &Value) {
    for direction in ["up", "down"] {
        let counts = &record[direction]["packets"];
        let own: Vec<&Vec<String>> = lines.iter().filter(|line| line[0] == direction).collect();
        let with_fate = |fate: &str| own.iter().filter(|line| line[7].starts_with(fate)).count() as u64;
        assert_eq!(with_fate("left"), count(counts, "out"), "{direction}: {counts}");
        for (stage, dropped) in counts["dropped"].as_object().expect("by stage") {
            assert_eq!(with_fate(&format!("dropped:{stage}:")), dropped.as_u64().expect("a count"), "{direction}");
        }
        assert_eq!(with_fate("inside"), count(counts, "inside"), "{direction}: {counts}");
        let expected = count(counts, "in") + count(counts, "duplicated");
        assert_eq!(own.len() as u64, expected, "{direction}: {counts}");
        for line in own {
            assert_eq!(line.len(), 8, "{line:?}");
            let time = |column: usize| line[column].parse::<u64>();
            let (arrived, due, released) = (time(4).expect("it arrived"), time(5), time(6));
            match (due, released) {
                (Ok(due), Ok(released)) => assert!(arrived <= due && due <= released, "{line:?}"),
                (Ok(due), Err(_)) => assert!(arrived <= due && line[7] == "inside", "{line:?}"),
                _ => assert!(line[7].starts_with("dropped:") || line[7] == "inside", "{line:?}"),
            }
        }
    }
}
