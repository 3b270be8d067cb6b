//! Internal commands: a round, its server, the link and the echo at its far end, and the recorder's cost.

use std::ffi::OsString;

use hairpin_engine::ends::start as server;
use hairpin_engine::links::{echo_server, process as link};
use hairpin_engine::{round_process as round, serve_round};

use super::exit::Exit;
use super::output;
use super::two_hosts;

/// Prints the cost of one recorded sample, for `cargo xtask overhead`.
const RECORDER_COST: &str = "__recorder-cost";

/// Runs a hidden command, if the arguments name one.
#[must_use]
pub fn run(arguments: &[OsString]) -> Option<Exit> {
    let word = arguments.get(1)?.to_str()?;
    match word {
        round::COMMAND => Some(served(
            "the round",
            |parent| serve_round::serve_as_process(parent, two_hosts::dial),
            arguments.get(2),
        )),
        server::COMMAND => Some(server_of_a_round(arguments)),
        link::COMMAND => Some(served("the link", link::serve_as_process, arguments.get(2))),
        echo_server::COMMAND => Some(served("the echo server", echo_server::serve_as_process, arguments.get(2))),
        RECORDER_COST => Some(recorder_cost()),
        _ => None,
    }
}

/// Runs this process as the server of a round; the host follows the id.
fn server_of_a_round(arguments: &[OsString]) -> Exit {
    let host = arguments.get(3).and_then(|text| text.to_str()).unwrap_or_default();
    served("the server", |parent| server::serve_as_process(parent, host), arguments.get(2))
}

/// Runs this process as a part of another hairpin with the given process id.
fn served(name: &str, serve: impl Fn(u32) -> Result<(), String>, parent: Option<&OsString>) -> Exit {
    let parent = parent.and_then(|text| text.to_str()?.parse().ok());
    let served = match parent {
        Some(parent) => serve(parent),
        None => Err(format!("{name} is started by hairpin itself")),
    };
    match served {
        Ok(()) => Exit::Fine,
        Err(error) => {
            output::error(&error);
            Exit::Usage
        }
    }
}

fn recorder_cost() -> Exit {
    let cost = hairpin_engine::recorder::cost();
    output::text(&format!(
        "{{\"clock_read_ns\": {:.2}, \"sample_ns\": {:.2}}}\n",
        cost.clock_read_ns, cost.sample_ns
    ));
    Exit::Fine
}
