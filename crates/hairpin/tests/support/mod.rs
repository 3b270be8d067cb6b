//! Starts the program in its own folder, with a time limit, and inspects its processes from outside.

#![allow(dead_code, reason = "each test binary uses a part")]

mod arguments;

pub(crate) mod across;
pub(crate) mod contract;
pub(crate) mod served;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hairpin_testing::{schema, works};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use self::arguments::Arguments;

/// Only a hang takes longer, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(900);

/// Environment variable that every process started from a place inherits, so that orphans are found too.
const MARK: &str = "HAIRPIN_TEST_MARK";

/// A folder to run in, with its own folder for temporary files. Dropping this checks that nothing else is left.
pub(crate) struct Place {
    folder: TempDir,
    mark: String,
    /// FIFOs and sockets that the system's folder for temporary files had before the test.
    before: Vec<PathBuf>,
}

impl Place {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = TempDir::with_prefix("end-to-end-").expect("a folder for temporary files can be written to");
        std::fs::create_dir(folder.path().join("tmp")).expect("the folder is new");
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self { folder, mark, before: special_files(&std::env::temp_dir(), false) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The mark, for processes whose environment is set elsewhere.
    pub(crate) fn mark(&self) -> (&str, &str) {
        (MARK, &self.mark)
    }

    /// A command that runs in the folder and whose processes have the mark.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        // The tests must not inherit ignored signals, for instance from nohup(1).
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(program);
        command.current_dir(self.folder.path()).env(MARK, &self.mark);
        // Other programs may use all CPUs.
        command.env("HAIRPIN_ALL_ROUNDS", "1");
        command.env("TMPDIR", self.path("tmp")).env("XDG_RUNTIME_DIR", self.path("tmp"));
        // The tests must not depend on the user's terminal and settings.
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn start(&self, arguments: impl Arguments) -> Running {
        Running::start(self.command(PROGRAM).args(arguments.words()))
    }

    /// Runs the program to its end.
    pub(crate) fn hairpin(&self, arguments: impl Arguments) -> Ran {
        self.start(arguments).end()
    }

    /// Runs the program with `--json` and parses its output. The program must succeed.
    pub(crate) fn json(&self, arguments: impl Arguments) -> Value {
        self.hairpin((arguments, "--json")).with_code(0).json()
    }

    /// FIFOs and sockets anywhere in the folder.
    pub(crate) fn special_files(&self) -> Vec<PathBuf> {
        special_files(self.folder.path(), true)
    }

    /// Running processes that were started from this place, without zombies.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entry = format!("{MARK}={}", self.mark);
        let is_marked = |environment: &[u8]| environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes());
        let ids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
        ids.filter(|id| std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|text| is_marked(&text))).collect()
    }

    /// Fails unless every process started from this place ends in time and leaves no file.
    pub(crate) fn assert_nothing_left(&self) {
        until("every process has ended", || self.processes().is_empty());
        assert_eq!(names_in(&self.path("tmp")), [""; 0], "temporary files");
        assert_eq!(self.special_files(), Vec::<PathBuf>::new(), "FIFOs and sockets");
        // Other programs have FIFOs and sockets there too, and so have other tests for a moment.
        until("no FIFO or socket of Hairpin is left in the system's folder for temporary files", || {
            let is_new = |path: &PathBuf| path.to_string_lossy().contains("hairpin") && !self.before.contains(path);
            !special_files(&std::env::temp_dir(), false).iter().any(is_new)
        });
        let shared = names_in(Path::new("/dev/shm"));
        assert!(!shared.iter().any(|name| name.to_lowercase().contains("hairpin")), "{shared:?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let check = AssertUnwindSafe(|| self.assert_nothing_left());
        let is_well = std::thread::panicking() || catch_unwind(check).is_ok();
        // A failed test must leave no processes on the machine.
        for id in self.processes() {
            drop(kill("KILL", id));
        }
        assert!(is_well, "something is left of a test, see above");
    }
}

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_hairpin");

