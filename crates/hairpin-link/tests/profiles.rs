//! The profile language: what is parsed, displayed and refused, and where errors point.

use hairpin_link::builtin;
use hairpin_link::profile::Profile;
use hairpin_link::profile::error::ProfileError;
use hairpin_link::stages;
use proptest::prelude::*;

use crate::common;

fn read(text: &str) -> Profile {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> ProfileError {
    match text.parse::<Profile>() {
        Err(error) => error,
        Ok(profile) => panic!("`{text}` was read as {profile}"),
    }
}

/// The text at fault, the problem, and the hint.
fn said(text: &str) -> (String, String, String) {
    let error = refused(text);
    (error.text[error.range.clone()].to_owned(), error.problem, error.hint)
}

#[track_caller]
fn assert_said(text: &str, at: &str, problem: &str, hint: &str) {
    assert_eq!(said(text), (at.to_owned(), problem.to_owned(), hint.to_owned()), "{text}");
}

#[test]
fn the_line_of_the_documentation_is_parsed_exactly() {
    let profile = read("delay=23.5ms±1ms up=5.5mbit down=80mbit queue=64KiB loss=0.1%");
    for path in [&profile.up, &profile.down] {
        assert_eq!((path.delay.base_ns, path.delay.spread_ns), (23_500_000, 1_000_000));
        assert_eq!((path.bottleneck.limit.bytes, path.bottleneck.limit.packets), (Some(65_536), None));
        assert_eq!(path.loss.random.as_f64(), 0.001);
    }
    assert_eq!(profile.up.bottleneck.rate_bits_per_s, Some(5_500_000));
    assert_eq!(profile.down.bottleneck.rate_bits_per_s, Some(80_000_000));
    assert_eq!(profile.to_string(), "up=5.5mbit down=80mbit queue=64KiB loss=0.1% delay=23.5ms±1ms");
    assert_eq!(read("delay=23.5ms+-1ms up=5.5Mbit/s down=80mbit queue=65536B loss=0.10%"), profile);
}

#[test]
fn a_line_is_shown_with_its_defaults_and_in_canonical_order() {
    for (why, text, shown) in [
        (
            "one direction overrides both",
            "up.loss=2% loss=1% down.delay=5ms",
            "up.loss=2% down.loss=1% down.delay=5ms",
        ),
        ("in any order", "loss=1% down.delay=5ms up.loss=2%", "up.loss=2% down.loss=1% down.delay=5ms"),
        ("a rate gets the default queue", "up=1mbit", "up=1mbit up.queue=1000packets"),
        ("in both directions", "rate=1mbit", "rate=1mbit queue=1000packets"),
        ("a queue applies where there is a rate", "up=1mbit queue=64KiB", "up=1mbit up.queue=64KiB"),
        ("and its CoDel", "up=1mbit queue=9KiB codel=5ms/100ms", "up=1mbit up.queue=9KiB up.codel=5ms/100ms"),
    ] {
        assert_eq!(read(text).to_string(), shown, "{why}: {text}");
    }
}

#[test]
fn removing_a_stage_removes_only_its_words() {
    let without = |line: &str, stage: &str| read(line).without(stage).map(|profile| profile.to_string());
    let line = "up=5.5mbit down=80mbit queue=64KiB up.loss=0.1% down.drop=3 delay=23.5ms±1ms";
    assert_eq!(without(line, "loss").as_deref(), Some("up=5.5mbit down=80mbit queue=64KiB delay=23.5ms±1ms"));
    assert_eq!(without(line, "queue").as_deref(), Some("up.loss=0.1% down.drop=3 delay=23.5ms±1ms"));
    assert_eq!(without("loss=1%", "loss").as_deref(), Some("delay=0ms"));
    let no_such = [(line, "outage"), (line, "mtu"), (line, "no-stage"), ("delay=0ms", "delay"), ("loopback", "loss")];
    for (line, stage) in no_such {
        assert_eq!(without(line, stage), None, "{line} without {stage}");
    }
}

#[test]
fn codel_is_added_to_each_queue_that_lacks_it() {
    let with = |line: &str| read(line).with_codel().map(|profile| profile.to_string());
    let line = "rate=10mbit queue=256KiB delay=5ms";
    assert_eq!(with(line).as_deref(), Some("rate=10mbit queue=256KiB codel=5ms/100ms delay=5ms"));
    let own = "rate=10mbit queue=256KiB up.codel=10ms/200ms delay=5ms";
    let both = "rate=10mbit queue=256KiB up.codel=10ms/200ms down.codel=5ms/100ms delay=5ms";
    assert_eq!(with(own).as_deref(), Some(both));
    for line in [both, "delay=5ms loss=1%"] {
        assert_eq!(with(line), None, "{line}");
    }
}

#[test]
fn a_link_without_effect_is_not_the_loopback() {
    let nothing = read("delay=0ms");
    assert_eq!((nothing.to_string().as_str(), nothing.is_loopback()), ("delay=0ms", false));
    assert_eq!(read("loss=0%"), nothing);
    let loopback = read("loopback");
    assert_eq!((loopback.to_string().as_str(), loopback.is_loopback()), ("loopback", true));
}

#[test]
fn a_built_in_profile_can_be_changed_by_the_words_after_it() {
    assert_eq!(read("bridged-vm loss=1%").to_string(), "loss=1% delay=2ms");
    assert_eq!(read(" bridged-vm "), builtin::find("bridged-vm").unwrap().profile());
    // Words that the change makes ineffective are removed.
    let name = builtin::ALL.iter().find(|builtin| builtin.line.contains("jitter=")).unwrap().name;
    assert_eq!(read(&format!("{name} delay=5ms")).up.delay, read("delay=5ms").up.delay);
}

#[test]
fn every_example_of_the_language_is_read_and_shown() {
    for word in stages::ALL.iter().flat_map(|stage| stage.words) {
        let example = word.example;
        let with = word.about.map_or(String::new(), |about| format!(" {}", about.example));
        let profile = read(&format!("{example}{with}"));
        assert!(profile.to_string().contains(example), "{example} is shown as {profile}");
        assert_eq!(example.split_once('=').unwrap().0.trim_start_matches("up."), word.name);
        for text in [word.says, example] {
            assert!(!text.is_empty() && !text.ends_with('.') && text.trim() == text, "{text}");
        }
    }
}

#[test]
fn every_stage_has_its_figures_in_words() {
    let line = "outage=2s-2.5s up=5.5mbit up.queue=64KiB,20packets codel=5ms/100ms burst-loss=1%/20% drop=3 drop-data=1 \
                corrupt=0.1% duplicate=2% delay=23.5ms±1ms reorder=1%/5ms";
    let figures = read(line).figures(hairpin_link::Direction::Up);
    let names: Vec<&str> = figures.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(names, stages::ALL.iter().map(|stage| stage.name).collect::<Vec<_>>());
    let figures: Vec<&str> = figures.iter().map(|(_, figures)| figures.as_str()).collect();
    assert_eq!(
        figures,
        [
            "packets of at most 1500 B",
            "down 2s-2.5s",
            "5.5mbit/s, queue limit 64KiB and 20 packets, CoDel 5ms/100ms",
            "in bursts 1%/20%/100%/0%, packets 3, data packets 1",
            "one bit flipped in 0.1% of packets",
            "2% of packets sent twice",
            "23.5ms±1ms uniform, in order",
            "1% of packets held back 5ms",
        ]
    );
}

#[test]
fn an_error_about_an_unknown_word_suggests_the_nearest_word() {
    assert_said("delay=1ms los=1%", "los", "no word is called `los`", "did you mean `loss`?");
    assert_said("up.dealy=1ms", "up.dealy", "no word is called `dealy`", "did you mean `delay`?");
    assert_said("latency=1ms", "latency", "no word is called `latency`", "did you mean `delay`?");
    assert_said("lpc", "lpc", "no built-in profile is called `lpc`", "did you mean `plc`?");
    assert_said(
        "left.delay=1ms",
        "left",
        "`left` is not a direction",
        "put `up.` or `down.` before a word to set it for one direction",
    );
    assert!(refused("zzz=1").hint.starts_with("one of outage, "));
    assert!(refused("zzz").hint.contains("home-uplink"));
}

#[test]
fn an_error_in_a_value_points_at_it_and_suggests_a_unit() {
    assert_said("delay=20", "20", "`20` has no unit", "for instance 23.5ms, 200us or 1s");
    assert_said("delay=20ms±", "20ms±", "`` is not a time", "for instance 23.5ms, 200us or 1s");
    assert_said("loss=120%", "120%", "`120%` is too large", "at most 100%");
    assert_said("rate=1mbit queue=64", "64", "`64` has no unit", "64packets, or 64KiB");
    assert_said("rate=1MB/s", "1MB/s", "`1MB/s` is not a rate in bits per second", "rates are in bits: 8mbit");
    assert_said("up=0bit", "0bit", "a rate of 0 lets nothing through", "for an outage use `outage=2s-5s`");
    assert_said("delay", "delay", "`delay` has no value", "for instance delay=23.5ms±1ms");
    assert_said("loss=1% delay=", "delay=", "`delay` has no value", "for instance delay=23.5ms±1ms");
    assert_said(
        "mtu=20",
        "20",
        "an MTU of 20 bytes is not possible",
        "from 68 to 65535 bytes, for instance mtu=1500B",
    );
    assert_said("jitter=norml delay=2ms±1ms", "norml", "unknown kind of jitter `norml`", "did you mean `normal`?");
    assert_said(
        "queue=1packets,2packets rate=1mbit",
        "1packets,2packets",
        "`1packets,2packets` gives two limits of the same kind",
        "one in bytes, one in packets, or both: 64KiB,100packets",
    );
}

#[test]
fn impossible_figures_are_refused_at_their_word() {
    let cases = [
        ("loss=1% delay=1ms±2ms", "delay=1ms±2ms"),
        ("rate=1mbit replay=a.trace", "replay=a.trace"),
        ("up=1mbit up.replay=a.trace", "up.replay=a.trace"),
        ("queue=64KiB", "queue=64KiB"),
        ("up=1mbit down.queue=64KiB", "down.queue=64KiB"),
        ("codel=5ms/100ms", "codel=5ms/100ms"),
        ("rate=1mbit codel=100ms/5ms", "codel=100ms/5ms"),
        ("rate=1mbit queue=1000B", "queue=1000B"),
        ("mtu=9000B rate=1mbit queue=8KiB", "queue=8KiB"),
        ("outage=5s-2s", "outage=5s-2s"),
        ("outage=1s-3s,2s-4s", "outage=1s-3s,2s-4s"),
        ("reorder=1%/0ms", "reorder=1%/0ms"),
        ("loss=1% burst-loss=1%/20%", "burst-loss=1%/20%"),
        ("burst-loss=1%/0%", "burst-loss=1%/0%"),
        ("delay=5ms jitter=normal", "jitter=normal"),
        ("order=free", "order=free"),
        ("loss=1% loss=2%", "loss=2%"),
        ("up=1mbit up.rate=2mbit", "up.rate=2mbit"),
        ("up.mtu=1500B", "up.mtu"),
        ("loopback loss=1%", "loss=1%"),
        ("loss=1% plc", "plc"),
        ("", ""),
        ("  ", ""),
    ];
    for (text, at) in cases {
        let (place, problem, hint) = said(text);
        assert_eq!(place, at, "{text}: {problem}");
        assert!(!problem.is_empty() && !hint.is_empty(), "{text}");
    }
}

#[test]
fn a_hint_about_the_mtu_keeps_the_value_that_was_given() {
    assert_eq!("mtu=1300B".parse::<Profile>().unwrap().mtu_bytes, 1300);
    for (text, hint) in [("up.mtu=1300B", "write it as mtu=1300B"), ("down.mtu=", "write it as mtu=1500B")] {
        assert_eq!(refused(text).hint, hint);
    }
}

#[test]
fn the_error_position_is_underlined() {
    let error = refused("delay=20ms±1ms los=1%");
    assert_eq!(error.to_string(), "the link profile at `los`: no word is called `los` (hint: did you mean `loss`?)");
    assert_eq!(error.pointed(), "delay=20ms±1ms los=1%\n               ^^^");
    assert_eq!(refused("").pointed(), "\n^");
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    assert_eq!(refused(&"loss=1% ".repeat(20_000)).problem, "the line is too long");
}

/// Valid and nearly valid words, joined at random.
fn pieces() -> impl Strategy<Value = String> {
    let words: Vec<String> = stages::ALL
        .iter()
        .flat_map(|stage| stage.words)
        .map(|word| word.example.to_owned())
        .chain(builtin::ALL.iter().map(|builtin| builtin.line.to_owned()))
        .chain(
            "up=5mbit down=80mbit up. mtu=1500B ± = / - , 99999999999999999999999 1e9".split(' ').map(str::to_owned),
        )
        .chain([" ".to_owned()])
        .collect();
    prop::collection::vec(prop::sample::select(words), 0..6).prop_map(|words| words.join(" "))
}

/// A text with some bytes changed, removed, duplicated or inserted.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 0..6);
    (pieces(), edits).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (index, byte, edit) in edits.into_iter() {
            if bytes.is_empty() {
                bytes.push(byte);
                continue;
            }
            let at = index.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, bytes[at]),
                _ => bytes.insert(at, byte),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Asserts that a text gives a profile that parses from its own line, or an error with position, problem and hint.
fn assert_answered(text: &str) {
    match text.parse::<Profile>() {
        Ok(profile) => {
            assert_eq!(read(&profile.to_string()), profile, "{text}");
            assert_eq!(profile.contradiction(), None, "{text}");
        }
        Err(error) => {
            assert!(error.text.get(error.range.clone()).is_some(), "{text}: {error:?}");
            assert!(!error.problem.is_empty() && !error.hint.is_empty());
            assert_eq!(error.pointed().matches('\n').count(), 1);
        }
    }
}

proptest! {
    #[test]
    fn displayed_values_parse_to_the_same(profile in common::profile()) {
        prop_assert_eq!(profile.contradiction(), None);
        prop_assert_eq!(read(&profile.to_string()), profile);
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_answered(&String::from_utf8_lossy(&bytes));
    }

    /// A longer search: `PROPTEST_CASES=10000000 cargo test -p hairpin-link --test all any_mutation`. It took 2.7 minutes on
    /// a virtual machine with 2 CPUs, and found nothing.
    #[test]
    fn any_mutation_of_the_language_is_answered(text in mutated()) {
        assert_answered(&text);
    }
}

#[test]
fn the_page_about_links_has_every_word_and_every_reason() {
    let page = include_str!("../../../docs/links.md");
    for stage in stages::ALL {
        for word in stage.words {
            let row = format!("| `{}` | {} | {} |", word.example, stage.name, word.says);
            assert!(page.contains(&row), "docs/links.md does not contain: {row}");
        }
        for reason in stage.reasons {
            assert!(page.contains(&format!("`{reason}`")), "docs/links.md does not mention the reason `{reason}`");
        }
    }
    let order: Vec<&str> = stages::ALL.iter().map(|stage| stage.name).collect();
    assert!(page.contains(&order.join(" -> ")));
}
