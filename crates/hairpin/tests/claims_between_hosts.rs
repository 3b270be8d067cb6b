//! Claims with `--to`: which of them are about a path, their plans, and their results.

use std::collections::{BTreeMap, BTreeSet};

use hairpin::claims;
use hairpin_model::claim::About;
use hairpin_model::{Case, FarHost, HostCapabilities, TestMethod, shell};
use serde_json::Value;

use crate::claims::claim;
use crate::claims_ledger::{between_hosts, capabilities, planned_by, selectors};
use crate::support::served::{Served, ticket};
use crate::support::{Place, document, list, names_in, text};

/// Every transport can run, here and on another host.
fn with_another_host() -> HostCapabilities {
    let here = capabilities();
    let far = FarHost {
        is_foreign: false,
        name: "lab".to_owned(),
        is_ipv6: false,
        round_trip_ns: 4_000_000,
        transports: here.candidates.iter().map(|candidate| candidate.card.name.to_owned()).collect(),
        congestion_controls: here.congestion_controls.clone(),
        limits: hairpin_model::limits::Limits::default(),
        fallback: None,
    };
    HostCapabilities { far: Some(far), ..here }
}

#[test]
fn only_claims_about_a_path_are_tested_between_hosts() {
    let about: BTreeMap<String, About> =
        between_hosts().into_iter().map(|(_, claim)| (claim.id.clone(), claim.about)).collect();
    let paths: Vec<&str> =
        about.iter().filter(|(_, about)| **about == About::Path).map(|(id, _)| id.as_str()).collect();
    let expected = "A12 A13 A19 A6 B6 C1 C2 C3 C4 C5 C6 C7 C8 C9 D1 D2 D3 D4 D5 D6 E1 E10 E13 E14 E15 E18 E19 E21 E22 E23 E25 \
                    E5 E6 E7 E8 E9";
    assert_eq!(paths, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(["E3", "E26"].map(|id| about[id]), [About::SetUp; 2]);
    for (_, claim) in between_hosts().iter().filter(|(_, claim)| claim.about != About::Path) {
        assert!(claim.rows.iter().all(|row| matches!(row.means, TestMethod::Skipped(_))), "{}", claim.id);
    }
}

#[test]
fn every_test_between_hosts_selects_exactly_one_case_without_an_emulated_link() {
    let capabilities = with_another_host();
    let mut plans: BTreeMap<(&str, String), Vec<Case>> = BTreeMap::new();
    let mut unreached = BTreeSet::new();
    for (text, claim) in between_hosts() {
        for test in claim.tests() {
            let stand_in = test.stand_in().unwrap_or_default();
            assert!(!stand_in.contains("emulated") && !stand_in.contains("loopback"), "{}: {stand_in}", claim.id);
            for (run, selector) in selectors(test) {
                let words = || claims::between_hosts(shell::words(&text.runs[run].command));
                let plan = plans.entry((&text.letter, run.to_owned()));
                let cases = plan.or_insert_with(|| planned_by(words(), &capabilities));
                assert!(cases.iter().all(|case| case.path.across.is_some() && !case.is_emulated()), "{run}");
                let chosen = cases.iter().filter(|case| case.replicate == 0 && selector.chooses(case));
                let chosen: Vec<String> = chosen.map(Case::label).collect();
                if chosen.is_empty() {
                    unreached.insert((claim.id.clone(), selector.transport.clone()));
                } else {
                    assert_eq!(chosen.len(), 1, "{}: {selector:?} selects {chosen:?}", claim.id);
                }
            }
        }
    }
    assert_eq!(unreached, BTreeSet::from([("E1".to_owned(), Some("icmp".to_owned()))]), "icmp reaches no other host");
}

fn row<'r>(claim: &'r Value, name: &str) -> &'r Value {
    list(&claim["rows"]).iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}: {claim}"))
}

