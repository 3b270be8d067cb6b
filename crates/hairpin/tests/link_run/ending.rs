//! Signals, kills and the death of the link: the command is ended, and nothing is left behind.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use hairpin_testing::{or_skip, program};

use crate::support::across::{run, with_script};
use crate::support::{Arguments, PROGRAM, Place, Running, can_link, names_in, signal, until};

/// A script that creates a file and then waits. The shell itself creates the file, because an interrupted shell that
/// waits for another program may continue with its script.
const STAYS: &str = "sleep 300 & setsid sleep 300 & : >runs; exec sleep 300";

/// Starts a script across a link in its own process group, as a shell does, and waits until it runs.
fn started(place: &Place, flags: impl Arguments, script: &str) -> Running {
    let mut command = with_script(place, ("--link delay=1ms", flags), script);
    let running = Running::start(command.process_group(0));
    until("the command runs", || place.path("runs").exists());
    running
}

fn is_link(command_line: &str) -> bool {
    command_line.contains(" __link ")
}

/// The process of this program's link.
fn link_of(running: &Running) -> u32 {
    running.child(is_link).expect("a link is a process of its own")
}

/// Sends a signal to a whole process group, as the terminal does.
fn signal_group(name: &str, leader: u32) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s \"$0\" -- \"-$1\"", name, &leader.to_string()]);
    assert!(kill.status().expect("sh can be started").success(), "SIG{name} to group {leader}");
}

#[test]
fn ctrl_c_reaches_the_command_and_the_link_is_removed_afterwards() {
    or_skip!(can_link());
    let interfaces = names_in("/sys/class/net".as_ref());
    let place = Place::new();
    let running = started(&place, "", STAYS);
    signal_group("INT", running.id());
    let ran = running.end().with_code(130);
    assert!(ran.stderr.contains("\nup    packets in "), "the counts are printed: {ran:#?}");
    place.assert_nothing_left();

    // A command that continues after the signal determines the exit code.
    let place = Place::new();
    let own = "trap 'echo heard; exit 9' INT; touch runs; while :; do sleep 0.05; done";
    let running = started(&place, "--quiet", own);
    signal_group("INT", running.id());
    let ran = running.end().with_code(9);
    assert!(ran.stdout.starts_with("heard\n"), "{ran:#?}");
    place.assert_nothing_left();
    assert_eq!(names_in("/sys/class/net".as_ref()), interfaces, "no interface is left");
}

