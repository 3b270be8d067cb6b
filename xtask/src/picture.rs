//! Checks every chart of the report in screenshots: light and dark, with the widths of a desktop and a phone.
//!
//! The page is in a frame of the wanted width, since a browser window has a minimum width. A script, added to a copy of
//! the page, reports the positions of the charts. These parts of the screenshot must not be blank.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use hairpin_testing::{contract, program};
use serde_json::Value;

use crate::process;

/// Python script that counts the colours in parts of a picture.
const SCRIPT: &str = include_str!("picture.py");

const TELLER: &str = include_str!("picture.js");

/// A chart with fewer colours, or with a smaller drawn share, is blank: axes, text and a curve exceed both limits.
const MIN_COLOURS: u64 = 8;
const MIN_DRAWN_SHARE: f64 = 0.003;

struct View {
    name: &'static str,
    width: u32,
    dark: bool,
}

const VIEWS: &[View] = &[
    View { name: "desk, light", width: 1200, dark: false },
    View { name: "phone, light", width: 390, dark: false },
    View { name: "desk, dark", width: 1200, dark: true },
];

pub(crate) fn browser() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(|name| program(name).ok())
}

/// Checks a report in every view, and saves the screenshots in `folder`. Returns a line for the summary.
pub(crate) fn look(browser: &Path, python: &Path, report: &Path, folder: &Path) -> Result<String> {
    copy(report, folder, "</head>")?;
    let mut faults = Vec::new();
    let mut charts = 0;
    for view in VIEWS {
        let (told, drawn) = picture(browser, python, folder, view).with_context(|| view.name.to_owned())?;
        charts = contract::list(&told, "charts").len();
        faults.extend(view_faults(view, &told, &drawn));
    }
    process::fail_with(&faults)?;
    Ok(format!("{charts} charts in {} views, none blank", VIEWS.len()))
}

/// Style that shows only the answer and the ranking.
const STYLE: &str = "<style>#theme, footer, main > section:not(.answer, #ranking) { display: none }</style></head>";

/// Writes docs/ranking.png for README: the answer and the ranking of a saved run.
pub(crate) fn ranking(root: &Path, run: &Path) -> Result<String> {
    let browser = browser().context("no Chromium on the path (hint: apt-get install chromium)")?;
    let folder = root.join("target/ranking");
    copy(&run.join("report.html"), &folder, STYLE)?;
    let view = &VIEWS[0];
    // In a low frame, the page is as high as its content.
    let told = told_by_page(&in_frame(&browser, &folder, view, 200, &["--dump-dom"])?)?;
    let height = told["height"].as_u64().and_then(|height| u32::try_from(height).ok()).context("no height")?;
    let file = root.join("docs/ranking.png");
    in_frame(&browser, &folder, view, height + 24, &[&format!("--screenshot={}", file.display())])?;
    Ok(format!("wrote {}", file.display()))
}

/// Writes a copy of a report with the script, and with `head_end` at the end of its head, to `folder`.
fn copy(report: &Path, folder: &Path, head_end: &str) -> Result<()> {
    let html = std::fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copy = with_script(&html.replacen("</head>", head_end, 1));
    std::fs::write(folder.join("copy.html"), copy).context("cannot write the copy of the report")
}

fn with_script(html: &str) -> String {
    let script = format!("<script>{TELLER}</script>");
    match html.rfind("</body>") {
        Some(at) => format!("{}{script}{}", &html[..at], &html[at..]),
        None => format!("{html}{script}"),
    }
}