#[test]
fn claims_about_a_path_are_tested_and_others_are_skipped_with_a_reason() {
    let place = Place::new();
    let served = Served::new(&place);
    let word = ticket(&place);
    let ids = ["A1", "A19", "D1", "D6", "E15", "E26"];
    let flags = format!("--to {word} --rounds 1 --seed 5 --out tested");
    let ran = place.hairpin((("claims run", ids), flags)).with_code(0);
    let saved = std::fs::read_to_string(place.path("tested/claims.json")).expect("it was saved");
    let page = std::fs::read_to_string(place.path("tested/report.html")).expect("it was saved");
    let report = document(&saved);
    let secret = word.split('#').nth(1).expect("a ticket has a secret");
    let run_saved = std::fs::read_to_string(place.path("tested/D-meant/run.json")).expect("it was saved");
    document(&run_saved);
    for file in [&saved, &page, &run_saved, &ran.stdout] {
        assert!(!file.contains(secret), "{file}");
    }

    assert_eq!(report["to"], "127.0.0.1");
    let runs: Vec<&str> = list(&report["runs"]).iter().map(|run| text(&run["name"])).collect();
    assert_eq!(runs, ["A-scenes", "A-lan", "D-echo", "D-meant", "E-fallback"], "runs of skipped rows are not made");
    let address = word.split('#').next().expect("it has one");
    for run in list(&report["runs"]) {
        let command = text(&run["command"]);
        assert!(command.ends_with(&format!("--rounds 1 --seed 5 --to '{address}#...'")), "{command}");
        assert!(!command.contains("--link") && !command.contains("--placement"), "{command}");
        assert!(run["problem"].is_null() && run["failed_rounds"] == 0, "{run}");
    }

    for (id, about, why) in [
        ("A1", "machine", "it is about one machine"),
        ("E26", "set-up", "it needs a special set-up, and the network between two hosts cannot be set up"),
    ] {
        let skipped = claim(&report, id);
        assert_eq!((text(&skipped["about"]), text(&skipped["headline"])), (about, "not-testable"));
        assert!(text(&skipped["decides"]).contains(why), "{skipped}");
        for row in list(&skipped["rows"]) {
            assert_eq!((text(&row["skipped"]), &row["verdict"]), (why, &"not-tested".into()));
            assert_eq!((&row["measured"], &row["run"]), (&Value::Null, &Value::Null));
        }
    }
    assert!(text(&row(claim(&report, "A19"), "local, at best")["why"]) == "skipped: it is about one machine");
    let lan = row(claim(&report, "A19"), "LAN");
    assert!(lan["measured"]["value"].is_number() && lan["verdict"] == "shown", "{lan}");
    assert_eq!(claim(&report, "A19")["headline"], "not-testable", "whether this is a LAN is not measured");
    let echo = claim(&report, "D1");
    assert_eq!(echo["headline"], "other-hardware", "{echo}");
    let echo = &list(&echo["rows"])[0];
    assert!(echo["measured"]["value"].is_number() && echo["skipped"].is_null(), "{echo}");
    assert_eq!(
        (&echo["given_back"], text(&echo["stand_in"])),
        (&false.into(), "an echo over UDP in place of a ping")
    );
    let waits = claim(&report, "D6");
    assert!(row(waits, "two round trips with Nagle on")["measured"]["value"].is_number());
    assert_eq!(row(waits, "for the ACK of the first")["why"], "skipped: it is about one machine");
    let through = claim(&report, "E15");
    assert_eq!(through["headline"], "undecided", "{through}");
    assert!(text(&list(&through["rows"])[0]["why"]).contains("nothing fell back"), "{through}");
    assert_eq!(through["decides"], "a path that blocks UDP");

    let shown = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.starts_with("6 claims on the path to 127.0.0.1: "), "{shown}");
    assert!(shown.contains("Skipped: it is about one machine."), "{shown}");
    assert!(page.contains("it is about one machine") && page.contains("127.0.0.1"), "{page}");
    drop(served);
}

#[test]
fn without_a_claim_about_a_path_no_server_is_contacted_and_no_file_is_created() {
    let place = Place::new();
    let ran = place.hairpin("claims run A1 E27 --to @none").refused();
    let why = "nothing can be tested, and nothing was run: A1 is skipped: it is about one machine; E27 is skipped: it is about";
    assert!(ran.stderr.contains(why), "{ran:#?}");
    place
        .hairpin("claims run D1 --cpu 0,0")
        .refused()
        .told("--cpu cannot set the CPUs of claims, which name placements");
    assert_eq!(names_in(&place.path(".")), ["tmp"]);
}
