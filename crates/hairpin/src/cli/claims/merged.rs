//! The latest verdicts, from the folders of several runs of claims, and their comparison with other results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;
use hairpin_model::quantities::counted;
use hairpin_model::{ClaimsReport, Environment, JudgedClaim, JudgedRow};
use hairpin_report::words::write_claims;

use super::listing::{new_report, planned};
use crate::claims::{SelectedClaims, choose, texts};
use crate::claims_folder::{locate_evidence, read_result, saved_results};
use crate::cli::exit::{Exit, Stopped};
use crate::cli::output;
use crate::session::{RUNS, now_unix_s};

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
