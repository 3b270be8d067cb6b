//! The folders of tested claims: their results, and the paths of their runs.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use hairpin_model::{ClaimsReport, JudgedClaim};

use crate::claims::TESTED;

/// Maximum number of folders of claims that are read, newest first, maximum size of a result, and of all together.
const MAX_FOLDERS: usize = 100;
const MAX_RESULT_BYTES: u64 = 8 << 20;
const MAX_RESULTS_BYTES: u64 = 64 << 20;

/// Reads the result of a run of claims. The error names the file.
pub(crate) fn read_result(path: &Path) -> Result<ClaimsReport, String> {
    let file = if path.is_dir() { path.join(TESTED) } else { path.to_owned() };
    let mut text = String::new();
    let read = File::open(&file).and_then(|opened| opened.take(MAX_RESULT_BYTES).read_to_string(&mut text));
    let hint = "give claims.json, or the folder that `hairpin claims run` made";
    read.map_err(|error| format!("cannot read {}: {error} (hint: {hint})", file.display()))?;
    let report: ClaimsReport = serde_json::from_str(&text).map_err(|error| {
        format!("{} is no result of this version: {error} (hint: repeat `hairpin claims run`)", file.display())
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

/// Puts the folder of the claims before the paths of their runs.
pub(crate) fn locate_evidence(claim: &mut JudgedClaim, folder: &Path) {
    for row in &mut claim.rows {
        row.evidence = row.evidence.take().map(|file| folder.join(file).display().to_string());
    }
}
