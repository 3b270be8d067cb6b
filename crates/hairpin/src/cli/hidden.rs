//! Commands that are not for users: the echo half, and the recorder's cost.

use std::ffi::OsString;

use hairpin_engine::ends::process;

use super::exit::Exit;
use super::output;

/// Prints what one recorded sample costs, for `cargo xtask overhead`.
const RECORDER_COST: &str = "__recorder-cost";

/// Runs a hidden command, if the arguments name one.
#[must_use]
pub fn run(arguments: &[OsString]) -> Option<Exit> {
    let word = arguments.get(1)?.to_str()?;
    match word {
        process::COMMAND => Some(echo_half(arguments.get(2))),
        RECORDER_COST => Some(recorder_cost()),
        _ => None,
    }
}

fn echo_half(parent: Option<&OsString>) -> Exit {
    let parent = parent.and_then(|text| text.to_str()?.parse().ok());
    let served = match parent {
        Some(parent) => process::serve_as_process(parent),
        None => Err("the echo half is started by hairpin itself".to_owned()),
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
