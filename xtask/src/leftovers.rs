//! Checks for leftovers: processes, shared memory, sockets and FIFOs, after a clean end and after SIGKILL.
//!
//! Every process that Hairpin starts inherits a mark in its environment, by which orphans are found.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::smoke;

/// The environment variable with the mark.
pub(crate) const MARK: &str = "HAIRPIN_XTASK_MARK";

/// Times from a survey's first child until it is killed, so that different transports are in flight.
const KILL_AFTER: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(900), Duration::from_millis(2600)];

/// Time for orphans to notice and exit.
const GRACE: Duration = Duration::from_secs(5);

/// Where named shared memory appears.
const SHARED_MEMORY: &str = "/dev/shm";

/// Runs and kills the binary; returns a line for the summary.
pub(crate) fn check(binary: &Path) -> Result<String> {
    let mut faults = after_clean_end(binary)?;
    for (number, after) in KILL_AFTER.into_iter().enumerate() {
        faults.extend(after_kill(binary, number, after)?);
    }
    if faults.is_empty() {
        Ok(format!("a clean end and {} kills", KILL_AFTER.len()))
    } else {
        bail!("{}", faults.join("\n"))
    }
}

/// A folder to run in, the files outside of it beforehand, and the mark of its processes.
struct Place {
    folder: PathBuf,
    mark: String,
    before: BTreeSet<PathBuf>,
}

impl Place {
    fn new(purpose: &str) -> Result<Self> {
        let folder = process::scratch(purpose)?;
        std::fs::create_dir(folder.join("tmp")).context("cannot make a folder for temporary files")?;
        let mark = format!("{purpose}-{}", std::process::id());
        Ok(Self { folder, mark, before: outside_files() })
    }

    fn command(&self, binary: &Path) -> Command {
        let mut command = Command::new(binary);
        command.env(MARK, &self.mark);
        command.env("TMPDIR", self.folder.join("tmp")).env("XDG_RUNTIME_DIR", self.folder.join("tmp"));
        command
    }

    /// Leftovers at this moment.
    fn left(&self) -> Vec<String> {
        let processes = marked(&self.mark).into_iter().map(|process| format!("process {process}"));
        let outside = outside_files();
        let outside = outside.difference(&self.before).map(|path| path.display().to_string());
        let inside = special_files(&self.folder).into_iter().map(|path| path.display().to_string());
        processes.chain(outside).chain(inside).collect()
    }

    /// The same, after those that end by themselves had time to.
    fn left_after_grace(&self) -> Vec<String> {
        let until = Instant::now() + GRACE;
        loop {
            let left = self.left();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            sleep(Duration::from_millis(50));
        }
    }
}

fn after_clean_end(binary: &Path) -> Result<Vec<String>> {
    let place = Place::new("clean-end")?;
    let mut command = place.command(binary);
    command.args(["round-trip", "--transport", "all", "--count", "200", "--rounds", "1", "--out"]);
    process::run(command.arg(place.folder.join("run")), Duration::from_mins(2))?.succeeded().context("round-trip")?;
    // No grace: when Hairpin ends by itself, everything it started has ended before.
    let mut left = place.left();
    left.extend(temporary_files(&place.folder.join("tmp"))?);
    process::remove(&place.folder)?;
    Ok(left.into_iter().map(|what| format!("left after a clean end: {what}")).collect())
}

fn after_kill(binary: &Path, number: usize, after: Duration) -> Result<Vec<String>> {
    let place = Place::new(&format!("kill-{number}"))?;
    let out = place.folder.join("run");
    let mut command = place.command(binary);
    command.arg("--out").arg(&out).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start the survey")?;
    let measuring = until_it_measures(&mut child, &place.mark);
    sleep(after);
    child.kill().context("cannot kill the survey")?;
    child.wait().context("cannot wait for the survey")?;
    measuring?;
    let mut faults: Vec<String> =
        place.left_after_grace().into_iter().map(|what| format!("left {GRACE:?} after SIGKILL: {what}")).collect();
    faults.extend(end_them(&place.mark));
    // After two seconds rounds have been saved, which can be reported.
    if after >= Duration::from_secs(2) {
        let mut report = Command::new(binary);
        report.arg("report").arg(smoke::run_folder(&out)?);
        let reported = process::run(&mut report, Duration::from_mins(1)).and_then(process::Ran::succeeded);
        faults.extend(reported.err().map(|why| format!("the killed run cannot be reported: {why:#}")));
    }
    process::remove(&place.folder)?;
    Ok(faults)
}

