//! Claims in the terminal and on the page: snapshots, and rules that hold for any report.

use hairpin_model::figure::NoInterval;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::OuterBounds;
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Document, Figure, JudgedRow, Judgement};
use hairpin_report::html;
use hairpin_report::terminal::{Look, render_claims};
use hairpin_report::words::write_claims;
use hairpin_testing::schema;

use crate::shown::{assert_says, count, joined};
use crate::support::claims::{STAND_IN, invalid, listed, overview, page_of, shown, tested, without_decision};

#[test]
fn snapshots_of_claims() {
    for width in [60, 80, 100] {
        insta::assert_snapshot!(format!("listed_claims_at_{width}_columns"), shown(&listed(), width));
        insta::assert_snapshot!(format!("tested_claims_at_{width}_columns"), shown(&tested(), width));
        insta::assert_snapshot!(
            format!("claims_without_decision_at_{width}_columns"),
            shown(&without_decision(), width)
        );
        insta::assert_snapshot!(format!("overview_of_claims_at_{width}_columns"), shown(&overview(), width));
    }
}

#[test]
fn the_answer_counts_the_claims_of_each_headline() {
    let answer =
        |report: &ClaimsReport| joined(&shown(report, 300)).split(". ").next().unwrap_or_default().to_owned();
    let counts = "12 claims here: 1 holds, 1 holds with another size, 1 holds only under a condition, 1 without a \
                  difference, 1 contradicted, 2 undecided, 1 answered, 1 about other hardware, 1 not testable here, 1 \
                  without an experiment yet, 1 not tested";
    assert_eq!(answer(&overview()), counts);
    let mut far = tested();
    far.to = Some("lab".to_owned());
    far.claims = vec![far.claims[0].clone(); 2];
    assert_eq!(answer(&far), "2 claims on the path to lab: 2 hold");
    assert!(html::render_claims(&far).contains("from the path to lab"));
    assert_eq!(answer(&listed()), "7 claims: 7 can be tested here, 0 not yet");
    let mut one = tested();
    one.claims.truncate(1);
    assert!(shown(&one, 80).starts_with("B1   With default options"), "the page of one claim is its own answer");
}

#[test]
fn the_overview_has_one_line_for_each_claim() {
    let mut report = overview();
    let own = report.claims.clone();
    report.claims = own.iter().cycle().take(69).cloned().collect();
    for (place, claim) in report.claims.iter_mut().enumerate() {
        claim.id = format!("Z{place}");
    }
    report.remarks = vec!["2 older verdicts by other rules are left out.".to_owned()];
    for width in [60, 80, 100, 120] {
        let text = shown(&report, width);
        let of_claims: Vec<&str> = text.lines().filter(|line| line.starts_with('Z')).collect();
        assert_eq!(of_claims.len(), 69, "{text}");
        let begins = |(place, line): (usize, &&str)| line.split(' ').next() == Some(format!("Z{place}").as_str());
        assert!(of_claims.iter().enumerate().all(begins), "{text}");
        let others: Vec<&str> = text.lines().filter(|line| !line.starts_with('Z')).collect();
        // The answer, the remark, failed runs, and the footer.
        assert!(others.len() < 20, "{others:#?}");
        assert_says(&joined(&text), &["69 claims here:", "2 older verdicts by other rules are left out."]);
    }
}

#[test]
fn the_overview_has_verdict_statement_and_age_on_a_line() {
    let text = shown(&overview(), 80);
    let line = |id: &str| text.lines().find(|line| line.starts_with(&format!("{id} "))).expect("a line of the claim");
    assert_eq!(line("B3"), "B3   No difference   UDP is faster than TCP                                  2 d");
    assert_eq!(line("B5"), "B5   Contradicted    A pipe is faster than TCP");
    assert_eq!(line("B12"), "B12  Not tested      The cork has to be released at the right moment");
    let cut = "B1   Holds           With default options 10 000 logical packets take...";
    assert_eq!(line("B1"), cut);
    let mut new = overview();
    new.claims.iter_mut().for_each(|claim| claim.age_s = claim.age_s.map(|_| 0));
    assert!(shown(&new, 80).contains("packets take 410 s..."), "without ages there is more room");
}

#[test]
fn no_line_is_wider_than_the_terminal_or_ends_in_a_space() {
    // East Asian letters are two columns wide.
    let columns = |line: &str| line.chars().map(|letter| if letter > '\u{2e80}' { 2 } else { 1 }).sum::<usize>();
    for width in [60, 80, 100, 120] {
        for report in [listed(), tested(), without_decision(), overview()] {
            let text = shown(&report, width);
            let wide: Vec<&str> = text.lines().filter(|line| columns(line) > width).collect();
            assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
            assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        }
    }
}

