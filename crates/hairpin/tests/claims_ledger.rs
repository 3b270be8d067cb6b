//! Checks the published claims against their folder and the experiments that they name: every file, every id, every
//! run, every case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hairpin::claims::{choose, texts};
use hairpin_analysis::claims::fits_unit;
use hairpin_experiments::{KnobKind, Knobs, Step, experiments};
use hairpin_model::{
    Candidate, Case, Claim, FigureName, HostCapabilities, LinkCapabilities, Receipt, Row, Rule, Selector, Test,
    TestMethod, Text, Value, shell,
};

/// Number of claims of each text.
const IDS: &[(&str, usize)] = &[("A", 20), ("B", 7), ("C", 9), ("D", 6), ("E", 27)];

#[test]
fn every_file_of_the_folder_is_a_text_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../claims");
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut letters = BTreeMap::new();
    for entry in entries {
        let path = entry.expect("listed").path();
        assert_eq!(path.extension().and_then(|name| name.to_str()), Some("toml"), "{}", path.display());
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let read: Text = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(texts().contains(&read), "{} is not in the list of src/claims.rs", path.display());
        assert!(letters.insert(read.letter.clone(), path).is_none(), "two files have the letter {}", read.letter);
    }
    assert_eq!(letters.len(), texts().len(), "the list names a file twice");
}

#[test]
fn every_claim_exists_exactly_once() {
    let expected: Vec<String> =
        IDS.iter().flat_map(|(letter, last)| (1..=*last).map(move |number| format!("{letter}{number}"))).collect();
    let found: Vec<String> =
        texts().iter().flat_map(|text| text.claims.iter().map(|claim| claim.id.clone())).collect();
    assert_eq!(found, expected, "ids in order, none missing, none twice");
    for text in texts() {
        assert!(text.claims.iter().all(|claim| claim.id.starts_with(&text.letter)), "{}", text.letter);
        let of_text = [&text.title, &text.what, &text.file, &text.setting];
        assert!(of_text.iter().all(|field| !field.trim().is_empty()), "{}", text.letter);
        assert!(!text.file.contains('/'), "{}: the name of a file and no path", text.file);
    }
}

/// Every row with its claim and its text.
fn rows() -> impl Iterator<Item = (&'static Text, &'static Claim, &'static Row)> {
    let claims = texts().iter().flat_map(|text| text.claims.iter().map(move |claim| (text, claim)));
    claims.flat_map(|(text, claim)| claim.rows.iter().map(move |row| (text, claim, row)))
}

/// Every claim as tested between two hosts, with its text.
pub(crate) fn between_hosts() -> Vec<(&'static Text, Claim)> {
    let of_text = |text: &'static Text| text.claims.iter().map(move |claim| (text, claim.between_hosts()));
    texts().iter().flat_map(of_text).collect()
}

fn tests() -> impl Iterator<Item = (&'static Text, &'static Claim, &'static Row, &'static Test)> {
    rows().filter_map(|(text, claim, row)| match &row.means {
        TestMethod::Test(test) => Some((text, claim, row, &**test)),
        TestMethod::Missing(_) | TestMethod::Skipped(_) => None,
    })
}

#[test]
fn every_rule_fits_what_is_published() {
    for (_, claim, row, test) in tests() {
        let place = format!("{} {}", claim.id, row.name);
        assert!(!test.rule_because.trim().is_empty(), "{place}: a rule has a reason");
        let value = &row.published.value;
        match &test.rule {
            Rule::Within { of, factor } => {
                assert!(matches!(value, Value::Number(number) if *number > 0.0) && *factor >= 1.0, "{place}");
                assert!(fits_unit(of, &row.published.unit), "{place}: {}", row.published.unit);
            }
            Rule::Range { of, factor } => {
                assert!(matches!(value, Value::Range([from, to]) if from < to) && *factor >= 1.0, "{place}");
                assert!(fits_unit(of, &row.published.unit), "{place}: {}", row.published.unit);
            }
            Rule::AtLeast { of, bound } | Rule::AtMost { of, bound } => {
                assert!(bound.is_some() || matches!(value, Value::Number(_)), "{place}");
                assert!(fits_unit(of, &row.published.unit), "{place}: {}", row.published.unit);
            }
            Rule::Share { at_least, .. } => assert!((0.0..=1.0).contains(at_least), "{place}"),
            Rule::Order { cases, .. } => {
                let names = matches!(value, Value::Order(names) if names.len() == cases.len());
                assert!(names && cases.len() > 1, "{place}: a case for each name");
            }
            Rule::Kept { kept, .. } => assert!(!kept.is_empty(), "{place}"),
            Rule::Packets { events, .. } => assert!(!events.is_empty(), "{place}"),
            Rule::Pattern { .. } | Rule::Fallback { .. } => {}
            Rule::Widens { low, low_run, full, .. } => {
                let names = matches!(value, Value::Order(names) if names.len() == 2);
                assert!(names && (low != full || low_run.is_some()), "{place}: two gaps");
            }
        }
    }
}