/// Returns the page's report in this view, and the colours and drawn share of each chart in the screenshot.
fn picture(browser: &Path, python: &Path, folder: &Path, view: &View) -> Result<(Value, Value)> {
    let told = in_frame(browser, folder, view, 2000, &["--dump-dom"])?;
    let told = told_by_page(&told)?;
    // The last charts of a longer page are outside of the picture, and count as blank.
    let height = u32::try_from(told["height"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX).clamp(200, 16_000);
    let file = folder.join(format!("{}.png", view.name.replace(", ", "-")));
    in_frame(browser, folder, view, height, &[&format!("--screenshot={}", file.display())])?;
    let mut count = Command::new(python);
    count.args(["-c", SCRIPT]).arg(&file).arg(told["charts"].to_string());
    let drawn = process::run(&mut count, Duration::from_mins(1))?
        .succeeded()
        .context("cannot read the screenshot")?
        .json()?;
    Ok((told, drawn))
}

fn in_frame(browser: &Path, folder: &Path, view: &View, height: u32, arguments: &[&str]) -> Result<String> {
    let frame = folder.join("frame.html");
    let width = view.width;
    let page = format!(
        "<!doctype html><meta name=\"color-scheme\" content=\"light dark\"><body style=\"margin:0\">\
         <iframe src=\"copy.html\" style=\"border:0;width:{width}px;height:{height}px\"></iframe>\
         <script>addEventListener('message', (told) => {{ const told_by_page = document.createElement('pre'); \
         told_by_page.id = 'told'; told_by_page.textContent = told.data; document.body.append(told_by_page); }});\
         </script>"
    );
    std::fs::write(&frame, page).context("cannot write the frame")?;
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]);
    command.arg(format!("--window-size={},{height}", width.max(500)));
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    if view.dark {
        command.arg("--force-dark-mode");
    }
    command.args(arguments).arg(format!("file://{}", frame.display()));
    Ok(process::run(&mut command, Duration::from_mins(2))?.succeeded().context("the browser failed")?.stdout)
}

fn told_by_page(markup: &str) -> Result<Value> {
    let told = markup.split_once("<pre id=\"told\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (told, _) = told.context("the page reported nothing: its scripts did not run")?;
    serde_json::from_str(told).context("the page did not report JSON")
}

fn view_faults(view: &View, told: &Value, drawn: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(format!("report.html ({}): {what}", view.name));
    let charts = contract::list(told, "charts");
    if charts.is_empty() {
        fault("no chart is visible".to_owned());
    }
    let drawn = drawn.as_array().map_or(&[][..], Vec::as_slice);
    for (number, (chart, part)) in charts.iter().zip(drawn).enumerate() {
        let colours = part["colours"].as_u64().unwrap_or(0);
        let share = part["drawn"].as_f64().unwrap_or(0.0);
        if colours < MIN_COLOURS || share < MIN_DRAWN_SHARE {
            fault(format!("chart {} at {chart} is blank: {colours} colours, drawn share {share:.4}", number + 1));
        }
    }
    let (content, window) = (told["content"].as_f64().unwrap_or(0.0), told["window"].as_f64().unwrap_or(0.0));
    if content > window {
        fault(format!("content of {content} pixels in a window of {window} pixels: needs horizontal scrolling"));
    }
    if told["dark"] != view.dark {
        fault("the browser did not use the requested theme".to_owned());
    }
    if told["letters"].as_u64().unwrap_or(0) < 500 {
        fault("hardly any text".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told() -> Value {
        json!({"charts": [[0, 0, 300, 200]], "content": 390, "window": 390, "dark": false, "letters": 900})
    }

    #[test]
    fn a_blank_chart_and_a_too_wide_page_are_reported() {
        let view = &VIEWS[1];
        let good = json!([{"colours": 90, "drawn": 0.2}]);
        assert_eq!(view_faults(view, &told(), &good), [""; 0]);
        let blank = view_faults(view, &told(), &json!([{"colours": 1, "drawn": 0.0}]));
        assert!(blank[0].contains("chart 1 at [0,0,300,200] is blank: 1 colours"), "{blank:?}");
        for (name, value, expected) in [
            ("content", json!(391), "content of 391 pixels in a window"),
            ("charts", json!([]), "no chart is visible"),
            ("dark", json!(true), "did not use the requested theme"),
            ("letters", json!(3), "hardly any text"),
        ] {
            let mut told = told();
            told[name] = value;
            let faults = view_faults(view, &told, &good);
            assert!(faults.len() == 1 && faults[0].contains(expected), "{faults:?}");
        }
    }

    #[test]
    fn the_pages_report_is_extracted_from_the_markup() {
        let markup = "<html><body><pre id=\"told\">{\"height\":7}</pre></body></html>";
        assert_eq!(told_by_page(markup).unwrap()["height"], 7);
        assert!(told_by_page("<html>").unwrap_err().to_string().contains("its scripts did not run"));
    }

    #[test]
    fn the_script_goes_to_the_end_of_the_page() {
        assert!(with_script("<body>a</body>").starts_with("<body>a<script>"));
        assert!(with_script("a").ends_with("</script>"));
    }
}
