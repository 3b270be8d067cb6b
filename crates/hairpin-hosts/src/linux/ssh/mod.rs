//! A server that is started on another host over ssh, for one run.
//!
//! The system's `ssh` client is used, with the user's keys, known hosts and configuration. It never prompts, so it must
//! be able to log in without a password, to a host whose key is known. The server ends with the run, or when its
//! standard input closes because the client or the connection failed, and at the latest when its ticket expires.

mod binary;
mod child;

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hairpin_engine::child::TICKET_VARIABLE;
use hairpin_model::{Failure, FailureKind};

pub use self::binary::Binary;
use self::child::{BoundedChild, WaitError};
use crate::ssh_host::SshHost;
use crate::ticket::{Ticket, host_and_port};

/// Environment variable with the ssh program and its first options; default `ssh`.
pub const VARIABLE: &str = "HAIRPIN_SSH";
/// Port for data if the user does not choose one.
const DEFAULT_PORT: u16 = 7420;
/// Time-out for `ssh -G`.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);
const START_TIMEOUT: Duration = Duration::from_secs(45);
const COPY_TIMEOUT: Duration = Duration::from_mins(5);
/// Time for the server to end by itself after its input is closed.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of the server, as an argument of `--for`.
const MAX_LIFETIME: &str = "7d";
/// Prefix of the line that reports the missing program. The output of `uname -sm` follows.
const MISSING: &str = "hairpin is missing on ";
const SSH_FAILED_CODE: i32 = 255;
/// Exit code of `hairpin` if a resource such as a port is unavailable.
const UNAVAILABLE_CODE: i32 = 2;
/// Maximum lines of an error to show.
const MAX_LINES: usize = 6;

/// Options of ssh: no prompts, no forwarding, no shared connection. ssh uses the first value of an option, so the
/// options in [`VARIABLE`] precede these.
const OPTIONS: &str = "-T -a -x -oBatchMode=yes -oConnectTimeout=15 -oConnectionAttempts=1 -oControlMaster=no \
     -oClearAllForwardings=yes -oPermitLocalCommand=no -oRemoteCommand=none -oLogLevel=ERROR";

/// Why the server was not started.
#[derive(Debug)]
pub enum Unstarted {
    /// The host has no `hairpin`. Contains the output of `uname -sm` there.
    Missing(String),
    Failed(Failure),
    Interrupted,
}

#[derive(Clone, Copy, Debug)]
pub enum Program<'b> {
    /// A copy of this binary if the host has one, else the `hairpin` that the shell there finds.
    Any(Option<&'b Binary>),
    Copy(&'b Binary),
}

/// How to reach a host over ssh.
pub struct Ssh<'s> {
    /// The ssh program and its first options.
    words: Vec<String>,
    to: SshHost,
    stop: &'s AtomicBool,
}

/// A running server. Dropping this value ends the server.
pub struct Server {
    pub ticket: Ticket,
    child: BoundedChild,
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is no caller to report an error to. If ssh cannot end the server, the server ends when its input closes.
        drop(self.child.end(END_TIMEOUT));
    }
}

