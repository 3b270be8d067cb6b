//! `cargo xtask commands`: runs all commands in the documents, and checks that all outputs have a date.
//!
//! Commands are in code blocks, or between backticks in a paragraph. Commands of `hairpin` run in a folder in which
//! RUN, BEFORE, AFTER and A to F are saved runs, COMMAND is a program, and lab.ticket is the ticket of a running
//! server, which also echoes at http://localhost:8080/. Experiments measure one round. SIGINT ends servers after 3 s, and in a brief check experiments too. A fake
//! `ssh` runs all commands on this machine. The bare name of a command only prints its help.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::source::{self, Source};

const LIMIT: Duration = Duration::from_mins(15);

/// The generated document, and the document whose blocks are tested by `crates/hairpin/tests/lab/scripting.rs`.
const GENERATED: &str = "catalog.md";
const BLOCKS_ARE_TESTED: &str = "scripting.md";

const RUNS: &[&str] = &["RUN", "BEFORE", "AFTER", "A", "B", "C", "D", "E", "F"];

/// Shell wrapper that adds `--rounds 1` to `hairpin` commands that measure, unless they set the rounds, `--over 1s` to
/// searches, and `--at-most 1s` to comparisons that measure.
const ONE_ROUND: &str = r#"
case "$1 $2" in
  "round-trip "* | "small-writes "* | "message-rate "* | "bulk "* | "offered-load "* | "under-load "* | "observer "* | "periodic "* | "waiting "* | "which "* | "survey "* | "claims run" | " " | -*)
    case " $* " in
      *" --find "*" --over "*) ;;
      *" --find "*) set -- "$@" --over 1s ;;
      *" --rounds "* | *" --over "* | *" --until "* | *" --quick "* | *" --help "*) ;;
      *) set -- "$@" --rounds 1 ;;
    esac ;;
  "compare --run") set -- "$@" --at-most 1s ;;
esac
# A run with --out is not cut short, since other commands read it. A server for a run ends with that run.
case " $* " in
  " serve "*" --until-input-closes "* | " serve "*" --help "*) exec "$HAIRPIN" "$@" ;;
  " serve "*) exec $ENDED "$HAIRPIN" "$@" ;;
esac
case " $*" in
  *" --out "*) exec "$HAIRPIN" "$@" ;;
  *" --rounds 1") exec $LIMITED "$HAIRPIN" "$@" ;;
  *) exec "$HAIRPIN" "$@" ;;
esac
"#;

/// A fake ssh client that runs the command on this machine.
const SSH: &str = r#"
[ "$1" = -G ] && exec echo "hostname 127.0.0.1"
while [ "$1" != -- ]; do shift; done
shift 2
SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" exec sh -c "$*"
"#;

/// File with the ticket of the running server.
const TICKET: &str = "lab.ticket";
/// Address of its echo server, which commands in the documents name.
const ECHO: &str = "127.0.0.1:8080";
/// Environment variable with the folder for a server's key and tickets.
const STATE: &str = "XDG_STATE_HOME";

/// Prefix of a command whose output other users may not read; `)` ends the command.
const PRIVATE: &str = "(umask 077; ";

/// Command prefix that ends a program with SIGINT after 3 s.
const LIMITED: &str = "timeout --foreground --preserve-status --signal=INT --kill-after=30 3";

#[derive(Debug, PartialEq, Eq)]
struct Shown {
    command: String,
    /// Whether the command is between backticks in a paragraph instead of in a block.
    inline: bool,
}

/// Runs the commands in the documents below `root` with the program `binary`. Returns a line for the summary. `brief`
/// skips installations and ends measurements after 3 s.
pub(crate) fn run(root: &Path, binary: &Path, brief: bool) -> Result<String> {
    let mut shown: Vec<Shown> = Vec::new();
    let mut faults = Vec::new();
    for Source { path, text } in documents(root)? {
        let name = path.trim_start_matches("docs/");
        faults.extend(undated(&text).into_iter().map(|line| format!("{name}:{line}: output without a date")));
        let tested = name == BLOCKS_ARE_TESTED;
        for one in commands(&text).into_iter().filter(|one| one.inline || !tested) {
            if !shown.contains(&one) {
                shown.push(one);
            }
        }
    }
    ensure!(shown.iter().any(|one| !one.inline), "the documents show no command");
    let scratch = process::scratch("commands")?;
    let place = Place::new(root, binary, &scratch, brief)?;
    let server = place.serve()?;
    for one in &shown {
        let started = Instant::now();
        faults.extend(place.fault(one).map(|why| format!("{}: {why}", one.command)));
        println!("{:5.1} s  {}", started.elapsed().as_secs_f64(), one.command);
    }
    drop(server);
    process::remove(&scratch)?;
    process::fail_with(&faults)?;
    Ok(format!("{} commands of the documents work", shown.len()))
}

