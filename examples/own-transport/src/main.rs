//! A program with a transport of its own. Without arguments it measures this transport beside TCP; with arguments it is
//! `hairpin`, with one transport more.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program prints")]

mod framed;

use std::ffi::OsString;
use std::process::ExitCode;

use hairpin::report::terminal::{self, Look};
use hairpin::{Program, Refused, Session};

fn main() -> ExitCode {
    let program = hairpin::round_main(&[&framed::Framed]);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.len() > 1 {
        return hairpin::cli::run(&program, &arguments);
    }
    match beside_tcp(&program) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(refused) => {
            eprintln!("error: {refused}");
            ExitCode::FAILURE
        }
    }
}

fn beside_tcp(program: &Program) -> Result<String, Refused> {
    let session = Session::new(program, "round-trip")?
        .set("transport", "tcp,framed")
        .set("placement", "same-cpu")
        .set("rounds", "5");
    let (_folder, run) = session.run(|_| {})?;
    Ok(terminal::render(&run, &Look { width: 100, colour: false }))
}
