//! A network namespace in which Hairpin and the programs it is compared with run. No other traffic changes its
//! counters, and all its TCP connections have the same congestion control, even in programs that cannot choose one.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

pub(super) const CONGESTION: &str = "cubic";

/// Tells this program that it runs inside the namespace. The value is the folder of the built programs.
const INSIDE_FLAG: &str = "--inside-namespace";

/// Brings the loopback device up, and sets the congestion control in its routes: a namespace's default is limited to
/// the congestion controls that unprivileged users may choose.
const SET_UP: &str = "ip link set lo up && \
    for to in 127.0.0.0/8 127.0.0.1; do \
        ip route replace local $to dev lo table local proto kernel scope host src 127.0.0.1 congctl \"$0\" || exit; \
    done && exec \"$@\"";

/// Runs this program again in a new namespace. Returns whether that run succeeded.
pub(super) fn run_this_inside(programs: &Path) -> Result<bool> {
    let this = std::env::current_exe().context("cannot find the path of this executable")?;
    let mut command = Command::new("unshare");
    command.arg("--net");
    if std::fs::metadata("/proc/self").context("cannot read /proc")?.uid() != 0 {
        command.arg("--map-root-user");
    }
    command
        .args(["sh", "-c", SET_UP, CONGESTION])
        .arg(this)
        .args(std::env::args_os().skip(1))
        .arg(INSIDE_FLAG)
        .arg(programs);
    let status = command.status().context("cannot start unshare (hint: apt-get install util-linux iproute2)")?;
    Ok(status.success())
}
