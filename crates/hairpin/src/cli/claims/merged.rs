//! The latest verdicts, from the folders of several runs of claims, and their comparison with other results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use hairpin_model::quantities::counted;
use hairpin_model::{ClaimsReport, Environment, JudgedClaim, JudgedRow};
use hairpin_report::html;
use hairpin_report::words::write_claims;
use hairpin_store::Folder;

use super::listing::{new_report, planned, show};
use crate::claims::{SelectedClaims, TESTED, choose, texts};
use crate::cli::exit::{Exit, Stopped};
use crate::cli::measure::shown;
use crate::cli::output;
use crate::cli::report::write_report;
use crate::session::{RUNS, now_unix_s};

/// Maximum number of folders of claims that are read, newest first, maximum size of a result, and of all together.
const MAX_FOLDERS: usize = 100;
const MAX_RESULT_BYTES: u64 = 8 << 20;
const MAX_RESULTS_BYTES: u64 = 64 << 20;

/// Reads the result of a run of claims. The error names the file.
pub(super) fn read_result(path: &Path) -> Result<ClaimsReport, String> {
    let file = if path.is_dir() { path.join(TESTED) } else { path.to_owned() };
    let mut text = String::new();
    let read = File::open(&file).and_then(|opened| opened.take(MAX_RESULT_BYTES).read_to_string(&mut text));
    let hint = "give claims.json, or the folder that `hairpin claims run` made";
    read.map_err(|error| format!("cannot read {}: {error} (hint: {hint})", shown(&file)))?;
    let report: ClaimsReport = serde_json::from_str(&text).map_err(|error| {
        format!("{} is no result of this version: {error} (hint: repeat `hairpin claims run`)", shown(&file))
    })?;
    Ok(report)
}

/// The results in a folder, newest first, and how many could not be read.
pub(crate) fn saved_results(folder: &Path) -> (Vec<(PathBuf, ClaimsReport)>, u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join(TESTED).is_file()).collect();
    // The names begin with the time.
    folders.sort_unstable_by(|a, b| b.cmp(a));
    folders.truncate(MAX_FOLDERS);
    let (mut results, mut unreadable, mut left_bytes) = (Vec::new(), 0, MAX_RESULTS_BYTES);
    for folder in folders {
        let size_bytes = folder.join(TESTED).metadata().map_or(u64::MAX, |file| file.len());
        let read = left_bytes.checked_sub(size_bytes).and_then(|left| Some((left, read_result(&folder).ok()?)));
        match read {
            Some((left, report)) => {
                left_bytes = left;
                results.push((folder, report));
            }
            None => unreadable += 1,
        }
    }
    results.sort_by_key(|(_, report)| std::cmp::Reverse(report.started_unix_s));
    (results, unreadable)
}

/// The claims, each with its latest verdict by its present rules on this host alone.
pub(super) fn latest(chosen: &[SelectedClaims], arguments: &[OsString]) -> ClaimsReport {
    let mut report = new_report(chosen, arguments);
    let (results, unreadable) = saved_results(RUNS.as_ref());
    let (mut machines, mut other_rules) = (BTreeMap::new(), 0);
    for claim in &mut report.claims {
        let tested = results.iter().filter(|(_, result)| result.to.is_none()).filter_map(|(folder, result)| {
            let found = result.claims.iter().find(|other| is_same(other, claim) && other.age_s.is_some())?;
            Some((folder, result, found))
        });
        for (folder, result, found) in tested {
            if !has_rules_of(found, claim) {
                other_rules += 1;
                continue;
            }
            *machines.entry(machine(result)).or_insert(0) += 1;
            report.environment.get_or_insert_with(|| result.environment.clone().unwrap_or_default());
            let mut latest = found.clone();
            latest.age_s = Some(now_unix_s().saturating_sub(result.started_unix_s));
            locate_evidence(&mut latest, folder);
            *claim = latest;
            break;
        }
    }
    if machines.len() > 1 {
        let of = machines.iter().map(|(machine, claims)| format!("{claims} of {machine}"));
        report
            .remarks
            .push(format!("Verdicts of several machines or versions: {}.", of.collect::<Vec<_>>().join("; ")));
    }
    for (count, what, why) in
        [(other_rules, "older verdict", "by other rules"), (unreadable, "result", "of other versions, or unreadable")]
    {
        report.remarks.extend((count > 0).then(|| format!("Left out: {} {why}.", counted(count, what))));
    }
    report.runs = chosen.iter().flat_map(|of| of.runs().into_iter().map(|run| planned(of, run))).collect();
    write_claims(&mut report);
    report
}

