//! `--to ssh://HOST`, with the test's own sshd on the loopback: the user's ssh is neither read nor changed.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use hairpin_testing::{or_skip, program, works};

use crate::support::contract::assert_kept;
use crate::support::{PROGRAM, Place, Ran, Running, list, names_in, signal, text, until};

/// Debian's path, which PATH may not contain.
const SSHD: &str = "/usr/sbin/sshd";

/// An sshd, and an ssh configuration that calls it `lab`.
struct Lab {
    sshd: Running,
    place: Place,
}

impl Lab {
    /// Starts an sshd whose PATH has the program under test.
    fn new() -> Result<Self, String> {
        Self::with_path(Path::new(PROGRAM).parent().expect("it is in a folder"))
    }

    /// Starts an sshd whose PATH has that folder and the system's programs.
    fn with_path(folder: &Path) -> Result<Self, String> {
        let (sshd, _) = (program(SSHD)?, program("ssh")?);
        let place = Place::new();
        for name in ["host-key", "user-key"] {
            run(place.command("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", name]))?;
        }
        let port = free_port();
        let at = |name: &str| place.path(name).display().to_string();
        let (mark, value) = place.mark();
        let of_there = format!(
            "{mark}={value} PATH={}:/usr/bin:/bin HOME={} XDG_STATE_HOME={} TMPDIR={}",
            folder.display(),
            at("home"),
            at("state"),
            at("tmp")
        );
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nSetEnv {of_there}\nPidFile none\n\
             UsePAM no\nStrictModes no\nPasswordAuthentication yes\n",
            at("host-key"),
            at("user-key.pub"),
        );
        write(&place, "sshd", &config);
        write(&place, "ssh", &own_config(&place, port));
        write(&place, "known", &format!("[127.0.0.1]:{port} {}", read(&place, "host-key.pub")));
        // As root, sshd needs a folder in /run, which is created in a new mount namespace.
        let prepare = "if [ $(id -u) -eq 0 ]; then mkdir -p /run && mount -t tmpfs none /run && mkdir -m 755 /run/sshd || exit 1; fi";
        let script = format!("{prepare}; exec {} -D -e -f sshd-config 2>log", sshd.display());
        let script = script.replace("sshd-config", &at("sshd"));
        let is_root = works(&["sh", "-c", "[ $(id -u) -eq 0 ]"]).is_ok();
        let mut command = place.command(if is_root { "unshare" } else { "sh" });
        if is_root {
            works(&["unshare", "--mount", "true"])?;
            command.args(["--mount", "sh"]);
        }
        let sshd = Running::start(command.args(["-c", &script]));
        until("sshd listens", || read(&place, "log").contains("Server listening"));
        run(place.command("ssh").args(["-F", &at("ssh"), "-T", "-oRemoteCommand=none", "lab", "true"]))
            .map_err(|why| format!("sshd rejects this user: {why}"))?;
        Ok(Self { sshd, place })
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.place.command(PROGRAM);
        // ssh uses the first value of an option, so this sets a short time-out for silent hosts.
        let ssh = format!("ssh -F {} -oConnectTimeout=2", self.place.path("ssh").display());
        command.args(words.split_whitespace()).env("HAIRPIN_SSH", ssh);
        command
    }

    fn hairpin(&self, words: &str) -> Ran {
        Running::start(&mut self.command(words)).end()
    }

    /// Number of the program's processes behind sshd.
    fn servers(&self) -> usize {
        let is_one = |id: &u32| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == b"--until-input-closes" || word == b"__server")
        };
        self.place.processes().iter().filter(|id| is_one(id)).count()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            until("no server is left", || self.servers() == 0);
        }
    }
}

/// An ssh configuration with several names for this sshd or for no server, which differ in how ssh connects.
fn own_config(place: &Place, port: u16) -> String {
    let at = |name: &str| place.path(name).display().to_string();
    let (closed, known, key) = (free_port(), at("known"), at("user-key"));
    format!(
        "Host closed\n Port {closed}\nHost nobody-knows\n UserKnownHostsFile {}\nHost locked\n PubkeyAuthentication no\n\
         Host no-name\n HostName no-name.invalid\nHost *\n HostName 127.0.0.1\n Port {port}\n IdentityFile {key}\n \
         IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {known}\n GlobalKnownHostsFile none\n \
         StrictHostKeyChecking yes\n RemoteCommand echo other\n RequestTTY force\n",
        at("no-file"),
    )
}

fn run(command: &mut Command) -> Result<(), String> {
    let ran = command.output().map_err(|error| error.to_string())?;
    if ran.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()) }
}

/// A port that the kernel gives to no other socket: it is below `net.ipv4.ip_local_port_range`, and each process
/// tries different ports.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 200) as u16 * 100;
    let ports = (0..100).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 100);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    { ports }.find(is_free).expect("the loopback has ports")
}

