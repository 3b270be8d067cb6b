//! Fixture claims with all headlines. All figures are invented.

use hairpin_model::claim::{About, Axis, ClaimKind, Kept, Knob};
use hairpin_model::judged_claim::{Axes, ClaimText, Headline, Verdict};
use hairpin_model::reason::{Bound, OrderStep, Place};
use hairpin_model::run::State;
use hairpin_model::{
    ClaimsReport, Figure, FigureName, JudgedClaim, JudgedRow, Judgement, Published, Reason, Source, TestRun, Tool,
    Value,
};
use hairpin_report::terminal::{Look, render_claims};
use hairpin_report::words::write_claims;

pub const STAND_IN: &str = "a server that sleeps 4 ms: these 4 ms are set here, not measured";
pub const NODELAY: &str = "tcp block same-cpu nodelay 100x2 B";
pub const DEFAULT: &str = "tcp block same-cpu default 100x2 B";

fn text(text: &str) -> String {
    text.to_owned()
}

pub fn number(value: f64, unit: &str) -> Published {
    Published { value: Value::Number(value), unit: text(unit) }
}

pub fn order(names: &[&str]) -> Published {
    let names = names.iter().map(|name| text(name)).collect();
    Published { value: Value::Order(names), unit: text("order, the fastest first") }
}

/// A row that is tested by the run `B-small-writes`, without a result.
pub fn untested(name: &str, axis: Axis, published: Published) -> JudgedRow {
    JudgedRow {
        name: text(name),
        axis,
        published,
        judgement: Judgement::default(),
        given_back: false,
        other_hardware: false,
        shown: None,
        knob: None,
        case: None,
        evidence: None,
        run: Some(text("B-small-writes")),
        rule_because: Some(text("the kernel's timer sets it")),
        rule_changed: Some(text("2026-11-22")),
        missing: None,
        about: About::Machine,
        skipped: None,
        stand_in: None,
    }
}

/// The row with a result; the unit is that of the published value.
pub fn judged(row: JudgedRow, measured: Option<Figure>, verdict: Verdict, reason: Reason) -> JudgedRow {
    let unit = match reason {
        Reason::Order { .. } | Reason::Widens { .. } => text("x"),
        Reason::Often { .. } | Reason::Compared { bound: Bound::SavesAtLeast { .. }, .. } => text("share"),
        _ => row.published.unit.clone(),
    };
    let margin = match &reason {
        Reason::Compared { bound: Bound::Within { number, factor }, .. } => {
            Some([Some(number / factor), Some(number * factor)])
        }
        Reason::Compared { bound: Bound::AtMost { number }, .. } => Some([None, Some(*number)]),
        Reason::Compared { bound: Bound::AtLeast { number } | Bound::SavesAtLeast { share: number }, .. } => {
            Some([Some(*number), None])
        }
        Reason::Order { margin, .. } => Some([Some(1.0 / (1.0 + margin)), Some(1.0 + margin)]),
        _ => None,
    };
    let (case, evidence) = (reason.case(), Some(text("B-small-writes/report.html")));
    let judgement = Judgement {
        measured_unit: measured.is_some().then_some(unit),
        measured,
        margin: margin.filter(|_| measured.is_some()),
        verdict: Some(verdict),
        reason: Some(reason),
        ..Judgement::default()
    };
    JudgedRow { judgement, case, evidence, ..row }
}

pub fn compared(place: Place, against: Option<&str>, bound: Bound) -> Reason {
    Reason::Compared { figure: FigureName::BytesPerMs, case: text(NODELAY), against: against.map(text), place, bound }
}

pub fn within(number: f64) -> Bound {
    Bound::Within { number, factor: 2.0 }
}

/// A row about a figure with an interval 10 % up and down, within a factor of 2.
fn size(name: &str, published: f64, unit: &str, measured: f64) -> JudgedRow {
    let figure = Figure::new(measured, 0.9 * measured, 1.1 * measured);
    let (place, verdict) = match (figure.low, figure.high) {
        (Some(low), Some(high)) if low >= published / 2.0 && high <= published * 2.0 => {
            (Place::Inside, Verdict::Confirmed)
        }
        (_, Some(high)) if high < published / 2.0 => (Place::Below, Verdict::Refuted),
        (Some(low), _) if low > published * 2.0 => (Place::Above, Verdict::Refuted),
        _ => (Place::Across, Verdict::Undecided),
    };
    let row = untested(name, Axis::Size, number(published, unit));
    judged(row, Some(figure), verdict, compared(place, None, within(published)))
}

