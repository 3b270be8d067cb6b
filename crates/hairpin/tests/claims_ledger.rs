//! Checks the published claims against their folder and the experiments that they name: every file, every id, every
//! run, every case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hairpin::claims::{choose, texts};
use hairpin_analysis::claims::fits_unit;
use hairpin_experiments::{KnobKind, Knobs, Step, experiments};
use hairpin_model::claim::ClaimKind;
use hairpin_model::judged_claim::{ClaimsReport, Headline};
use hairpin_model::{
    Candidate, Case, Claim, FigureName, HostCapabilities, LinkCapabilities, Measure, Pool, Receipt, Row, Rule,
    Selector, Test, TestMethod, Text, Value, shell,
};

/// Number of claims of each text.
const IDS: &[(&str, usize)] = &[("A", 20), ("B", 7), ("C", 9), ("D", 6), ("E", 27), ("F", 4)];

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
fn reference_results_are_of_the_present_claims() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference-claims");
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("the folder is there").map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    let known: Vec<&str> =
        texts().iter().flat_map(|text| text.claims.iter().map(|claim| claim.id.as_str())).collect();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let report: ClaimsReport =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let ids: Vec<&str> = report.claims.iter().map(|claim| claim.id.as_str()).collect();
        // Text F came after these measurements.
        let measured: Vec<_> = known.iter().filter(|id| !id.starts_with('F')).cloned().collect();
        assert_eq!(ids, measured, "{}", path.display());
        assert!(
            report.environment.is_some_and(|environment| !environment.cpu_model.is_empty()),
            "the machine is named"
        );
        assert!(report.claims.iter().any(|claim| claim.headline == Some(Headline::Holds)), "{}", path.display());
    }
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
        let of_text =
            [&text.title, &text.author, &text.publisher, &text.url, &text.retrieved, &text.what, &text.setting];
        assert!(
            of_text.iter().all(|field| !field.trim().is_empty()),
            "{}: `unknown` if it is not printed",
            text.letter
        );
    }
}

/// Endings of the names of files in which a text may have been read.
const FILE_ENDINGS: [&str; 9] = [".pdf", ".doc", ".docx", ".odt", ".txt", ".md", ".htm", ".html", ".mhtml"];

fn names_a_file(text: &str) -> bool {
    let is_file = |word: &str| FILE_ENDINGS.iter().any(|ending| word.to_lowercase().ends_with(ending));
    text.split(|letter: char| letter.is_whitespace() || "()[]\"'`,;:".contains(letter)).any(is_file)
}

#[test]
fn a_text_is_named_by_its_source_and_by_no_file() {
    assert!(names_a_file("see (Report.PDF), page 3") && !names_a_file("a mode of 4.5 ms. docx"));
    for text in texts() {
        for field in
            [&text.title, &text.author, &text.publisher, &text.url, &text.retrieved, &text.what, &text.setting]
        {
            assert!(!names_a_file(field), "{}: {field}", text.letter);
        }
        for claim in &text.claims {
            let of_claim = [&claim.text, &claim.quote, &claim.why, &claim.published.unit];
            assert!(of_claim.into_iter().chain(&claim.text_errors).all(|field| !names_a_file(field)), "{}", claim.id);
        }
    }
}

/// Maximum length of a quotation, in words; of one in Chinese, in characters.
const MAX_QUOTE_WORDS: usize = 25;
const MAX_QUOTE_CHARACTERS: usize = 40;

