//! Tests with programs of the base system: perl opens the sockets.

use std::process::{Command, Stdio};

use hairpin_testing::{or_skip, works};

use super::*;

/// Runs a script of perl with the options set. Returns what it printed and what the supervisor did.
fn tuned(options: &str, script: &str) -> (String, Supervised) {
    let mut command = Command::new("perl");
    command.args(["-MSocket", "-e", script]).stdout(Stdio::piped());
    let options = Options::parse(options).unwrap();
    let mut tuned = Program::start(&mut command, Some(&options), &[], None).unwrap();
    let (_, output) = tuned.guest.pipes();
    let text = io::read_to_string(output.unwrap()).unwrap();
    let status = tuned.guest.wait(&[], None);
    assert!(matches!(status, Ok(crate::links::guest::GuestEvent::Ended(status)) if status.success()), "{text}");
    (text, tuned.end().unwrap().finish())
}

fn can_run() -> Result<(), String> {
    works(&["perl", "-MSocket", "-e", "1"])
}

/// Connects to a listener of its own, and prints TCP_NODELAY of all three sockets.
const CONNECTS: &str = r#"
    socket(my $l, PF_INET, SOCK_STREAM, 6) or die; bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen($l, 5) or die;
    socket(my $c, PF_INET, SOCK_STREAM, 6) or die; connect($c, getsockname($l)) or die; accept(my $a, $l) or die;
    print unpack("i", getsockopt($_, 6, 1)), " " for $l, $c, $a;
"#;

#[test]
fn options_are_set_at_connect_and_listen_and_accepted_sockets_inherit_them() {
    or_skip!(can_run());
    let (shown, supervised) = tuned("nodelay=on", CONNECTS);
    assert_eq!(shown, "1 1 1 ");
    assert_eq!(supervised, Supervised { changed: 2, met: 2, refused: 0, held_back: 0 });
    let (shown, supervised) = tuned("", CONNECTS);
    assert_eq!((shown.as_str(), supervised), ("0 0 0 ", Supervised::default()));
}

#[test]
fn the_programs_own_choice_is_held_back_on_tcp_alone() {
    or_skip!(can_run());
    let script = r#"
        socket(my $t, PF_INET, SOCK_STREAM, 6) or die; socket(my $u, PF_INET, SOCK_DGRAM, 17) or die;
        setsockopt($_, SOL_SOCKET, SO_RCVBUF, 5000) or die for $t, $u; setsockopt($t, 6, 1, 1) or die;
        print join " ", unpack("i", getsockopt($t, SOL_SOCKET, SO_RCVBUF)) == 10000 ? "set" : "held",
            unpack("i", getsockopt($u, SOL_SOCKET, SO_RCVBUF)) == 10000 ? "set" : "held", unpack("i", getsockopt($t, 6, 1));
    "#;
    let (shown, supervised) = tuned("rcvbuf=4096", script);
    assert_eq!((shown.as_str(), supervised.held_back), ("held set 1", 1));
}

#[test]
fn grandchildren_and_refused_connections_and_other_sockets_go_on() {
    or_skip!(can_run());
    let script = format!(
        r#"if (my $pid = fork) {{ waitpid($pid, 0) }} else {{ {CONNECTS} exit }}
        socket(my $c, PF_INET, SOCK_STREAM, 6) or die; connect($c, sockaddr_in(1, INADDR_LOOPBACK)) and die; print "$!\n";
        socket(my $u, PF_UNIX, SOCK_STREAM, 0) or die; connect($u, sockaddr_un("/nowhere")) and die; print "$!\n";"#
    );
    let (shown, supervised) = tuned("nodelay=on", &script);
    assert_eq!(shown, "1 1 1 Connection refused\nNo such file or directory\n");
    assert_eq!(supervised.changed, 3);
}

#[test]
fn a_refused_option_is_counted_and_the_program_goes_on() {
    or_skip!(can_run());
    let (shown, supervised) = tuned("congestion=no-such", CONNECTS);
    assert_eq!(shown, "0 0 0 ");
    assert_eq!(supervised, Supervised { changed: 0, met: 0, refused: 2, held_back: 0 });
}

#[test]
fn a_program_that_loses_its_supervisor_gets_an_error_and_does_not_hang() {
    or_skip!(can_run());
    let mut command = Command::new("perl");
    let script = "socket(my $s, PF_INET, SOCK_STREAM, 6) or die; connect($s, sockaddr_in(1, INADDR_LOOPBACK)) and die; print 0 + $!";
    command.args(["-MSocket", "-e", script]).stdout(Stdio::piped());
    let (told, tell) = io::pipe().unwrap();
    let (go_reader, go) = io::pipe().unwrap();
    seccomp::install_in(&mut command, seccomp::filter(&[]), tell, go_reader);
    let supervisor = std::thread::spawn(move || drop(seccomp::listener(told, go)));
    let mut child = command.spawn().unwrap();
    supervisor.join().unwrap();
    let shown = io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!((shown, child.wait().unwrap().success()), (libc::ENOSYS.to_string(), true));
}