pub fn step(names: [&str; 2], verdict: Verdict, ratio: Result<Figure, Reason>) -> OrderStep {
    let (absent, ratio) = (ratio.clone().err().map(Box::new), ratio.ok());
    OrderStep { names: names.map(text), verdict, ratio, outer_bounds: None, absent }
}

pub fn ordered(steps: Vec<OrderStep>) -> Reason {
    Reason::Order { figure: FigureName::P50, steps, margin: 0.05 }
}

/// A row about two figures, the first of which should be smaller.
fn direction(name: &str, names: [&str; 2], verdict: Verdict, ratio: Figure) -> JudgedRow {
    let reason = ordered(vec![step(names, verdict, Ok(ratio))]);
    judged(untested(name, Axis::Direction, order(&names)), Some(ratio), verdict, reason)
}

fn missing(mut row: JudgedRow, part: &str) -> JudgedRow {
    row.judgement.verdict = Some(Verdict::NotTested);
    row.judgement.reason = Some(Reason::Missing { part: text(part) });
    JudgedRow { missing: Some(text(part)), run: None, rule_because: None, rule_changed: None, evidence: None, ..row }
}

pub fn invalid() -> Reason {
    let reasons = vec![text("48 of 48 rounds are invalid, the first because messages waited up to 146 us for a CPU")];
    Reason::Invalid { case: text(NODELAY), reasons }
}

pub fn source() -> Source {
    let text = str::to_owned;
    Source {
        letter: text("B"),
        title: text("What <TCP_CORK> does"),
        author: text("unknown"),
        publisher: text("A vendor"),
        url: text("unknown"),
        retrieved: text("2026-11-20"),
        what: text("A manual page"),
        setting: text("a Linux machine"),
        quote: text("使用 带有选项的程序示例 of 2 bytes"),
    }
}

fn claim(id: &str, statement: &str, headline: Headline, axes: [Verdict; 3], rows: Vec<JudgedRow>) -> JudgedClaim {
    let [direction, size, cause] = axes;
    JudgedClaim {
        id: text(id),
        kind: if headline == Headline::Answered { ClaimKind::Question } else { ClaimKind::Statement },
        statement: text(statement),
        source: source(),
        published: rows[0].published.clone(),
        about: About::Machine,
        headline: Some(headline),
        only_if: None,
        text: ClaimText {
            sentence: String::new(),
            why: format!("The mechanism of {id}: Nagle's algorithm holds the other writes until an ACK arrives."),
            so_what: format!("What follows from {id}: write each request in one call."),
        },
        axes: Axes { direction, size, cause },
        rows,
        text_errors: Vec::new(),
        warnings: Vec::new(),
        congestion_controls: Vec::new(),
        decides: None,
        age_s: Some(0),
    }
}

use Verdict::{Confirmed, Equal, NotClaimed, NotTested, Refuted, Undecided};

fn holds() -> JudgedClaim {
    let long = "With default options 10 000 logical packets take 410 s: TCP combines the writes and waits for an ACK in \
                each of them";
    let mut rows = vec![size("", 4.873, "bytes/ms", 4.52)];
    rows[0].stand_in = Some(text(STAND_IN));
    JudgedClaim {
        text_errors: vec![text("The text has 4.873 bytes/ms in the table and 4.9 in its summary.")],
        ..claim("B1", long, Headline::Holds, [NotClaimed, Confirmed, NotClaimed], rows)
    }
}

fn other_size() -> JudgedClaim {
    let saved = Figure::new(0.999_83, 0.999_8, 0.999_86);
    let reason = compared(Place::Inside, Some(DEFAULT), Bound::SavesAtLeast { share: 0.9 });
    let cause = untested("NODELAY removes the wait <b>", Axis::Cause, number(0.99, "share"));
    let mut hardware = size("rate", 490.24, "bytes/ms", 1565.0);
    hardware.judgement.verdict = Some(Verdict::Shown);
    (hardware.other_hardware, hardware.shown) = (true, Some(text("a figure of the text's own hardware")));
    let rows = vec![
        direction("faster", ["TCP_NODELAY", "default"], Confirmed, Figure::new(347.0, 314.0, 384.0)),
        size("against default", 100.6, "x", 347.0),
        judged(cause, Some(saved), Confirmed, reason),
        hardware,
    ];
    let statement = "With TCP_NODELAY they take a hundredth of the time, which <ends> the wait";
    claim("B2", statement, Headline::HoldsOtherSize, [Confirmed, Refuted, Confirmed], rows)
}