#[test]
fn an_interrupt_key_reaches_the_command_once() {
    or_skip!(can_link());
    or_skip!(program("script"));
    let place = Place::new();
    // The command reads the terminal, so it must be in the foreground; then it counts its interrupts.
    let near = "read line; echo \"read $line\"; trap 'echo x >>interrupts' INT; touch runs; \
                until [ -e enough ]; do sleep 0.05; done; exit 7";
    std::fs::write(place.path("near"), near).expect("the place can be written to");
    // Some shells of `script` would not exec the program, and the key would end that shell.
    let words = format!("exec {PROGRAM} link run --quiet --link delay=1ms -- bash near");
    let mut command = place.command("script");
    command.args(["-qec", &words, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("script can be started");
    let mut keys = child.stdin.take().expect("piped");
    keys.write_all(b"a line\n").expect("it reads the terminal");
    until("the command has read its line", || place.path("runs").exists());
    keys.write_all(b"\x03").expect("it reads the terminal");
    let interrupts = || std::fs::read_to_string(place.path("interrupts")).unwrap_or_default();
    until("the command was interrupted", || !interrupts().is_empty());
    // A second signal would be forwarded at once, so give it time to arrive.
    std::thread::sleep(std::time::Duration::from_millis(300));
    std::fs::write(place.path("enough"), "").expect("the place can be written to");
    let ran = child.wait_with_output().expect("it ends");
    drop(keys);
    assert_eq!((ran.status.code(), interrupts().as_str()), (Some(7), "x\n"), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("read a line"), "{ran:?}");
}

#[test]
fn a_termination_signal_is_forwarded_to_the_command() {
    or_skip!(can_link());
    for (name, code) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        let place = Place::new();
        // Uses no shell, because some shells ignore SIGQUIT.
        let running = place.start("link run --link delay=1ms -- sleep 300");
        until("the command runs", || running.child(|line| line == "sleep 300").is_some());
        signal(name, running.id());
        running.end().with_code(code);
    }
}

#[test]
fn a_signal_before_the_command_has_begun_prevents_it() {
    or_skip!(can_link());
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let place = Place::new();
        // The far command never listens: Hairpin waits for it when the signal arrives.
        let flags = ["--link", "delay=1ms", "--far", "touch far; exec sleep 300"];
        let running = Running::start(&mut with_script(&place, flags, "touch ran"));
        until("the far command runs", || place.path("far").exists());
        signal(name, running.id());
        running.end().with_code(code);
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn an_interface_that_the_command_removes_is_a_failure_of_the_link() {
    or_skip!(can_link());
    or_skip!(program("ip"));
    let place = Place::new();
    let ran = run(&place, "--link delay=1ms", "ip link del eth0; sleep 300").with_code(125);
    assert!(ran.stderr.contains("was an interface of the link removed from outside?"), "{ran:#?}");
}

#[test]
fn a_killed_link_ends_the_command_and_is_reported() {
    or_skip!(can_link());
    let place = Place::new();
    let running = started(&place, ["--json", "--far", "sleep 300 & setsid sleep 300 & sleep 300"], STAYS);
    signal("KILL", link_of(&running));
    let ran = running.end().with_code(125);
    let told = "error: the link ended early (signal: 9 (SIGKILL)) (hint: was it ended from outside?)\n";
    assert!(ran.stderr.ends_with(told) && ran.stdout.is_empty(), "{ran:#?}");
    place.assert_nothing_left();

    // The command ignores SIGTERM.
    let place = Place::new();
    let running = started(&place, "", "trap '' TERM; touch runs; while :; do sleep 0.05; done");
    signal("KILL", link_of(&running));
    running.end().with_code(125);
}

#[test]
fn a_killed_program_leaves_nothing() {
    or_skip!(can_link());
    let interfaces = names_in("/sys/class/net".as_ref());
    let far = ["--far", "sleep 300 & setsid sleep 300 & exec sleep 300"];
    for flags in [&[][..], &far] {
        let place = Place::new();
        let running = started(&place, flags, STAYS);
        signal("KILL", running.id());
        place.assert_nothing_left();
        running.end();
    }
    // Kills the program while it creates a link.
    for _ in 0..10 {
        let place = Place::new();
        let running = Running::start(&mut with_script(&place, "--link delay=1ms", STAYS));
        until("the program has started the link", || running.child(is_link).is_some());
        signal("KILL", running.id());
        place.assert_nothing_left();
        running.end();
    }
    assert_eq!(names_in("/sys/class/net".as_ref()), interfaces, "no interface is left");
}

#[test]
fn a_killed_program_leaves_nothing_even_if_its_processes_are_stopped() {
    or_skip!(can_link());
    let interfaces = names_in("/sys/class/net".as_ref());
    // The link, three processes at the near end, and the echo server or three processes at the far end.
    let far = ["--far", "sleep 300 & setsid sleep 300 & exec sleep 300"];
    for (flags, count) in [(&[][..], 5), (&far, 7)] {
        let place = Place::new();
        let running = started(&place, flags, STAYS);
        let others = || place.processes().into_iter().filter(|id| *id != running.id()).collect::<Vec<u32>>();
        until("all of them run", || others().len() == count);
        let others = others();
        assert!(others.contains(&link_of(&running)), "{others:?}");
        for id in &others {
            signal("STOP", *id);
        }
        until("all are stopped", || others.iter().all(|id| is_stopped(*id)));
        signal("KILL", running.id());
        place.assert_nothing_left();
        running.end();
    }
    assert_eq!(names_in("/sys/class/net".as_ref()), interfaces, "no interface is left");
}

/// Whether a process is stopped by a signal.
fn is_stopped(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[test]
fn a_killed_process_group_leaves_nothing() {
    or_skip!(can_link());
    // The far shell ends with Hairpin, but its child does not: only the link can end the child.
    for far in ["sleep 300; true", "sleep 300 & setsid sleep 300 & exec sleep 300"] {
        let place = Place::new();
        let running = started(&place, ["--far", far], STAYS);
        let namespace = |id: u32| std::fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let own = namespace(std::process::id());
        let inside = |id: &u32| namespace(*id).is_some_and(|one| Some(one) != own);
        assert!(place.processes().iter().filter(|id| inside(id)).count() >= 3, "both commands, and a child");
        signal_group("KILL", running.id());
        // Finds processes by the mark that they inherit, because the kernel may reuse a namespace's number.
        place.assert_nothing_left();
        running.end();
    }
}

#[test]
fn what_the_commands_leave_running_ends_with_the_link() {
    or_skip!(can_link());
    let place = Place::new();
    // Their output is redirected, because its reader would wait for them otherwise.
    let leaves = "setsid sleep 300 >/dev/null 2>&1 & sleep 300 >/dev/null 2>&1 &";
    run(&place, ["--link", "delay=1ms", "--far", leaves], leaves).with_code(0);
    assert_eq!(place.processes(), [0; 0], "all processes have ended before Hairpin");
}