/// A running program; killed on drop.
pub(crate) struct Running {
    command: String,
    child: OwnChild,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let stdout = read_beside(child.stdout.take().expect("piped"));
        let stderr = read_beside(child.stderr.take().expect("piped"));
        Self { command: format!("{command:?}"), child: OwnChild(child), stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the program's server once the server's wake-ups or CPU time show that it is in the middle of a round.
    pub(crate) fn busy_server(&mut self) -> u32 {
        self.busy_server_after(0)
    }

    /// Like [`Running::busy_server`], for a later round than that of the server `last`.
    pub(crate) fn busy_server_after(&mut self, last: u32) -> u32 {
        self.busy_after("__server", last)
    }

    /// Like [`Running::busy_server`], for the client's process. If the ends are threads, it has the server too.
    pub(crate) fn busy_client(&mut self) -> u32 {
        self.busy_after("__round", 0)
    }

    fn busy_after(&mut self, command: &str, last: u32) -> u32 {
        const IN_THE_MIDDLE: u64 = 150;
        // Ticks of 10 ms. Starting a process takes a few ticks.
        const BUSY_TICKS: u64 = 10;
        awaited("an end is busy", || {
            assert!(
                self.child.0.try_wait().expect("it is our child").is_none(),
                "the program ended before a round was in progress"
            );
            let mut ends = descendants(self.id()).into_iter().filter(|id| *id != last && is_a(command, *id));
            ends.find(|id| {
                let times = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"].map(|name| status(*id, name));
                times.into_iter().flatten().sum::<u64>() > IN_THE_MIDDLE || cpu_ticks(*id) >= BUSY_TICKS
            })
        })
    }

    /// A descendant whose command line, with spaces between its words, matches `is_such`.
    pub(crate) fn child(&self, is_such: impl Fn(&str) -> bool) -> Option<u32> {
        descendants(self.id()).into_iter().find(|id| is_such(&command_line(*id)))
    }

    pub(crate) fn end(mut self) -> Ran {
        let deadline = Instant::now() + LIMIT;
        let rest = |from: &Receiver<String>| {
            from.recv_timeout(deadline.saturating_duration_since(Instant::now())).expect("it ends in time")
        };
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        // The program has closed its output, so it has ended or will end soon.
        let code = self.child.0.wait().expect("it is our child").code();
        Ran { command: self.command, code, stdout, stderr }
    }
}

/// Runs `script` in new namespaces, with the program as `$0`. The error says why the system refuses them.
pub(crate) fn in_namespaces(place: &Place, namespaces: &str, script: &str) -> Result<Ran, String> {
    works(&["unshare", namespaces, "true"])?;
    Ok(Running::start(place.command("unshare").args([namespaces, "sh", "-c", script, PROGRAM])).end())
}

/// Reads to the end in a thread, so that a full pipe blocks no process.
fn read_beside(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, text) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        // A test that has failed in the meantime no longer receives.
        drop(tell.send(String::from_utf8(bytes).expect("the program prints UTF-8")));
    });
    text
}

#[derive(Debug)]
pub(crate) struct Ran {
    /// For the messages of failed tests.
    command: String,
    /// `None` if a signal ended the program.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Fails unless the program ended with this exit code. On a busy machine, a run at a requested rate may have exit
    /// code 5 instead of 0 although it measured everything, because the program cannot send at that rate.
    pub(crate) fn with_code(self, code: i32) -> Self {
        let has_rate =
            ["\"--rate", " --rate", "offered-load", "under-load"].iter().any(|words| self.command.contains(words));
        let is_unusable = code == 0 && self.code == Some(5) && has_rate;
        assert!(self.code == Some(code) || is_unusable, "exit code {code} expected: {self:#?}");
        self
    }

