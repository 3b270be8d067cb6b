//! One host of a lab.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::Addresses;
use crate::support::{OwnChild, PROGRAM, Place, Ran, Running, awaited, nameless_descriptors, names_in, until};

const FIRST_USER: u32 = 61_000;
/// Command of the process that holds a host's namespaces.
const SLEEPER: [&str; 5] = ["setpriv", "--pdeathsig", "KILL", "sleep", "infinity"];
/// Sets up a host within its namespaces. The host sees only the files at `$1` of the test's folder `$2`, and the
/// program `$0`.
const SETTLE: &str = "
    hostname \"$3\"
    mount --bind \"$0\" \"$1/hairpin\"
    mount --rbind \"$1\" /tmp
    if [ -e \"$2\" ]; then mount -t tmpfs none \"$2\"; fi
    mount -t tmpfs none /dev/shm
    ip link set lo up";

/// Options of unshare(1) for a host.
const NAMESPACES: [&str; 4] = ["--net", "--mount", "--uts", "--ipc"];

/// Command that creates the namespaces of the first host. An ordinary user acts as root in a user namespace.
pub(super) fn first_namespaces() -> Vec<&'static str> {
    let user = if is_root() { &[][..] } else { &["--user", "--map-root-user"] };
    [&["unshare"], &NAMESPACES[..], user].concat()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("it is there").uid() == 0
}

/// A host. Dropping this ends the process that holds the host's namespaces.
pub(crate) struct Host {
    holder: OwnChild,
    place: Arc<Place>,
    /// The host's `/tmp`, as seen from outside.
    folder: PathBuf,
    user: Option<u32>,
    pub(crate) at: Addresses,
}

impl Host {
    /// The first host of a lab; the others are in its user namespace.
    pub(super) fn first(place: &Arc<Place>, at: Addresses) -> Self {
        Self::made(place, &first_namespaces(), ("router", 0), at)
    }

    /// Another host, with the name and number of its user.
    pub(super) fn beside(first: &Self, name_and_user: (&str, u32), at: Addresses) -> Self {
        let id = first.holder.0.id().to_string();
        let enter = ["nsenter", "--target", &id, "--user", "--preserve-credentials"];
        let enter = if is_root() { &[][..] } else { &enter };
        Self::made(&first.place, &[enter, &["unshare"], &NAMESPACES].concat(), name_and_user, at)
    }

    fn made(place: &Arc<Place>, unshare: &[&str], (name, user): (&str, u32), at: Addresses) -> Self {
        let folder = place.path(name);
        for new in [&folder, &folder.join("tmp"), &folder.join("home")] {
            std::fs::create_dir(new).expect("the place is new");
        }
        std::fs::write(folder.join("hairpin"), "").expect("it can be written");
        let holder = place.command(unshare[0]).args(&unshare[1..]).args(SLEEPER).stdin(Stdio::null()).spawn();
        let holder = OwnChild(holder.expect("it was tried"));
        until("the namespaces are made", || {
            std::fs::read_to_string(format!("/proc/{}/comm", holder.0.id())).is_ok_and(|name| name == "sleep\n")
        });
        let user = is_root().then_some(FIRST_USER + user);
        let host = Self { holder, place: Arc::clone(place), folder, user, at };
        for own in ["", "tmp", "home"] {
            user.map_or(Ok(()), |user| chown(host.path(own), Some(user), Some(user))).expect("root may");
        }
        let outside = place.path("");
        let words = [Path::new(PROGRAM), &host.folder, &outside, Path::new(name)];
        let ran = Running::start(host.entered("sh").args(["-c", SETTLE]).args(words)).end();
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
        host
    }

    /// The process that holds the host's namespaces.
    pub(crate) fn id(&self) -> u32 {
        self.holder.0.id()
    }

