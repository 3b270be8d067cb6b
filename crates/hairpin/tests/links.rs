//! `hairpin link list` and `hairpin link show`: profiles, their content, and errors in them.

use hairpin_link::builtin;
use hairpin_link::profile::Profile;
use hairpin_testing::skip;
use serde_json::Value;

use crate::support::{Arguments, PROGRAM, Place, Running, list, names_in, on_one_line, text};

#[test]
fn every_profile_and_the_relay_are_listed_in_the_width_of_the_terminal() {
    let place = Place::new();
    for width in [80, 100] {
        let mut command = place.command(PROGRAM);
        command.args(["link", "list"]).env("COLUMNS", width.to_string());
        let shown = Running::start(&mut command).end().with_code(0);
        assert_eq!(shown.stderr, "");
        let wide: Vec<&str> = shown.stdout.lines().filter(|line| line.chars().count() > width).collect();
        assert!(wide.is_empty(), "{width}: {wide:#?}");
        let words = on_one_line(&shown.stdout);
        for profile in builtin::ALL.iter() {
            assert!(words.contains(&format!(" {} {} ", profile.name, profile.summary)), "{}: {words}", profile.name);
            assert!(words.contains(profile.line), "{}: {words}", profile.line);
        }
        let told = ["relay can run here: ", "relay cannot run here: "].map(|sign| words.contains(sign));
        assert_eq!(told.iter().filter(|told| **told).count(), 1, "{words}");
    }
}

#[test]
fn the_list_as_json_has_the_stages_of_each_profile_and_a_hint_about_the_relay() {
    let place = Place::new();
    let shown = place.json("link list");
    let keys: Vec<&String> = shown.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["schema", "version", "profiles", "relay"]);
    let names: Vec<&str> = list(&shown["profiles"]).iter().map(|profile| text(&profile["name"])).collect();
    assert_eq!(names, builtin::names());
    for profile in list(&shown["profiles"]) {
        let read: Profile = text(&profile["line"]).parse().expect("a line that is printed can be read");
        assert_eq!(builtin::find(text(&profile["name"])).map(|builtin| builtin.profile()), Some(read.clone()));
        assert!(!text(&profile["because"]).is_empty() && !text(&profile["summary"]).is_empty(), "{profile}");
        for direction in ["up", "down"] {
            let stages: Vec<&str> = list(&profile[direction]).iter().map(|stage| text(&stage["stage"])).collect();
            let known = hairpin_link::stages::ALL.iter().map(|stage| stage.name).filter(|name| stages.contains(name));
            assert_eq!(stages, known.collect::<Vec<_>>(), "in the order of the path: {profile}");
            assert_eq!(stages.is_empty(), read.is_loopback(), "{profile}");
            assert!(list(&profile[direction]).iter().all(|stage| !text(&stage["figures"]).is_empty()), "{profile}");
        }
    }
    let relay = &shown["relay"];
    let why = if relay["can_run"] == true { &relay["detail"] } else { &relay["reason"] };
    assert!(!text(why).is_empty(), "{relay}");
    assert_eq!(relay["can_run"] == true, relay["hint"].is_null(), "{relay}");
}

