//! The page: its structure, content that it must never have, and its texts for runs with few results.

use hairpin_model::run::State;
use hairpin_model::{Capture, Case, Figure, Run};
use hairpin_report::html::render;
use hairpin_report::{csv_table, terminal};

use crate::shown::{assert_says, plain};
use crate::support;

/// Elements that have no end tag.
const VOID: &[&str] = &["meta", "link", "input", "br"];

/// A start or end tag.
struct Tag {
    name: String,
    closes: bool,
    empty: bool,
    attributes: String,
}

/// The tags of a page, without the contents of `style` and `script`.
fn tags(page: &str) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if rest.starts_with('!') {
            rest = &rest[rest.find('>').expect("a declaration ends") + 1..];
            continue;
        }
        let mut quoted = false;
        let end = rest
            .char_indices()
            .find(|(_, letter)| {
                quoted ^= *letter == '"';
                *letter == '>' && !quoted
            })
            .expect("a tag ends")
            .0;
        let inside = &rest[..end];
        rest = &rest[end + 1..];
        let closes = inside.starts_with('/');
        let bare = inside.trim_start_matches('/').trim_end_matches('/');
        let (name, attributes) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
        let tag =
            Tag { name: name.to_owned(), closes, empty: inside.ends_with('/'), attributes: attributes.to_owned() };
        if !closes && (name == "style" || name == "script") {
            let end = rest.find(&format!("</{name}>")).expect("an end tag");
            rest = &rest[end..];
        }
        tags.push(tag);
    }
    tags
}

