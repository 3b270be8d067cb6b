//! `small-writes --as 'PROGRAM ARGUMENTS'`: does what the program of a published text does, and prints its lines.

use std::ffi::OsString;

use hairpin_model::time_sequence::{Event, EventKind};
use hairpin_model::trace::End;
use hairpin_model::{Run, shell};

use super::exit::{Exit, Stopped};
use super::{command, measure, output};
use crate::program::Program;

struct DropIn {
    name: &'static str,
    usage: &'static str,
    /// Converts its arguments to those of `small-writes`; `None` if they are not its own.
    words: fn(&[&str]) -> Option<Vec<String>>,
    lines: fn(&Run, &[&str]) -> Vec<String>,
}

const ALL: &[DropIn] = &[
    DropIn {
        name: "tcp_nodelay_client",
        usage: "tcp_nodelay_client HOST [--port=N] [--nr_logical_packets=N] [--no_delay | --cork] [--verbose]",
        words: client_words,
        lines: client_lines,
    },
    DropIn { name: "nodelay", usage: "nodelay [-D | -b] HOST LEN", words: nodelay_words, lines: nodelay_lines },
];

pub(super) fn run(program: &Program, name: &str, like: &str, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let words = expanded(like, arguments).map_err(Stopped::usage)?;
    let parsed = command::command(program).try_get_matches_from(&words);
    let parsed = parsed.map_err(|error| Stopped::usage(error.to_string()))?;
    let Some((_, matches)) = parsed.subcommand() else { return Err(Stopped::usage("no experiment was named")) };
    let (run, exit) = measure::measured(program, name, matches, &words)?;
    if !matches.get_flag("json") {
        let lines = known(like, |known, arguments| (known.lines)(&run, arguments)).unwrap_or_default();
        output::text(&format!("\n{}\n", lines.join("\n")));
    }
    Ok(exit)
}

/// Applies `of` to the program of a command and its arguments, if it is known.
fn known<T>(program: &str, of: impl FnOnce(&DropIn, &[&str]) -> T) -> Option<T> {
    let given = shell::words(program);
    let words: Vec<&str> = given.iter().map(|word| word.trim_start_matches("./")).collect();
    let (name, arguments) = words.split_first()?;
    ALL.iter().find(|known| known.name == *name).map(|known| of(known, arguments))
}

/// The command line without the flag and its value, but with the arguments that do the same as the program.
fn expanded(program: &str, arguments: &[OsString]) -> Result<Vec<OsString>, String> {
    let usages = || ALL.iter().map(|known| known.usage).collect::<Vec<_>>().join("' or '");
    let own = known(program, |known, arguments| (known.words)(arguments)).flatten();
    let own = own.ok_or_else(|| format!("--as: cannot do `{program}` (hint: --as '{}')", usages()))?;
    let (mut rest, mut left) = (Vec::new(), arguments.iter());
    while let Some(argument) = left.next() {
        match argument.to_str() {
            Some("--as") => drop(left.next()),
            Some(text) if text.starts_with("--as=") => {}
            _ => rest.push(argument.clone()),
        }
    }
    // The user's flags replace those of the program. Each of these has a value.
    let given: Vec<OsString> = rest.clone();
    let is_given = |flag: &String| given.iter().any(|word| word.to_str() == Some(flag));
    let own = own.chunks(2).filter(|pair| !is_given(&pair[0])).flatten();
    rest.extend(own.map(OsString::from));
    Ok(rest)
}

const BUFFERS: u64 = 100;
const BUFFER_BYTES: u64 = 2;

fn client_words(arguments: &[&str]) -> Option<Vec<String>> {
    let (mut packets, mut remedy) = ("1", "default");
    for argument in arguments {
        match argument.split_once('=').unwrap_or((argument, "")) {
            ("--nr_logical_packets", count) if count.parse::<u64>().is_ok() => packets = count,
            ("--no_delay", "") if remedy == "default" => remedy = "nodelay",
            ("--cork", "") if remedy == "default" => remedy = "cork",
            ("--verbose" | "--port", _) => {}
            (flag, _) if flag.starts_with('-') => return None,
            _ => {}
        }
    }
    Some(shell::words(&format!(
        "--transport tcp --rounds 1 --warmup 0 --trace off --writes {BUFFERS}x{BUFFER_BYTES} --remedy {remedy} \
         --exchanges {packets}"
    )))
}