/// Multipath TCP, as Go's listeners use it.
#[test]
fn multipath_listeners_are_set_too() {
    or_skip!(can_run());
    or_skip!(works(&["perl", "-MSocket", "-e", "socket(my $s, PF_INET, SOCK_STREAM, 262) or die"]));
    let (shown, supervised) = tuned("nodelay=on", &CONNECTS.replace("SOCK_STREAM, 6", "SOCK_STREAM, 262"));
    assert_eq!((shown.as_str(), supervised.met, supervised.refused), ("1 1 1 ", 2, 0));
}

/// Seccomp filters of the program itself: one that allows all, and one with a listener, which the kernel refuses.
#[test]
fn a_program_may_install_a_filter_of_its_own() {
    or_skip!(can_run());
    let script = format!(
        r#"my $f = pack("SCCL", 6, 0, 0, 0x7fff0000); my $p = pack("Sx6P", 1, $f);
        print syscall({call}, 1, 8, $p) < 0 ? 0 + $! : "listens", " ", syscall({call}, 1, 0, $p) < 0 ? "$!" : "filters", " ";
        {CONNECTS}"#,
        call = libc::SYS_seccomp
    );
    let (shown, _) = tuned("nodelay=on", &script);
    assert_eq!(shown, format!("{} filters 1 1 1 ", libc::EBUSY));
}

#[test]
fn sixteen_hundred_connections_at_once_are_set() {
    or_skip!(can_run());
    // The listener accepts none of them.
    or_skip!(works(&["sh", "-c", "test $(cat /proc/sys/net/core/somaxconn) -ge 1600"]));
    let script = r#"
        socket(my $l, PF_INET, SOCK_STREAM, 6) or die; bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen($l, 4096) or die;
        my $to = getsockname($l); my $bad = 0;
        for (1..16) { next if fork;
            for (1..100) { socket(my $c, PF_INET, SOCK_STREAM, 6) or die; connect($c, $to) or exit 1;
                unpack("i", getsockopt($c, 6, 1)) == 1 or exit 2; close $c }
            exit 0 }
        while (wait() > 0) { $bad++ if $? } print "$bad bad";
    "#;
    let (shown, supervised) = tuned("nodelay=on", script);
    assert_eq!(
        (shown.as_str(), supervised),
        ("0 bad", Supervised { changed: 1_601, met: 1_601, refused: 0, held_back: 0 })
    );
}

/// Non-blocking connects.
#[test]
fn connects_that_do_not_wait_are_set() {
    or_skip!(can_run());
    let script = r#"
        use Fcntl; socket(my $l, PF_INET, SOCK_STREAM, 6) or die; bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen($l, 5) or die;
        for (1..200) { socket(my $c, PF_INET, SOCK_STREAM, 6) or die; fcntl($c, F_SETFL, O_NONBLOCK) or die;
            connect($c, getsockname($l)) or $!{EINPROGRESS} or die; unpack("i", getsockopt($c, 6, 1)) == 1 or die; close $c;
            accept(my $a, $l) or die }
        print "all";
    "#;
    let (shown, supervised) = tuned("nodelay=on", script);
    assert_eq!((shown.as_str(), supervised.met), ("all", 201));
}

#[test]
fn a_program_has_the_settings_and_this_thread_keeps_its_own() {
    let setting = |text: &str| Setting::parse(text).unwrap();
    let cpus = crate::system::cpu::allowed().unwrap();
    let last = *cpus.last().unwrap();
    let settings = [format!("affinity={last}"), "scheduling=batch".to_owned(), "timer-slack=3us".to_owned()]
        .map(|text| setting(&text).unwrap());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "grep Cpus_allowed_list /proc/self/status; grep policy /proc/self/sched; cat /proc/self/timerslack_ns",
    ]);
    let mut program = Program::start(command.stdout(Stdio::piped()), None, &settings, None).unwrap();
    let shown = io::read_to_string(program.guest.pipes().1.unwrap()).unwrap();
    let words: Vec<&str> = shown.split_whitespace().collect();
    assert_eq!(words[..2], ["Cpus_allowed_list:", &last.to_string()]);
    // A kernel may be built without /proc/PID/sched.
    assert!(words.len() < 5 || words[words.len() - 2] == libc::SCHED_BATCH.to_string(), "{shown}");
    assert_eq!(words.last(), Some(&"3000"));
    assert_eq!(crate::system::cpu::allowed().unwrap(), cpus);
    assert!(setting("affinity=9999").is_err() && setting("scheduling=fifo").is_err());
    assert_eq!(Setting::parse("nodelay=on"), None);
}

#[test]
fn a_program_that_does_not_exist_is_an_error_and_leaves_no_thread_behind() {
    let started = Program::start(&mut Command::new("/no/such/program"), Some(&Options::default()), &[], None);
    assert!(matches!(started.err(), Some(NotStarted::Program(error)) if error.kind() == io::ErrorKind::NotFound));
}
