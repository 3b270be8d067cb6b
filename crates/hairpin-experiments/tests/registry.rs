//! Experiments and knobs follow their rules: for instance, every file in the folder is in the list.

use std::collections::BTreeSet;
use std::path::Path;

use hairpin_experiments::experiments::{self, ALL};
use hairpin_experiments::{Knob, KnobKind, Knobs};
use hairpin_model::{Extent, Options, Waiting};

use crate::common::every;

#[test]
fn every_file_in_the_folder_is_in_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/experiments");
    let stems = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> = stems
        .map(|path| path.file_stem().unwrap().to_string_lossy().replace('_', "-"))
        .filter(|stem| stem != "mod")
        .collect();
    let listed: BTreeSet<String> = ALL.iter().map(|experiment| experiment.name.to_owned()).collect();
    assert_eq!(files, listed);
}

#[test]
fn an_experiment_is_found_by_name_or_the_nearest_name_is_suggested() {
    assert_eq!(experiments::find("survey", &[]).unwrap().name, "survey");
    let text = experiments::find("round-tripp", &[]).err().unwrap().to_string();
    assert_eq!(text, "unknown experiment `round-tripp` (hint: did you mean `round-trip`?)");
}

#[test]
fn every_question_is_short_and_ends_with_a_question_mark() {
    for experiment in every() {
        let question = experiment.question;
        assert!(question.ends_with('?') && question.len() <= 100, "{question}");
    }
}

/// Help is one line of at most 110 characters that starts with a capital and ends without a full stop.
#[test]
fn every_knob_follows_the_rules() {
    for experiment in every() {
        let mut names = BTreeSet::new();
        for knob in experiment.knobs {
            let Knob { name, help, .. } = *knob;
            assert!(names.insert(name), "{name} twice");
            assert!(
                name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'),
                "{name}"
            );
            assert!(help.starts_with(char::is_uppercase) && !help.ends_with('.'), "{name}: {help}");
            assert!(!help.contains('\n') && help.len() <= 110, "{name}: {} characters", help.len());
            assert_eq!(knob.value_name.is_empty(), knob.kind == KnobKind::Switch, "{name}");
            assert!(knob.value_name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_'), "{name}");
            for text in knob.default {
                knob.kind.read(text).unwrap_or_else(|refused| panic!("default of {name}: {refused}"));
            }
        }
        assert!(names.contains("seed"), "{} makes random choices without a seed", experiment.name);
    }
}

#[test]
fn knobs_have_default_values_and_report_which_were_given() {
    let round_trip = experiments::find("round-trip", &[]).unwrap();
    let given = vec![("size", vec!["4,64KiB".to_owned(), "8".to_owned()]), ("allow-unmet-options", vec![])];
    let knobs = Knobs::from_given(round_trip.knobs, given).unwrap();
    assert_eq!(knobs.values::<u64>("size"), [4, 65_536, 8]);
    assert_eq!((knobs.value::<u64>("rounds"), knobs.value::<u64>("at-most")), (None, Some(60_000_000_000)));
    assert!(knobs.is_given("size") && !knobs.is_given("rounds") && knobs.is_on("allow-unmet-options"));
    assert!(knobs.pairs().contains(&("waiting".to_owned(), vec!["block".to_owned()])));
    assert_eq!(knobs.value::<u64>("no-such-knob"), None);
}

#[test]
fn option_sets_keep_their_commas_and_repeated_flags_add_sets() {
    let round_trip = experiments::find("round-trip", &[]).unwrap();
    let set = |text: &str| ("option", vec![text.to_owned()]);
    let knobs = Knobs::from_given(round_trip.knobs, [set("nodelay=on,sndbuf=4096"), set("none")]).unwrap();
    let sets = [Options::parse("nodelay=on,sndbuf=4096").unwrap(), Options::default()];
    assert_eq!(knobs.values::<Options>("option"), sets);
}

#[test]
fn all_expands_to_every_word_without_duplicates() {
    let round_trip = experiments::find("round-trip", &[]).unwrap();
    let knobs = Knobs::from_given(round_trip.knobs, [("waiting", vec!["spin,all".to_owned()])]).unwrap();
    let all = [Waiting::Spin, Waiting::Block, Waiting::Poll];
    assert_eq!(knobs.choices("waiting", Waiting::BASIC), all);
    assert!(knobs.has_every("waiting") && !knobs.has_every("placement"));
    assert_eq!(knobs.values::<Waiting>("waiting"), [Waiting::Spin]);
    assert_eq!(knobs.value::<Extent>("warmup"), None, "the experiment chooses the value for auto");
}

#[test]
fn unknown_names_and_invalid_values_are_refused() {
    let round_trip = experiments::find("round-trip", &[]).unwrap();
    let refusal = |name: &str, texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Knobs::from_given(round_trip.knobs, [(name, texts)]).unwrap_err().to_string()
    };
    assert_eq!(refusal("sise", &["4"]), "unknown knob `sise` (hint: did you mean `size`?)");
    assert_eq!(refusal("size", &[]), "--size: the flag needs a value (hint: --size BYTES)");
    assert_eq!(refusal("rounds", &["1", "2"]), "--rounds: the flag takes one value (hint: run it once per value)");
    assert_eq!(refusal("size", &["0"]), "--size: `0` is not valid (hint: 1 B to 1 GiB)");
    let twice = [("rounds", vec!["1".to_owned()]), ("rounds", vec!["2".to_owned()])];
    let text = Knobs::from_given(round_trip.knobs, twice).unwrap_err().to_string();
    assert_eq!(text, "--rounds: the flag is given twice (hint: give it once)");
}
