//! Links of an ordinary user, and of a process that is killed.
//!
//! Only a process with one thread may move into its own user namespace, and the harness has several threads. So these
//! tests start this binary again, as one of two parts: `user` creates a link as the current user, `holder` keeps a
//! link until it is killed.
#![expect(clippy::print_stdout, reason = "the parts report to the tests that start them")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hairpin_engine::links::RunningLink;
use hairpin_engine::links::addresses::{FAR, NEAR_V4, NEAR_V6};
use hairpin_engine::links::namespace;
use hairpin_model::environment::NetworkNamespace;
use hairpin_testing::skip;

use crate::link_process::{order, within};
use crate::support::{OwnChild, until};

/// `nobody` on most distributions: an unprivileged user.
const NOBODY: u32 = 65534;

/// Prefix of the reason that a part prints if no link can be created.
const SKIPPED: &str = "skipped: ";

/// Only a hang takes longer, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the part that the command line names; false if it names none.
pub(crate) fn run_part() -> bool {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["user", program] => user(program),
        ["holder", program] => holder(program),
        _ => return false,
    }
    true
}

/// This binary as a part, started by an ordinary user.
fn part(name: &str) -> (Command, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder for temporary files can be written to");
    let own = env::current_exe().expect("this program is a file");
    let mut command;
    if fs::metadata("/proc/self").expect("it is there").uid() == 0 {
        // Other users may have no access to cargo's build folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let copied = |from: &Path, name: &str| {
            let to = folder.path().join(name);
            fs::copy(from, &to).expect("a program can be copied");
            to
        };
        command = Command::new(copied(&own, "part"));
        command.arg(name).arg(copied(Path::new(env!("CARGO_BIN_EXE_hairpin")), "hairpin")).uid(NOBODY).gid(NOBODY);
    } else {
        command = Command::new(own);
        command.args([name, env!("CARGO_BIN_EXE_hairpin")]);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped());
    (command, folder)
}

#[test]
fn an_ordinary_user_can_create_links() {
    let (mut command, folder) = part("user");
    let output = command.output().expect("this program can be started again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    drop(folder);
    if let Some(why) = said.trim().strip_prefix(SKIPPED) {
        skip!("{why}");
    }
    assert_eq!(said.trim(), "ok");
}

#[test]
fn a_killed_holder_leaves_nothing() {
    let (mut command, folder) = part("holder");
    let mut holder = OwnChild(command.spawn().expect("this program can be started again"));
    let mut line = String::new();
    let stdout = holder.0.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says which processes there are, or why there are none");
    let ids: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if let Some(why) = line.strip_prefix(SKIPPED) {
        skip!("{}", why.trim());
    }
    assert_eq!(ids.len(), 3, "the link, and a process at each end: {line}");
    assert!(ids.iter().all(|id| lives(*id)), "{line}");
    holder.0.kill().expect("it is our child");
    holder.0.wait().expect("it is our child");
    until("all of them have ended", || !ids.iter().any(|id| lives(*id)));
    drop(folder);
}

/// Whether a process exists and is not a zombie.
fn lives(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Starts a link. If no link can be created here, prints why and returns `None`.
fn link(program: &str) -> Option<(RunningLink, NetworkNamespace)> {
    if let Err(why) = namespace::may_prepare() {
        println!("{SKIPPED}{why}");
        return None;
    }
    let home = namespace::prepare().expect("it may");
    Some((RunningLink::start(Path::new(program), &order("delay=1ms")).expect("the link starts"), home))
}

fn here() -> u64 {
    fs::metadata("/proc/thread-self/ns/net").expect("this thread is in a namespace").ino()
}

/// Checks that a program across a link has its own mounts and host name, and sees the link's devices.
fn has_a_host_of_its_own(program: &str) {
    let script = "hostname changed && mount -t tmpfs none /mnt && \
                  cat /proc/sys/kernel/hostname && ls -d /sys/class/net/*/";
    // Looks only at /mnt, because other programs may mount elsewhere in the meantime.
    let host = || {
        let [name, mounts] = ["/proc/sys/kernel/hostname", "/proc/self/mountinfo"]
            .map(|file| fs::read_to_string(file).expect("it is there"));
        (name, mounts.lines().filter(|line| line.contains(" /mnt ")).count())
    };
    let before = host();
    let across = ["link", "run", "--link", "delay=1ms", "--", "sh", "-c", script];
    let output = Command::new(program).args(across).stdin(Stdio::null()).output().expect("it can be started");
    assert_eq!(host(), before);
    let seen = String::from_utf8_lossy(&output.stdout);
    let devices = seen.strip_prefix("changed\n").unwrap_or_else(|| panic!("{output:?}"));
    if String::from_utf8_lossy(&output.stderr).contains("note  /sys shows the devices of the host: ") {
        println!("skipped: /sys of the link is refused here");
    } else {
        assert_eq!(devices, "/sys/class/net/eth0/\n/sys/class/net/lo/\n", "{output:?}");
    }
}

/// Everything that the engine does with a link, as an ordinary user.
fn user(program: &str) {
    let started_in = here();
    if namespace::may_prepare().is_ok() {
        has_a_host_of_its_own(program);
    }
    let Some((link, home)) = link(program) else { return };
    assert_eq!(home, NetworkNamespace::Own);
    let home = here();
    assert_ne!(home, started_in, "the process is still in the namespace in which it was started");
    let ends = link.namespaces();
    let pairs: [(IpAddr, IpAddr); 2] = [(NEAR_V4.into(), FAR.v4.into()), (NEAR_V6.into(), FAR.v6.into())];
    let mut sent = 0;
    for (near, far) in pairs {
        let bind = |namespace, address: IpAddr| {
            within(namespace, || UdpSocket::bind((address, 0)).expect("its address is there"))
        };
        let (near, far) = (bind(&ends.near, near), bind(&ends.far, far));
        far.set_read_timeout(Some(LIMIT / 30)).expect("it is not zero");
        // On a busy machine the kernel can give up resolving the neighbour's address, and then drops waiting packets.
        let arrived = (0..30).any(|_| {
            sent += 1;
            near.send_to(b"up", far.local_addr().expect("it is bound")).expect("it can be sent");
            far.recv(&mut [0; 100]).is_ok_and(|length| length == 2)
        });
        assert!(arrived, "nothing arrived from {near:?}");
    }
    assert_eq!(here(), home, "the thread has returned to its own namespace");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback interface is up at home");
    TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it can be connected to");
    let mut sleeper = OwnChild(within(&ends.far, || Command::new("sleep").arg("1000").spawn().expect("it starts")));
    let record = link.finish().expect("the link ends in order").record;
    assert!((2..=sent).contains(&record.packets.entered), "{sent} were sent: {record:?}");
    assert_eq!((record.packets.out, record.packets.unexplained()), (record.packets.entered, 0), "{record:?}");
    let ended = sleeper.0.try_wait().expect("it is our child");
    assert!(ended.is_some_and(|status| !status.success()), "the process at an end was ended with the link");
    println!("ok");
}

/// Holds a link with a process at each end, until it is killed.
fn holder(program: &str) {
    let Some((link, _)) = link(program) else { return };
    let sleeper =
        |namespace| within(namespace, || Command::new("sleep").arg("1000").spawn().expect("it starts").id());
    let ends = link.namespaces();
    println!("{} {} {}", link.id(), sleeper(&ends.near), sleeper(&ends.far));
    std::thread::sleep(LIMIT);
}