    /// Fails unless the command was refused: exit code 2, nothing on standard output, and one error.
    pub(crate) fn refused(self) -> Self {
        let ran = self.with_code(2);
        assert_eq!(ran.stdout, "", "{ran:#?}");
        let errors = ran.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{ran:#?}");
        ran
    }

    /// Fails unless standard error has that text.
    pub(crate) fn told(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no `{text}` in standard error: {self:#?}");
        self
    }

    /// Fails unless standard output has that text.
    pub(crate) fn shown(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no `{text}` in standard output: {self:#?}");
        self
    }

    /// Parses standard output, which must be one JSON document.
    pub(crate) fn json(&self) -> Value {
        document(&self.stdout)
    }
}

/// Parses a JSON object that the program has printed or saved, which must match its schema.
pub(crate) fn document(text: &str) -> Value {
    let document = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(schema::faults(&document), [""; 0]);
    document
}

/// Waits until a condition holds; fails after a time-out.
pub(crate) fn until(what: &str, mut has_come: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT / 3;
    while !has_come() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Waits until there is a value; fails after a time-out.
pub(crate) fn awaited<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = look();
        found.is_some()
    });
    found.expect("found it just now")
}

/// A child that does not outlive its test.
pub(crate) struct OwnChild(pub(crate) Child);

impl Drop for OwnChild {
    fn drop(&mut self) {
        // Both calls fail if the child has already ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Sends a signal to a process that a test has started, directly or through the program.
pub(crate) fn signal(name: &str, id: u32) {
    let sent = kill(name, id).expect("sh can be started");
    assert!(sent.success(), "SIG{name} to process {id}");
}

fn kill(name: &str, id: u32) -> std::io::Result<ExitStatus> {
    Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id.to_string()]).status()
}

/// The descendants of a process: a round is a process, and starts another process as its server.
fn descendants(id: u32) -> Vec<u32> {
    let children = children(id);
    let theirs: Vec<u32> = children.iter().flat_map(|child| descendants(*child)).collect();
    [children, theirs].concat()
}

fn children(id: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    let texts = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("children")));
    texts.flat_map(|text| text.unwrap_or_default().split(' ').flat_map(str::parse).collect::<Vec<u32>>()).collect()
}

/// Whether the process already runs `command`: between fork and exec, a child has the command line of its parent.
pub(crate) fn is_a(command: &str, id: u32) -> bool {
    command_line(id).split(' ').any(|word| word == command)
}

/// The command line of a process, with spaces between its words; empty if the process has ended.
pub(crate) fn command_line(id: u32) -> String {
    let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}

/// A number in /proc/ID/status; `None` if the process has ended.
pub(crate) fn status(id: u32, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Number of descriptors without a file name. Named files do not count, because a process opens some now and then.
pub(crate) fn nameless_descriptors(id: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{id}/fd")).expect("it runs");
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| !link.starts_with("/")).count()
}

/// CPU time of a process, in ticks of 10 ms (proc(5): `utime` and `stime`); 0 if the process has ended.
fn cpu_ticks(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The program's name, in parentheses, may contain spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).flat_map(str::parse::<u64>).sum()
}

/// Names of a folder's entries, sorted.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("listed").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// FIFOs and sockets in a folder and, if `within`, in its subfolders. Skips files that disappear in the meantime.
fn special_files(folder: &Path, within: bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        let kind = metadata.file_type();
        if kind.is_dir() && within {
            found.extend(special_files(&path, within));
        } else if kind.is_fifo() || kind.is_socket() {
            found.push(path);
        }
    }
    found
}

pub(crate) fn rounds(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("rounds.jsonl")).expect("the run has its rounds");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// Number of rounds in a run folder so far, without a line that is being written.
pub(crate) fn saved_rounds(run: &Path) -> usize {
    std::fs::read_to_string(run.join("rounds.jsonl")).unwrap_or_default().matches('\n').count()
}

/// A text without its line breaks, which depend on the width of the report.
pub(crate) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("the copy is new");
    for name in names_in(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("it can be copied");
        }
    }
}

/// Copies a saved run as a run that began a second later, because a run must not be compared with itself.
pub(crate) fn copy_as_another_run(from: &Path, to: &Path) {
    copy(from, to);
    edit_json(&to.join("run.json"), |run| {
        run["started_unix_s"] = (run["started_unix_s"].as_u64().expect("seconds") + 1).into();
    });
}

/// Changes a JSON file.
pub(crate) fn edit_json(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(path).expect("it can be read");
    let mut value = serde_json::from_str(&text).expect("it is JSON");
    change(&mut value);
    std::fs::write(path, value.to_string()).expect("it can be written");
}

/// Whether a link can be created here. The error says why not.
/// Whether this build has the transport.
pub(crate) fn is_built_in(place: &Place, transport: &str) -> Result<(), String> {
    let listed = place.json("list");
    let is_listed = list(&listed["transports"]).iter().any(|known| known["name"] == transport);
    is_listed.then_some(()).ok_or_else(|| format!("this build has no transport `{transport}`"))
}

pub(crate) fn can_link() -> Result<(), String> {
    can_link_as(&Place::new().json("link list"))
}

/// Like [`can_link`], from the output of `link list --json`.
pub(crate) fn can_link_as(listed: &Value) -> Result<(), String> {
    let relay = &listed["relay"];
    if relay["can_run"] == true { Ok(()) } else { Err(text(&relay["reason"]).to_owned()) }
}