/// The documents in the root and in docs, but not below.
fn documents(root: &Path) -> Result<Vec<Source>> {
    let mut found = source::files(root, &["md"])?;
    found.retain(|one| !one.path.trim_start_matches("docs/").contains('/') && !one.path.ends_with(GENERATED));
    Ok(found)
}

fn commands(text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut in_fence = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if in_fence || line.starts_with("    ") {
            let mut command = line.trim().trim_start_matches("$ ").to_owned();
            while is_command(&command) && command.ends_with('\\') {
                command.pop();
                command.push_str(lines.next().unwrap_or_default().trim_start());
            }
            found.push(Shown { command, inline: false });
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    let inline = prose.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    found.extend(inline.map(|code| Shown { command: code.replace('\n', " "), inline: true }));
    for one in &mut found {
        let end = one.command.find("  #").unwrap_or(one.command.len());
        one.command = one.command[..end].trim().to_owned();
    }
    found.retain(|one| is_command(&one.command));
    found
}

fn is_command(text: &str) -> bool {
    let text = text.strip_prefix(PRIVATE).unwrap_or(text);
    text == "hairpin" || text.starts_with("hairpin ") || text.starts_with("cargo ")
}

/// Returns the lines at which a block of output (`text`) begins, if no date precedes the block in its section.
fn undated(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut dated, mut in_fence) = (false, false);
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            if line == "```text" && !in_fence && !dated {
                found.push(at + 1);
            }
            in_fence = !in_fence;
        } else if !in_fence {
            dated = (dated && !line.starts_with('#')) || has_date(line);
        }
    }
    found
}

fn has_date(line: &str) -> bool {
    let is_date = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        parts.iter().all(|part| digits(part)) && parts.iter().map(|part| part.len()).eq([4, 2, 2])
    };
    line.split(|letter: char| !letter.is_ascii_digit() && letter != '-').any(is_date)
}

struct Place<'a> {
    root: &'a Path,
    binary: &'a Path,
    brief: bool,
    folder: PathBuf,
    programs: PathBuf,
}

impl<'a> Place<'a> {
    fn new(root: &'a Path, binary: &'a Path, scratch: &Path, brief: bool) -> Result<Self> {
        let [folder, programs] = ["place", "programs"].map(|name| scratch.join(name));
        fs::create_dir(&folder).context("cannot create a folder")?;
        fs::create_dir(&programs).context("cannot create a folder")?;
        let place = Self { root, binary, brief, folder, programs };
        place.program("hairpin", ONE_ROUND)?;
        place.program("ssh", SSH)?;
        place.program("COMMAND", "exit 0")?;
        for run in RUNS {
            let make = format!(
                "hairpin round-trip --transport pipe --placement same-cpu --count 200 --rounds 4 --out {run}"
            );
            place.shell(&make)?.succeeded().context(make)?;
        }
        Ok(place)
    }

    fn serve(&self) -> Result<process::Held> {
        let mut command = Command::new(self.binary);
        command.args(["serve", "--bind", "127.0.0.1:0", "--quiet", "--until-input-closes", "--http", ECHO]);
        process::serve(command.env(STATE, self.state()), &self.folder.join(TICKET))
    }

    fn state(&self) -> PathBuf {
        self.folder.with_file_name("state")
    }