fn no_difference() -> JudgedClaim {
    let rows = vec![direction("", ["UDP", "TCP"], Equal, Figure::new(1.008, 0.99, 1.026))];
    claim("B3", "UDP is faster than TCP", Headline::NoDifference, [Equal, NotClaimed, NotClaimed], rows)
}

fn holds_only_if() -> JudgedClaim {
    let knob = |value: &str| Knob { name: text("NODELAY"), value: text(value) };
    let mut rows = vec![
        direction("NODELAY", ["UDP", "TCP"], Confirmed, Figure::new(1.5, 1.4, 1.6)),
        direction("no NODELAY", ["UDP", "TCP"], Refuted, Figure::new(0.8, 0.75, 0.85)),
    ];
    (rows[0].knob, rows[1].knob) = (Some(knob("on")), Some(knob("off")));
    let axes = [Confirmed, NotClaimed, NotClaimed];
    JudgedClaim {
        only_if: Some(knob("on")),
        ..claim("B4", "UDP is faster than TCP with NODELAY", Headline::HoldsOnlyIf, axes, rows)
    }
}

fn contradicted() -> JudgedClaim {
    let rows = vec![direction("", ["pipe", "TCP"], Refuted, Figure::new(0.281, 0.27, 0.292))];
    claim("B5", "A pipe is faster than TCP", Headline::Contradicted, [Refuted, NotClaimed, NotClaimed], rows)
}

fn undecided_with_figures() -> JudgedClaim {
    let often = Reason::Often {
        figure: FigureName::Max,
        case: text(DEFAULT),
        place: Place::Across,
        rounds: 5,
        reached: 3,
        bound: 1.0,
        share: 0.5,
    };
    let without = compared(Place::Unknown, None, Bound::AtMost { number: 2.0 });
    let rows = vec![
        size("median", 5.0, "ms", 10.0),
        judged(untested("p99", Axis::Size, number(1.5, "ms")), Some(Figure::bare(1.2)), Undecided, without),
        judged(
            untested("worst", Axis::Size, number(1.0, "ms")),
            Some(Figure::new(0.6, 0.147, 0.947)),
            Undecided,
            often,
        ),
    ];
    claim("B6", "TCP takes 5 ms", Headline::Undecided, [NotClaimed, Undecided, NotClaimed], rows)
}

fn undecided_without_figures() -> JudgedClaim {
    let steps = vec![
        step(["default", "NODELAY"], Undecided, Err(invalid())),
        step(["NODELAY", "one write"], Undecided, Err(invalid())),
    ];
    let size = untested("ratio", Axis::Size, number(100.6, "x"));
    let absent = untested("the first", Axis::Size, number(100.0, "ms"));
    let few = Reason::NotMeasured { case: text(DEFAULT), cause: None };
    let rows = vec![
        judged(untested("order", Axis::Direction, order(&["default", "NODELAY", "one write"])), None, Undecided, {
            ordered(steps)
        }),
        judged(size, None, Undecided, invalid()),
        judged(absent, None, Undecided, few),
    ];
    let axes = [Undecided, Undecided, NotClaimed];
    claim("B7", "Each option is faster than the one before", Headline::Undecided, axes, rows)
}

fn other_hardware() -> JudgedClaim {
    let mut rows = vec![size("", 0.25, "ms", 0.0702)];
    rows[0].judgement.verdict = Some(Verdict::Shown);
    (rows[0].other_hardware, rows[0].shown) = (true, Some(text("a figure of the text's own hardware")));
    claim("B8", "A round trip takes a quarter of a millisecond", Headline::OtherHardware, [NotClaimed; 3], rows)
}

