//! Runs the release binary as users do (survey, round trip over all transports, small writes), and `own-transport`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hairpin_testing::{contract, schema};
use serde_json::Value;

use crate::process;
use crate::skips::{self, AllowedSkips};

const MAX_REPORT_BYTES: usize = 1_500_000;

/// Time limit of a survey; `overhead` prints its duration.
const LIMIT: Duration = Duration::from_mins(3);

/// Runs the survey into `folder` and checks the result. Returns a line for the summary.
pub(crate) fn survey(binary: &Path, folder: &Path, allowed: &AllowedSkips) -> Result<String> {
    let ran = process::run(Command::new(binary).arg("--out").arg(folder), LIMIT)?
        .succeeded()
        .context("the survey failed")?;
    let run = read_run(folder)?;
    let mut faults = survey_faults(&run);
    faults.extend(schema::faults(&run));
    faults.extend(allowed.not_listed(&skips::of(&run)));
    match std::fs::read_to_string(folder.join("report.html")) {
        Ok(html) => faults.extend(report_faults(&html)),
        Err(why) => faults.push(format!("report.html: {why}")),
    }
    if ran.stdout.trim().is_empty() {
        faults.push("the survey printed nothing".to_owned());
    }
    process::fail_with(&faults)?;
    let [cases, findings, skipped] = ["cases", "findings", "skipped"].map(|name| contract::list(&run, name).len());
    Ok(format!("{cases} cases, {findings} findings, {skipped} skipped, {:.1} s", ran.wall.as_secs_f64()))
}

pub(crate) fn round_trip(binary: &Path, folder: &Path, allowed: &AllowedSkips) -> Result<String> {
    let words = ["round-trip", "--transport", "all", "--count", "200", "--rounds", "2"];
    let (ran, faults) = measured(binary, &words, folder, [200, 2], allowed)?;
    process::fail_with(&faults)?;
    let run = ran.json()?;
    Ok(format!("{} cases, {} skipped", contract::list(&run, "cases").len(), skips::of(&run).len()))
}

/// Measures `count` messages in each of `rounds` rounds. Returns the faults of the run.
fn measured(
    binary: &Path,
    words: &[&str],
    folder: &Path,
    [count, rounds]: [u64; 2],
    allowed: &AllowedSkips,
) -> Result<(process::Ran, Vec<String>)> {
    let mut command = Command::new(binary);
    command.args(words).args(["--json", "--out"]).arg(folder);
    let ran = process::run(&mut command, LIMIT)?.succeeded().context(words[0].to_owned())?;
    let run = ran.json()?;
    let mut faults = contract::faults(&run);
    faults.extend(schema::faults(&run));
    faults.extend(contract::not_as_asked(&run, count, rounds));
    faults.extend(allowed.not_listed(&skips::of(&run)));
    Ok((ran, faults))
}

pub(crate) fn small_writes(binary: &Path, folder: &Path, allowed: &AllowedSkips) -> Result<String> {
    let chosen = ["small-writes", "--transport", "tcp", "--remedy", "default,nodelay,one-write"];
    let words = [&chosen[..], &["--exchanges", "5", "--rounds", "3"]].concat();
    let (ran, mut faults) = measured(binary, &words, folder, [5, 3], allowed)?;
    let run = ran.json()?;
    if !contract::list(&run, "findings").iter().any(|finding| finding["code"] == "nagle-meets-delayed-ack") {
        faults.push("findings: nagle-meets-delayed-ack is missing".to_owned());
    }
    process::fail_with(&faults)?;
    Ok(format!("{} cases, {:.1} s", contract::list(&run, "cases").len(), ran.wall.as_secs_f64()))
}

/// Builds the program and the example in one go, so that no dependency is built for each. Returns their paths.
pub(crate) fn release_build(root: &Path) -> Result<[PathBuf; 2]> {
    process::build_release(root, [("hairpin", "hairpin"), ("own-transport", "own-transport")])
}