    /// A file in the host's `/tmp`, the working directory of all its programs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Gives a device its addresses, and the host its default route.
    pub(super) fn join(&self, device: &str, at: Addresses, gateway: Option<Addresses>) {
        let Addresses { v4, v6 } = at;
        let own = format!("ip address add {v4}/24 dev {device}; ip address add {v6}/64 dev {device} nodad");
        let routes = gateway.map_or_else(String::new, |Addresses { v4, v6 }| {
            format!("ip route add default via {v4}; ip -6 route add default via {v6}")
        });
        self.as_root(&format!("{own}\nip link set {device} up\n{routes}"));
    }

    fn entered(&self, program: &str) -> Command {
        let mut command = self.place.command("nsenter");
        command.args(["--target", &self.id().to_string()]).args(NAMESPACES);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command
    }

    /// Runs a script as root of the host, who may change the host's network. The script must succeed.
    pub(crate) fn as_root(&self, script: &str) -> String {
        let ran = Running::start(self.entered("sh").args(["-e", "-c", script])).end().with_code(0);
        ran.stdout
    }

    /// A command that the host's user runs in `/tmp`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = self.entered("setpriv");
        if let Some(user) = self.user {
            let id = user.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        command.args(["--pdeathsig", "KILL", "env", "-C", "/tmp", "-u", "XDG_STATE_HOME"]);
        command.args(["HOME=/tmp/home", "TMPDIR=/tmp/tmp", program]);
        command
    }

    /// Starts the program with the arguments in the text.
    pub(crate) fn start(&self, words: &str) -> Running {
        Running::start(self.command("/tmp/hairpin").args(words.split_whitespace()))
    }

    pub(crate) fn hairpin(&self, words: &str) -> Ran {
        self.start(words).end()
    }

    /// Runs the program with `--json` and parses its output. The program must succeed.
    pub(crate) fn json(&self, words: &str) -> Value {
        self.hairpin(&format!("{words} --json")).with_code(0).json()
    }

    /// Processes on the host, except the process that holds its namespaces.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let namespace = |id: u32| std::fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let own = namespace(self.id());
        let ids = names_in(Path::new("/proc")).into_iter().filter_map(|name| name.parse().ok());
        ids.filter(|id| *id != self.id() && namespace(*id) == own).collect()
    }

    /// Fails unless every process on the host has ended and left no temporary file.
    pub(super) fn assert_nothing_left(&self) {
        until("every process has ended", || self.processes().is_empty());
        assert_eq!(names_in(&self.path("tmp")), [""; 0], "temporary files");
    }
}

/// `hairpin serve` on a host. Dropping this kills the server.
pub(crate) struct Served<'h> {
    host: &'h Host,
    pub(crate) running: Running,
}

impl<'h> Served<'h> {
    /// Starts the server with those flags, and writes its ticket to the client's file `ticket`.
    pub(crate) fn start(host: &'h Host, flags: &str, client: &Host) -> Self {
        drop(std::fs::remove_file(host.path("ticket")));
        // Tests that stop an end need long rounds.
        let turn = if flags.contains("--limit") || flags.contains("--once") { "" } else { "--limit turn=2h" };
        let script = format!("exec /tmp/hairpin serve {flags} {turn} > ticket 2> log");
        let running = Running::start(host.command("sh").args(["-c", &script]));
        let served = Self { host, running };
        let ticket = awaited("the server has printed its ticket", || served.ticket());
        std::fs::write(client.path("ticket"), ticket).expect("it can be written");
        served
    }

    fn ticket(&self) -> Option<String> {
        std::fs::read_to_string(self.host.path("ticket")).ok().filter(|text| text.ends_with('\n'))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.host.path("log")).expect("it has one")
    }

    /// Number of the server's descriptors, except those of files.
    pub(crate) fn descriptors(&self) -> usize {
        nameless_descriptors(self.running.id())
    }

    /// Waits until `runs` runs are over and only the server itself is left.
    pub(crate) fn until_idle_after(&self, runs: usize) {
        until("the server's sessions are over", || self.log().matches("the run has ended").count() == runs);
        until("the processes of the sessions have ended", || self.host.processes() == [self.running.id()]);
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the server:\n{}", std::fs::read_to_string(self.host.path("log")).unwrap_or_default());
        }
    }
}