impl<'s> Ssh<'s> {
    /// Uses the ssh program in [`VARIABLE`]. Once `stop` is set, calls return [`Unstarted::Interrupted`].
    pub fn of_user(to: SshHost, stop: &'s AtomicBool) -> Self {
        let command = std::env::var(VARIABLE).unwrap_or_default();
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            words.push("ssh".to_owned());
        }
        Self { words, to, stop }
    }

    /// Starts a server on `port`; by default on 7420, or on any free port if 7420 is unavailable.
    ///
    /// # Errors
    /// The host is unreachable, or the server does not start.
    pub fn start(&self, program: Program, port: Option<u16>) -> Result<Server, Unstarted> {
        let host = self.host_name()?;
        let mut started = self.start_at(program, port.unwrap_or(DEFAULT_PORT), &host)?;
        if started.is_err() && port.is_none() {
            started = self.start_at(program, 0, &host)?;
        }
        started.map_err(Unstarted::Failed)
    }

    /// Starts a server on that port. Returns an inner error if only the port is unavailable.
    fn start_at(&self, program: Program, port: u16, host: &str) -> Result<Result<Server, Failure>, Unstarted> {
        let mut child = self.run(&serve_command(program, port), Stdio::piped())?;
        let read = child.read(START_TIMEOUT, self.stop, |text| {
            // The shell's configuration may print lines before the ticket.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            whole.lines().find_map(|line| Ticket::parse(line.trim()).ok())
        });
        if let Some(ticket) = read.map_err(|why| self.wait_failure(why, "start a server on", START_TIMEOUT))? {
            let ticket = Ticket { host: host.to_owned(), ..ticket };
            return Ok(Ok(Server { ticket, child }));
        }
        let system = child.stdout().lines().find_map(|line| Some(line.strip_prefix(MISSING)?.trim().to_owned()));
        let code = child.end(Duration::ZERO).ok().and_then(|status| status.code());
        match (system, code) {
            (Some(system), _) => Err(Unstarted::Missing(system)),
            (None, Some(SSH_FAILED_CODE)) => Err(Unstarted::Failed(self.unreachable_failure(&child))),
            (None, Some(UNAVAILABLE_CODE)) => Ok(Err(self.serve_failure(&child, code))),
            (None, _) => Err(Unstarted::Failed(self.serve_failure(&child, code))),
        }
    }

    /// Copies the program to the path where [`Ssh::start`] finds it.
    pub fn copy(&self, binary: &Binary) -> Result<(), Unstarted> {
        let copy_failure = |why: String| {
            let cause = format!("cannot copy {} to {}: {why}", binary.path().display(), self.to);
            Unstarted::Failed(Failure::new(
                FailureKind::Other,
                cause,
                "is the disk of the home directory on that host full?",
            ))
        };
        let file = File::open(binary.path()).map_err(|error| copy_failure(error.to_string()))?;
        let mut child = self.run(&copy_command(binary), Stdio::from(file))?;
        let read = child.read(COPY_TIMEOUT, self.stop, |_| None::<()>);
        read.map_err(|why| self.wait_failure(why, "copy the program to", COPY_TIMEOUT))?;
        match child.end(Duration::ZERO).ok().and_then(|status| status.code()) {
            Some(0) => Ok(()),
            Some(SSH_FAILED_CODE) => Err(Unstarted::Failed(self.unreachable_failure(&child))),
            _ => Err(copy_failure(last_error_lines(&child))),
        }
    }

    /// Returns the name or address that ssh connects to (`ssh -G`), which may differ from the one that the user typed.
    fn host_name(&self) -> Result<String, Unstarted> {
        let mut child = self.spawn(&["-G"], None, Stdio::null())?;
        let read = child.read(QUERY_TIMEOUT, self.stop, |_| None::<()>);
        read.map_err(|why| self.wait_failure(why, "ask ssh about", QUERY_TIMEOUT))?;
        let text = child.stdout();
        let name = text.lines().find_map(|line| line.strip_prefix("hostname "));
        let is_valid = |name: &&str| {
            let bracketed = if name.contains(':') { format!("[{name}]") } else { (*name).to_owned() };
            host_and_port(&bracketed).is_some()
        };
        match name.filter(is_valid) {
            Some(name) => Ok(name.to_owned()),
            None => Err(Unstarted::Failed(Failure::new(
                FailureKind::Other,
                format!("cannot ask ssh about {}: {}", self.to, last_error_lines(&child)),
                format!("what does `{} -G {}` print?", self.words.join(" "), self.to.host),
            ))),
        }
    }

    /// Starts ssh, which runs the command on the host.
    fn run(&self, command: &str, input: Stdio) -> Result<BoundedChild, Unstarted> {
        self.spawn(&[], Some(command), input)
    }

    fn spawn(&self, first: &[&str], command: Option<&str>, input: Stdio) -> Result<BoundedChild, Unstarted> {
        let mut ssh = Command::new(&self.words[0]);
        ssh.env_remove(TICKET_VARIABLE);
        ssh.args(&self.words[1..]).args(first).args(OPTIONS.split_whitespace());
        if let Some(user) = &self.to.user {
            ssh.args(["-l", user]);
        }
        if let Some(port) = self.to.port {
            ssh.args(["-p", &port.to_string()]);
        }
        ssh.args(["--", &self.to.host]).args(command);
        BoundedChild::start(&mut ssh, input).map_err(|error| {
            Unstarted::Failed(Failure::new(
                &error,
                format!("cannot start `{}`: {error}", self.words[0]),
                format!("install the OpenSSH client, or name another one in {VARIABLE}"),
            ))
        })
    }

    fn wait_failure(&self, why: WaitError, operation: &str, at_most: Duration) -> Unstarted {
        let why = match why {
            WaitError::Interrupted => return Unstarted::Interrupted,
            WaitError::TimedOut => format!("no answer for {} s", at_most.as_secs()),
            WaitError::Io(error) => error.to_string(),
        };
        let hint = format!("does `{}` return immediately?", self.as_typed());
        Unstarted::Failed(Failure::new(FailureKind::Other, format!("cannot {operation} {}: {why}", self.to), hint))
    }

    fn unreachable_failure(&self, child: &BoundedChild) -> Failure {
        let stderr = child.stderr();
        let typed = self.as_typed();
        // ssh has one exit code for all failures, but its messages are the same in all locales.
        let hint = if stderr.contains("Permission denied") {
            format!(
                "ssh may not ask for a password here: set up a key or an agent, so that `{typed}` does not prompt"
            )
        } else if stderr.contains("Host key verification failed") {
            format!("the key of that host is unknown or has changed: run `{typed}` to check it")
        } else {
            format!("`{typed}` has to work first")
        };
        Failure::new(FailureKind::Unreachable, format!("cannot reach {}: {}", self.to, last_error_lines(child)), hint)
    }

    fn serve_failure(&self, child: &BoundedChild, code: Option<i32>) -> Failure {
        let code = code.map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit code {code}"));
        Failure::new(
            FailureKind::Other,
            format!("`hairpin serve` on {} ended before it served ({code}): {}", self.to, last_error_lines(child)),
            "choose another port with --server-port, or copy this program there with --copy-binary",
        )
    }

    /// Returns the command line that tests ssh by hand.
    fn as_typed(&self) -> String {
        let port = self.to.port.map_or(String::new(), |port| format!("-p {port} "));
        let user = self.to.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        format!("{} {port}{user}{} true", self.words.join(" "), self.to.host)
    }
}