/// Puts the folder of the claims before the paths of their runs.
fn locate_evidence(claim: &mut JudgedClaim, folder: &Path) {
    for row in &mut claim.rows {
        row.evidence = row.evidence.take().map(|file| shown(&folder.join(file)));
    }
}

/// Shows the claims of a folder, and writes their page again.
///
/// # Errors
/// If the result cannot be read, the page cannot be written, or a table of runs is asked for.
pub(crate) fn report(folder: &Path, matches: &ArgMatches) -> Result<Exit, Stopped> {
    if let Some(flag) = ["csv", "ladder"].into_iter().find(|flag| matches.contains_id(flag)) {
        let why =
            format!("{} contains claims, which have no --{flag} (hint: each folder in it is a run)", shown(folder));
        return Err(Stopped::usage(why));
    }
    let mut report = read_result(folder).map_err(Stopped::usage)?;
    write_claims(&mut report);
    let files =
        Folder::open(folder).map_err(|error| Stopped::usage(format!("cannot open {}: {error}", shown(folder))))?;
    let page = html::render_claims(&report);
    if !matches.get_flag("json") {
        report.claims.iter_mut().for_each(|claim| locate_evidence(claim, folder));
    }
    show(&report, matches);
    write_report(&page, matches, &files)
}

/// Whether both are the same claim of one text: files of users may have equal letters.
fn is_same(one: &JudgedClaim, other: &JudgedClaim) -> bool {
    one.id == other.id && one.source.title == other.source.title
}

/// Whether both have the same rows with rules of the same dates, apart from skipped rows.
fn has_rules_of(tested: &JudgedClaim, now: &JudgedClaim) -> bool {
    let is_same = |(one, other): (&JudgedRow, &JudgedRow)| {
        let is_skipped = one.skipped.is_some() || other.skipped.is_some();
        one.name == other.name && (is_skipped || one.rule_changed == other.rule_changed)
    };
    tested.rows.len() == now.rows.len() && tested.rows.iter().zip(&now.rows).all(is_same)
}

fn machine(report: &ClaimsReport) -> String {
    let unknown = Environment::default();
    let of = report.environment.as_ref().unwrap_or(&unknown);
    format!("{}, {} CPUs, {}, {} {}", of.cpu_model, of.cpus_online, of.kernel, report.tool.name, report.tool.version)
}

/// Prints the claims whose verdicts differ between a result and another one, or the latest here, and what may be why.
///
/// # Errors
/// If a result cannot be read.
pub(super) fn compare(matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let read = |name: &str| matches.get_one::<PathBuf>(name).map(|path| read_result(path).map_err(Stopped::usage));
    let Some(reference) = read("REFERENCE").transpose()? else {
        return Err(Stopped::usage("no reference was given (hint: hairpin claims compare FILE)"));
    };
    let here = match read("RESULT").transpose()? {
        Some(result) => result,
        None => {
            let all: Vec<_> = texts().iter().collect();
            latest(&choose(&all, &[]).map_err(Stopped::usage)?, arguments)
        }
    };
    let mut lines =
        vec![format!("Reference  {}", machine(&reference)), format!("Compared   {}", machine(&here)), String::new()];
    let (mut compared, mut differing) = (0, 0);
    for claim in here.claims.iter().filter(|claim| claim.age_s.is_some()) {
        let Some(other) = reference.claims.iter().find(|other| is_same(other, claim) && other.age_s.is_some()) else {
            continue;
        };
        compared += 1;
        if other.headline == claim.headline {
            continue;
        }
        differing += 1;
        let why = if !has_rules_of(other, claim) {
            "the rules differ"
        } else if machine(&reference) == machine(&here) {
            "two runs of one machine, whose load may differ"
        } else if claim.about == hairpin_model::claim::About::SetUp {
            "the path is set up alike: the kernels or the load of the machines differ"
        } else {
            "the machines differ"
        };
        lines.push(format!("{:<5}{}", claim.id, claim.text.sentence));
        lines.push(format!("     Reference: {}", other.text.sentence));
        lines.push(format!("     Why it may: {why}."));
    }
    lines.push(format!("Differing verdicts: {differing} of {compared}."));
    output::text(&(lines.join("\n") + "\n"));
    Ok(Exit::Fine)
}