fn write(place: &Place, name: &str, text: &str) {
    std::fs::write(place.path(name), text).expect("it can be written");
}

fn read(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(name)).unwrap_or_default()
}

const QUICK: &str = "round-trip --transport tcp,udp --count 50 --warmup 10 --rounds 2";

/// Address of the run's server.
fn data_at(ran: &Ran) -> String {
    let line = ran.stderr.lines().find_map(|line| line.split_once("; data goes to ")).expect("it says where");
    line.1.to_owned()
}

#[test]
fn a_server_is_started_for_one_run_and_leaves_no_process_ticket_or_secret() {
    let lab = or_skip!(Lab::new());
    // The default port is in use: by this test as soon as other tests release it, or by a server that keeps running.
    let _taken = (0..100).find_map(|_| {
        let taken = TcpListener::bind("127.0.0.1:7420");
        taken.inspect_err(|_| std::thread::sleep(Duration::from_millis(50))).ok()
    });
    let ran = lab.hairpin(&format!("{QUICK} --to ssh://lab --out run --json")).with_code(0);
    let run = ran.json();
    assert_kept(&run);
    assert_eq!(list(&run["hosts"]).len(), 2);
    for case in list(&run["cases"]) {
        assert_eq!(case["case"]["path"]["host"], "127.0.0.1");
        assert_eq!(case["ledger"]["received"], 100);
    }
    let command_line = list(&run["command_line"]);
    assert!(command_line.iter().any(|word| word == "ssh://lab"), "{command_line:?}");
    let address = data_at(&ran);
    assert!(!address.ends_with(":7420"), "{address}");
    let ticket = format!("{address}#");
    assert!(!ran.stderr.contains(&ticket) && !ran.stdout.contains(&ticket));
    for name in names_in(&lab.place.path("run")) {
        let bytes = std::fs::read(lab.place.path("run").join(&name)).expect("it is a file");
        assert!(!bytes.windows(ticket.len()).any(|window| window == ticket.as_bytes()), "{name}");
    }
    assert_eq!(names_in(&lab.place.path("state/hairpin/tickets")), [""; 0], "it was revoked");

    let port = free_port();
    let ran = lab.hairpin(&format!("{QUICK} --to ssh://lab --server-port {port}")).with_code(0);
    assert_eq!(data_at(&ran), format!("127.0.0.1:{port}"));
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("it was free just now");
    let refused = lab.hairpin(&format!("{QUICK} --to ssh://lab --server-port {port}")).with_code(3);
    assert!(refused.stderr.contains("on ssh://lab ended before it served (exit code 2)"), "{}", refused.stderr);
    assert!(refused.stderr.contains("Address already in use"), "{}", refused.stderr);
    drop(taken);
}

#[test]
fn check_starts_its_own_server_over_ssh_and_reports_a_failure_in_json() {
    let lab = or_skip!(Lab::new());
    let port = free_port();
    let ran = lab.hairpin(&format!("check ssh://lab --server-port {port} --json")).with_code(0);
    assert_eq!(data_at(&ran), format!("127.0.0.1:{port}"));
    let told = ran.json();
    assert_eq!((&told["host"], &told["datagrams"]["is_through"]), (&"127.0.0.1".into(), &true.into()), "{told}");
    until("no server is left", || lab.servers() == 0);
    assert_eq!(names_in(&lab.place.path("state/hairpin/tickets")), [""; 0], "it was revoked");
    let ran = lab.hairpin("check ssh://closed --json").with_code(3);
    let told = ran.json();
    assert!(text(&told["failed"]["cause"]).starts_with("cannot reach ssh://closed: "), "{told}");
    assert!(text(&told["failed"]["hint"]).contains("closed true` has to work first"), "{told}");
    assert_eq!((&told["refused"], &told["exit_code"]), (&serde_json::Value::Null, &3.into()), "{told}");
    lab.place.hairpin("check ssh://-l@lab").refused().told("TICKET: not a host over ssh");
    lab.place.hairpin("check lab:1#x --copy-binary").refused().told("--copy-binary needs ssh://HOST");
}

#[test]
fn a_killed_client_and_a_broken_connection_leave_no_server() {
    let mut lab = or_skip!(Lab::new());
    let plan = "round-trip --transport tcp --duration 3600s --rounds 1 --to ssh://lab --json";
    let client = Running::start(&mut lab.command(plan));
    lab.sshd.busy_server();
    signal("KILL", client.id());
    until("no server is left", || lab.servers() == 0);

    let client = Running::start(&mut lab.command(plan));
    lab.sshd.busy_server();
    let ssh = client.child(|line| line.starts_with("ssh ")).expect("it has started one");
    signal("KILL", ssh);
    let failed = client.end().with_code(3).json();
    assert!(text(&failed["cases"][0]["failed_rounds"][0]).contains("the server"), "{failed}");

    let client = Running::start(&mut lab.command(plan));
    lab.sshd.busy_server();
    signal("INT", client.id());
    client.end().with_code(130);
}