/// Returns the command line that runs the server. One line with one quoted word suits all login shells.
fn serve_command(program: Program, port: u16) -> String {
    let (copy, finds_any) = match program {
        Program::Any(copy) => (copy, true),
        Program::Copy(copy) => (Some(copy), false),
    };
    let copied = copy
        .map_or(String::new(), |copy| format!("{}; if [ -x \"$copy\" ]; then program=$copy; fi; ", copy_path(copy)));
    let any = "if [ -z \"$program\" ] && command -v hairpin >/dev/null; then program=hairpin; fi; ";
    let any = if finds_any { any } else { "" };
    // Binds only the address that this client reached.
    let at = "set -- $SSH_CONNECTION; case \"$3\" in \"\") at=0.0.0.0;; *%*) at=\"[::]\";; *:*) at=\"[$3]\";; *) at=$3;; esac; ";
    format!(
        "exec sh -c '{at}program=; {copied}{any}if [ -z \"$program\" ]; then echo \"{MISSING}$(uname -sm)\"; exit 127; fi; \
         exec \"$program\" serve --bind \"$at:{port}\" --once --for {MAX_LIFETIME} --quiet --until-input-closes'"
    )
}

/// Returns the command line that stores its input as the copy. Checks the size, because the connection may break.
fn copy_command(binary: &Binary) -> String {
    format!(
        "exec sh -c '{}; new=\"$copy.$$\"; umask 077; mkdir -p \"${{copy%/*}}\" && cat >\"$new\" && \
         if [ $(wc -c <\"$new\") -eq {} ]; then chmod 700 \"$new\" && mv -f \"$new\" \"$copy\"; else rm -f \"$new\"; \
         echo \"the copy is incomplete\" >&2; exit 1; fi'",
        copy_path(binary),
        binary.bytes()
    )
}

