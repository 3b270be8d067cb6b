//! The program's own documentation: its lists, manual pages and completions. They are generated from the lists in the
//! code, so they must be complete.

use std::collections::BTreeSet;

use hairpin_analysis::findings;
use hairpin_experiments::experiments;
use hairpin_model::Remedy;
use hairpin_model::options::OptionName;
use serde_json::Value;

use crate::support::{PROGRAM, Place, Running, list, text};

/// Transports, experiments, remedies, findings and options, by the names in the code.
fn names() -> [(&'static str, BTreeSet<&'static str>); 5] {
    [
        ("transports", hairpin_transports::ALL.iter().map(|transport| transport.card().name).collect()),
        ("experiments", experiments::ALL.iter().map(|experiment| experiment.name).collect()),
        ("remedies", Remedy::WORDS.iter().copied().collect()),
        ("findings", findings::ALL.iter().map(|detector| detector.card.code).collect()),
        ("options", OptionName::ALL.iter().map(|option| option.word()).collect()),
    ]
}

#[test]
fn the_list_is_complete() {
    let place = Place::new();
    let shown = place.hairpin("list").with_code(0);
    assert_eq!(shown.stderr, "");
    let begins: BTreeSet<&str> = shown.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for (kind, names) in names() {
        assert!(names.is_subset(&begins), "{kind}: {:?} are missing", names.difference(&begins));
    }
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = words.matches("; runs here: ").count() + words.matches("; cannot run here: ").count();
    assert_eq!(told, hairpin_transports::ALL.len(), "one line for each transport: {}", shown.stdout);
}

#[test]
fn the_list_fits_its_width() {
    let place = Place::new();
    let mut narrow = place.command(PROGRAM);
    narrow.arg("list").env("COLUMNS", "70");
    let shown = Running::start(&mut narrow).end().with_code(0).stdout;
    let wide: Vec<&str> = shown.lines().filter(|line| line.chars().count() > 70).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    assert!(shown.lines().count() > 100, "wrapped, not cut: {shown}");
}

#[test]
fn the_list_as_json_is_complete() {
    let place = Place::new();
    let shown = place.json("list");
    for (kind, names) in names() {
        let name = |one: &Value| text(one.get("name").unwrap_or(&one["code"])).to_owned();
        let listed: Vec<String> = list(&shown[kind]).iter().map(name).collect();
        assert_eq!(listed.len(), names.len(), "{kind}: each name once");
        assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), names, "{kind}");
    }
    for transport in list(&shown["transports"]) {
        assert!(!text(&transport["detail"]).is_empty(), "a version, or the reason why not: {transport}");
        let can_run = transport["can_run"].as_bool().expect("yes or no");
        assert_eq!(transport["hint"].is_null(), can_run, "only transports that cannot run have a hint: {transport}");
    }
}

#[test]
fn completions_know_every_command_and_flag() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.hairpin(["completions", shell]).with_code(0).stdout;
        for experiment in experiments::ALL {
            assert!(script.contains(experiment.name), "{shell}: {}", experiment.name);
            for knob in experiment.knobs {
                assert!(knob.hidden || script.contains(knob.name), "{shell}: --{}", knob.name);
            }
        }
        assert!(!script.contains("__server"), "{shell}: hidden commands are not offered");
    }
    let checked = Running::start(place.command("bash").args([
        "-c",
        "source <(\"$0\" completions bash) && complete -p hairpin",
        PROGRAM,
    ]));
    checked.end().with_code(0).shown("_hairpin");
}

#[test]
fn manual_pages_have_every_flag() {
    let place = Place::new();
    let page = place.hairpin("man").with_code(0).stdout;
    assert!(page.contains(".TH hairpin 1"), "{page}");
    for experiment in experiments::ALL {
        let page = place.hairpin(["man", experiment.name]).with_code(0).stdout;
        assert!(page.contains(".TH "), "{page}");
        for knob in experiment.knobs.iter().filter(|knob| !knob.hidden) {
            let flag = format!("\\-\\-{}", knob.name.replace('-', "\\-"));
            assert!(page.contains(&flag), "{}: {flag}", experiment.name);
        }
    }
}