#[test]
fn a_host_that_ssh_cannot_reach_without_prompting_is_reported_and_nothing_is_saved() {
    let lab = or_skip!(Lab::new());
    // This listener accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("the loopback has ports");
    let port = silent.local_addr().expect("it is bound").port();
    let silent_host = format!("ssh://127.0.0.1:{port}");
    for (host, cause, hint) in [
        ("ssh://locked", "Permission denied (publickey,password", "ssh may not ask for a password here"),
        ("ssh://nobody-knows", "Host key verification failed", "the key of that host is unknown"),
        ("ssh://closed", "Connection refused", "lab true` has to work first"),
        ("ssh://no-name", "Could not resolve hostname no-name.invalid", "no-name true` has to work first"),
        (&silent_host, "timed out", "127.0.0.1 true` has to work first"),
    ] {
        let hint = hint.replace("lab true", &format!("{} true", host.trim_start_matches("ssh://")));
        let ran = lab.hairpin(&format!("{QUICK} --to {host}")).with_code(3);
        assert!(ran.stderr.starts_with(&format!("error: cannot reach {host}: ")), "{}", ran.stderr);
        assert!(ran.stderr.contains(cause) && ran.stderr.contains(&hint), "{}", ran.stderr);
    }
    let mut command = lab.command(&format!("{QUICK} --to ssh://lab"));
    let ran = Running::start(command.env("HAIRPIN_SSH", "no-such-ssh")).end().with_code(3);
    ran.told("cannot start `no-such-ssh`").told("HAIRPIN_SSH");
    assert!(!lab.place.path("hairpin-runs").exists(), "nothing was measured");
}

#[test]
fn a_bad_host_and_flags_without_a_host_are_refused() {
    let place = Place::new();
    for (words, cause) in [
        (
            "--to ssh://-oProxyCommand=touch${IFS}done",
            "--to: not a host over ssh: the host is missing or invalid, or the port is not",
        ),
        ("--server-port 7000", "--server-port needs ssh://HOST"),
        ("--copy-binary", "--copy-binary needs ssh://HOST"),
        ("--to lab:1#x --copy-binary", "--copy-binary needs ssh://HOST"),
    ] {
        let words = format!("round-trip {words}");
        place.hairpin(&words).refused().told(cause);
    }
    assert_eq!(names_in(&place.path("")), ["tmp"]);
}

/// Builds a static program that executes the program under test, because the tests have no static build.
fn static_program(place: &Place) -> Result<(), String> {
    let source = format!(
        "#include <unistd.h>\nint main(int n, char **v) {{ v[0] = \"{PROGRAM}\"; return execv(v[0], v) * -9; }}\n"
    );
    write(place, "static.c", &source);
    run(place.command("cc").args(["-static", "-o", "static", "static.c"]))
        .map_err(|why| format!("`cc -static`: {why}"))
}

#[test]
fn a_missing_program_is_copied_if_the_user_agrees_and_the_copy_is_used_again() {
    let lab = or_skip!(Lab::with_path(Path::new("/nonexistent")));
    or_skip!(static_program(&lab.place));
    let ran = |flag: &str| lab.hairpin(&format!("{QUICK} --to ssh://lab {flag}")).with_code(3);
    let is_dynamic = "is linked dynamically, so it is not copied";
    let missing = ran("").told("the shell on ssh://lab finds no `hairpin`").told(is_dynamic);
    missing.told("`cargo xtask dist` builds a static one");
    ran(&format!("--copy-binary={PROGRAM}")).told(is_dynamic);
    let mut bytes = std::fs::read(lab.place.path("static")).expect("it was made");
    // `e_machine`: no host has this one.
    bytes[18..20].copy_from_slice(&[0xfe, 0xfe]);
    std::fs::write(lab.place.path("foreign"), bytes).expect("it can be written");
    ran("--copy-binary=foreign").told("foreign is for Linux machine 65278, and the host is Linux ");
    assert!(!lab.place.path("home").exists(), "nothing was copied");

    let copy = format!("{QUICK} --to ssh://lab --copy-binary=static");
    let first = lab.hairpin(&copy).with_code(0);
    assert!(first.stderr.contains("to ssh://lab\n") && first.stderr.starts_with("copying "), "{}", first.stderr);
    let cache = lab.place.path("home/.cache/hairpin");
    let names = names_in(&cache);
    let again = lab.hairpin(&copy).with_code(0);
    assert!(!again.stderr.contains("copying "), "{}", again.stderr);
    assert_eq!(names_in(&cache), names);
    let [name] = names.as_slice() else { panic!("{names:?}") };
    assert!(name.starts_with(concat!("hairpin-", env!("CARGO_PKG_VERSION"), "-")), "{name}");
}