fn copy_path(binary: &Binary) -> String {
    format!("copy=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/hairpin/{}\"", binary.name())
}

fn last_error_lines(child: &BoundedChild) -> String {
    let stderr = child.stderr();
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(MAX_LINES)..] {
        [] => "no error message".to_owned(),
        last => last.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    /// A folder with a static program.
    fn with_binary() -> (tempfile::TempDir, Binary) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("static");
        // Header of a program for x86-64 with one segment.
        let mut file = [0; 120];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        for (at, byte) in [(18, 62), (32, 64), (54, 56), (56, 1), (64, 1)] {
            file[at] = byte;
        }
        std::fs::write(&path, file).unwrap();
        let binary = Binary::read(&path).unwrap();
        (folder, binary)
    }

    /// Runs the command in a shell, as sshd does. Returns its standard output and exit code.
    fn shell(command: &str, home: &Path, connection: &str, input: &[u8]) -> (String, Option<i32>) {
        let path = format!("{}:/usr/bin:/bin", home.display());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).env_clear().env("HOME", home).env("PATH", path);
        if !connection.is_empty() {
            shell.env("SSH_CONNECTION", connection);
        }
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Fails if the command has closed its input.
        child.stdin.take().unwrap().write_all(input).ok();
        let output = child.wait_with_output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    fn program(path: &Path, script: &str) {
        std::fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn only_the_address_that_the_client_reached_is_served() {
        let (folder, _) = with_binary();
        program(&folder.path().join("hairpin"), "echo \"$@\"");
        for (connection, at) in [
            ("198.51.100.1 40000 192.0.2.7 22", "192.0.2.7"),
            ("2001:db8::2 40000 2001:db8::1 22", "[2001:db8::1]"),
            ("fe80::2%eth0 40000 fe80::1%eth0 22", "[::]"),
            ("", "0.0.0.0"),
        ] {
            let said = shell(&serve_command(Program::Any(None), 7420), folder.path(), connection, b"");
            let expected = format!("serve --bind {at}:7420 --once --for 7d --quiet --until-input-closes\n");
            assert_eq!(said, (expected, Some(0)), "{connection}");
        }
    }

    #[test]
    fn any_program_prefers_the_copy_and_program_copy_accepts_nothing_else() {
        let (folder, binary) = with_binary();
        let run = |program| shell(&serve_command(program, 1), folder.path(), "", b"");
        let (text, code) = run(Program::Any(None));
        assert!(text.starts_with("hairpin is missing on Linux ") && code == Some(127), "{text}");
        program(&folder.path().join("hairpin"), "echo found");
        assert_eq!(run(Program::Any(Some(&binary))).0, "found\n");
        assert_eq!(run(Program::Copy(&binary)).1, Some(127));
        let cache = folder.path().join(".cache/hairpin");
        std::fs::create_dir_all(&cache).unwrap();
        program(&cache.join(binary.name()), "echo copy");
        assert_eq!(run(Program::Any(None)).0, "found\n");
        for asked in [Program::Any(Some(&binary)), Program::Copy(&binary)] {
            assert_eq!(run(asked).0, "copy\n");
        }
    }

    #[test]
    fn an_incomplete_copy_is_removed_and_only_its_user_can_read_a_complete_one() {
        let (folder, binary) = with_binary();
        let bytes = std::fs::read(binary.path()).unwrap();
        let cache = folder.path().join(".cache/hairpin");
        assert_eq!(shell(&copy_command(&binary), folder.path(), "", &bytes[..119]).1, Some(1));
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 0);
        assert_eq!(shell(&copy_command(&binary), folder.path(), "", &bytes), (String::new(), Some(0)));
        assert_eq!(std::fs::read(cache.join(binary.name())).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&cache), mode(&cache.join(binary.name()))), (0o700, 0o700));
    }
}