/// Waits until it has started a second process: its server.
fn until_it_measures(child: &mut Child, mark: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while marked(mark).len() < 2 {
        if let Some(status) = child.try_wait().context("cannot wait for the survey")? {
            bail!("the survey ended ({status}) before it started a server");
        }
        if Instant::now() > until {
            bail!("the survey started no server in 30 s");
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Kills what a failed check has found, by process id.
fn end_them(mark: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for process in marked(mark) {
        let id = process.split(' ').next().unwrap_or_default();
        let ended = Command::new("sh").args(["-c", "kill -KILL \"$0\"", id]).status();
        if !ended.is_ok_and(|status| status.success()) {
            faults.push(format!("process {process} could not be ended"));
        }
    }
    faults
}

/// Living processes with the mark: id and command line. Zombies have no environment and are not included.
pub(crate) fn marked(mark: &str) -> Vec<String> {
    let entry = format!("{MARK}={mark}");
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let processes = processes.filter_map(|process| Some(process.ok()?.path()));
    processes
        .filter(|process| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        })
        .filter_map(|process| {
            let mut words = process.file_name()?.to_string_lossy().into_owned();
            let command_line = std::fs::read(process.join("cmdline")).unwrap_or_default();
            for word in command_line.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
                write!(words, " {}", String::from_utf8_lossy(word)).ok()?;
            }
            Some(words)
        })
        .collect()
}

/// Named shared memory (except that of browsers), and sockets and FIFOs directly in the system's temporary folder.
fn outside_files() -> BTreeSet<PathBuf> {
    let shared = entries(Path::new(SHARED_MEMORY));
    let shared = shared.into_iter().filter(|path| !path.to_string_lossy().contains("org.chromium"));
    let temporary = entries(&std::env::temp_dir()).into_iter().filter(|path| is_special(path));
    shared.chain(temporary).collect()
}

/// Sockets and FIFOs anywhere in a folder.
fn special_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in entries(folder) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(special_files(&path));
        } else if is_special(&path) {
            found.push(path);
        }
    }
    found
}

fn temporary_files(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path().display().to_string())).collect()
}

/// A folder that has disappeared counts as empty.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn is_special(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A stand-in for the binary: a shell script. Another process writes it: if this one did, the file might still be
    /// open for writing in a child of another thread that has not yet called execve, and could not be run (ETXTBSY).
    fn stand_in(place: &Path, script: &str) -> PathBuf {
        let path = place.join("stand-in");
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#;
        let written = Command::new("sh").arg("-c").arg(write).arg(&path).arg(script).status().unwrap();
        assert!(written.success(), "{written}");
        path
    }

    #[test]
    fn leftovers_of_a_clean_end_are_found() {
        let place = process::scratch("leftovers-test").unwrap();
        assert_eq!(after_clean_end(&stand_in(&place, "exit 0")).unwrap(), [""; 0]);
        let binary = stand_in(&place, "mkfifo $TMPDIR/a; sleep 60 >/dev/null 2>&1 & echo");
        let left = after_clean_end(&binary).unwrap();
        assert!(left.iter().any(|what| what.ends_with("sleep 60") && what.contains("process")), "{left:?}");
        assert!(left.iter().any(|what| what.ends_with("tmp/a")), "{left:?}");
        assert_eq!(end_them(&format!("clean-end-{}", std::process::id())), [""; 0]);
        process::remove(&place).unwrap();
    }

    #[test]
    fn a_process_that_outlives_the_killed_one_is_found_and_ended() {
        let place = process::scratch("leftovers-kill-test").unwrap();
        let binary = stand_in(&place, "sleep 61 & wait");
        let left = after_kill(&binary, 77, Duration::ZERO).unwrap();
        assert!(left.len() == 1 && left[0].ends_with("sleep 61"), "{left:?}");
        let mark = format!("kill-77-{}", std::process::id());
        let until = Instant::now() + Duration::from_secs(20);
        while !marked(&mark).is_empty() {
            assert!(Instant::now() < until, "it was not ended");
            sleep(Duration::from_millis(5));
        }
        process::remove(&place).unwrap();
    }

    #[test]
    fn sockets_are_found_in_folders_within_folders() {
        let place = process::scratch("leftovers-socket-test").unwrap();
        std::fs::create_dir(place.join("a")).unwrap();
        std::fs::write(place.join("a/file"), "").unwrap();
        let _listener = UnixListener::bind(place.join("a/s")).unwrap();
        assert_eq!(special_files(&place), [place.join("a/s")]);
        process::remove(&place).unwrap();
    }
}
