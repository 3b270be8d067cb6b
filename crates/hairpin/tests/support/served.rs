//! `hairpin serve` in another process, and its ticket.

use super::{PROGRAM, Place, Running, until};

/// A server whose ticket is in a file.
pub(crate) struct Served {
    pub(crate) running: Running,
}

impl Served {
    /// Starts `hairpin serve` in the folder, with its state there.
    pub(crate) fn start(place: &Place, arguments: &str) -> Self {
        Self::start_into(place, "ticket", "log", arguments)
    }

    /// Like [`Served::start`], with the names of the files for ticket and log.
    pub(crate) fn start_into(place: &Place, ticket: &str, log: &str, arguments: &str) -> Self {
        // Tests that stop an end need long rounds.
        let arguments = match arguments {
            _ if arguments.contains("turn=") || arguments.contains("--once") => arguments.to_owned(),
            _ if arguments.contains("--limit ") => arguments.replace("--limit ", "--limit turn=2h,"),
            _ => format!("{arguments} --limit turn=2h"),
        };
        let script = format!("umask 077; exec \"$0\" serve {arguments} > {ticket} 2> {log}");
        let mut command = place.command("sh");
        command.args(["-c", &script, PROGRAM]).env("XDG_STATE_HOME", place.path("state"));
        let served = Self { running: Running::start(&mut command) };
        until("the server has printed its ticket", || {
            std::fs::read_to_string(place.path(ticket)).is_ok_and(|text| text.ends_with('\n'))
        });
        served
    }

    pub(crate) fn new(place: &Place) -> Self {
        Self::start(place, "--bind 127.0.0.1:0")
    }
}

pub(crate) fn ticket(place: &Place) -> String {
    let text = std::fs::read_to_string(place.path("ticket")).unwrap_or_default();
    if text.ends_with('\n') { text.trim().to_owned() } else { String::new() }
}

pub(crate) fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).unwrap_or_default()
}

pub(crate) fn address(place: &Place) -> String {
    ticket(place).split('#').next().expect("it has one").to_owned()
}
