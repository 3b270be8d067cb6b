//! `--to ssh://HOST`: starts a server on the host for this run, and copies this program to the host if it has none.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use clap::ArgMatches;
use hairpin_hosts::ssh::{Binary, Program, Server, Ssh, Unstarted};
use hairpin_hosts::ssh_host::SshHost;
use hairpin_model::{Failure, FailureKind, quantities};

use super::exit::{Exit, Stopped};
use super::output;

/// Flags that need `ssh://`.
const SSH_FLAGS: [&str; 2] = ["server-port", "copy-binary"];

/// Rejects flags that need `ssh://`.
pub(super) fn refuse_flags(matches: &ArgMatches) -> Result<(), Stopped> {
    match SSH_FLAGS.into_iter().find(|flag| matches.contains_id(flag)) {
        Some(flag) => Err(Stopped::usage(format!(
            "--{flag} needs ssh://HOST as an argument or in HAIRPIN_TO (hint: add it, or omit --{flag})"
        ))),
        None => Ok(()),
    }
}

/// Starts a server on `host`. Copies the program first if the host has none and the user agrees.
pub(super) fn start(host: SshHost, matches: &ArgMatches, stop: &AtomicBool) -> Result<Server, Stopped> {
    let shown = host.to_string();
    let port = matches.get_one::<u16>("server-port").copied();
    let asked = matches.get_one::<String>("copy-binary");
    let binary = match asked.map(String::as_str) {
        None | Some("") => std::env::current_exe()
            .map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot find the path of this executable: {error}"),
                    "give it with --copy-binary=FILE",
                )
            })
            .and_then(|path| Binary::read(&path)),
        Some(file) => Binary::read(Path::new(file)),
    };
    let program = match (&binary, asked) {
        (Ok(binary), Some(_)) => Program::Copy(binary),
        (Err(failure), Some(_)) => return Err(Stopped::failed(failure)),
        (binary, None) => Program::Any(binary.as_ref().ok()),
    };
    let ssh = Ssh::of_user(host, stop);
    let started = match ssh.start(program, port) {
        Err(Unstarted::Missing(system)) => {
            let ask =
                |question: &str| if asked.is_some() { Some(true) } else { output::ask(question).ok().flatten() };
            let binary = choose_binary(&shown, &system, binary, ask).map_err(|failure| Stopped::failed(&failure))?;
            output::note(&format!("copying {} to {shown}", quantities::bytes(binary.bytes() as f64)));
            ssh.copy(&binary).and_then(|()| ssh.start(Program::Copy(&binary), port))
        }
        other => other,
    };
    let server = started.map_err(|why| match why {
        Unstarted::Failed(failure) => Stopped::failed(&failure),
        Unstarted::Missing(_) => Stopped::failed(&Failure::new(
            FailureKind::Other,
            format!("cannot find or execute the copy of this program on {shown}"),
            "is ~/.cache on that host mounted noexec?",
        )),
        Unstarted::Interrupted => Stopped::with(
            Exit::Interrupted,
            format!("interrupted while starting a server on {shown}; nothing was measured"),
        ),
    })?;
    if !matches.get_flag("quiet") {
        output::note(&format!("serving on {shown} for this run; data goes to {}", server.ticket.address()));
    }
    Ok(server)
}

/// Returns the program to copy if it runs on the host and the user agrees. `ask` returns `None` if there is no user to
/// ask.
fn choose_binary(
    host: &str,
    system: &str,
    binary: Result<Binary, Failure>,
    ask: impl FnOnce(&str) -> Option<bool>,
) -> Result<Binary, Failure> {
    let missing = |why: &str, hint: &str| {
        Failure::new(FailureKind::Other, format!("the shell on {host} finds no `hairpin`{why}"), hint)
    };
    let fits = binary.and_then(|binary| binary.check_for(system).map(|()| binary));
    let binary = fits.map_err(|failure| missing(&format!(", and {}", failure.cause), &failure.hint))?;
    let bytes = quantities::bytes(binary.bytes() as f64);
    let question = format!("There is no `hairpin` on {host}. Copy this program ({bytes}) to ~/.cache/hairpin there?");
    match ask(&question) {
        Some(true) => Ok(binary),
        Some(false) => Err(missing("", "install it there")),
        None => {
            Err(missing("", "install it there, or copy this program to ~/.cache/hairpin there with --copy-binary"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_copied_only_if_the_user_agrees_and_it_can_run() {
        // Header of a static program for x86-64.
        let mut file = [0; 120];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for (at, byte) in [(18, 62), (32, 64), (54, 56), (56, 1), (64, 1)] {
            file[at] = byte;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, file).unwrap();
        let choose = |system: &str, answer: Option<bool>| {
            choose_binary("ssh://lab", system, Binary::read(&path), |question| {
                assert!(question.contains("on ssh://lab. Copy this program (120 B)"), "{question}");
                answer
            })
            .map(|binary| binary.bytes())
            .map_err(|failure| failure.to_string())
        };
        assert_eq!(choose("Linux x86_64", Some(true)), Ok(120));
        let refused = "the shell on ssh://lab finds no `hairpin` (hint: install it there";
        assert_eq!(choose("Linux x86_64", Some(false)), Err(format!("{refused})")));
        assert!(choose("Linux x86_64", None).unwrap_err().starts_with(&format!("{refused}, or copy this program")));
        let other = choose("Linux aarch64", Some(true)).unwrap_err();
        assert!(other.contains("is for Linux x86_64, and the host is Linux aarch64"), "{other}");
    }
}