#[test]
fn built_in_and_own_profiles_are_shown_stage_by_stage() {
    let place = Place::new();
    let shown = place.hairpin("link show home-uplink").with_code(0).stdout;
    let words = on_one_line(&shown);
    let builtin = builtin::find("home-uplink").expect("it is built in");
    for told in [builtin.summary, builtin.line, builtin.because, "delay alone a round trip takes 47 ms"] {
        assert!(words.contains(told), "{told}: {words}");
    }
    let order = [
        "Up: from near to far mtu ",
        " queue 5.5mbit/s, queue limit 2752KiB",
        " loss 0.015% at random",
        " delay 23.5ms±3ms",
    ];
    let places: Vec<Option<usize>> = order.iter().map(|part| words.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {words}");

    // A line may be one argument or several.
    let line = "queue=64KiB down=80mbit loss=0.1% up=5.5mbit delay=23.5ms+-1ms";
    let canonical = "up=5.5mbit down=80mbit queue=64KiB loss=0.1% delay=23.5ms±1ms";
    let one = place.json(["link", "show", line]);
    let words: Vec<&str> = ["link", "show"].into_iter().chain(line.split(' ')).collect();
    assert_eq!(one, place.json(&words));
    assert_eq!(one["line"], canonical);
    assert_eq!((&one["name"], &one["summary"], &one["because"]), (&Value::Null, &Value::Null, &Value::Null));
    // A changed profile loses its name.
    assert_eq!(place.json("link show plc loss=1%")["name"], Value::Null);
    assert_eq!(place.json(["link", "show", " plc "])["name"], "plc");
}

#[test]
fn an_invalid_profile_is_shown_with_the_wrong_word_underlined() {
    let place = Place::new();
    for (words, told) in [
        (
            "delay=20ms±1ms los=1%",
            "error: link profile: no word is called `los`\n  delay=20ms±1ms los=1%\n                 ^^^\n\
             (hint: did you mean `loss`?)\n",
        ),
        (
            "brigded-vm",
            "error: link profile: no built-in profile is called `brigded-vm`\n  brigded-vm\n  ^^^^^^^^^^\n\
             (hint: did you mean `bridged-vm`?)\n",
        ),
        (
            "up=5 delay=1ms",
            "error: link profile: `5` has no unit\n  up=5 delay=1ms\n     ^\n(hint: for instance 5.5mbit, 500kbit or 1gbit)\n",
        ),
        (
            "loss=1% loopback",
            "error: link profile: a built-in profile must be the first word\n  loss=1% loopback\n          ^^^^^^^^\n\
             (hint: put the profile first)\n",
        ),
    ] {
        assert_eq!(place.hairpin(["link", "show", words]).refused().stderr, told);
        assert_eq!(place.hairpin(["link", "run", "--link", words, "--", "touch", "ran"]).refused().stderr, told);
    }
    let steering = place.hairpin(["link", "show", "delay=\u{1b}[31m"]).refused().stderr;
    assert!(!steering.contains('\u{1b}'), "{steering:?}");
    assert_eq!(names_in(&place.path(".")), ["tmp"], "nothing has run");
}

#[test]
fn a_trace_is_checked_before_anything_runs() {
    let place = Place::new();
    std::fs::write(place.path("good"), "1\n2\n2\n4\n").expect("the place can be written to");
    std::fs::write(place.path("bad"), "1\n2\n2ms\n").expect("the place can be written to");
    let shown = on_one_line(&place.hairpin("link show up.replay=good").with_code(0).stdout);
    assert!(shown.contains("trace good: 12 Mbit/s on average, repeats after 4 ms"), "{shown}");
    for (name, told) in [
        ("bad", "line 3 of the trace `bad`, `2ms`: not a whole number (hint: each line is a whole number of milli"),
        (
            "gone",
            "cannot read the trace `gone`: No such file or directory (os error 2) (hint: replay=FILE names a file",
        ),
        ("tmp", "cannot read the trace `tmp`: Is a directory"),
    ] {
        let profile = format!("up.replay=good down.replay={name}");
        let shown = place.hairpin(["link", "show", &profile]).refused().stderr;
        assert!(shown.starts_with(&format!("error: {told}")), "{shown}");
        assert_eq!(place.hairpin(["link", "run", "--link", &profile, "--", "touch", "ran"]).refused().stderr, shown);
    }
    assert!(!place.path("ran").exists());
    let refused =
        place.hairpin("round-trip --placement same-cpu --transport tcp --link up.replay=gone --out run").refused();
    assert!(refused.stderr.contains("cannot read the trace `gone`: No such file"), "{refused:#?}");
    assert!(refused.stderr.contains("(hint: replay=FILE names a file"), "{refused:#?}");
    let refused =
        place.hairpin("round-trip --placement same-cpu --transport tcp --link up.replay=bad --out run").refused();
    assert!(refused.stderr.contains("line 3 of the trace `bad`"), "{refused:#?}");
    assert_eq!(names_in(&place.path(".")), ["bad", "good", "tmp"], "and no run was begun");
}

#[test]
fn an_existing_log_stays_unchanged_if_no_link_is_created() {
    let place = Place::new();
    std::fs::write(place.path("packets"), "before").expect("the place can be written to");
    let flags = "link run --link delay=1ms --log packets";
    place.hairpin((flags, &["--far", "", "--", "true"])).refused();
    // If no namespace may be created, no link can be created.
    let limited = "unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_net_namespaces || exit 77; exec \"$@\"' -- \"$@\"";
    let mut command = place.command("sh");
    command.args(["-c", limited, "--", PROGRAM]).args(flags.words()).args(["--", "true"]);
    let ran = Running::start(&mut command).end();
    if matches!(ran.code, Some(1 | 77 | 127)) {
        skip!("user namespaces are refused here");
    }
    ran.with_code(125);
    assert_eq!(std::fs::read_to_string(place.path("packets")).expect("it is there"), "before");
}

#[test]
fn impossible_links_are_refused_before_anything_runs() {
    let place = Place::new();
    for (words, told) in [
        (
            &["--link", "loopback"][..],
            "`loopback` is not an emulated link (hint: run the command without `hairpin link run`)",
        ),
        (&["--link", "plc", "--log", "no/log"], "cannot write the log no/log: No such file or directory"),
        (&["--link", "plc", "--log", "tmp"], "cannot write the log tmp: Is a directory"),
        (&["--link", "plc", "--far", " "], "--far has no command (hint: omit it for the echo server"),
        (&["--link", "all"], "`--link all` is for experiments; a program needs one link (hint: `hairpin link list`"),
        (&["--link", "plc", "--seed", "x"], "invalid value 'x' for '--seed <NUMBER>'"),
        (&["--far", "true"], "--link <PROFILE>"),
    ] {
        place.hairpin((("link run", words), "-- touch ran")).refused().told(told);
    }
    place.hairpin("link run --link plc").refused().told("-- <COMMAND>...");
    assert_eq!(names_in(&place.path(".")), ["tmp"], "nothing has run");
}

#[test]
fn the_manual_and_the_completions_know_subcommands() {
    let place = Place::new();
    let page = place.hairpin("man link run").with_code(0).stdout;
    for told in ["hairpin\\-link\\-run", "\\-\\-far", "\\-\\-log", "HAIRPIN_FAR_IPV6", "125 the link"] {
        assert!(page.contains(told), "{told}: {page}");
    }
    place.hairpin("man link rum").refused().told("unknown command `rum` (hint: did you mean `run`?)");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.hairpin(["completions", shell]).with_code(0).stdout;
        let flag = if shell == "fish" { "-l far" } else { "--far" };
        assert!(script.contains(flag) && !script.contains("__echo-server"), "{shell}");
    }
    for arguments in ["link", "link --help", "link run --help"] {
        let ran = place.hairpin(arguments);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains("Usage: hairpin link"), "{ran:#?}");
    }
}