#[test]
fn no_text_of_a_page_is_cut_at_any_width() {
    for width in [40, 60, 80, 100] {
        for report in [listed(), tested(), without_decision()] {
            let text = joined(&shown(&report, width));
            for claim in &report.claims {
                let texts = [&claim.statement, &claim.text.sentence, &claim.text.why, &claim.text.so_what];
                for said in texts.into_iter().chain(&claim.text_errors) {
                    assert!(text.contains(said), "{} at {width}: {said}\n{text}", claim.id);
                }
            }
        }
        assert!(joined(&shown(&listed(), width)).contains(STAND_IN));
        // Letters that need no blanks may be split.
        let quote = |text: &str| text.replace(char::is_whitespace, "");
        assert!(quote(&shown(&tested(), width)).contains("使用带有选项的程序示例of2bytes"));
    }
}

#[test]
fn a_claims_page_has_the_verdict_why_and_what_follows_before_the_rows() {
    let text = page_of(&tested(), "B2", 80);
    let parts =
        ["B2   ", "Holds, other size: ", "By axis: ", "Why: ", "So: ", "faster (direction): confirmed", "Source: "];
    let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}")));
    assert!(places.is_sorted(), "{places:?}\n{text}");
    assert!(text.lines().count() <= 45, "four rows fit a screen: {}\n{text}", text.lines().count());
    assert!(page_of(&tested(), "B1", 80).lines().count() <= 30);
}

#[test]
fn a_reason_is_told_once_on_a_page() {
    let (report, none) = (tested(), without_decision());
    let text = joined(&page_of(&report, "B7", 100));
    assert_eq!(count(&text, "48 of 48 rounds are invalid"), 1, "{text}");
    assert_says(
        &text,
        &["ratio (size): undecided, as above; 100.6 x in the text", "the first (size): undecided, as above"],
    );
    assert_eq!(count(&joined(&page_of(&none, "B10", 100)), "`periodic`"), 1);
    assert_eq!(count(&joined(&page_of(&none, "B11", 100)), "icmp: no permission"), 1);
    assert_eq!(count(&joined(&page_of(&report, "B2", 100)), "the kernel's timer sets it"), 3, "different conditions");
    let mut twice = report.clone();
    let row = twice.claims[0].rows[0].clone();
    twice.claims[0].rows = vec![JudgedRow { name: "one".to_owned(), ..row.clone() }, row];
    assert_eq!(count(&joined(&page_of(&twice, "B1", 100)), STAND_IN), 1);
}

#[test]
fn rows_that_decide_nothing_say_so() {
    let text = joined(&page_of(&tested(), "B2", 100));
    assert_says(&text, &["rate (size): shown", "Decides nothing: a figure of the text's own hardware."]);
    let mut report = tested();
    let row = report.claims[1].rows.last_mut().expect("the row that is shown");
    row.judgement = Judgement { verdict: Some(Verdict::Undecided), reason: Some(invalid()), ..Judgement::default() };
    write_claims(&mut report);
    assert!(joined(&page_of(&report, "B2", 100)).contains("rate (size): not measured; 490.24 bytes/ms in the text"));
}

#[test]
fn an_untested_claim_names_the_command_that_tests_it() {
    assert!(shown(&without_decision(), 80).contains("Not tested (hint: hairpin claims run B12)."));
    let mut own = without_decision();
    own.command_line = ["hairpin", "claims", "--file", "own.toml"].map(str::to_owned).to_vec();
    assert!(!shown(&own, 80).contains("hint:"), "a claim of the user's file has no such command");
}

/// The fixture, with what the runs of the first claims warn of.
fn with_warnings(mut report: ClaimsReport) -> ClaimsReport {
    let warnings = ["noisy-machine", "link-late"].map(str::to_owned);
    report.runs[0].warnings = warnings.to_vec();
    report.claims[0].warnings = warnings.to_vec();
    report.claims[1].warnings = warnings[..1].to_vec();
    report.claims[1].congestion_controls = ["bbr", "cubic"].map(str::to_owned).to_vec();
    report
}

#[test]
fn a_claims_page_has_the_warnings_of_its_runs_and_the_congestion_controls_of_its_streams() {
    let [warns, streams] = ["Warns: ", "With: "];
    let (report, bare) = (with_warnings(tested()), tested());
    let of = |id: &str| joined(&page_of(&report, id, 100));
    assert_says(&of("B1"), &["Warns: other programs used the machine; the emulated link was late"]);
    assert!(!of("B1").contains(streams));
    let line = "Warns: other programs used the machine With: streams had the congestion control bbr and cubic";
    assert_says(&of("B2"), &[line]);
    for page in [of("B3"), shown(&bare, 100)] {
        assert!(!page.contains(warns) && !page.contains(streams), "{page}");
    }
    let page = html::render_claims(&report);
    let runs = "<b>The runs warn</b> other programs used the machine";
    assert_eq!([count(&page, &format!("{runs}; the emulated link was late.")), count(&page, runs)], [1, 2]);
    let of_run = "Warns: other programs used the machine; the emulated link was late.";
    assert_says(&page, &["The streams had the congestion control bbr and cubic.", of_run]);
    let page = html::render_claims(&bare);
    assert!(!page.contains("The runs warn") && !page.contains("Warns:") && !page.contains("The streams had"));
}

