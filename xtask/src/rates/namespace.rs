//! A network namespace for all contestants: no other traffic moves its counters, and every TCP connection in it has the
//! same congestion control, even those of programs that cannot choose one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// The congestion control of every case.
pub(super) const CONGESTION: &str = "cubic";

/// Tells this program that it runs inside, and where the built programs are.
const INSIDE: &str = "--inside-namespace";

/// Brings the loopback device up, and puts the congestion control on the routes to it: the namespace's default may only
/// be one that unprivileged users may choose.
const SET_UP: &str = "ip link set lo up && \
    for to in 127.0.0.0/8 127.0.0.1; do \
        ip route replace local $to dev lo table local proto kernel scope host src 127.0.0.1 congctl \"$0\" || exit; \
    done && exec \"$@\"";

/// Runs this program again in a new namespace, with the folder of the built programs; returns whether it succeeded.
pub(super) fn run_this_inside(programs: &Path) -> Result<bool> {
    let this = std::env::current_exe().context("cannot tell this program's path")?;
    let mut command = Command::new("unshare");
    command.arg("--net");
    if std::fs::metadata("/proc/self").context("cannot read /proc")?.uid() != 0 {
        command.arg("--map-root-user");
    }
    command
        .args(["sh", "-c", SET_UP, CONGESTION])
        .arg(this)
        .args(std::env::args_os().skip(1))
        .arg(INSIDE)
        .arg(programs);
    let status = command.status().context("cannot start unshare (hint: apt-get install util-linux iproute2)")?;
    Ok(status.success())
}
