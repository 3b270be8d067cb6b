//! `hairpin link run`: real programs across a link, checked from outside. The link's log is compared with its ledger,
//! and nothing may be left behind.

mod ending;
mod ends;
mod host;
mod hostile;

use hairpin_testing::{or_skip, program};
use serde_json::Value;

use crate::support::across::{
    assert_closes, assert_log_is_the_record, count, log, run, run_with_ready_far, told, with_script,
};
use crate::support::{PROGRAM, Place, Running, can_link};

/// Sends five bytes to the far echo and reads them back over TCP, over both IP versions.
const TALK: &str = "for far in $HAIRPIN_FAR $HAIRPIN_FAR_IPV6; do exec 3<>/dev/tcp/$far/7 || exit 90; \
                    printf hello >&3; head -c 5 <&3; exec 3<&-; done";

#[test]
fn the_exit_code_is_the_commands_own() {
    or_skip!(can_link());
    let place = Place::new();
    std::fs::write(place.path("no-program"), "").expect("the place can be written to");
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 125", 125), ("kill -s TERM $$", 143), ("kill -s KILL $$", 137)]
    {
        let ran = run(&place, "--link delay=1ms", script).with_code(code);
        assert_eq!(ran.stdout, "");
    }
    for (program, code, told) in [
        (
            "./no-program",
            126,
            "error: cannot run `./no-program`: Permission denied (os error 13) (hint: is it executable?)",
        ),
        (
            "no-such-program",
            127,
            "error: cannot run `no-such-program`: No such file or directory (os error 2) (hint: is",
        ),
    ] {
        let ran = place.hairpin(["link", "run", "--link", "delay=1ms", "--quiet", "--json", "--", program]);
        let ran = ran.with_code(code);
        assert!(ran.stderr.starts_with(told) && ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn both_commands_get_the_addresses_in_their_environment_and_own_standard_output() {
    or_skip!(can_link());
    let place = Place::new();
    let show = "echo $HAIRPIN_NEAR $HAIRPIN_FAR $HAIRPIN_NEAR_IPV6 $HAIRPIN_FAR_IPV6 $HAIRPIN_LINK";
    let environment = "10.77.0.1 10.77.0.2 fd00:77::1 fd00:77::2 loss=1% delay=5.5ms±4.5ms\n";
    let flags = ["--link", "plc loss=1%", "--seed", "11"];
    let far = format!("{show} from afar; exec sleep 60");
    let ran = run(&place, (flags, ["--far", &far]), &format!("{show}; cat; cat /proc/net/fib_trie >fib"));
    let ran = ran.with_code(0);
    assert_eq!(ran.stdout, environment, "the command gets the standard input: {ran:#?}");
    for told in [
        &environment.replace('\n', " from afar\n"),
        "link  loss=1% delay=5.5ms±4.5ms\n      seed 11\n",
        "near  10.77.0.1  fd00:77::1\n",
        "far   10.77.0.2  fd00:77::2  ",
        "\nup    packets in ",
        "\ndown  packets in ",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {ran:#?}");
    }
    assert!(!ran.stderr.contains("\nlate  "), "no packet was released: {ran:#?}");
    let fib = std::fs::read_to_string(place.path("fib")).expect("the near end has addresses");
    assert!(fib.contains("10.77.0.1") && !fib.contains("10.77.0.2\n"), "it is the near end: {fib}");

    let mut narrow = with_script(&place, ["--link", "mtu=1279B delay=1ms"], "echo ${HAIRPIN_FAR_IPV6-none}");
    let narrow = Running::start(narrow.env("HAIRPIN_FAR_IPV6", "of a link around this one")).end().with_code(0);
    assert_eq!(narrow.stdout, "none\n");
    assert!(narrow.stderr.contains("\nnear  10.77.0.1\nfar   10.77.0.2  echo") && !narrow.stderr.contains("fd00"));

    let quiet = run(&place, "--link plc --quiet", TALK).with_code(0);
    assert_eq!(quiet.stdout, "hellohello");
    let strangers = quiet.stderr.lines().filter(|line| !line.starts_with("warning: link-late: "));
    assert_eq!(strangers.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_far_echo_answers_over_tcp_and_udp_and_the_log_has_every_packet() {
    or_skip!(can_link());
    let place = Place::new();
    let script =
        format!("{TALK} >tcp; exec 4<>/dev/udp/$HAIRPIN_FAR/7; printf salut >&4; head -c 5 <&4 >udp; echo heard");
    let flags = ["--link", "delay=2ms up=100mbit duplicate=20%", "--seed", "5", "--log", "packets"];
    let ran = run(&place, (flags, "--json"), &script).with_code(0);
    assert!(ran.stderr.contains("heard\n"), "with --json the command's output goes to standard error: {ran:#?}");
    let told = ran.json();
    let read = |name: &str| std::fs::read_to_string(place.path(name)).expect("it was answered");
    assert_eq!((read("tcp").as_str(), read("udp").as_str()), ("hellohello", "salut"));

    assert_eq!(told["command"], serde_json::json!(["bash", "-c", script]));
    assert_eq!((&told["exit_code"], &told["far"], &told["name"]), (&0.into(), &Value::Null, &Value::Null));
    assert_eq!(told["profile"], "up=100mbit up.queue=1000packets duplicate=20% delay=2ms");
    assert_eq!(told["seed"], 5);
    let addresses = serde_json::json!({"near": "10.77.0.1", "far": "10.77.0.2", "near_ipv6": "fd00:77::1", "far_ipv6": "fd00:77::2"});
    assert_eq!(told["addresses"], addresses);
    let record = &told["link"];
    assert_eq!(record["seed"], 5);
    assert_closes(record);
    // Two connections, each with a request, an answer and a close, and a datagram in each direction.
    assert!(count(&record["up"]["packets"], "in") > 10 && count(&record["down"]["packets"], "in") > 8, "{record}");
    let lines = log(&place.path("packets"));
    assert_log_is_the_record(&lines, record);
    assert!(count(&record["packets"], "duplicated") > 0, "{record}");
    let late = &record["lateness_ns"];
    assert!(count(late, "p50") <= count(late, "p99") && count(late, "p99") <= count(late, "max"), "{late}");
}

#[test]
fn a_log_may_go_to_the_commands_own_streams() {
    or_skip!(can_link());
    let place = Place::new();
    for stream in ["-", "/dev/stdout"] {
        let ran = run(&place, ["--link", "delay=1ms", "--quiet", "--log", stream], "true").with_code(0);
        assert_eq!(ran.stdout, "# direction number copy size_bytes arrived_ns due_ns released_ns fate\n", "{stream}");
    }
    assert!(!place.path("-").exists());

    let header = "# direction number copy size_bytes arrived_ns due_ns released_ns fate";
    let hairpin = format!("{PROGRAM} link run --quiet --link delay=1ms");
    let shell = |script: &str| Running::start(place.command("bash").args(["-c", script])).end().with_code(0);
    for (stream, redirected) in [("-", ">>"), ("/dev/stderr", "2>>"), ("/proc/self/fd/5", "5>>")] {
        shell(&format!("echo precious >kept; {hairpin} --log {stream} -- true {redirected}kept"));
        let kept = std::fs::read_to_string(place.path("kept")).expect("it is there");
        assert_eq!(kept, format!("precious\n{header}\n"), "{stream}");
    }

    let script = format!("echo said one; {TALK} >answers; echo said two");
    let run = format!("{hairpin} --log /dev/stdout -- bash -c '{script}'");
    shell(&format!("(echo FIRST; {run}; echo LAST) >shared"));
    let shared = std::fs::read_to_string(place.path("shared")).expect("it is there");
    let (packets, others): (Vec<&str>, Vec<&str>) = shared.lines().partition(|line| line.split(' ').count() == 8);
    assert!(packets.iter().all(|line| line.starts_with("up ") || line.starts_with("down ")), "{shared}");
    assert!(packets.len() >= 10, "two connections, each with a request, an answer and a close: {shared}");
    let mut said = others.clone();
    said.retain(|line| *line != header);
    assert_eq!((said, others.len()), (vec!["FIRST", "said one", "said two", "LAST"], 5), "{shared}");

    for (stream, closed) in [("/dev/fd/7", "7>&-"), ("/dev/fd/8", "8</dev/null")] {
        let script = format!("{hairpin} --log {stream} -- true {closed}");
        let refused = Running::start(place.command("bash").args(["-c", &script])).end().with_code(2);
        assert!(refused.stderr.starts_with(&format!("error: cannot write the log {stream}: ")), "{refused:#?}");
    }
}

#[test]
fn a_log_into_a_pipe_without_a_reader_is_refused_at_once() {
    or_skip!(can_link());
    let place = Place::new();
    Running::start(place.command("mkfifo").arg("pipe")).end().with_code(0);
    let flags = "--link delay=1ms --quiet --log pipe";
    let ran = run(&place, flags, "touch ran").with_code(125);
    let told = "error: cannot open the link's log pipe: no process reads this pipe (hint: start its reader first, \
                for instance `cat pipe &`, or name a file)\n";
    assert_eq!(ran.stderr, told);
    assert!(!place.path("ran").exists());
    std::fs::remove_file(place.path("pipe")).expect("it is the test's");
}

#[test]
fn packets_are_dropped_and_delayed_as_the_profile_says() {
    or_skip!(can_link());
    let place = Place::new();
    // Of twenty datagrams the profile drops the fifth and the last but one, so eighteen are answered.
    let script =
        "exec 4<>/dev/udp/$HAIRPIN_FAR/7; for i in {1..20}; do printf x >&4; done; timeout 60 head -c 18 <&4";
    let flags = ["--link", "delay=3ms up.drop=4,18", "--seed", "1", "--log", "packets"];
    let record = &told(&place, flags, script)["link"];
    assert_closes(record);
    assert_eq!(record["up"]["packets"]["dropped"], serde_json::json!({"loss": 2}));
    assert_eq!((count(&record["up"]["packets"], "in"), count(&record["down"]["packets"], "in")), (20, 18));
    let lines = log(&place.path("packets"));
    assert_log_is_the_record(&lines, record);
    let dropped: Vec<&str> = lines
        .iter()
        .filter(|line| line[7].starts_with("dropped:loss:listed@"))
        .map(|line| line[1].as_str())
        .collect();
    assert_eq!(dropped, ["4", "18"]);
    let left = lines.iter().filter(|line| line[7] == "left");
    let time = |line: &[String], column: usize| line[column].parse::<u64>().expect("a time");
    let delays: Vec<u64> = left.map(|line| time(line, 5) - time(line, 4)).collect();
    // The link may receive a packet later than its time stamp. Such a packet is due that much later, never earlier.
    let exact = delays.iter().filter(|delay| **delay == 3_000_000).count();
    assert!(delays.iter().all(|delay| *delay >= 3_000_000), "due after the delay: {delays:?}");
    assert!(2 * exact > delays.len(), "most delays are exact to the ns: {delays:?}");
}

#[test]
fn the_far_command_listens_before_the_near_command_starts_and_ends_with_it() {
    or_skip!(can_link());
    or_skip!(program("python3"));
    let place = Place::new();
    // The far command starts slowly and answers one connection. It and its child would run for minutes.
    let far = "sleep 300 & python3 -c 'import socket, time; time.sleep(0.3); \
               s = socket.create_server((\"\", 99)); c = s.accept()[0]; c.sendall(b\"here\"); time.sleep(300)'";
    let near = "head -c 4 </dev/tcp/$HAIRPIN_FAR/99";
    let ran = run_with_ready_far(&place, ["--link", "delay=1ms", "--far", far], near).with_code(0);
    assert_eq!(ran.stdout, "here");
    assert!(ran.stderr.contains(&format!("fd00:77::2  {far}\n")), "{ran:#?}");
    place.assert_nothing_left();

    let silent = run(&place, ["--link", "delay=1ms", "--far", "exec sleep 300"], "exit 3").with_code(3);
    assert!(silent.stderr.contains("exec sleep 300 (nothing listens yet)\n"), "{silent:#?}");
    run(&place, "--link delay=1ms --far true", "exit 4").with_code(4).told("true (it has ended)\n");
    // Waits until the far command is a zombie, which only Hairpin can reap.
    let later = "exec 3</dev/tcp/$HAIRPIN_FAR/99 || exit 7; cat <&3; \
                 until grep -q ') Z ' /proc/$(cat pid)/stat; do sleep 0.01; done";
    let far =
        "echo $$ >pid; exec python3 -c 'import socket; s = socket.create_server((\"\", 99)); s.accept(); exit(5)'";
    let failed = run_with_ready_far(&place, ["--link", "delay=1ms", "--far", far], later).with_code(0);
    assert!(failed.stderr.contains("warning: the far command ended early (exit status: 5)\n"), "{failed:#?}");
}

#[test]
fn a_far_command_that_fails_at_once_is_a_failure_of_the_link() {
    or_skip!(can_link());
    let place = Place::new();
    let ran = run(&place, ["--link", "delay=1ms", "--far", "exit 9"], "touch ran").with_code(125);
    let told = "error: the far command `exit 9` ended at once (exit status: 9) (hint: try the command alone: /bin/sh \
         runs it)\n";
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", told));
    assert!(!place.path("ran").exists());
}