#[test]
fn names_of_rows_are_unique_and_every_row_of_a_table_is_judged() {
    for claim in texts().iter().flat_map(|text| &text.claims) {
        let names: BTreeSet<&str> = claim.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), claim.rows.len(), "{}", claim.id);
        if let Value::Table(table) = &claim.published.value {
            assert!(table.keys().all(|name| names.contains(name.as_str())), "{}", claim.id);
        }
    }
}

/// Whether a rule judges a figure alone, without the figure of another case.
fn is_a_plain_figure(rule: &Rule) -> bool {
    match rule {
        Rule::Within { of, .. } | Rule::Range { of, .. } | Rule::AtLeast { of, .. } | Rule::AtMost { of, .. } => {
            of.against.is_none()
        }
        _ => false,
    }
}

#[test]
fn a_claim_tested_over_an_emulated_link_says_so_and_a_figure_that_was_set_decides_nothing() {
    let mut set = Vec::new();
    for (text, claim, row, test) in tests() {
        let place = format!("{} {}", claim.id, row.name);
        let command = &text.runs[&test.run].command;
        assert!(!command.contains("--injected-fault"), "{place}: a sleep must not replace a path");
        let is_over_a_link = command.contains("--link");
        let is_about_a_count = matches!(&test.rule, Rule::AtLeast { of, .. } if of.figure == FigureName::InFlight);
        if is_over_a_link && !is_about_a_count {
            let stand_in = test.stand_in().unwrap_or_default();
            assert!(stand_in.contains("the emulated link `"), "{place}: {stand_in}");
            assert!(stand_in.contains("set here"), "{place}: {stand_in}");
        }
        if is_over_a_link && is_a_plain_figure(&test.rule) && test.undecided().is_some() {
            set.push(place);
        }
    }
    // A measurement over a link or at a rate that was set from a published figure cannot confirm the figure.
    let of_delays = ["A12 LAN", "A12 PLC", "A19 LAN", "D1 ", "D5 ", "E1 ICMP"];
    let of_rates = [
        "E6 deep queue",
        "E7 sent",
        "E7 lost",
        "E7 received",
        "E8 sent",
        "E8 lost, queue of 16 KiB",
        "E9 sent",
        "E10 sent",
    ];
    assert_eq!(set, [&of_delays[..], &of_rates[..]].concat());
}

#[test]
fn a_figure_that_only_restates_the_command_of_its_run_decides_nothing() {
    let mut restated = Vec::new();
    for (_, claim, row, test) in tests() {
        let is_set = match &test.rule {
            Rule::Pattern { .. } => true,
            Rule::AtLeast { of, .. } | Rule::AtMost { of, .. } | Rule::Within { of, .. } | Rule::Range { of, .. } => {
                of.figure == FigureName::InFlight
            }
            _ => false,
        };
        if is_set {
            assert!(test.undecided().is_some(), "{} {}: writes and pipeline were set", claim.id, row.name);
            restated.push(claim.id.as_str());
        }
    }
    assert_eq!(restated, ["B7", "D5"]);
}

