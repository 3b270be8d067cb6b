//! Two hosts for the client and the server: two network namespaces, connected by a veth pair.
//!
//! A sleeping process keeps each namespace alive. The kernel kills this process when the thread that started it ends,
//! so that nothing remains even if this program is killed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::process;

/// Addresses in a range for documentation (RFC 5737).
const CLIENT: &str = "192.0.2.2";
pub(super) const SERVER: &str = "192.0.2.3";

/// Command prefix: the kernel kills the program when the thread that started it ends.
const KILLED_WITH_PARENT: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];

/// Creates the veth pair. `$0` is the pid of a process in the server's namespace.
const CREATE_VETH: &str = "ip link add eth0 type veth peer name eth0 netns \"$0\"";
/// Sets the address `$0` of a host.
const SET_ADDRESS: &str = "ip address add \"$0/24\" dev eth0 && ip link set lo up && ip link set eth0 up";

/// Time limit for a process to become ready.
const LIMIT: Duration = Duration::from_secs(10);

/// A process. Dropping it kills the process.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Held {
    fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).spawn();
        child.map(Self).with_context(|| format!("cannot start {name} (hint: apt-get install util-linux iproute2)"))
    }

    fn until(mut self, what: &str, is_ready: impl Fn(u32) -> bool) -> Result<Self> {
        let began = Instant::now();
        while !is_ready(self.0.id()) {
            ensure!(self.0.try_wait()?.is_none(), "the process ended before {what}");
            ensure!(began.elapsed() < LIMIT, "not within {} s: {what}", LIMIT.as_secs());
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(self)
    }
}

/// Both hosts. Dropping the value removes the hosts.
pub(super) struct Hosts {
    client: Held,
    server: Held,
}

impl Hosts {
    /// Creates both hosts.
    pub(super) fn new() -> Result<Self> {
        let own_user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
        let client = namespace(&[&["unshare", "--net"], own_user].concat())?;
        let id = client.0.id().to_string();
        let same_user: &[&str] =
            if is_root() { &[] } else { &["nsenter", "--target", &id, "--user", "--preserve-credentials"] };
        let server = namespace(&[same_user, &["unshare", "--net"]].concat())?;
        let hosts = Self { client, server };
        let cable = |on: &Held, script: &str, word: &str| {
            let mut words = enter(on);
            words.extend(["sh", "-c", script, word].map(str::to_owned));
            process::run(Command::new(&words[0]).args(&words[1..]), LIMIT)?
                .succeeded()
                .context("cannot create a veth pair")
        };
        cable(&hosts.client, CREATE_VETH, &hosts.server.0.id().to_string())?;
        cable(&hosts.client, SET_ADDRESS, CLIENT)?;
        cable(&hosts.server, SET_ADDRESS, SERVER)?;
        Ok(hosts)
    }

    /// Returns the command prefix that runs a command on the client's host.
    pub(super) fn enter_client(&self) -> Vec<String> {
        enter(&self.client)
    }

    /// Returns the file of the server's network namespace.
    pub(super) fn server_namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.server.0.id())
    }

    /// Starts `hairpin serve` on the server's host. Its rounds run on `cpu`, and its key is stored below `scratch`.
    pub(super) fn serve(&self, hairpin: &Path, cpu: u64, scratch: &Path) -> Result<Served> {
        let ticket = scratch.join("ticket");
        let printed = fs::File::create(&ticket).with_context(|| format!("cannot create {}", ticket.display()))?;
        let words = enter(&self.server);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(hairpin).args([
            "serve",
            "--bind",
            SERVER,
            "--quiet",
            "--cpu",
            &cpu.to_string(),
        ]);
        let held = Held::start(command.env("XDG_STATE_HOME", scratch.join("state")).stdout(printed))?;
        let has_ticket = |_| fs::read_to_string(&ticket).is_ok_and(|text| text.ends_with('\n'));
        Ok(Served { _held: held.until("hairpin serve printed its ticket", has_ticket)?, ticket })
    }
}

/// A server. Dropping it ends the server.
pub(super) struct Served {
    _held: Held,
    pub(super) ticket: PathBuf,
}

/// Starts a sleeping process in a new namespace, with the command `unshare`.
fn namespace(unshare: &[&str]) -> Result<Held> {
    let sleeps = Held::start(
        Command::new(unshare[0]).args(&unshare[1..]).args(KILLED_WITH_PARENT).args(["sleep", "infinity"]),
    )?;
    let is_there = |id| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n");
    sleeps.until("a network namespace was created", is_there)
}

fn enter(host: &Held) -> Vec<String> {
    let id = host.0.id().to_string();
    let user: &[&str] = if is_root() { &[] } else { &["--user", "--preserve-credentials"] };
    let words = [&["nsenter", "--target", &id, "--net"], user, &KILLED_WITH_PARENT].concat();
    words.into_iter().map(str::to_owned).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