/// Runs in `folder` the example program that adds a transport. Returns a line for the summary.
pub(crate) fn own_transport(root: &Path, folder: &Path) -> Result<String> {
    let [_, program] = release_build(root)?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let ran = process::run(Command::new(program).current_dir(folder), LIMIT)?
        .succeeded()
        .context("own-transport failed")?;
    let is_printed = |name: &str| ran.stdout.lines().any(|line| line.split_whitespace().next() == Some(name));
    match ["framed", "tcp"].into_iter().find(|name| !is_printed(name)) {
        None => Ok(format!("framed and tcp, {:.1} s", ran.wall.as_secs_f64())),
        Some(name) => bail!("no row of {name} in:\n{}", ran.stdout),
    }
}

pub(crate) fn read_run(folder: &Path) -> Result<Value> {
    let path = folder.join("run.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn survey_faults(run: &Value) -> Vec<String> {
    let mut faults = contract::faults(run);
    if run["state"] != "complete" {
        faults.push(format!("state: {} is not complete", run["state"]));
    }
    if contract::list(run, "findings").is_empty() {
        faults.push("findings: is empty".to_owned());
    }
    if !contract::list(run, "comparisons").iter().any(|comparison| comparison["role"] == "a-a") {
        faults.push("comparisons: the A/A pair is missing".to_owned());
    }
    faults
}

fn report_faults(html: &str) -> Vec<String> {
    let mut faults = outside_loads(html);
    if html.len() > MAX_REPORT_BYTES {
        faults.push(format!("report.html: {} bytes, the limit is {MAX_REPORT_BYTES}", html.len()));
    }
    if !html.contains("<svg") && !html.contains("<canvas") {
        faults.push("report.html: no chart".to_owned());
    }
    faults
}

/// Reports URLs that the page would load from other hosts. Links (`<a href=`), namespaces and plain text load nothing.
fn outside_loads(html: &str) -> Vec<String> {
    const LOADS: &[&str] = &["src=", "srcset=", "href=", "url(", "@import", "fetch(", "import(", "import", "data="];
    let mut faults = Vec::new();
    for (at, _) in html.match_indices("//") {
        let before = html[..at].trim_end_matches("http:").trim_end_matches("https:");
        let before = before.trim_end_matches(['"', '\'', ' ', '`']);
        let tag = before.rfind('<').map_or("", |open| &before[open..]);
        let link_to_follow = before.ends_with("href=") && tag.starts_with("<a ");
        if !link_to_follow && LOADS.iter().any(|load| before.ends_with(load)) {
            let rest: String = html[at..].chars().take(40).collect();
            faults.push(format!("report.html: loads {rest}"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_testing::contract::{example, with};
    use serde_json::json;

    #[test]
    fn an_incomplete_survey_is_reported() {
        assert_eq!(survey_faults(&example()), [""; 0]);
        for (pointer, value, expected) in [
            ("/state", json!("running"), "state: \"running\" is not complete"),
            ("/findings", json!([]), "findings: is empty"),
            ("/comparisons/0/role", json!("neighbours"), "comparisons: the A/A pair is missing"),
        ] {
            assert_eq!(survey_faults(&with(pointer, value)), [expected]);
        }
    }

    #[test]
    fn loaded_urls_are_reported_and_urls_in_text_are_not() {
        for bad in [
            "<script src=\"https://a.example/x.js\">",
            "<img src=http://a.example/x.png>",
            "<link rel=stylesheet href='https://a.example/x.css'>",
            "<style>@import \"https://a.example\";</style>",
            "<style>a { background: url(//a.example/x.png) }</style>",
            "<script>fetch('https://a.example')</script>",
        ] {
            assert_eq!(outside_loads(bad).len(), 1, "{bad}");
        }
        for good in [
            "<svg xmlns=\"http://www.w3.org/2000/svg\">",
            "<p>see <a href=\"https://docs.example\">https://docs.example</a></p>",
            "<script>const a = 1; // b</script>",
            "<img src=\"data:image/png;base64,AA//BB\">",
        ] {
            assert_eq!(outside_loads(good), [""; 0], "{good}");
        }
    }

    #[test]
    fn a_report_that_is_too_large_or_has_no_chart_is_reported() {
        assert_eq!(report_faults("<svg></svg>"), [""; 0]);
        assert_eq!(report_faults("<p>"), ["report.html: no chart"]);
        let large = format!("<svg>{}</svg>", "x".repeat(MAX_REPORT_BYTES));
        assert!(report_faults(&large)[0].contains("the limit is"));
    }
}
