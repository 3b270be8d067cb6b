//! The terminal text: snapshots, and rules that hold for any run.

use hairpin_model::figure::NoInterval;
use hairpin_model::finding::Severity;
use hairpin_model::options::OptionName;
use hairpin_model::run::State;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Capture, Case, Failure, FailureKind, Figure, InjectedFault, LatencyFigures, Load, Options, Run, Statement,
};
use hairpin_report::terminal::{Look, render, render_brief, render_more};

use crate::shown::{assert_fits, joined, plain};
use crate::support;

#[test]
fn snapshots_of_runs() {
    let (survey, writes) = (support::survey(1), support::small_writes::run(false));
    for (name, text) in [
        ("a_survey_at_80_columns", render(&survey, &plain(80))),
        ("a_survey_at_100_columns", render(&survey, &plain(100))),
        ("the_first_screen_of_a_survey_at_80_columns", render_brief(&survey, &plain(80))),
        ("the_first_screen_of_small_writes_at_80_columns", render_brief(&writes, &plain(80))),
        ("small_writes_at_80_columns", render(&writes, &plain(80))),
        ("small_writes_at_100_columns", render(&support::small_writes::run(true), &plain(100))),
    ] {
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn more_text_has_every_finding_and_note_below_the_same_table() {
    let run = support::survey(1);
    let (brief, more, all) =
        (render_brief(&run, &plain(100)), render_more(&run, &plain(100)), render(&run, &plain(100)));
    let table = &brief[..brief.find("\nCause: ").expect("a cause")];
    assert!(more.starts_with(table), "{more}");
    for finding in &run.findings {
        assert!(more.contains(&finding.code) && all.contains(&finding.code), "{}: {more}", finding.code);
    }
    let notes = all[all.find("\nA/A: ").expect("a pair")..].lines().take(2);
    notes.for_each(|line| assert!(more.contains(line), "{line}: {more}"));
    assert!(brief.lines().count() < more.lines().count() && more.lines().count() < all.lines().count());
}

/// The first screen omits replicates, and transports that the kernel answers on two CPUs.
#[test]
fn the_first_screen_has_every_measured_case() {
    let run = support::survey(1);
    let text = render_brief(&run, &plain(100));
    for row in run.cases.iter().filter(|row| row.valid && row.case.replicate == 0 && row.server().is_some()) {
        let p50 = hairpin_model::quantities::duration(row.p50_ns().expect("a measured case"));
        let name = hairpin_model::ladder::row_name(row);
        let has = |line: &str| line.trim_start_matches(['!', ' ']).starts_with(&name) && line.contains(&p50);
        assert!(text.lines().any(has), "{name} {p50}: {text}");
    }
}

#[test]
fn a_single_case() {
    let mut run = support::survey(1);
    run.cases.retain(|row| row.label == "tcp block same-cpu");
    run.comparisons.clear();
    run.findings.clear();
    run.skipped.clear();
    let case = run.cases[0].id.clone();
    support::answer(&mut run, vec![Statement::Single { case }]);
    insta::assert_snapshot!(render(&run, &plain(80)));
}

#[test]
fn tables_are_sorted_by_bytes_per_second_and_chains_by_p50() {
    let run = support::small_writes::pipelined();
    let text = render(&run, &plain(100));
    let table = &text[text.find("\nExchanges\n").expect("the table")..];
    let rows = table.lines().filter(|line| line.starts_with("  ") && line.contains(" us ")).take(4);
    let names: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["more", "cork", "one-write", "writev"], "rows are sorted by bytes per second: {table}");
    let chain =
        text.split("Which is faster at p50").nth(1).expect("the chain").split_whitespace().collect::<Vec<_>>();
    let chain = chain.join(" ");
    assert!(chain.contains("1. one-write, writev; 2. more; 3. cork; 4. nodelay"), "by p50: {chain}");
    let note = "By bytes per second, more and cork are faster than some cases before them";
    assert!(chain.contains(note), "with a note: {chain}");
    assert!(!render(&support::small_writes::run(true), &plain(100)).contains("than some cases before"));
}

#[test]
fn remedies_without_pauses_are_named_if_there_is_a_gap() {
    let mut run = support::small_writes::run(false);
    let wide = |run: &Run| joined(&render(run, &plain(100)));
    assert!(!wide(&run).contains("--gap"), "without a gap");
    support::small_writes::pause(&mut run, 1_000_000);
    let text = wide(&run);
    let note = "Pauses between writes (--gap): one-write and writev have none, batch=10 has fewer. If your program \
                needs these pauses, add them to the times.";
    assert_eq!(text.matches(note).count(), 1, "{text}");
    for row in &mut run.cases {
        row.case.primary_mut().load.exchange_mut().expect("a case with exchanges").writes =
            "3214".parse().expect("a write");
    }
    assert!(!wide(&run).contains("--gap pauses"), "requests of one write have no pauses");
}

#[test]
fn a_busy_machine_is_reported_near_the_top_if_it_is_a_warning() {
    for mut run in [support::survey(1), support::small_writes::run(false)] {
        let rounds: u64 = run.cases.iter().map(|row| row.rounds).sum();
        let first = |run: &Run| joined(&render(run, &plain(100)).lines().take(12).collect::<Vec<_>>().join(" "));
        assert!(!first(&run).contains("Other programs were active"));
        support::findings::disturb(&mut run, 0.5);
        let caution = format!(
            "Other programs were active in {} of {rounds} timed rounds (finding noisy-machine): figures may \
             differ on an idle machine.",
            rounds.div_ceil(2)
        );
        assert!(first(&run).contains(&caution), "{caution}: {}", first(&run));
        run.findings.last_mut().expect("the added finding").severity = Severity::Note;
        assert!(!first(&run).contains("Other programs were active"), "a note is shown further down");
    }
}

#[test]
fn the_cost_of_tracing_is_shown_with_its_sign() {
    let said = |costs: &[(Figure, f64)]| {
        let mut run = support::small_writes::run(true);
        for (place, row) in run.cases.iter_mut().enumerate() {
            let Some(trace) = &mut row.trace else { continue };
            (trace.cost_ns, trace.cost_ratio) = match costs.get(place) {
                Some((cost, ratio)) => (Some(*cost), Some(Figure::bare(*ratio))),
                None => (None, None),
            };
        }
        let text = render(&run, &plain(200));
        text.lines().find(|line| line.starts_with("Tracing: ")).expect("the cost").to_owned()
    };
    let added = (Figure::new(237_000.0, 106_000.0, 475_000.0), 1.69);
    let unclear = (Figure::new(5900.0, -64_000.0, 150_000.0), 2.0);
    let less = (Figure::new(-3_540_000.0, -3_910_000.0, -3_150_000.0), 0.919);
    let told = "Tracing: adds 237 us (106-475) to an exchange, +69 %, on tcp default";
    assert!(said(&[added]).starts_with(&format!("{told}; the tables exclude")));
    let smaller = (added.0, 1.1);
    let of_all = "the largest relative increase of all cases; the tables exclude";
    assert!(said(&[added, smaller]).starts_with(&format!("{told}, {of_all}")));
    let of_some = "the largest relative increase beyond round-to-round noise; the tables exclude";
    assert!(said(&[added, unclear, less]).starts_with(&format!("{told}, {of_some}")));
    let untold = |estimate: &str| {
        format!(
            "Tracing: adds nothing beyond round-to-round noise (largest relative estimate: {estimate}, on tcp default);"
        )
    };
    assert!(said(&[unclear]).starts_with(&untold("5.90 us (-64.0 us .. 150 us)")));
    let negative = said(&[less]);
    assert!(negative.starts_with(&untold("-3.54 ms (-3.91 ms .. -3.15 ms)")), "{negative}");
}

#[test]
fn the_name_of_a_traced_round_trip_has_its_transport_once() {
    let mut run = support::small_writes::run(true);
    for row in &mut run.cases {
        row.case.primary_mut().load = Load::PLAIN;
    }
    let text = render(&run, &plain(200));
    let told = text.lines().filter(|line| line.starts_with("Tracing: ") || line.starts_with("Capture: "));
    let told: Vec<&str> = told.collect();
    assert!(told.len() >= 2 && told.iter().all(|line| line.contains("tcp") && !line.contains("tcp tcp")), "{told:?}");
}

#[test]
fn if_until_was_missed_the_case_with_the_widest_interval_is_named() {
    let mut run = support::survey(1);
    let until = |share: &str| vec![("until".to_owned(), vec![share.to_owned()])];
    for row in &mut run.cases {
        row.primary_mut().latency_ns.p50 = Some(Figure::new(10_000.0, 9_900.0, 10_100.0));
    }
    run.cases[1].primary_mut().latency_ns.p50 = Some(Figure::new(10_000.0, 9_000.0, 11_000.0));
    let label = run.cases[1].label.clone();
    let told = |run: &Run| joined(&render(run, &plain(200)));
    assert!(!told(&run).contains("was not reached"));
    run.plan.knobs = until("2%");
    let expected = format!("--until 2% was not reached: {label} has +-11 % (hint: a longer --at-most)");
    assert_eq!(told(&run).matches(&expected).count(), 1, "{}", told(&run));
    run.plan.knobs = until("20%");
    assert!(!told(&run).contains("was not reached"));
    run.cases[1].primary_mut().latency_ns.p50 = Some(Figure::without(10_000.0, NoInterval::Trend));
    assert!(told(&run).contains(&format!("--until 20% was not reached: {label} has no interval")), "{}", told(&run));
}

#[test]
fn rounds_that_failed_for_the_same_cause_are_one_line() {
    let mut run = support::survey(1);
    let cause = |round: u32, what: &str| format!("round {round}: client: cannot {what} 127.0.0.1:{}", 40_000 + round);
    let causes = (1..=20).map(|round| cause(round, if round == 7 { "receive from" } else { "connect to" }));
    run.cases[0].failed_rounds = causes.collect();
    let text = render(&run, &plain(200));
    let label = run.cases[0].label.clone();
    for line in [
        format!("  {label}: 19 rounds failed: the first, {}\n", cause(1, "connect to")),
        format!("  {label}: 1 round failed: {}\n", cause(7, "receive from")),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert_eq!(text.matches(&format!("  {label}: ")).count(), 2, "{text}");
}

#[test]
fn a_saving_is_shown_with_its_interval() {
    let mut run = support::small_writes::run(false);
    let mut said = |effect: Figure| {
        run.findings[0].proved.as_mut().expect("a checked finding").effect = effect;
        let text = render(&run, &plain(100));
        text.lines().find(|line| line.starts_with("  check  ")).expect("the proof").to_owned()
    };
    let proof = "  check  set TCP_NODELAY. Confirmed:";
    assert_eq!(said(Figure::new(-54_100.0, -56_300.0, -52_000.0)), format!("{proof} saved 54.1 us (52.0-56.3)"));
    assert_eq!(said(Figure::new(-2000.0, -5000.0, 1000.0)), format!("{proof} saved 2.00 us (-1.00 us .. 5.00 us)"));
    assert_eq!(said(Figure::new(2000.0, 1000.0, 5000.0)), format!("{proof} added 2.00 us (1.00-5.00)"));
}

#[test]
fn a_finding_has_four_lines_a_brief_note_has_one_and_the_run_has_a_section() {
    let mut run = support::survey(1);
    let mut brief = run.findings[0].clone();
    (brief.severity, brief.share) = (Severity::Note, 0.0);
    brief.summary = "It costs nothing. This sentence is not shown.".to_owned();
    run.findings.push(brief);
    run.findings[0].proved.as_mut().expect("a checked finding").verdict = "refuted".to_owned();
    let text = render(&run, &plain(1000));
    let of = |title: &str| {
        let section = text.split(&format!("\n{title}\n")).nth(1).expect("the section");
        section.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let findings = of("Findings");
    let starts: Vec<&str> = findings.iter().map(|line| line.get(..9).unwrap_or(line)).collect();
    assert_eq!(starts, ["warning: ", "  On two ", "  fix    ", "  check  ", "note: wak"], "{findings:?}");
    assert!(findings[3].starts_with("  check  keep the CPUs awake. Not the cause: saved 58.8 us"), "{findings:?}");
    assert_eq!(findings[4], "note: wake-up-dominated: It costs nothing.");
    assert_eq!(
        of("Run and machine")[0],
        "note: drift: The rounds of tcp block cross-cpu grew by 10.9 % from the first to the last."
    );
}

#[test]
fn a_capture_without_a_file_is_reported_as_not_saved() {
    let mut run = support::small_writes::run(true);
    let unsaved = Capture::Saved { file: String::new(), packets: 61, dropped: 0 };
    run.cases[0].trace.as_mut().expect("a traced case").capture = unsaved;
    let line = |run: &Run| {
        let text = render(run, &plain(200));
        assert!(!text.contains("Capture:  ("), "{text}");
        text.lines().find(|line| line.contains("not saved")).expect("the capture").to_owned()
    };
    assert_eq!(line(&run), "Capture: tcp default: 61 packets captured and not saved: no cause was recorded");
    run.unsaved = vec![Failure::new(FailureKind::Other, "cannot write: the disk is full", "")];
    assert!(line(&run).ends_with("not saved: cannot write: the disk is full"));
}

#[test]
fn cases_omitted_from_the_table_of_first_exchanges_are_named() {
    let text = render(&support::small_writes::run(false), &plain(200)).replace('\n', " ");
    let left_out = "Not shown, as their first exchanges are within 1.5x of the p50, or have intervals that include \
                    it: more, cork, nodelay, quickack, cork-forgotten (tcp 100x2 B, block, same-cpu); default \
                    (unix-stream 100x2 B, block, same-cpu); default (pipe 100x2 B, block, same-cpu).";
    assert!(text.contains(left_out), "{text}");
}

#[test]
fn exchanges_like_the_steady_state_have_no_separate_table() {
    let mut run = support::small_writes::run(false);
    for row in &mut run.cases {
        let p50 = row.primary().latency_ns.p50;
        row.primary_mut().exchanges.as_mut().expect("a case with exchanges").early_exchanges_ns =
            p50.into_iter().collect();
    }
    assert!(!render(&run, &plain(80)).contains("First exchanges"));
}

#[test]
fn an_interrupted_run_is_reported_first() {
    let mut run = support::survey(1);
    run.state = State::Interrupted;
    let text = render(&run, &plain(80));
    assert!(
        text.starts_with("PARTIAL RUN: stopped by Ctrl-C or SIGTERM; 378 of 380 rounds were measured."),
        "{text}"
    );
}

#[test]
fn cases_never_measured_are_not_called_invalid() {
    let mut run = support::survey(1);
    run.state = State::Interrupted;
    let before = run.cases.iter().filter(|row| !row.valid).count();
    assert_eq!(before, 1, "one case of the survey is invalid, and all were measured");
    for row in &mut run.cases[..2] {
        (row.rounds, row.primary_mut().samples, row.valid, row.primary_mut().latency_ns) =
            (0, 0, false, LatencyFigures::default());
        row.failed_rounds.clear();
        row.why_invalid = vec!["none of its rounds was measured completely".to_owned()];
    }
    let text = render(&run, &plain(100));
    let cautions = "1 case is invalid (marked with !): do not use its figures.\n\
                    2 cases were not measured (no figures).\n";
    assert!(text.contains(cautions), "{text}");
    let line = format!("{} was not measured", run.cases[1].label);
    assert!(text.contains(&format!("! {line}\n")), "{text}");
    let page = hairpin_report::html::render(&run);
    assert!(page.contains(&format!("<b>{}</b> was not measured</li>", run.cases[1].label)), "on the page");
    run.cases[1].failed_rounds.push("round 0: refused".to_owned());
    assert!(!render(&run, &plain(100)).contains(&line), "a case with failed rounds is not called unmeasured");
}

#[test]
fn a_run_without_measured_rounds_gives_the_reason_and_no_empty_table() {
    let mut run = support::survey(1);
    run.cases.clear();
    run.comparisons.clear();
    run.findings.clear();
    support::answer(&mut run, vec![Statement::NothingMeasured]);
    let text = render(&run, &plain(80));
    assert!(text.starts_with("Nothing was measured: no case could be run."), "{text}");
    assert!(!text.contains("Round trips"), "{text}");
    assert!(text.contains("Skipped"), "{text}");
}

/// Tests every fixture run, and runs whose cases have long labels.
#[test]
fn no_line_exceeds_the_width_and_the_first_screen_has_at_most_45_lines() {
    use crate::support::small_writes::{pipelined, run, run_with};
    use crate::support::{links, one_way, under_load};
    let of_gaps = |case: &mut Case| {
        case.injected_fault = Some(InjectedFault { stall_ns: 4_000_000, every: 1, sleeps: true });
        case.primary_mut().options = Options::default().with(OptionName::Congestion, "cubic");
        case.primary_mut().load.exchange_mut().into_iter().for_each(|exchange| {
            exchange.writes = "4,3210".parse().expect("valid writes");
            exchange.gap_ns = 1_000_000;
            exchange.pipeline = 12;
        });
    };
    let one_way = [one_way::message_rate(), one_way::write_sizes(), one_way::offered_load(), support::bulk::run()];
    let over_links = [links::run(), links::run_over("home-uplink"), links::run_over(links::TYPED)];
    let writes = [run(false), run(true), pipelined(), run_with(false, of_gaps), run_with(true, of_gaps)];
    let others = [support::survey(1), under_load::congestion(), under_load::two_cpus()];
    others.iter().chain(&one_way).chain(&over_links).chain(&writes).for_each(assert_fits);
}

#[test]
fn columns_are_aligned() {
    let text = render(&support::survey(1), &plain(100));
    let header = text.lines().find(|line| line.trim_start().starts_with("p50 ")).expect("the header");
    let ends = header.find("p50").unwrap() + 3;
    let rows: Vec<&str> = text.lines().skip_while(|line| *line != header).skip(1).collect();
    let figures = rows.iter().filter(|line| line.starts_with("  ") && line.contains(" us  ")).take(30);
    let mut seen = 0;
    for row in figures {
        let cell = &row[..ends];
        assert!(cell.ends_with("us") || cell.ends_with("ns") || cell.ends_with("ms"), "{row}");
        seen += 1;
    }
    assert_eq!(seen, 30);
}

#[test]
fn colour_appears_only_if_requested_and_changes_no_text() {
    let run = support::survey(1);
    let (without, with) = (render(&run, &plain(80)), render(&run, &Look { width: 80, colour: true }));
    assert!(!without.contains('\u{1b}') && with.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut inside = false;
    for letter in with.chars() {
        match letter {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ if inside => {}
            other => stripped.push(other),
        }
    }
    assert_eq!(stripped, without);
}

#[test]
fn a_slowed_machine_is_reported_with_an_example() {
    let text = render(&support::slowed_survey(), &plain(120)).replace('\n', " ");
    let expected = "Machine: 1.21x slower during 40 % of rounds (shared core?); figures are from the other rounds. While slower, tcp \
                    block same-cpu took 5.70 us instead of 13.4 us.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_failed_calibration_is_reported() {
    let mut run = support::survey(1);
    run.comparisons[0].verdict = Verdict::Slower;
    run.comparisons[0].ratio = Figure::new(1.04, 1.02, 1.06);
    let text = render(&run, &plain(120)).replace('\n', " ");
    assert!(
        text.contains("measured twice: slower (+2.0 % .. +6.0 %). Ignore smaller differences in this run"),
        "{text}"
    );
}

#[test]
fn an_a_a_pair_without_an_interval_is_not_calibrated() {
    let mut run = support::survey(1);
    run.comparisons[0].ratio = Figure::bare(0.998);
    let text = render(&run, &plain(120)).replace('\n', " ");
    assert!(text.contains("measured twice: -0.2 %; 10 paired rounds are too few for an interval"), "{text}");
    assert!(!text.contains("measured twice: no difference found"), "{text}");
    let good = |run: &Run| hairpin_report::html::render(run).contains("class=\"badge good\">A");
    assert!(good(&support::survey(1)) && !good(&run), "the page does not show the pair as good");
    run.comparisons[0].ratio = Figure::new(0.998, 0.78, 1.6);
    let text = render(&run, &plain(120)).replace('\n', " ");
    assert!(text.contains("measured twice: too noisy to tell (-22 % .. +60 %)") && !good(&run), "{text}");
}

#[test]
fn the_answer_is_rendered_from_statements_and_not_from_saved_texts() {
    let mut run = support::survey(1);
    run.answer.headline = "No difference found between tcp and udp.".to_owned();
    run.answer.sentences = vec!["It took 5 us.".to_owned(), "That is all.".to_owned()];
    let text = render(&run, &plain(300));
    let expected = "Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50 140 ns.\n\
                    95 % interval 140-142. tcp under the same conditions: 8.60 us (61.3x). Waking the other CPU is up to 84 % of \
                    a blocking round trip between two CPUs (finding wake-up-dominated).\n";
    assert!(text.starts_with(expected), "{text}");
    let page = hairpin_report::html::render(&run);
    assert!(page.contains("<h1>Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50"));
    assert!(page.contains("tcp under the same conditions: 8.60\u{a0}µs"));
    assert!(!page.contains("No difference found between tcp and udp") && !page.contains("That is all."));
}

#[test]
fn chains_follow_the_saved_pairs() {
    let chain = |run: &Run| {
        let text = render(run, &plain(100));
        let (_, rest) = text.split_once("Which is faster at p50").expect("a chain");
        let (_, body) = rest.split_once('\n').expect("lines below the heading");
        joined(body.split_once("\n\n").expect("a blank line").0)
    };
    let mut run = support::survey(1);
    run.answer.pairs.truncate(3);
    assert_eq!(chain(&run), "block, same-cpu 1. memory threads; 2. icmp; 3. shm; 4. pipe");
    run.answer.pairs[1].verdict = Verdict::CannotTell;
    run.answer.pairs[2].verdict = Verdict::Unlike;
    assert_eq!(chain(&run), "block, same-cpu 1. memory threads; 2. icmp, shm; | pipe");
    run.answer.pairs.remove(1);
    assert_eq!(
        chain(&run),
        "block, same-cpu 1. memory threads; 2. icmp block, same-cpu 1. shm; | pipe",
        "two chains"
    );
    run.answer.pairs.clear();
    assert!(!render(&run, &plain(100)).contains("Which is faster"));
}

#[test]
fn the_only_cause_of_all_failed_rounds_is_shown_once_and_without_tables() {
    let mut run = support::survey(1);
    run.findings.clear();
    support::answer(&mut run, vec![Statement::NothingMeasured]);
    for (number, row) in run.cases.iter_mut().enumerate() {
        (row.rounds, row.valid) = (0, false);
        row.why_invalid = vec!["all 3 rounds failed".to_owned()];
        row.failed_rounds =
            (0..3).map(|round| format!("round {}: the server has gone", 3 * number + round)).collect();
    }
    let failed = 3 * run.cases.len();
    let told = format!("! {failed} rounds failed: the first, round 0: the server has gone\n");
    let brief = render_brief(&run, &plain(100));
    assert!(brief.ends_with(&told), "{brief}");
    assert_eq!(brief.matches("failed").count(), 1, "{brief}");
    assert!(!brief.contains("is invalid") && !brief.contains("p50"), "{brief}");
    let all = joined(&render(&run, &plain(100)));
    let (label, others) = (&run.cases[0].label, run.cases.len() - 1);
    assert!(
        all.contains(&format!("{label} and {others} other cases: {failed} rounds failed: the first, round 0: the"))
    );
    assert_eq!(all.matches("the server has gone").count(), 1, "{all}");
    // With a second cause, everything is shown.
    run.cases[0].failed_rounds[0] = "round 0: refused".to_owned();
    let brief = render_brief(&run, &plain(100));
    assert!(brief.contains("are invalid (marked with !)") && brief.contains("refused"), "{brief}");
}