    fn program(&self, name: &str, script: &str) -> Result<()> {
        let path = self.programs.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).with_context(|| format!("cannot write {name}"))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).with_context(|| format!("cannot make {name} executable"))
    }

    fn shell(&self, command: &str) -> Result<process::Ran> {
        let mut path = self.programs.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c", command]).current_dir(&self.folder);
        let limited = if self.brief { LIMITED } else { "" };
        shell.env("PATH", path).env("HAIRPIN", self.binary).env("LIMITED", limited).env("ENDED", LIMITED);
        process::run(shell.env(STATE, self.state()), LIMIT)
    }

    /// Runs a command. Repeats the command while a concurrent test uses its port.
    fn run_once_port_is_free(&self, command: &str) -> Result<process::Ran> {
        let began = Instant::now();
        loop {
            let ran = self.shell(command)?;
            if !ran.stderr.contains("Address already in use") || began.elapsed() > LIMIT {
                return Ok(ran);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Returns why the command does not work as its document states; `None` if it works.
    fn fault(&self, shown: &Shown) -> Option<String> {
        let words: Vec<&str> = shown.command.split_whitespace().collect();
        let ran = match words.as_slice() {
            ["cargo", "xtask", ..] => return crate::parse_error(&words[1..]),
            ["cargo", "install", ..] if self.brief => return None,
            ["cargo", "install", rest @ ..] => self.install(rest),
            // Other steps of CI run these commands.
            ["cargo", "build" | "run" | "test" | "metadata" | "doc", ..] => return None,
            names if shown.inline && names.iter().all(|word| is_name(word)) => {
                self.shell(&format!("{} --help", shown.command))
            }
            _ => self.run_once_port_is_free(&shown.command),
        };
        match (ran.map(|ran| (ran.code, ran.succeeded())), self.brief) {
            (Ok((Some(1 | 4 | 5), _)), _) if words.contains(&"--budget") => None,
            (Ok((Some(130), _)), true) => None,
            (Ok((_, ended)), _) => ended.err().map(|why| format!("{why:#}")),
            (Err(why), _) => Some(format!("{why:#}")),
        }
    }

    fn install(&self, arguments: &[&str]) -> Result<process::Ran> {
        let mut cargo = process::cargo(self.root);
        cargo.arg("install").args(arguments).arg("--root").arg(self.folder.join("installed"));
        process::run(cargo.arg("--target-dir").arg(process::target(self.root)?), Duration::from_mins(9))
    }
}

/// Whether the word is `hairpin` or the name of a command, rather than a flag or a value.
fn is_name(word: &str) -> bool {
    !word.starts_with('-') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_blocks_and_between_backticks() {
        let text = "Say `hairpin list`, not `list`, or `hairpin claims\nrun B1`.\n\n    cargo run --release     # first\n\n\
                    ```console\n$ hairpin small-writes \\\n    --ladder\nhairpins\n```\nIt is `hairpin`.\n";
        let blocks = ["cargo run --release", "hairpin small-writes --ladder"];
        let inline = ["hairpin list", "hairpin claims run B1", "hairpin"];
        let expected: Vec<Shown> = blocks
            .map(|command| Shown { command: command.to_owned(), inline: false })
            .into_iter()
            .chain(inline.map(|command| Shown { command: command.to_owned(), inline: true }))
            .collect();
        assert_eq!(commands(text), expected);
    }

    #[test]
    fn a_command_with_private_output_is_found() {
        let text = "    (umask 077; hairpin serve --bind 127.0.0.1:0 >ticket)     # port 7420\n    (umask 077; ls)\n";
        let command = "(umask 077; hairpin serve --bind 127.0.0.1:0 >ticket)".to_owned();
        assert_eq!(commands(text), [Shown { command, inline: false }]);
    }

    #[test]
    fn an_output_needs_a_date_in_its_section() {
        let dated = "# A\nOn a machine, 2026-11-22:\n```text\n5 us\n```\n";
        assert_eq!(undated(dated), [0_usize; 0]);
        assert_eq!(undated(&format!("{dated}# B\n```text\n2026-11-22\n```\n```sh\nls\n```\n")), [7]);
        assert!(!has_date("at 2026-11, 12-11-22 or 2026-1-222"));
    }

    #[test]
    fn failing_commands_and_unknown_commands_are_faults() {
        let scratch = process::scratch("commands-test").unwrap();
        let place = Place {
            root: Path::new("/"),
            binary: Path::new("/bin/false"),
            brief: true,
            folder: scratch.clone(),
            programs: scratch.clone(),
        };
        let fault = |command: &str| place.fault(&Shown { command: command.to_owned(), inline: true });
        assert_eq!(fault("cargo xtask tidy"), None);
        assert!(fault("cargo xtask tidiness").is_some() && fault("cargo xtask tidy --fast").is_some());
        // The folder has no program `hairpin`.
        assert!(fault("hairpin list").unwrap().contains("exit code"));
        process::remove(&scratch).unwrap();
    }
}