fn answered() -> JudgedClaim {
    let kept = vec![Kept::Extremes, Kept::Samples];
    let (absent, options, timer_slack_ns) = (Vec::new(), Vec::new(), None);
    let reason = Reason::Kept { case: text(DEFAULT), reported: kept, absent, options, timer_slack_ns };
    let published = Published { value: Value::Order(vec![text("minimum"), text("samples")]), unit: text("outputs") };
    let rows = vec![
        judged(untested("output", Axis::Size, published.clone()), None, Confirmed, reason),
        missing(untested("picture", Axis::Size, published), "a printer"),
    ];
    let axes = [NotClaimed, Confirmed, NotClaimed];
    claim("B9", "Which outputs does a measurement need?", Headline::Answered, axes, rows)
}

fn not_yet() -> JudgedClaim {
    let rows = vec![
        missing(untested("on one machine", Axis::Size, number(1.0, "ms")), "the experiment `periodic`"),
        missing(untested("on a LAN", Axis::Size, number(5.0, "ms")), "the experiment `periodic`"),
    ];
    claim("B10", "Sampling stays stable", Headline::NotYet, [NotClaimed, NotTested, NotClaimed], rows)
}

fn not_testable() -> JudgedClaim {
    let no_run = Reason::NoRun { run: text("small-writes"), cause: Some(text("icmp: no permission")) };
    let mut rows = vec![judged(untested("", Axis::Size, number(4.0, "ms")), None, NotTested, no_run)];
    rows[0].evidence = None;
    claim("B11", "A ping takes 4 ms", Headline::NotTestable, [NotClaimed, NotTested, NotClaimed], rows)
}

/// A claim that was only listed.
fn only_listed() -> JudgedClaim {
    let mut rows = vec![untested("", Axis::Direction, order(&["released after the last write", "forgotten"]))];
    rows[0].stand_in = Some(text(STAND_IN));
    JudgedClaim {
        headline: None,
        age_s: None,
        ..claim("B12", "The cork has to be released at the right moment", Headline::Holds, [NotClaimed; 3], rows)
    }
}

fn report(claims: Vec<JudgedClaim>) -> ClaimsReport {
    let run = TestRun {
        name: text("B-small-writes"),
        command: text("hairpin small-writes --seed 1"),
        because: text("the published pattern"),
        folder: Some(text("B-small-writes")),
        problem: None,
        failed_rounds: 1,
        warnings: Vec::new(),
    };
    let tool = Tool { name: text("hairpin"), version: text("0.1.0"), commit: None, build: text("release") };
    let mut report = ClaimsReport {
        tool,
        command_line: ["hairpin", "claims", "run"].map(text).to_vec(),
        started_unix_s: 1_795_000_000,
        duration_ns: 21_300_000_000,
        state: State::Complete,
        seed: Some(1),
        runs: vec![run],
        claims,
        ..ClaimsReport::default()
    };
    write_claims(&mut report);
    report
}

/// Seven tested claims: their pages are shown.
pub fn tested() -> ClaimsReport {
    let first = [holds(), other_size(), no_difference(), holds_only_if(), contradicted()];
    report(first.into_iter().chain([undecided_with_figures(), undecided_without_figures()]).collect())
}

/// Four claims without a figure that decides, and a claim that was only listed.
pub fn without_decision() -> ClaimsReport {
    report(vec![other_hardware(), answered(), not_yet(), not_testable(), only_listed()])
}

/// All claims, one of which was tested two days ago: more than are shown in detail.
pub fn overview() -> ClaimsReport {
    let mut all = tested();
    all.claims.extend(without_decision().claims);
    all.claims[2].age_s = Some(190_000);
    all
}

pub fn shown(report: &ClaimsReport, width: usize) -> String {
    render_claims(report, &Look { width, colour: false })
}

/// The fixture without results, as `hairpin claims` lists claims that nobody tested.
pub fn listed() -> ClaimsReport {
    let mut report = tested();
    for claim in &mut report.claims {
        (claim.headline, claim.only_if, claim.age_s) = (None, None, None);
        claim.text.sentence.clear();
        for row in &mut claim.rows {
            (row.judgement, row.case, row.evidence) = (Judgement::default(), None, None);
        }
    }
    (report.seed, report.runs) = (None, Vec::new());
    write_claims(&mut report);
    report
}

/// The report with this claim alone.
pub fn report_of(report: &ClaimsReport, id: &str) -> ClaimsReport {
    let mut one = report.clone();
    one.claims.retain(|claim| claim.id == id);
    one
}

/// The lines of a claim's page.
pub fn page_of(report: &ClaimsReport, id: &str, width: usize) -> String {
    shown(&report_of(report, id), width)
}
