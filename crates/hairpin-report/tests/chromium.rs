//! The page in a browser, in both colour schemes and at several widths.
//!
//! The tests need Chromium: the program that `HAIRPIN_CHROMIUM` names, or else the first one on the path. The browser
//! gets a temporary profile folder and no network.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests in a browser need files, a process and a time-out"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_testing::{or_skip, program};

use crate::support;

const TIMEOUT: Duration = Duration::from_secs(90);
/// Vertical offsets to which the test moves the three charts, in pixels.
const PLACES: [(&str, usize); 3] = [("ranking", 0), ("percentiles", 2500), ("rounds", 4000)];
const HEIGHT: usize = 7000;

struct Picture {
    width: usize,
    rgb: Vec<[u8; 3]>,
}

fn chromium() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("HAIRPIN_CHROMIUM").map(PathBuf::from) {
        let problem = format!("HAIRPIN_CHROMIUM={} is not a file", named.display());
        return Some(named).filter(|named| named.is_file()).ok_or(problem);
    }
    let names = ["chromium-browser", "google-chrome", "chromium"].map(program);
    names.into_iter().reduce(Result::or).expect("names is not empty")
}

/// The command of a headless browser that opens `file` in `folder`, in light or dark colours.
fn browsing(browser: &Path, folder: &Path, file: &str, dark: bool) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"])
        .args(["--no-first-run", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join(file).display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Takes a picture of a page; `dark` is the preferred colour scheme.
fn picture(browser: &Path, page: &str, width: usize, dark: bool) -> Picture {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, png) = (folder.path().join("report.html"), folder.path().join("report.png"));
    std::fs::write(&file, page).expect("the page is written");
    let mut command = browsing(browser, folder.path(), "report.html", dark);
    command.arg(format!("--window-size={width},{HEIGHT}")).arg(format!("--screenshot={}", png.display()));
    let mut child = command.stdout(Stdio::null()).spawn().expect("the browser starts");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("the browser can be waited for") {
            Some(status) => break Some(status),
            None if begun.elapsed() > TIMEOUT => {
                child.kill().expect("the browser can be killed");
                child.wait().expect("the browser can be reaped");
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    assert!(status.is_some_and(|status| status.success()), "the browser did not take a picture: {status:?}");
    decoded(&png)
}

fn decoded(png: &Path) -> Picture {
    let file = std::io::BufReader::new(std::fs::File::open(png).expect("the picture was written"));
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().expect("a PNG file");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size that fits memory")];
    let frame = reader.next_frame(&mut bytes).expect("a decodable picture");
    let samples = frame.color_type.samples();
    assert!(samples >= 3, "the picture has colours");
    let rgb =
        bytes[..frame.buffer_size()].chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    Picture { width: frame.width as usize, rgb }
}

/// The page with only its charts, at known positions.
fn only_charts(page: &str) -> String {
    let mut style = String::from("<style>.top,.answer,footer,main>section{display:none}");
    for (id, top) in PLACES {
        style.push_str(&format!(
            "main>#{id}{{display:block;position:absolute;top:{top}px;left:0;right:0;margin:0;padding:0 16px}}"
        ));
    }
    style.push_str("</style></head>");
    // Show all curves, including hidden curves.
    page.replace(" gone\"", "\"").replacen("</head>", &style, 1)
}

/// The colours `--s0` to `--s7` of the light or dark scheme in the style of the page.
fn series_colours(page: &str, dark: bool) -> Vec<[u8; 3]> {
    let colour = |number: usize| named_colour(page, &format!("s{number}"), dark);
    (0..8).map(colour).collect()
}

fn near(a: [u8; 3], b: [u8; 3]) -> bool {
    a.iter().zip(b).all(|(one, other)| one.abs_diff(other) <= 6)
}

#[test]
fn no_chart_is_blank_in_a_browser() {
    let browser = or_skip!(chromium());
    let run = support::survey(1);
    let page = only_charts(&hairpin_report::html::render(&run));
    for (width, dark) in [(1200, false), (500, true)] {
        let picture = picture(&browser, &page, width, dark);
        assert_eq!(picture.width, width);
        let paper = picture.rgb[picture.width * 2 - 1];
        assert_eq!(paper[0] < 128, dark, "the page follows the reader's scheme: {paper:?}");
        let colours = series_colours(&page, dark);
        for (place, (id, top)) in PLACES.iter().enumerate() {
            let bottom = PLACES.get(place + 1).map_or(HEIGHT, |(_, next)| *next);
            let area = &picture.rgb[top * picture.width..bottom * picture.width];
            let distinct: std::collections::BTreeSet<[u8; 3]> = area.iter().copied().collect();
            assert!(distinct.len() > 50, "{id} at {width}: only {} colours", distinct.len());
            for (series, colour) in colours.iter().enumerate() {
                let pixels = area.iter().filter(|pixel| near(**pixel, *colour)).count();
                assert!(pixels > 60, "{id} at {width}: series {series} has only {pixels} pixels of {colour:?}");
            }
        }
    }
}

/// The colour after `name: #` in the light or dark scheme.
fn named_colour(page: &str, name: &str, dark: bool) -> [u8; 3] {
    let name = format!("--{name}: #");
    let start = page.match_indices(&name).nth(usize::from(dark)).expect("a colour of both schemes").0 + name.len();
    let channel = |place: usize| u8::from_str_radix(&page[start + place..start + place + 2], 16).expect("a colour");
    [channel(0), channel(2), channel(4)]
}

/// The page with only its time sequences, all open.
fn only_sequences(page: &str) -> String {
    let style = "<style>.top,.answer,footer,main>section:not(#time-sequence){display:none}\
                 main>#time-sequence{margin:0}</style></head>";
    page.replacen("</head>", style, 1).replace("<details><summary>tcp", "<details open><summary>tcp")
}

#[test]
fn time_sequences_show_packets_and_waits_in_a_browser() {
    let browser = or_skip!(chromium());
    let page = only_sequences(&hairpin_report::html::render(&support::small_writes::run(true)));
    for (width, dark) in [(1200, false), (500, true)] {
        let picture = picture(&browser, &page, width, dark);
        let paper = named_colour(&page, "paper", dark);
        let pixels = |colour: [u8; 3]| picture.rgb.iter().filter(|pixel| near(**pixel, colour)).count();
        let (accent, ink) = (named_colour(&page, "accent", dark), named_colour(&page, "ink", dark));
        assert!(pixels(accent) > 1000, "segments at {width}: {}", pixels(accent));
        assert!(pixels(ink) > 1000, "calls and text at {width}: {}", pixels(ink));
        for (wait, series) in [("nagle", "s1"), ("delayed-ack", "s3"), ("cork", "s4")] {
            let full = named_colour(&page, series, dark);
            let half = [0, 1, 2].map(|channel| full[channel].midpoint(paper[channel]));
            assert!(pixels(half) > 250, "{wait} at {width}: {} pixels of {half:?}", pixels(half));
        }
    }
}

#[test]
fn links_show_path_queue_and_drops_in_a_browser() {
    let browser = or_skip!(chromium());
    let style = "<style>.top,.answer,footer,main>section:not(#links){display:none}</style></head>";
    let page = hairpin_report::html::render(&support::links::run()).replacen("</head>", style, 1);
    for (width, dark) in [(1200, false), (500, true)] {
        let picture = picture(&browser, &page, width, dark);
        let (paper, ink) = (named_colour(&page, "paper", dark), named_colour(&page, "ink", dark));
        let pixels = |colour: [u8; 3]| picture.rgb.iter().filter(|pixel| near(**pixel, colour)).count();
        assert!(pixels(ink) > 1000, "ends and text at {width}: {}", pixels(ink));
        // The surface below the queue's depth covers the paper with 28 % opacity.
        let depth = named_colour(&page, "s0", dark);
        let surface = [0, 1, 2].map(|channel| {
            let (below, above) = (f64::from(paper[channel]), f64::from(depth[channel]));
            // Mix of the two colours.
            (below + 0.28 * (above - below)).round() as u8
        });
        assert!(pixels(surface) > 5000, "depth at {width}: {} pixels of {surface:?}", pixels(surface));
        let (drops, out) = (named_colour(&page, "s1", dark), named_colour(&page, "accent", dark));
        assert!(pixels(drops) > 200, "drops at {width}: {}", pixels(drops));
        assert!(pixels(out) > 300, "packets out at {width}: {}", pixels(out));
    }
}

#[test]
fn the_test_for_blank_charts_detects_one() {
    let browser = or_skip!(chromium());
    let page = only_charts(&hairpin_report::html::render(&support::survey(1)));
    let blank = page.replacen("</head>", "<style>#percentiles svg{visibility:hidden}</style></head>", 1);
    let picture = picture(&browser, &blank, 500, false);
    let colours = series_colours(&blank, false);
    let area = &picture.rgb[PLACES[1].1 * picture.width..PLACES[2].1 * picture.width];
    let pixels = area.iter().filter(|pixel| colours.iter().any(|colour| near(**pixel, *colour))).count();
    assert!(pixels < 60, "{pixels} pixels of series without a chart, so the test for blank charts could not fail");
}

/// Script that reports, with all details opened: the widths of window and content, elements wider than the window,
/// the bottoms of headline and answer, the top of the first chart or table, and tables that must be scrolled.
const MEASURE: &str = "<script>addEventListener('load', function () {\
    var root = document.documentElement, bad = [], hidden = [];\
    function all(selector) { return Array.from(document.querySelectorAll(selector)); }\
    function box(selector) { return document.querySelector(selector).getBoundingClientRect(); }\
    var first = [Math.round(box('h1').bottom), Math.round(box(document.querySelector('.more') ? '.more' : 'h1').bottom), Math.round(box('.ranking, #throughput figure, main table').top)];\
    all('details').forEach(function (one) { one.open = true; });\
    all('main *').forEach(function (one) {\
        if (one.closest('.scroll, svg, .link-path, .tabs > input')) { return; }\
        if (one.getBoundingClientRect().right > root.clientWidth + 1) { bad.push(one.tagName + '.' + one.className); }\
    });\
    all('#summary .scroll').forEach(function (one) { if (one.scrollWidth > one.clientWidth + 1) { hidden.push(one.scrollWidth); } });\
    var said = { width: root.clientWidth, content: root.scrollWidth, beyond: bad.join(' '), first: first, scrolled: hidden.join(' '),\
        dark: matchMedia('(prefers-color-scheme: dark)').matches };\
    parent.postMessage({ name: name, said: said }, '*');\
    });</script></body>";

/// Results of the scripts in `(name, width, page)`, by name. Each page is loaded in its own frame.
fn told(browser: &Path, dark: bool, frames: &[(String, usize, String)]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("the page is written");
    let mut around = "<!doctype html><meta name=color-scheme content='light dark'><body><script>var told = {}; onmessage = function (said) \
        { told[said.data.name] = said.data.said; document.title = JSON.stringify(told); };</script>"
        .to_owned();
    for (number, (name, width, page)) in frames.iter().enumerate() {
        file(&format!("{number}.html"), page);
        around.push_str(&format!(
            "<iframe name='{name}' src='{number}.html' width={width} height=800 style='border:0'></iframe>"
        ));
    }
    file("frames.html", &around);
    let mut command = browsing(browser, folder.path(), "frames.html", dark);
    let output = command.args(["--timeout=60000", "--virtual-time-budget=5000", "--dump-dom"]).output();
    let output = output.expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = dom.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).expect("a title").0;
    let told: serde_json::Value = serde_json::from_str(title).expect("the title is JSON");
    assert_eq!(told.as_object().map(serde_json::Map::len), Some(frames.len()), "each page reported its result");
    told
}

fn runs() -> [(&'static str, hairpin_model::run::Run); 8] {
    [
        ("survey", support::survey(1)),
        ("slowed", support::slowed_survey()),
        ("small-writes", support::small_writes::run(true)),
        ("bulk", support::bulk::run()),
        ("message-rate", support::one_way::message_rate()),
        ("write-sizes", support::one_way::write_sizes()),
        ("offered-load", support::one_way::offered_load()),
        ("links", support::links::run()),
    ]
}

#[test]
fn the_answer_is_on_the_first_screen_and_nothing_is_wider_than_the_window() {
    let browser = or_skip!(chromium());
    let mut frames = Vec::new();
    for (name, run) in runs() {
        let page = hairpin_report::html::render(&run).replacen("</body>", MEASURE, 1);
        frames.extend([1280, 1000, 390].map(|width| (format!("{name} at {width}"), width, page.clone())));
    }
    for dark in [false, true] {
        let told = told(&browser, dark, &frames);
        for (name, width, _) in &frames {
            let said = &told[name];
            assert_eq!(said["dark"], dark, "{name}");
            assert_eq!((&said["width"], &said["content"]), (&(*width).into(), &(*width).into()), "{name}: {said}");
            assert_eq!(said["beyond"], "", "{name}: {said}");
            assert!(on_first_screen(said), "{name}: {said}");
            assert!(*width < 1280 || said["scrolled"] == "", "{name}: all columns fit a desktop window: {said}");
        }
    }
}

#[test]
fn the_page_of_claims_fits_every_window_and_its_pictures_have_colours() {
    let browser = or_skip!(chromium());
    let page = hairpin_report::html::render_claims(&support::claims::overview());
    let measured = page.replacen("</body>", MEASURE, 1);
    let frames = [1280, 1000, 390].map(|width| (format!("claims at {width}"), width, measured.clone()));
    for dark in [false, true] {
        let told = told(&browser, dark, &frames);
        for (name, width, _) in &frames {
            let said = &told[name];
            assert_eq!((&said["width"], &said["content"]), (&(*width).into(), &(*width).into()), "{name}: {said}");
            assert_eq!((&said["beyond"], &said["dark"]), (&"".into(), &dark.into()), "{name}: {said}");
            assert!(on_first_screen(said), "{name}: {said}");
        }
    }
    let style = "<style>main>section:first-of-type,main>section#overview{display:none}</style></head>";
    let page = page.replacen("</head>", style, 1);
    for (width, dark) in [(1200, false), (500, true)] {
        let picture = picture(&browser, &page, width, dark);
        let pixels = |name: &str| {
            let colour = named_colour(&page, name, dark);
            picture.rgb.iter().filter(|pixel| near(**pixel, colour)).count()
        };
        assert!(pixels("margin") > 5000, "what confirms, at {width}: {}", pixels("margin"));
        assert!(pixels("line") > 1000, "what counts as equal, at {width}: {}", pixels("line"));
        assert!(pixels("accent") > 200, "published marks at {width}: {}", pixels("accent"));
    }
}

/// Whether the headline and the answer end above 800 pixels, and the first chart or table begins there.
fn on_first_screen(said: &serde_json::Value) -> bool {
    let places = said["first"].as_array().expect("three positions");
    places.len() == 3 && places.iter().all(|place| place.as_f64().is_some_and(|place| place > 0.0 && place < 800.0))
}

#[test]
fn the_test_of_the_first_screen_detects_a_low_answer_and_a_wide_page() {
    let browser = or_skip!(chromium());
    let page = hairpin_report::html::render(&support::survey(1)).replacen("</body>", MEASURE, 1);
    let lower = page.replacen("</head>", "<style>.more { padding-top: 700px }</style></head>", 1);
    let wide = page.replacen("</head>", "<style>#findings { width: 500px }</style></head>", 1);
    let frames = [("lower".to_owned(), 390, lower), ("wide".to_owned(), 390, wide)];
    let told = told(&browser, false, &frames);
    assert!(!on_first_screen(&told["lower"]), "{told}");
    assert_eq!(told["wide"]["content"], 514, "{told}");
    assert!(told["wide"]["beyond"].as_str().is_some_and(|beyond| beyond.contains("SECTION")), "{told}");
}

/// Script that clicks the title p50 of the first table twice and reports the order of the figures, then shows a
/// hidden curve, and counts the details that are closed when printing.
const USE: &str = "<script>addEventListener('load', function () {\
    var table = document.querySelector('table.sortable');\
    var header = Array.from(table.tHead.rows[0].cells).find(function (cell) { return cell.textContent === 'p50'; });\
    function keys() { return Array.from(table.tBodies[0].rows).map(function (row) { return Number(row.cells[header.cellIndex].dataset.key); }); }\
    var button = header.querySelector('button'), said = { before: header.getAttribute('aria-sort') };\
    button.focus();\
    said.focused = document.activeElement === button;\
    said.outline = getComputedStyle(button).outlineStyle;\
    button.click();\
    said.up = keys(); said.first = header.getAttribute('aria-sort');\
    button.click();\
    said.down = keys(); said.second = header.getAttribute('aria-sort');\
    var name = document.querySelector('.legend button[aria-pressed=false]');\
    said.gone = document.querySelectorAll('.curve.gone').length;\
    name.click();\
    said.shown = document.querySelectorAll('.curve.gone').length; said.pressed = name.getAttribute('aria-pressed');\
    said.unlabelled = Array.from(document.querySelectorAll('button')).filter(function (one) { return !one.textContent.trim(); }).length;\
    dispatchEvent(new Event('beforeprint'));\
    said.closed = document.querySelectorAll('.finding details:not([open]), #method details:not([open])').length;\
    parent.postMessage({ name: name_of_page, said: said }, '*');\
    }); var name_of_page = name;</script></body>";

#[test]
fn tables_are_sorted_by_value_and_curves_are_shown_by_buttons() {
    let browser = or_skip!(chromium());
    let page = hairpin_report::html::render(&support::survey(1)).replacen("</body>", USE, 1);
    let told = told(&browser, false, &[("survey".to_owned(), 1280, page)]);
    let said = &told["survey"];
    let numbers = |name: &str| -> Vec<f64> {
        said[name].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect()
    };
    let (up, down) = (numbers("up"), numbers("down"));
    assert!(up.len() > 30 && up.is_sorted(), "{up:?}");
    assert!(up.iter().rev().eq(down.iter()), "{down:?}");
    assert_eq!(
        (&said["before"], &said["first"], &said["second"]),
        (&serde_json::Value::Null, &"ascending".into(), &"descending".into())
    );
    assert_eq!((&said["focused"], &said["outline"]), (&true.into(), &"solid".into()), "focus is visible");
    assert_eq!(said["gone"].as_u64(), said["shown"].as_u64().map(|left| left + 1), "one more curve is shown");
    assert_eq!(
        (&said["pressed"], &said["unlabelled"], &said["closed"]),
        (&"true".into(), &0.into(), &0.into()),
        "{said}"
    );
}

/// Script that counts elements that are not reachable without the page's own script: reachable elements are visible,
/// in details, or in a panel that a radio button shows.
const WITHOUT_SCRIPT: &str = "<script>addEventListener('load', function () {\
    Array.from(document.querySelectorAll('details')).forEach(function (one) { one.open = true; });\
    var unseen = new Set(), inputs = Array.from(document.querySelectorAll('.tabs > input'));\
    function of(all) { return all.filter(function (one) { return !one.checkVisibility(); }); }\
    var leaves = Array.from(document.querySelectorAll('main p, main li, main td, main th, main figure, main svg.chart, main .curve'));\
    var hidden = of(leaves);\
    inputs.forEach(function (input) { input.checked = true; hidden = of(hidden); });\
    hidden = hidden.filter(function (one) { return !one.closest('.with-script'); });\
    parent.postMessage({ name: name, said: { leaves: leaves.length, hidden: hidden.length } }, '*');\
    });</script></body>";

#[test]
fn everything_can_be_reached_without_the_script() {
    let browser = or_skip!(chromium());
    let frames = runs().map(|(name, run)| {
        let page = hairpin_report::html::render(&run);
        let (before, own) = page.split_once("<script>").expect("the page has one script");
        let (_, after) = own.split_once("</script>").expect("the end of the script");
        (name.to_owned(), 1280, format!("{before}{}", after.replacen("</body>", WITHOUT_SCRIPT, 1)))
    });
    let told = told(&browser, false, &frames);
    for (name, ..) in &frames {
        assert!(told[name]["leaves"].as_u64().is_some_and(|leaves| leaves > 100), "{name}: {told}");
        assert_eq!(told[name]["hidden"], 0, "{name}: {told}");
    }
}

#[test]
fn a_page_in_dark_colours_is_printed_black_on_white_and_whole() {
    let browser = or_skip!(chromium());
    for (name, run) in runs() {
        // Apply the print rules to the screen, and choose dark colours.
        let page = hairpin_report::html::render(&run).replace("@media print {", "@media all {").replacen(
            "<html lang=\"en\">",
            "<html lang=\"en\" data-theme=\"dark\">",
            1,
        );
        let page = page.replacen("</body>", PRINTED, 1);
        let told = told(&browser, true, &[(name.to_owned(), 700, page)]);
        let said = &told[name];
        assert_eq!((&said["paper"], &said["ink"]), (&"rgb(255, 255, 255)".into(), &"rgb(0, 0, 0)".into()), "{name}");
        assert_eq!((&said["content"], &said["closed"]), (&700.into(), &0.into()), "{name}: {said}");
        assert_eq!(
            (&said["panels"], &said["cut"], &said["apart"]),
            (&0.into(), &"".into(), &0.into()),
            "{name}: {said}"
        );
    }
}

/// Script that reports the printed page: colours and width, closed details, hidden panels, truncated tables, and
/// findings or charts that a page break may split.
const PRINTED: &str = "<script>addEventListener('load', function () {\
    dispatchEvent(new Event('beforeprint'));\
    var style = getComputedStyle(document.body);\
    function all(selector) { return Array.from(document.querySelectorAll(selector)); }\
    function count(selector, is) { return all(selector).filter(is).length; }\
    var cut = all('.scroll').filter(function (one) { return one.checkVisibility() && one.firstElementChild.getBoundingClientRect().right > 701; });\
    parent.postMessage({ name: name, said: { paper: style.backgroundColor, ink: style.color, content: document.documentElement.scrollWidth,\
        closed: all('.finding details:not([open]), #method details:not([open])').length,\
        panels: count('.panel, .panel > h3', function (one) { return !one.checkVisibility(); }),\
        cut: cut.map(function (one) { return one.getAttribute('aria-label'); }).join(','),\
        apart: count('.finding, .panel-small, .panel > .plot, .plot.sequence, figure.over-time, .lane-row, tr', function (one) { return getComputedStyle(one).breakInside !== 'avoid'; }) } }, '*');\
    });</script></body>";