fn client_lines(run: &Run, arguments: &[&str]) -> Vec<String> {
    let Some(round) = run.rounds.iter().find_map(|round| round.measured()) else { return Vec::new() };
    let flow = round.primary();
    let (packets, rate_per_s) = (flow.ledger.sent, flow.figures.rate_per_s);
    let option = match arguments.iter().find(|argument| ["--no_delay", "--cork"].contains(argument)) {
        Some(&"--no_delay") => " using TCP_NODELAY",
        Some(_) => " using TCP_CORK",
        None => "",
    };
    let total_ms = packets as f64 / rate_per_s * 1e3;
    let bytes_per_ms = (packets * BUFFERS * BUFFER_BYTES) as f64 / total_ms;
    vec![format!(
        "{packets} packets ({BUFFERS} buffers) sent in {total_ms:.6} ms: {bytes_per_ms:.6} bytes/ms{option}"
    )]
}

const HEADER_BYTES: i64 = 4;

fn nodelay_words(arguments: &[&str]) -> Option<Vec<String>> {
    let remedy = match arguments {
        [_, _] => "default",
        ["-D", _, _] => "nodelay",
        ["-b", _, _] => "one-write",
        _ => return None,
    };
    let size: u32 = arguments.last()?.parse().ok()?;
    Some(shell::words(&format!(
        "--transport tcp --rounds 1 --warmup 0 --exchanges 1 --reply 4 --remedy {remedy} --gap 1ms \
         --writes {HEADER_BYTES},{size}"
    )))
}

fn nodelay_lines(run: &Run, arguments: &[&str]) -> Vec<String> {
    let Some([host, size]) = arguments.last_chunk::<2>() else { return Vec::new() };
    let connected = if arguments[0] == "-D" { "connected, set TCP_NODELAY" } else { "connected" };
    let mut lines = vec![
        format!("connecting to {host}:{size}"),
        connected.to_owned(),
        format!("Request no. 0, sending {size} bytes"),
    ];
    let sequence = run.cases.first().and_then(|case| case.trace.as_ref()?.sequence.as_ref());
    let Some(sequence) = sequence else {
        return vec!["no exchange was traced (hint: --trace on)".to_owned()];
    };
    let of =
        |kind: EventKind| sequence.events.iter().filter(move |event| event.end == End::Client && event.kind == kind);
    let ended_ns = |event: &Event| event.until_ns.unwrap_or(event.at_ns);
    // The run has no clock time of an exchange: the seconds count from its start.
    let second = |ns: i64| format!("{:.6}", run.started_unix_s as f64 + ns as f64 / 1e9);
    for (number, write) in of(EventKind::Write).enumerate() {
        let bytes = write.end_byte - write.first_byte;
        let what = if number == 0 && bytes == HEADER_BYTES { "header".to_owned() } else { format!("{bytes} bytes") };
        lines.push(format!("{} sent {what}", second(ended_ns(write))));
    }
    lines.push("Sent all 1 requests, receiving responses.".to_owned());
    let answered_ns = of(EventKind::Read).map(ended_ns).max().unwrap_or(sequence.duration_ns);
    lines.push(format!("{} received 4 bytes, ack = {size}", second(answered_ns)));
    lines.push(format!("total {:.6} seconds", answered_ns as f64 / 1e9));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(program: &str) -> Result<String, String> {
        let given = ["hairpin", "small-writes", "--as", program, "--link", "plc"].map(OsString::from);
        let words = expanded(program, &given)?;
        Ok(words.iter().map(|word| word.to_str().expect("text")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_programs_of_the_texts_are_converted_to_arguments() {
        let client = of("./tcp_nodelay_client localhost --port=5001 --nr_logical_packets=10000 --cork --verbose");
        let expected = "hairpin small-writes --link plc --transport tcp --rounds 1 --warmup 0 --trace off \
                        --writes 100x2 --remedy cork --exchanges 10000";
        assert_eq!(client.as_deref(), Ok(expected));
        let expected = "hairpin small-writes --link plc --transport tcp --rounds 1 --warmup 0 --exchanges 1 --reply 4 \
                        --remedy nodelay --gap 1ms --writes 4,3210";
        assert_eq!(of("nodelay -D 192.168.1.104 3210").as_deref(), Ok(expected));
        let given = ["hairpin", "small-writes", "--as", "nodelay h 9", "--rounds", "3"].map(OsString::from);
        let words = expanded("nodelay h 9", &given).unwrap();
        assert_eq!(words.iter().filter(|word| *word == "--rounds").count(), 1);
        for wrong in [
            "nodelay",
            "nodelay -x a 1",
            "tcp_nodelay_client --frob",
            "tcp_nodelay_client h --cork --no_delay",
            "ls",
            "",
            "nodelay h -1",
        ] {
            assert!(of(wrong).is_err_and(|why| why.contains("(hint: --as ")), "{wrong}");
        }
    }
}