#[test]
fn the_overview_names_each_warning_with_its_claims() {
    let report = with_warnings(overview());
    let caution =
        "Warnings about the runs: the emulated link was late (B1); other programs used the machine (B1 and B2).";
    assert_says(&joined(&shown(&report, 100)), &[caution]);
    assert_says(&html::render_claims(&report), &[caution]);
    let begin = "Warnings about the runs";
    assert!(!shown(&with_warnings(tested()), 100).contains(begin), "the page of each claim has its own");
    assert!(![shown(&overview(), 100), html::render_claims(&overview())].iter().any(|page| page.contains(begin)));
    let mut unknown = overview();
    unknown.claims[0].warnings = vec!["of-a-later-version".to_owned()];
    assert_says(&joined(&shown(&unknown, 100)), &["Warnings about the runs: of a later version (B1)."]);
}

#[test]
fn the_confirmed_part_of_a_contradicted_claim_is_named() {
    let mut report = tested();
    let confirmed = report.claims[1].rows[0].clone();
    report.claims[4].rows.push(confirmed.clone());
    report.claims[4].rows.push(JudgedRow { name: "cheaper".to_owned(), ..confirmed });
    write_claims(&mut report);
    let sentence = "Contradicted: pipe > TCP: 0.281 x (0.270-0.292); confirmed: faster and cheaper.";
    assert_eq!(report.claims[4].text.sentence, sentence);
}

#[test]
fn failed_and_incomplete_runs_are_named() {
    let mut report = tested();
    report.runs.push(report.runs[0].clone());
    (report.runs[1].name, report.runs[1].problem) = ("B-other".to_owned(), Some("icmp: no permission".to_owned()));
    report.state = State::Interrupted;
    let text = joined(&shown(&report, 100));
    assert_says(
        &text,
        &["PARTIAL: ended by the user", "B-small-writes: 1 round failed", "B-other: icmp: no permission"],
    );
    assert_says(
        &html::render_claims(&report),
        &["PARTIAL: ended by the user", "1 round failed", "icmp: no permission"],
    );
}

#[test]
fn claims_are_unchanged_after_a_round_trip_through_json() {
    for report in [listed(), tested(), without_decision(), overview()] {
        let json = report.to_json();
        assert_eq!(serde_json::from_str::<ClaimsReport>(&json).expect("a valid report"), report);
        let document = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(schema::faults(&document), [""; 0]);
        let mut again = report.clone();
        write_claims(&mut again);
        assert_eq!(again, report, "the texts of a saved report are those of its reasons");
    }
}

#[test]
fn names_cannot_control_the_terminal_or_the_page() {
    let mut report = tested();
    let claim = &mut report.claims[0];
    claim.statement = "red\u{1b}[31m\u{202e}text".to_owned();
    claim.rows[0].name = "row\u{7}\nname".to_owned();
    claim.source.quote = "\u{1b}]0;title".to_owned();
    for text in [shown(&report, 80), html::render_claims(&report)] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    }
}

#[test]
fn colours_only_add_styles() {
    for report in [tested(), without_decision(), overview()] {
        let coloured = render_claims(&report, &Look { width: 80, colour: true });
        let mut bare = String::new();
        for part in coloured.split('\u{1b}') {
            let text = if bare.is_empty() && !coloured.starts_with('\u{1b}') {
                part
            } else {
                part.split_once('m').map_or("", |(_, text)| text)
            };
            bare.push_str(text);
        }
        assert_eq!(bare, shown(&report, 80));
    }
}

#[test]
fn figures_without_an_interval_show_the_outer_bounds_that_decided() {
    let mut report = tested();
    report.claims.truncate(1);
    let judgement = &mut report.claims[0].rows[0].judgement;
    judgement.measured = Some(Figure::without(4.52, NoInterval::TooFewRounds));
    judgement.outer_bounds = Some(OuterBounds { low: 4.1, high: 5.03, rounds: 4 });
    write_claims(&mut report);
    let note = "No interval: fewer than 5 rounds count; the outer bounds of its rounds decide.";
    let sentence = "Holds: 4.52 bytes/ms (outer bounds of 4 rounds: 4.10-5.03) here, 4.873 bytes/ms in the text.";
    let page = shown(&report, 100);
    assert_says(&joined(&page), &[note, sentence]);
    assert!(page.lines().any(|line| line.contains("=(===*==o)=")), "a picture: {page}");
    assert_says(&page, &["[*] measured, (*) with the outer bounds of its rounds"]);
    let page = html::render_claims(&report);
    assert_says(&page, &[note, "outer bounds of 4 rounds: 4.10-5.03", "class=\"interval\""]);
    let judgement = &mut report.claims[0].rows[0].judgement;
    judgement.outer_bounds = None;
    write_claims(&mut report);
    let sentence = "Holds: 4.52 bytes/ms (no interval) here, 4.873 bytes/ms in the text.";
    assert_says(&joined(&shown(&report, 100)), &[sentence]);
}