#[test]
fn the_two_claims_about_batching_are_tested_by_the_same_cases() {
    let remedies = |id: &str, beside: bool| -> BTreeSet<String> {
        let of_claim = tests().filter(|(_, claim, row, _)| claim.id == id && row.beside.is_some() == beside);
        let rest = of_claim.filter_map(|(_, _, _, test)| match &test.rule {
            Rule::Share { rest, .. } => rest.remedy.map(|remedy| remedy.to_string()),
            _ => None,
        });
        rest.collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(remedies("A17", false), set(&["one-write"]), "A17 is about merging writes into one send");
    assert!(remedies("A8", false).contains("one-write"), "A8 is tested by the same case");
    assert_eq!(remedies("A17", true), set(&["batch=10", "batch=50"]), "several sends are additional rows");
}

/// Every transport can run, on two CPUs.
pub(crate) fn capabilities() -> HostCapabilities {
    let can_run = Ok(Receipt { detail: "made up".to_owned() });
    let links = hairpin_engine::links::known::capabilities();
    let cards = hairpin_transports::ALL.iter().map(|transport| transport.card());
    HostCapabilities {
        candidates: cards.map(|card| Candidate { card, can_run: can_run.clone() }).collect(),
        cpus: vec![0, 1],
        busy_per_cpu: 0.0,
        cpu_quota: None,
        levels: Vec::new(),
        given_cpus: None,
        may_keep_cpus_awake: Ok(()),
        congestion_controls: ["reno", "cubic", "bbr"].map(str::to_owned).to_vec(),
        default_congestion_control: "cubic".to_owned(),
        waking_round_trip_ns: || 54_000,
        process_start_ns: || 240_000,
        links: LinkCapabilities { relay: || Ok(Receipt { detail: "made up".to_owned() }), ..links },
        far: None,
        may_set: |_| Ok(()),
    }
}

fn planned(command: &str) -> Vec<Case> {
    assert!(!command.contains(['"', '\\']), "{command}: only single quotes may be used");
    planned_by(shell::words(command), &capabilities())
}

/// Returns the cases that a command plans. After the experiment, the words are knobs with values, or switches.
pub(crate) fn planned_by(words: Vec<String>, capabilities: &HostCapabilities) -> Vec<Case> {
    let command = shell::command(&words);
    let mut words = words.into_iter();
    let experiment = experiments::find(&words.next().expect("an experiment"), &[]).expect("it is known");
    let mut given = BTreeMap::from([("seed".to_owned(), vec!["7".to_owned()])]);
    while let Some(flag) = words.next() {
        let name = flag.strip_prefix("--").unwrap_or_else(|| panic!("{command}: {flag} is no flag"));
        let knob = experiment.knobs.iter().find(|knob| knob.name == name);
        let is_switch = knob.is_some_and(|knob| knob.kind == KnobKind::Switch);
        let values = given.entry(name.to_owned()).or_insert_with(Vec::new);
        values.extend((!is_switch).then(|| words.next().expect("it has a value")));
    }
    let knobs = Knobs::from_given(experiment.knobs, given).unwrap_or_else(|refused| panic!("{command}: {refused}"));
    match experiment.next(&knobs, capabilities, &hairpin_experiments::Done::default()) {
        Ok(Step::Run { cases, .. }) => cases,
        Ok(Step::Done) => panic!("{command} measures nothing"),
        Err(refused) => panic!("{command}: {refused}"),
    }
}

/// The cases that a test refers to, each with the name of its run.
pub(crate) fn selectors(test: &Test) -> Vec<(&str, &Selector)> {
    let own = test.run.as_str();
    let other = test.rule.other_run().unwrap_or(own);
    match &test.rule {
        Rule::Within { of, .. } | Rule::Range { of, .. } | Rule::AtLeast { of, .. } | Rule::AtMost { of, .. } => {
            std::iter::once((own, &of.case)).chain(of.against.iter().map(|against| (other, against))).collect()
        }
        Rule::Share { whole, rest, .. } => vec![(own, whole), (own, rest)],
        Rule::Order { cases, .. } => cases.iter().map(|case| (own, case)).collect(),
        Rule::Kept { case, .. }
        | Rule::Packets { case, .. }
        | Rule::Pattern { case, .. }
        | Rule::Fallback { case, .. } => vec![(own, case)],
        Rule::Widens { low, full, .. } => {
            low.iter().map(|case| (other, case)).chain(full.iter().map(|case| (own, case))).collect()
        }
    }
}

#[test]
fn every_test_names_a_run_of_its_text_and_exactly_one_case_of_it() {
    let mut plans: BTreeMap<(&str, &str), Vec<Case>> = BTreeMap::new();
    for text in texts() {
        for (name, run) in &text.runs {
            assert!(!run.because.trim().is_empty(), "{name}");
            plans.insert((&text.letter, name), planned(&run.command));
        }
    }
    let mut used = BTreeSet::new();
    for (text, claim, row, test) in tests() {
        let place = format!("{} {}", claim.id, row.name);
        for (run, selector) in selectors(test) {
            let run = (text.letter.as_str(), run);
            let cases = plans.get(&run).unwrap_or_else(|| panic!("{place}: there is no run `{}`", run.1));
            used.insert(run);
            let chosen: Vec<String> = cases.iter().filter(|case| selector.chooses(case)).map(Case::label).collect();
            assert_eq!(chosen.len(), 1, "{place}: {selector:?} selects {chosen:?}");
        }
    }
    for (text, test) in between_hosts().iter().flat_map(|(text, claim)| claim.tests().map(move |test| (text, test))) {
        used.extend(selectors(test).into_iter().map(|(run, _)| {
            let known = plans.keys().find(|(letter, name)| *letter == text.letter && *name == run);
            *known.unwrap_or_else(|| panic!("text {} has no run `{run}`", text.letter))
        }));
    }
    let unused: Vec<_> = plans.keys().filter(|run| !used.contains(*run)).collect();
    assert!(unused.is_empty(), "runs that test nothing: {unused:?}");
}

#[test]
fn claims_are_chosen_by_id_and_by_letter() {
    let ids = |asked: &[&str]| -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        let chosen = choose(&asked).expect("they are known");
        chosen.iter().flat_map(|text| text.claims.iter().map(|claim| claim.id.clone())).collect()
    };
    assert_eq!(ids(&["b1", "A2"]), ["A2", "B1"]);
    assert_eq!(ids(&["D"]).len(), 6);
    assert_eq!(ids(&["B", "B1"]).len(), 7, "each claim once");
    assert_eq!(ids(&[]).len(), 69);
    let unknown = choose(&["A21".to_owned()]).expect_err("there is none");
    assert_eq!(unknown.to_string(), "unknown claim `A21` (hint: text A has A1 to A20)");
    let unknown = choose(&["F1".to_owned()]).expect_err("there is no such text");
    assert!(unknown.to_string().starts_with("unknown claim `F1` (hint: "), "{unknown}");
    let chosen = choose(&["B1".to_owned(), "B2".to_owned(), "B4".to_owned()]).expect("they are known");
    assert_eq!(chosen[0].runs(), ["small-writes", "forgotten"], "each run once, in the order in which it is needed");
}
