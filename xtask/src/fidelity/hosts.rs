//! Two hosts for the client and the server: two network namespaces, connected by a veth pair.
//!
//! A sleeping process keeps each namespace alive. The kernel kills this process when the thread that started it ends,
//! so that nothing remains even if this program is killed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{self, Held};

/// Addresses in a range for documentation (RFC 5737).
const CLIENT: &str = "192.0.2.2";
pub(super) const SERVER: &str = "192.0.2.3";

/// Command prefix: the kernel kills the program when the thread that started it ends.
const KILLED_WITH_PARENT: [&str; 3] = ["setpriv", "--pdeathsig", "KILL"];

/// Creates the veth pair. `$0` is the pid of a process in the server's namespace.
const CREATE_VETH: &str = "ip link add eth0 type veth peer name eth0 netns \"$0\"";
/// Sets the address `$0` of a host.
const SET_ADDRESS: &str = "ip address add \"$0/24\" dev eth0 && ip link set lo up && ip link set eth0 up";

const LIMIT: Duration = Duration::from_secs(10);

/// Both hosts. Dropping the value removes the hosts.
pub(super) struct Hosts {
    client: Held,
    server: Held,
}

impl Hosts {
    pub(super) fn new() -> Result<Self> {
        let own_user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
        let client = namespace(&[&["unshare", "--net"], own_user].concat())?;
        let id = client.child.id().to_string();
        let same_user: &[&str] =
            if is_root() { &[] } else { &["nsenter", "--target", &id, "--user", "--preserve-credentials"] };
        let server = namespace(&[same_user, &["unshare", "--net"]].concat())?;
        let hosts = Self { client, server };
        let cable = |on: &Held, script: &str, word: &str| {
            let mut command = process::prefixed(&enter(on), Path::new("sh"));
            process::run(command.args(["-c", script, word]), LIMIT)?.succeeded().context("cannot create a veth pair")
        };
        cable(&hosts.client, CREATE_VETH, &hosts.server.child.id().to_string())?;
        cable(&hosts.client, SET_ADDRESS, CLIENT)?;
        cable(&hosts.server, SET_ADDRESS, SERVER)?;
        Ok(hosts)
    }

    /// Returns the command prefix that runs a command on the client's host.
    pub(super) fn enter_client(&self) -> Vec<String> {
        enter(&self.client)
    }

    pub(super) fn server_namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.server.child.id())
    }

    /// Starts `hairpin serve` on the server's host. Its rounds run on `cpu`, and its key is stored below `scratch`.
    pub(super) fn serve(&self, hairpin: &Path, cpu: u64, scratch: &Path) -> Result<Served> {
        let ticket = scratch.join("ticket");
        let mut command = process::prefixed(&enter(&self.server), hairpin);
        command.args(["serve", "--bind", SERVER, "--quiet", "--cpu", &cpu.to_string()]);
        command.env("XDG_STATE_HOME", scratch.join("state"));
        Ok(Served { _held: process::serve(&mut command, &ticket)?, ticket })
    }
}

pub(super) struct Served {
    _held: Held,
    pub(super) ticket: PathBuf,
}

/// Starts a sleeping process in a new namespace, with the command `unshare`.
fn namespace(unshare: &[&str]) -> Result<Held> {
    let mut command = Command::new(unshare[0]);
    command.args(&unshare[1..]).args(KILLED_WITH_PARENT).args(["sleep", "infinity"]).stdin(Stdio::null());
    let mut sleeps = Held::start(&mut command).context("hint: apt-get install util-linux iproute2")?;
    let name = format!("/proc/{}/comm", sleeps.child.id());
    let is_there = || Ok(fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n"));
    sleeps.wait_until("create a network namespace", LIMIT, is_there)?;
    Ok(sleeps)
}

fn enter(host: &Held) -> Vec<String> {
    let id = host.child.id().to_string();
    let user: &[&str] = if is_root() { &[] } else { &["--user", "--preserve-credentials"] };
    let words = [&["nsenter", "--target", &id, "--net"], user, &KILLED_WITH_PARENT].concat();
    words.into_iter().map(str::to_owned).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
