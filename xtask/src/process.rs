//! Runs other programs with a time limit and captured output. Does not poll while a program measures.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::system;

pub(crate) struct Ran {
    /// Exit code; `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) wall: Duration,
}

impl Ran {
    /// Returns `self` if the exit code is 0.
    pub(crate) fn succeeded(self) -> Result<Self> {
        match self.code {
            Some(0) => Ok(self),
            Some(code) => bail!("exit code {code}: {}", last_lines(&self.stderr)),
            None => bail!("ended by a signal: {}", last_lines(&self.stderr)),
        }
    }

    /// Parses the standard output as JSON if the exit code is 0 or one of `codes`. Code 3: some rounds failed; 5: no figure is usable,
    /// for instance because something else used the CPUs.
    pub(crate) fn json_of(self, codes: &[i32]) -> Result<Value> {
        if self.code.is_some_and(|code| codes.contains(&code)) { self.json() } else { self.succeeded()?.json() }
    }

    /// Parses the standard output as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| {
            format!("did not print JSON but {:?}", self.stdout.chars().take(200).collect::<String>())
        })
    }
}

/// Fails with all `faults`, if any.
pub(crate) fn fail_with(faults: &[String]) -> Result<()> {
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Returns a command that runs `program`, with the words of `enter` before it.
pub(crate) fn prefixed(enter: &[impl AsRef<OsStr>], program: &Path) -> Command {
    let Some((first, rest)) = enter.split_first() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Runs a program to its end, or kills it after `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Ran> {
    Running::start(command)?.finish(limit)
}

/// Runs programs to their ends at the same time, but one at a time: each has a turn of `turn` while the processes of the others are
/// stopped. So a disturbance of the machine that lasts longer is the same for all.
pub(crate) fn run_in_turns(commands: &mut [Command], turn: Duration, limit: Duration) -> Result<Vec<Ran>> {
    let mut running = Vec::new();
    for command in commands {
        let started = Running::start(command.process_group(0))?;
        system::signal_group(&started.child, libc::SIGSTOP)?;
        running.push(started);
    }
    let began = Instant::now();
    while running.iter().any(|program| program.child_status.is_none()) {
        for program in running.iter_mut().filter(|program| program.child_status.is_none()) {
            system::signal_group(&program.child, libc::SIGCONT)?;
            thread::sleep(turn);
            system::signal_group(&program.child, libc::SIGSTOP)?;
            program.child_status = program.child.try_wait()?;
        }
        if began.elapsed() > limit {
            let mut left = running.iter().filter(|program| program.child_status.is_none());
            left.try_for_each(|program| system::signal_group(&program.child, libc::SIGKILL))?;
            bail!("a program did not end within {} s and was killed", limit.as_secs());
        }
    }
    running.into_iter().map(|program| program.finish(limit)).collect()
}

/// A program that runs beside this one. Dropping it kills it.
pub(crate) struct Held {
    name: String,
    pub(crate) child: Child,
}

impl Held {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let name = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
        Ok(Self { name, child })
    }

    pub(crate) fn lives(&mut self) -> Result<()> {
        match self.child.try_wait().with_context(|| format!("cannot wait for `{}`", self.name))? {
            Some(status) => bail!("`{}` ended early: {status}", self.name),
            None => Ok(()),
        }
    }

    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_so: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < limit {
            self.lives()?;
            thread::sleep(POLL_INTERVAL);
            if is_so()? {
                return Ok(());
            }
        }
        bail!("`{}` did not {what} within {} s", self.name, limit.as_secs())
    }
}

pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Drop for Held {
    fn drop(&mut self) {
        // Both calls fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server of Hairpin, whose output becomes the file `ticket`, and waits for its ticket.
pub(crate) fn serve(command: &mut Command, ticket: &Path) -> Result<Held> {
    let printed = File::create(ticket).with_context(|| format!("cannot create {}", ticket.display()))?;
    let mut server = Held::start(command.stdin(Stdio::piped()).stdout(printed))?;
    let is_printed = || Ok(std::fs::read_to_string(ticket)?.ends_with('\n'));
    server.wait_until("print a ticket", Duration::from_mins(2), is_printed)?;
    Ok(server)
}

/// A program whose output is read.
struct Running {
    name: String,
    child: Child,
    /// Set once it has ended, by [`run_in_turns`].
    child_status: Option<ExitStatus>,
    started: Instant,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let stdout = reader(child.stdout.take().expect("piped"));
        let stderr = reader(child.stderr.take().expect("piped"));
        Ok(Self { name, child, child_status: None, started, stdout, stderr })
    }

    fn finish(self, limit: Duration) -> Result<Ran> {
        let Self { name, mut child, started, stdout, stderr, .. } = self;
        let (stdout, stderr) = match (ended(&stdout, started, limit), ended(&stderr, started, limit)) {
            (Some(stdout), Some(stderr)) => (stdout, stderr),
            _ => return Err(overdue(&name, &mut child, limit)),
        };
        let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
        Ok(Ran { code: status.code(), stdout, stderr, wall: started.elapsed() })
    }
}

/// Reads to the end in a separate thread, so that this process sleeps while the other process measures.
fn reader(mut from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // On an error, the text read so far is still useful.
        let _ = from.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn ended(receiver: &mpsc::Receiver<String>, started: Instant, limit: Duration) -> Option<String> {
    receiver.recv_timeout(limit.saturating_sub(started.elapsed())).ok()
}

fn overdue(name: &str, child: &mut Child, limit: Duration) -> anyhow::Error {
    let seconds = limit.as_secs();
    if let Ok(Some(_)) = child.try_wait() {
        return anyhow!("{name} ended, but its child process still has the output open after {seconds} s");
    }
    // Errors are ignored: the time-out is reported anyway.
    let _ = child.kill();
    let _ = child.wait();
    anyhow!("{name} did not end within {seconds} s and was killed")
}

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // `cargo run` sets these variables for this program; the child cargo must not use them.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(name);
    }
    command
}

/// Runs cargo, whose output is shown; `failure` is the error if it fails.
pub(crate) fn run_cargo(command: &mut Command, failure: &str) -> Result<()> {
    ensure!(command.status().context("cannot start cargo")?.success(), "{failure}");
    Ok(())
}

/// Returns the output of `cargo metadata` for the workspace, without the packages of dependencies.
pub(crate) fn metadata(root: &Path) -> Result<Value> {
    let mut command = cargo(root);
    command.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    run(&mut command, Duration::from_mins(1))?.succeeded().context("cargo metadata failed")?.json()
}

pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    metadata(root)?["target_directory"].as_str().map(PathBuf::from).context("no target directory")
}

pub(crate) fn build_release<const N: usize>(root: &Path, programs: [(&str, &str); N]) -> Result<[PathBuf; N]> {
    build(root, "release", programs)
}

/// Builds programs of the workspace with a profile; `hairpin` has all features. Returns their paths.
pub(crate) fn build<const N: usize>(root: &Path, profile: &str, programs: [(&str, &str); N]) -> Result<[PathBuf; N]> {
    let is_hairpin = programs.iter().any(|(package, _)| *package == "hairpin");
    build_with(root, profile, programs, if is_hairpin { "hairpin/full" } else { "" })
}

pub(crate) fn build_with<const N: usize>(
    root: &Path,
    profile: &str,
    programs: [(&str, &str); N],
    features: &str,
) -> Result<[PathBuf; N]> {
    let target = target(root)?;
    let mut command = cargo(root);
    command.args(["build", "--locked", "--profile", profile]);
    for (package, program) in programs {
        command.args(["--package", package, "--bin", program]);
    }
    command.args(["--features", features]);
    run_cargo(&mut command, &format!("cargo build --profile {profile} failed"))?;
    Ok(programs.map(|(_, program)| target.join(profile).join(program)))
}

/// Creates an empty folder in the system's temporary folder. The caller must remove it.
pub(crate) fn scratch(purpose: &str) -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("hairpin-xtask-{purpose}-{}", std::process::id()));
    remove(&folder)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_exit_code_are_returned() {
        let ran = run(&mut shell("echo '{\"a\": 1}'; echo oops >&2; exit 3"), Duration::from_mins(1)).unwrap();
        assert_eq!((ran.code, ran.stderr.as_str(), ran.json().unwrap()["a"].as_i64()), (Some(3), "oops\n", Some(1)));
        assert_eq!(ran.succeeded().err().unwrap().to_string(), "exit code 3: oops");
    }

    #[test]
    fn programs_that_run_in_turns_end() {
        let mut commands =
            [shell("echo 1; sleep 0.02; exit 3"), shell("i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; echo $i")];
        let ran = run_in_turns(&mut commands, Duration::from_millis(2), Duration::from_mins(1)).unwrap();
        let told: Vec<_> = ran.iter().map(|ran| (ran.code, ran.stdout.as_str())).collect();
        assert_eq!(told, [(Some(3), "1\n"), (Some(0), "9999\n")]);
        let why = run_in_turns(&mut [shell("exec sleep 600")], Duration::from_millis(2), Duration::from_millis(20));
        assert!(why.err().unwrap().to_string().ends_with("was killed"));
    }

    #[test]
    fn a_program_that_exceeds_the_limit_is_killed() {
        let why = run(&mut shell("exec sleep 600"), Duration::from_millis(20)).err().unwrap().to_string();
        assert!(why.ends_with("was killed"), "{why}");
    }

    #[test]
    fn a_child_that_outlives_its_parent_is_reported() {
        let why = run(&mut shell("sleep 3 & exit 0"), Duration::from_millis(500)).err().unwrap().to_string();
        assert!(why.contains("its child process still has the output open"), "{why}");
    }
}