/// Asserts that every element has its end tag, and that elements are nested.
fn assert_well_formed(page: &str) {
    let mut open: Vec<String> = Vec::new();
    for tag in tags(page) {
        let quotes = tag.attributes.matches('"').count();
        assert!(quotes % 2 == 0, "quotes of <{} {}>", tag.name, tag.attributes);
        assert!(!tag.name.is_empty() && tag.name.chars().all(|c| c.is_ascii_alphanumeric()), "<{}>", tag.name);
        if tag.closes {
            assert_eq!(open.pop().as_deref(), Some(tag.name.as_str()), "after {open:?}");
        } else if !tag.empty && !VOID.contains(&tag.name.as_str()) {
            open.push(tag.name);
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

fn attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    let start = tag.attributes.find(&format!("{name}=\""))? + name.len() + 2;
    tag.attributes[start..].split('"').next()
}

/// Renders the page. Asserts that it is well-formed and that all figures are finite.
pub(crate) fn sound(run: &Run) -> String {
    let page = render(run);
    assert_well_formed(&page);
    assert_finite(&page);
    page
}

fn assert_finite(page: &str) {
    let words = page.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let bad: Vec<&str> = words.filter(|word| ["NaN", "inf", "-inf", "Infinity"].contains(word)).collect();
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn the_page_is_well_formed_and_its_ids_are_unique() {
    let page = sound(&support::survey(1));
    let tags = tags(&page);
    let mut ids: Vec<&str> = tags.iter().filter_map(|tag| attribute(tag, " id").or(attribute(tag, "id"))).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for tag in tags.iter().filter(|tag| tag.name == "label" && !tag.closes) {
        let target = attribute(tag, "for").expect("the input of a label");
        assert!(ids.contains(&target), "{target}");
    }
}

#[test]
fn the_page_loads_nothing() {
    for run in [support::survey(1), support::small_writes::run(true), support::links::run()] {
        assert_loads_nothing(&render(&run));
    }
}

fn assert_loads_nothing(page: &str) {
    for loads in ["http://", "https://", " src=", "@import", "url(", "<iframe", "<object", "fetch(", "XMLHttpRequest"]
    {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'"), "the content security policy forbids loading");
    for tag in tags(page).iter().filter(|tag| (tag.name == "use" || tag.name == "link") && !tag.closes) {
        let target = attribute(tag, "href").expect("a target");
        assert!(target.starts_with("#m") || target == "data:,", "{target}");
    }
}

#[test]
fn the_page_is_small_and_does_not_grow_with_samples() {
    let mut run = support::survey(1);
    while run.cases.len() < 40 {
        let more = run.cases[run.cases.len() - 5].clone();
        run.cases.push(more);
    }
    let size = render(&run).len();
    assert!(size < 1_500_000, "{size}");
    for row in &mut run.cases {
        let more = row.round_points.clone();
        row.round_points.extend(more);
    }
    let twice = render(&run).len();
    assert!(twice < 2 * size, "{twice} against {size}");
    for row in &mut run.cases {
        row.primary_mut().curve = (0..20_000)
            .map(|point| hairpin_model::summary::CurvePoint {
                quantile: f64::from(point) / 20_000.0,
                latency_ns: 1000.0 + f64::from(point),
            })
            .collect();
    }
    let fine_curves = render(&run).len();
    assert!(fine_curves < 1_500_000, "points at the same position are drawn once: {fine_curves}");
}

#[test]
fn charts_have_a_mark_for_each_case_or_round() {
    let run = support::survey(1);
    let page = render(&run);
    let count = |text: &str| page.matches(text).count();
    assert_eq!(count("<circle class=\"p50\""), run.cases.len());
    assert_eq!(count("<rect class=\"interval\" x=\"0\""), run.cases.len(), "a band in each panel");
    let with_p99 = run.cases.iter().filter(|row| row.primary().latency_ns.p99.is_some()).count();
    assert_eq!(count("<line class=\"p99\""), with_p99);
    let valid = run.cases.iter().filter(|row| row.valid).count();
    assert_eq!(count("<g class=\"curve "), valid, "invalid cases have no curve");
    assert_eq!(count("<svg class=\"chart percentiles\""), 3);
    assert_eq!(count("<svg class=\"chart rounds\""), run.cases.len());
    let rounds: usize = run.cases.iter().map(|row| row.round_points.len()).sum();
    assert_eq!(count("<title>round "), rounds);
    let rows = tags(&page).iter().filter(|tag| tag.name == "tr" && !tag.closes).count();
    assert_eq!(rows, run.cases.len() + 1);
}

#[test]
fn charts_have_labels_units_and_scales() {
    let page = render(&support::survey(1));
    for tag in tags(&page).iter().filter(|tag| tag.name == "svg" && !tag.closes) {
        let named = attribute(tag, "aria-label").is_some_and(|label| !label.is_empty());
        let hidden = tag.attributes.contains("aria-hidden") || !tag.attributes.contains("role=\"img\"");
        assert!(named || hidden, "{}", tag.attributes);
    }
    assert_says(&page, &["latency of a round trip (log scale)", "99.9 %", "10\u{a0}µs", "95&nbsp;% interval"]);
}

#[test]
fn small_writes_have_tables_and_a_chart_per_traced_exchange() {
    let run = support::small_writes::run(true);
    let page = sound(&run);
    let count = |text: &str| page.matches(text).count();
    assert_eq!(count("<svg class=\"chart time-sequence\""), 4, "one chart per traced exchange");
    assert_eq!(count("<desc>"), 4);
    assert_eq!(count("<details open>"), 1, "the most telling case");
    let open = page.find("<details open><summary>tcp block same-cpu default").expect("default options first");
    assert!(open < page.find("<details><summary>tcp block same-cpu cork-forgotten").expect("then by longest wait"));
    assert_eq!(count("<circle class=\"p50\""), run.cases.len(), "the ranking has a lane for each case");
    assert_eq!(count("<rect class=\"wait nagle\""), 1);
    assert_eq!(count("<rect class=\"wait delayed-ack\""), 1);
    assert_eq!(count("<rect class=\"wait cork\""), 1);
    assert_says(
        &page,
        &[
            "latency of an exchange (log scale)",
            "Latency of an exchange on a logarithmic scale",
            "speed-up against default",
            "First exchanges of a connection",
            "held 44.0\u{a0}ms by Nagle&#39;s",
            "tcp-default.pcapng (61 packets)",
            "Tracing: adds 11.2\u{a0}µs",
            "waits for ACK\u{a0}2",
            "Not shown, as their first exchanges",
        ],
    );
    assert!(!render(&support::survey(1)).contains("id=\"time-sequence\""), "no section without traces");
}

#[test]
fn each_link_has_a_path_charts_and_a_ledger() {
    let run = support::links::run();
    let page = sound(&run);
    let count = |text: &str| page.matches(text).count();
    let over_links = run.cases.iter().filter(|row| row.path.relay.is_some()).count();
    assert_eq!((count("<article class=\"link\">"), over_links), (3, 5));
    assert_eq!(count("<ol class=\"link-path up\"") + count("<ol class=\"link-path down\""), 2 * over_links);
    // Of 10 directions, 8 have a time line, 6 have a queue in which packets waited, and 4 have drops.
    assert_eq!(count("<figcaption>Packets per second"), 8);
    assert_eq!(count("<figcaption>Queue, "), 6);
    assert_eq!(count("<figcaption>Dropped packets"), 4);
    assert_eq!(count("<line class=\"limit\""), 4, "the downward depth is far below the limit");
    assert_eq!(count("<details open>"), 1, "the round with the most drops");
    let open = page.find("<details open>").expect("an open round");
    assert!(page[open..].starts_with("<details open><summary>udp block same-cpu, round 4</summary>"));
    for said in [
        "home-uplink (seed 7)",
        "5.5mbit/s, queue limit 2752KiB, tail drop",
        "inside for 24.9\u{a0}ms (mean)",
        "dropped: full 552",
        "5\u{a0}540 (loss 20, queue 5\u{a0}520)",
        "bound 100\u{a0}µs",
        "packet 411, 1500 B with payload: arrived at 274\u{a0}ms, dropped at 899\u{a0}ms by loss: random",
        "maximum at 1.79\u{a0}s: 2.69 MiB in 1 879 packets",
        "40 later drops not marked",
        "No queue: this direction has no rate limit. Nothing was dropped.",
        "The time of drops was not recorded.",
        "12 rounds do not count",
    ] {
        assert!(page.replace(' ', "\u{a0}").contains(&said.replace(' ', "\u{a0}")), "{said}");
    }
    assert!(!render(&support::survey(1)).contains("id=\"links\""), "no section without a link");
}

#[test]
fn drops_close_together_are_one_mark_with_their_number() {
    let mut run = support::links::run_over("home-uplink");
    run.cases.truncate(1);
    let page = render(&run);
    let marks = page.matches("dropped from ").count();
    assert!((5..130).contains(&marks), "{marks} marks of 552 drops");
    let of_lane =
        page.split("<title>").filter_map(|rest| rest.split_once(" packets, numbers ")).map(|(count, _)| count);
    let merged: u64 = of_lane.map(|count| count.replace(' ', "").parse::<u64>().expect("a count")).sum();
    let single = page.matches("<title>packet ").count() as u64;
    assert_eq!(merged + single, 554, "each drop has a mark");
}

#[test]
fn a_link_of_all_cases_is_named_once_otherwise_each_group_names_its_link() {
    let page = render(&support::links::run_over("home-uplink"));
    assert!(page.contains("Link: home-uplink, of all cases: up=5.5mbit"));
    assert!(page.contains("<h3 class=\"lane-group\">block, same-cpu</h3>"));
    let page = render(&support::links::run());
    assert!(page.contains("<h3 class=\"lane-group\">block, same-cpu, over home-uplink</h3>"));
    assert_eq!(page.matches("<small>over home-uplink</small>").count(), 2, "in the table of figures");
}

#[test]
fn every_tab_has_its_panel() {
    let mut run = support::links::run();
    let row = run.cases[1].clone();
    for ms in 3..20 {
        let mut more = row.clone();
        more.case.path.link = format!("delay={ms}ms");
        more.case.path.name = None;
        run.cases.push(more);
    }
    let page = render(&run);
    for tab in 1..=21 {
        let chosen = format!(".tabs > input:nth-of-type({tab}):checked ~ .panel:nth-of-type({}) {{", tab + 1);
        assert!(page.contains(&chosen), "{chosen}");
    }
    assert_eq!(page.matches("data-group=\"block, same-cpu, over delay=19ms\"").count(), 2);
    assert!(page.contains("are in the run"), "further links are counted");
    assert!(page.len() < 1_500_000, "{}", page.len());
}

#[test]
fn damaged_link_records_are_shown_without_a_panic() {
    let mut run = support::links::run();
    for (place, row) in run.cases.iter_mut().enumerate() {
        let Some(link) = &mut row.path.relay else { continue };
        link.relay_cpu_ns_per_packet = Some(f64::NAN);
        link.packets.entered = u64::MAX / 100;
        let up = &mut link.shown.as_mut().expect("a shown round").up;
        let Some(timeline) = &mut up.timeline else { continue };
        match place {
            1 => timeline.interval_ns = 0,
            2 => timeline.interval_ns = u64::MAX,
            3 => timeline.entered.clear(),
            4 => timeline.queue_packets_max.clear(),
            _ => up.stages.clear(),
        }
        timeline.out.truncate(3);
        if let Some(depth) = timeline.queue_bytes_max.first_mut() {
            *depth = u64::MAX;
        }
        if let Some(drop) = up.drops.first_mut() {
            (drop.dropped_ns, drop.stage) = (u64::MAX, "beyond".to_owned());
        }
        up.packets.out = 0;
    }
    let page = sound(&run);
    assert!(page.contains("does not close"), "the page reports ledgers that do not close");
}

#[test]
fn a_time_sequence_has_a_description_in_words() {
    let page = render(&support::small_writes::run(true));
    let from = page.find("aria-label=\"Time sequence of an exchange, tcp block same-cpu default").expect("the chart");
    let described = &page[from..from + page[from..].find("</desc>").expect("its description")];
    assert_says(described, &["client: SYN", "server: SYN-ACK", "99 writes of 2 B", "server: ACK 2", "ACK delayed"]);
}

#[test]
fn a_page_with_many_long_traces_stays_small() {
    let mut run = support::small_writes::run(true);
    let traced = run.cases[1].clone();
    while run.cases.len() < 80 {
        let mut more = traced.clone();
        let sequence = more.trace.as_mut().and_then(|trace| trace.sequence.as_mut()).expect("a traced case");
        for _ in 0..4 {
            let events = sequence.events.clone();
            sequence.events.extend(events);
        }
        run.cases.push(more);
    }
    let page = render(&run);
    assert!(page.len() < 1_500_000, "{}", page.len());
    assert!(page.contains("more traced cases, with shorter waits"), "omitted cases are counted");
    assert!(page.contains("later events are in the trace file of the run"));
}

#[test]
fn the_first_group_is_shown_without_the_script() {
    let page = render(&support::survey(1));
    let tags = tags(&page);
    let radios: Vec<&Tag> = tags.iter().filter(|tag| tag.name == "input").collect();
    let checked: Vec<&str> = radios
        .iter()
        .filter(|tag| tag.attributes.contains("checked"))
        .filter_map(|tag| attribute(tag, "data-group"))
        .collect();
    assert_eq!(radios.len(), 6);
    assert_eq!(checked, ["block, same-cpu", "block, same-cpu"]);
}

/// A run whose texts all contain markup and control characters.
fn hostile() -> Run {
    const EVIL: &str = "</script><b onload=\"x\">'&amp;\u{0}<svg/onload=y>\u{1b}]0;title\u{7}\u{1b}[2J\r\nfake line";
    let mut run = support::survey(1);
    let case = Case::ping_pong(EVIL).with(|changed| changed.path.link = EVIL.to_owned());
    run.cases[2].label = case.label();
    run.cases[2].case = case;
    run.cases[2].failed_rounds = vec![EVIL.to_owned()];
    run.cases[3].valid = false;
    run.cases[3].why_invalid = vec![EVIL.to_owned()];
    run.cases[4].primary_mut().ledger.lost.insert(EVIL.to_owned(), 3);
    run.findings[0].code = EVIL.to_owned();
    run.findings[0].summary = EVIL.to_owned();
    run.findings[0].advice = EVIL.to_owned();
    run.findings[0].evidence[0].what = EVIL.to_owned();
    run.findings[0].evidence[0].unit = EVIL.to_owned();
    run.findings[0].cases.push(EVIL.to_owned());
    let traced = support::small_writes::run(true);
    run.cases.extend(traced.cases.into_iter().take(2));
    let [.., skipped, saved] = run.cases.as_mut_slice() else { panic!("no cases") };
    skipped.label = EVIL.to_owned();
    skipped.trace.as_mut().expect("a traced case").capture = Capture::Skipped { reason: EVIL.to_owned() };
    saved.case.primary_mut().transport = EVIL.to_owned();
    saved.trace.as_mut().expect("a traced case").capture =
        Capture::Saved { file: EVIL.to_owned(), packets: 1, dropped: 1 };
    run.cases.extend(support::links::run_over("home-uplink").cases);
    let row = run.cases.last_mut().expect("a case over a link");
    row.case.path.name = Some(EVIL.to_owned());
    row.case.path.link = EVIL.to_owned();
    row.valid = false;
    let link = row.path.relay.as_mut().expect("a case over a link");
    link.rounds_left_out = vec![EVIL.to_owned()];
    link.packets.dropped.insert(EVIL.to_owned(), 1);
    let up = &mut link.shown.as_mut().expect("a round is shown").up;
    let timeline = up.timeline.as_mut().expect("a time line");
    timeline.dropped.insert(EVIL.to_owned(), vec![1; 9]);
    up.stages[1].packets.dropped.insert(EVIL.to_owned(), 1);
    (up.stages[2].stage, up.stages[2].figures) = (EVIL.to_owned(), EVIL.to_owned());
    (up.drops[0].stage, up.drops[0].reason) = (EVIL.to_owned(), EVIL.to_owned());
    run.skipped[0].reason = EVIL.to_owned();
    run.skipped[0].case = Some(EVIL.to_owned());
    run.hosts[0].environment.kernel = EVIL.to_owned();
    run.hosts[0].environment.settings.insert(EVIL.to_owned(), EVIL.to_owned());
    run.plan.experiment = EVIL.to_owned();
    run.plan.question = EVIL.to_owned();
    run.plan.knobs.push((EVIL.to_owned(), vec![EVIL.to_owned()]));
    run.command_line.push(EVIL.to_owned());
    run.tool.commit = Some(EVIL.to_owned());
    run
}

#[test]
fn all_text_from_the_run_is_escaped() {
    let (page, plain) = (render(&hostile()), render(&support::survey(1)));
    assert_well_formed(&page);
    let names = |page: &str, name: &str| tags(page).iter().filter(|tag| tag.name == name && !tag.closes).count();
    assert_eq!(names(&page, "script"), 1);
    assert!(!page.contains("<b onload") && !page.contains("<svg/onload") && !page.contains("onload=\"x\""));
    assert!(page.contains("&lt;b onload=&quot;x&quot;&gt;"), "markup is shown as text");
    assert_eq!(page.matches("</script>").count(), plain.matches("</script>").count());
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn texts_from_the_run_cannot_control_the_terminal() {
    let text = terminal::render(&hostile(), &plain(80));
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
}

#[test]
fn values_that_are_missing_or_not_finite_are_not_shown() {
    let mut run = support::survey(1);
    for (place, row) in run.cases.iter_mut().enumerate() {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0][place % 5];
        row.primary_mut().latency_ns.max = Some(Figure::new(bad, bad, bad));
        row.primary_mut().latency_ns.p99 = None;
        row.primary_mut().rate_per_s = Some(Figure::bare(bad));
        row.primary_mut().setup_ns = Some(Figure::bare(bad));
        row.ends[0].cpu_seconds = bad;
        row.primary_mut().curve[3].latency_ns = bad;
        row.primary_mut().curve[4].quantile = bad;
        row.round_points[2].p50_ns = bad;
        row.round_points[3].max_ns = bad;
        if place % 3 == 0 {
            row.primary_mut().latency_ns.p50 = Some(Figure::new(bad, bad, bad));
        }
    }
    run.findings[0].share = f64::NAN;
    run.findings[0].evidence[0].value = Figure::new(f64::NAN, f64::INFINITY, 0.0);
    run.comparisons[0].ratio = Figure::new(f64::NAN, f64::NAN, f64::NAN);
    sound(&run);
    assert_finite(&render(&support::survey(1)));
    for text in [terminal::render(&run, &plain(100)), csv_table::summary(&run)] {
        assert!(!["NaN", "inf ", "inf,"].iter().any(|bad| text.contains(bad)), "{text}");
    }
}

#[test]
fn a_run_without_figures_has_notes_instead_of_blank_charts() {
    let mut run = support::survey(1);
    run.cases.clear();
    run.comparisons.clear();
    run.findings.clear();
    let page = sound(&run);
    assert_says(
        &page,
        &["no ranking to draw", "No percentile curve", "No round was measured", "No case was measured"],
    );
    assert!(!page.contains("<svg class=\"chart"), "no empty chart");
}

#[test]
fn a_single_case_with_a_single_round_has_a_page() {
    let mut run = support::survey(1);
    run.cases.retain(|row| row.label == "tcp block cross-cpu");
    let row = &mut run.cases[0];
    row.rounds = 1;
    row.round_points.truncate(1);
    row.primary_mut().curve.truncate(1);
    row.primary_mut().latency_ns.p50 = Some(Figure::bare(70_000.0));
    run.comparisons.clear();
    let page = sound(&run);
    assert_eq!(page.matches("<circle class=\"p50\"").count(), 1);
    assert_eq!(page.matches("<title>round ").count(), 1);
}

#[test]
fn invalid_cases_without_a_curve_count_as_measured() {
    let mut run = support::survey(1);
    run.cases.retain(|row| !row.primary().curve.is_empty());
    for row in &mut run.cases {
        row.valid = false;
        row.why_invalid = vec!["the emulator was late".to_owned()];
    }
    let measured = run.cases.len();
    let (several, one) = (render(&run), {
        run.cases.truncate(1);
        render(&run)
    });
    assert!(
        several.contains(&format!("No percentile curve: {measured} cases were measured, none with usable figures"))
    );
    let label = &run.cases[0].label;
    assert!(one.contains(&format!("do not use the figures of {label}, as the emulator was late.")), "{label}");
    for page in [several, one] {
        assert_well_formed(&page);
        assert!(!page.contains("no round was measured") && !page.contains("chart percentiles"));
    }
}

#[test]
fn microseconds_have_the_same_unit_in_figures_and_sentences() {
    let mut run = support::survey(1);
    run.findings[0].summary = "It takes 70.2 us (8.12 us to 9 us), and 5 us. Ask us.".to_owned();
    let page = render(&run);
    assert!(page.contains("It takes 70.2\u{a0}µs (8.12\u{a0}µs to 9\u{a0}µs), and 5\u{a0}µs. Ask us."));
}

#[test]
fn a_page_has_notes_on_pauses_and_on_a_busy_machine() {
    let mut run = support::small_writes::run(false);
    let said = ["Pauses between writes (--gap)", "Other programs were active"];
    assert!(said.iter().all(|said| !render(&run).contains(said)), "no pauses and no busy machine");
    support::small_writes::pause(&mut run, 1_000_000);
    support::findings::disturb(&mut run, 1.0);
    let page = render(&run);
    for said in said {
        assert_eq!(page.matches(said).count(), 1, "{said}");
    }
}

#[test]
fn a_partial_run_has_a_warning_above_the_answer() {
    let mut run = support::survey(1);
    run.state = State::Running;
    let page = render(&run);
    let (alarm, heading) = (page.find("PARTIAL RUN").expect("the warning"), page.find("<h1>").expect("a heading"));
    assert!(alarm < heading);
}

#[test]
fn the_page_has_the_command_that_repeats_the_run() {
    let mut run = support::survey(1);
    // Each word of a command is an element, so that browsers do not break words at hyphens.
    let words = |page: String| page.replace("<span class=\"word\">", "").replace("</span>", "");
    let page = words(render(&run));
    assert_says(
        &page,
        &["hairpin --seed 42", "hairpin 0.1.0 (commit 0123456789ab, release build)", "run format 3", "bbr"],
    );
    run.command_line = ["hairpin", "round-trip", "--seed=7"].map(str::to_owned).to_vec();
    let page = render(&run);
    assert!(page.contains("<span class=\"word\">--seed=7</span>"), "a flag is one element");
    assert!(words(page).contains("<code>hairpin round-trip --seed=7</code>"), "no second flag --seed");
    for out in [&["--out", "here"][..], &["--out=here"]] {
        let flags = [&["hairpin", "survey"], out, &["--quiet"]].concat();
        run.command_line = flags.into_iter().map(str::to_owned).collect();
        let page = words(render(&run));
        assert!(page.contains("<code>hairpin survey --quiet --seed 42</code>"), "without the used folder");
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(render(&support::survey(7)), render(&support::survey(7)));
    assert_ne!(render(&support::survey(7)), render(&support::survey(8)));
}

#[test]
fn rounds_of_a_slowed_machine_have_rings_a_legend_and_a_table() {
    let run = support::slowed_survey();
    let page = render(&run);
    let (_, table) = page.split_once("Rounds in the other state of the machine</h3>").expect("a table");
    let (table, _) = table.split_once("</table>").expect("the end of the table");
    assert_eq!(table.matches("<tr").count(), 2, "a header and a case with figures: {table}");
    assert!(table.contains("40\u{a0}%") && table.contains("5.70"), "{table}");
    let rings =
        page.matches("<circle class=\"slowed\" cx=\"").count() - page.matches("</svg>machine slowed</li>").count();
    let slowed_rounds = run.cases.iter().flat_map(|row| &row.round_points).filter(|point| point.state == 1).count();
    assert_eq!(rings, slowed_rounds);
    assert_eq!(page.matches("</svg>machine slowed</li>").count(), 3, "in the legend of each group");
    let usual = render(&support::survey(1));
    assert!(!usual.contains("other state") && !usual.contains("machine slowed"));
}