#[test]
fn every_claim_has_a_short_quotation_a_mechanism_and_advice() {
    let is_chinese = |letter: char| ('\u{4e00}'..='\u{9fff}').contains(&letter);
    for claim in texts().iter().flat_map(|text| &text.claims) {
        for (field, text) in
            [("text", &claim.text), ("quote", &claim.quote), ("why", &claim.why), ("so_what", &claim.so_what)]
        {
            assert!(!text.trim().is_empty() && text.trim() == text, "{}: {field}", claim.id);
        }
        let (words, characters) = (claim.quote.split_whitespace().count(), claim.quote.chars().count());
        if claim.quote.chars().any(is_chinese) {
            assert!(characters <= MAX_QUOTE_CHARACTERS, "{}: {characters} characters", claim.id);
        } else {
            assert!(words <= MAX_QUOTE_WORDS, "{}: {words} words", claim.id);
        }
        // The quotations of the other texts are lines of output.
        if claim.id.starts_with('E') {
            let begins = claim.quote.starts_with("... ") || claim.quote.starts_with(char::is_uppercase);
            let ends = claim.quote.ends_with(" ...") || claim.quote.ends_with(['.', '?', '!']);
            assert!(begins && ends, "{}: a sentence, or dots where it is cut: {}", claim.id, claim.quote);
        }
        for sentences in [&claim.why, &claim.so_what] {
            assert!(sentences.ends_with('.'), "{}: {sentences}", claim.id);
        }
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

/// Every test, also those between two hosts, with its claim and row.
fn all_tests() -> impl Iterator<Item = (&'static Claim, &'static Row, &'static Test)> {
    rows().flat_map(|(_, claim, row)| {
        let own = if let TestMethod::Test(test) = &row.means { Some(&**test) } else { None };
        own.into_iter().chain(row.between_hosts.as_deref()).map(move |test| (claim, row, test))
    })
}

/// Maximum factor of a rule: a larger one accepts figures that the text itself tells apart.
const MAX_FACTOR: f64 = 2.0;

#[test]
fn every_rule_fits_what_is_published() {
    for (claim, row, test) in all_tests() {
        let place = format!("{} {}", claim.id, row.name);
        let (value, unit) = (&row.published.value, &row.published.unit);
        let factors = 1.0..=MAX_FACTOR;
        if let Some(of) = test.rule.measure() {
            assert!(fits_unit(of, unit), "{place}: {unit}");
            assert!(of.against.is_some() || of.against_run.is_none(), "{place}: a run of no case");
        }
        match &test.rule {
            Rule::Within { factor, .. } => {
                assert!(
                    matches!(value, Value::Number(number) if *number > 0.0) && factors.contains(factor),
                    "{place}"
                );
            }
            Rule::Range { factor, .. } => {
                assert!(
                    matches!(value, Value::Range([from, to]) if from < to) && factors.contains(factor),
                    "{place}"
                );
            }
            Rule::AtLeast { bound, .. } | Rule::AtMost { bound, .. } => {
                let has_end = matches!(value, Value::Number(_) | Value::Range(_));
                assert!(bound.is_some() || has_end, "{place}");
            }
            Rule::Share { at_least, .. } => assert!((0.0..=1.0).contains(at_least) && *at_least > 0.0, "{place}"),
            Rule::Order { cases, margin, .. } => {
                let names = matches!(value, Value::Order(names) if names.len() == cases.len());
                assert!(names && cases.len() > 1, "{place}: a case for each name");
                assert!((0.0..=0.1).contains(margin), "{place}: {margin}");
            }
            Rule::Often { figure, case, reaches, share } => {
                let of =
                    Measure { figure: *figure, case: Pool(vec![case.clone()]), against: None, against_run: None };
                assert!(fits_unit(&of, unit) && *reaches > 0.0 && (0.0..1.0).contains(share), "{place}");
            }
            Rule::States { states, at_least, .. } => {
                let are_states = !states.is_empty() && states.iter().all(|state| state.members().is_empty());
                assert!(are_states && (0.1..1.0).contains(at_least) && unit == "share", "{place}");
            }
            Rule::Kept { kept, .. } => assert!(!kept.is_empty(), "{place}"),
            Rule::Packets { events, .. } => assert!(!events.is_empty(), "{place}"),
            Rule::Pattern { .. } | Rule::Fallback { .. } => {}
            Rule::Widens { low, low_run, full, margin, .. } => {
                let names = matches!(value, Value::Order(names) if names.len() == 2);
                assert!(names && (low != full || low_run.is_some()), "{place}: two gaps");
                assert!((0.0..=0.1).contains(margin), "{place}: {margin}");
            }
        }
    }
}

#[test]
fn every_rule_has_its_reason_and_the_date_of_its_last_change() {
    for (claim, row, test) in all_tests() {
        let place = format!("{} {}", claim.id, row.name);
        for text in [&test.rule_because, &test.changed.because] {
            assert!(!text.trim().is_empty(), "{place}");
        }
        let date: Vec<&str> = test.changed.on.split('-').collect();
        let numbers: Vec<u32> = date.iter().filter_map(|part| part.parse().ok()).collect();
        let lengths: Vec<usize> = date.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [4, 2, 2], "{place}: {}", test.changed.on);
        let [year, month, day] = <[u32; 3]>::try_from(numbers).expect("three numbers");
        assert!(year >= 2026 && (1..=12).contains(&month) && (1..=31).contains(&day), "{place}: {}", test.changed.on);
    }
}

#[test]
fn a_figure_of_other_hardware_is_absolute() {
    for (claim, row, test) in all_tests().filter(|(_, row, _)| row.other_hardware) {
        assert!(is_a_plain_figure(&test.rule), "{} {}: a ratio decides on any hardware", claim.id, row.name);
    }
}

#[test]
fn a_knob_has_two_sides_of_one_axis() {
    let mut knobs = BTreeMap::new();
    for (_, claim, row) in rows().filter(|(_, _, row)| row.shown().is_none()) {
        let Some(knob) = &row.knob else { continue };
        let sides =
            knobs.entry((claim.id.as_str(), knob.name.as_str(), row.axis.to_string())).or_insert_with(BTreeSet::new);
        sides.insert(knob.value.as_str());
    }
    let named: Vec<&str> = knobs.keys().map(|(id, ..)| *id).collect();
    assert_eq!(named, ["A14", "A15", "A9", "C9"]);
    assert!(knobs.values().all(|sides| sides.len() > 1), "{knobs:?}");
}

#[test]
fn procedures_and_questions_claim_no_direction() {
    for (_, claim, row) in rows().filter(|(_, claim, _)| claim.kind != ClaimKind::Statement) {
        let is_size = ["size", "cause"].contains(&row.axis.to_string().as_str());
        assert!(is_size || row.shown().is_some(), "{} {}", claim.id, row.name);
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
fn a_claim_tested_over_an_emulated_link_says_so() {
    for (text, claim, row, test) in tests() {
        let place = format!("{} {}", claim.id, row.name);
        let command = &text.runs[&test.run].command;
        assert!(!command.contains("--injected-fault"), "{place}: a sleep must not replace a path");
        let is_about_a_count = matches!(&test.rule, Rule::AtLeast { of, .. } if of.figure == FigureName::InFlight);
        if command.contains("--link") && !is_about_a_count {
            let stand_in = test.stand_in().unwrap_or_default();
            assert!(stand_in.contains("the emulated link `"), "{place}: {stand_in}");
            assert!(stand_in.contains("set here"), "{place}: {stand_in}");
        }
    }
}

#[test]
fn a_figure_that_the_set_up_returns_decides_nothing() {
    let mut given_back = Vec::new();
    for (_, claim, row, test) in tests() {
        given_back.extend(test.given_back().map(|_| format!("{} {}", claim.id, row.name)));
    }
    // A link is fitted to one figure of a text. Hairpin's server does nothing of its own between its calls. A rate that
    // is offered, a slack that is set, and a copy that the kernel makes after all, tell nothing either.
    let of_servers = ["A6 application", "A10 sleep of 1 ms, timer slack of 15.625 ms"];
    let of_links = ["A12 LAN", "A12 PLC", "A12 WAN", "A13 PLC", "A13 WAN", "A19 LAN", "A19 LAN, stable"];
    let of_copies = ["A20 MSG_ZEROCOPY, 64 KiB"];
    let of_paths = ["D1 ", "E1 ICMP", "E6 "];
    let of_rates = ["E7 sent", "E8 sent", "E9 sent", "E10 sent"];
    assert_eq!(given_back, [&of_servers[..], &of_links, &of_copies, &of_paths, &of_rates].concat());
    let mut there = Vec::new();
    for (_, claim) in between_hosts() {
        let given_back = |row: &Row| match &row.means {
            TestMethod::Test(test) => test.given_back().is_some(),
            TestMethod::Missing(_) | TestMethod::Skipped(_) => false,
        };
        there.extend(claim.rows.iter().filter(|row| given_back(row)).map(|row| format!("{} {}", claim.id, row.name)));
    }
    let scenes = ["A6 application", "A6 network", "A12 LAN", "A12 PLC", "A12 WAN"];
    let more = ["A13 LAN", "A13 PLC", "A13 WAN", "A19 LAN", "A19 LAN, stable"];
    assert_eq!(there, [&scenes[..], &more, &of_rates].concat(), "over a real path, a link returns nothing");
}

#[test]
fn only_a_procedure_is_tested_by_what_the_command_of_its_run_sets() {
    let mut restated = Vec::new();
    for (claim, _, test) in all_tests() {
        let is_in_flight = test.rule.measure().is_some_and(|of| of.figure == FigureName::InFlight);
        if is_in_flight || matches!(test.rule, Rule::Pattern { .. } | Rule::Kept { .. } | Rule::Fallback { .. }) {
            assert_eq!(claim.kind, ClaimKind::Procedure, "{}: writes, pipeline and outputs were set", claim.id);
            restated.push(claim.id.as_str());
        }
    }
    restated.dedup();
    assert_eq!(restated, ["A5", "A16", "B6", "B7", "C7", "D5", "E15"]);
}

#[test]
fn the_two_claims_about_batching_are_tested_by_the_same_cases() {
    let remedies = |id: &str, is_other: bool| -> BTreeSet<String> {
        let of_claim = tests().filter(|(_, claim, row, _)| claim.id == id && row.other_setting.is_some() == is_other);
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
    let built_in = hairpin_transports::ALL.iter().map(|transport| transport.card());
    // Claims may be about transports that this build omits.
    let tcp = hairpin_transports::find("tcp").expect("it is built in").card();
    let stream = hairpin_model::Card { is_reference: false, ..tcp };
    let omitted = hairpin_transports::OMITTED.iter().flat_map(|(_, names)| *names);
    let omitted = omitted.map(|name| hairpin_model::Card { name, ..stream.clone() });
    let cards = built_in.chain(omitted);
    HostCapabilities {
        omitted: &[],
        candidates: cards.map(|card| Candidate { card, can_run: can_run.clone() }).collect(),
        cpus: vec![0, 1],
        busy_per_cpu: 0.0,
        cpu_quota: None,
        levels: Vec::new(),
        given_cpus: None,
        may_keep_cpus_awake: Ok(()),
        congestion_controls: ["reno", "cubic", "bbr"].map(str::to_owned).to_vec(),
        waking_round_trip_ns: || 54_000,
        process_start_ns: || 240_000,
        links: LinkCapabilities { relay: || Ok(Receipt { detail: "made up".to_owned() }), ..links },
        far: None,
        may_set: |_| Ok(()),
        may_capture: || Ok(()),
        may_schedule: |_, _| Ok(()),
        may_use_io_uring: || Ok(()),
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
    test.rule.selectors().into_iter().map(|(run, selector)| (run.unwrap_or(&test.run), selector)).collect()
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
            // Without the feature `async` no end waits by tokio; the build with all features checks these.
            let cards = || hairpin_transports::ALL.iter().map(|transport| transport.card());
            let has_waiting =
                selector.waiting.is_none_or(|waiting| cards().any(|card| card.waitings.contains(&waiting)));
            if !has_waiting {
                continue;
            }
            let chosen = cases.iter().filter(|case| case.replicate == 0 && selector.chooses(case));
            let chosen: Vec<String> = chosen.map(Case::label).collect();
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
    let all: Vec<&Text> = texts().iter().collect();
    let ids = |asked: &[&str]| -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
        let chosen = choose(&all, &asked).expect("they are known");
        chosen.iter().flat_map(|text| text.claims.iter().map(|claim| claim.id.clone())).collect()
    };
    assert_eq!(ids(&["b1", "A2"]), ["A2", "B1"]);
    assert_eq!(ids(&["D"]).len(), 6);
    assert_eq!(ids(&["B", "B1"]).len(), 7, "each claim once");
    assert_eq!(ids(&[]).len(), 73);
    let unknown = choose(&all, &["A21".to_owned()]).expect_err("there is none");
    assert_eq!(
        unknown.to_string(),
        "unknown claim `A21` (hint: there are A1 to A20, B1 to B7, C1 to C9, D1 to D6, E1 to E27 and F1 to F4)"
    );
    let unknown = choose(&all, &["G1".to_owned()]).expect_err("there is no such text");
    assert!(unknown.to_string().starts_with("unknown claim `G1` (hint: "), "{unknown}");
    let chosen = choose(&all, &["B1".to_owned(), "B2".to_owned(), "B4".to_owned()]).expect("they are known");
    assert_eq!(chosen[0].runs(), ["small-writes", "forgotten"], "each run once, in the order in which it is needed");
}
