//! A changed rule of a claim has a new record of its change: by git, its line is not newer than the line of the record.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A line with the time of its last commit, in s.
type Line<'t> = (u64, &'t str);

/// Reports rules that changed after their records.
pub(super) fn rule_changes(root: &Path, paths: &[&str]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in paths.iter().filter(|path| path.starts_with("claims/")) {
        let mut git = Command::new("git");
        let output = git.current_dir(root).args(["blame", "--line-porcelain", "--", path]).output();
        let output = output.context("cannot start git")?;
        // A file that is not committed yet has no earlier rule.
        if output.status.success() {
            let text = String::from_utf8(output.stdout).context("git blame")?;
            faults.extend(changed(&lines(&text)).into_iter().map(|fault| format!("{path}: {fault}")));
        } else {
            let error = String::from_utf8_lossy(&output.stderr);
            ensure!(error.contains("no such path"), "git blame {path}: {error}");
        }
    }
    Ok(faults)
}

fn lines(porcelain: &str) -> Vec<Line<'_>> {
    let (mut lines, mut time_s) = (Vec::new(), 0);
    for line in porcelain.lines() {
        if let Some(time) = line.strip_prefix("committer-time ") {
            time_s = time.parse().unwrap_or(0);
        } else if let Some(text) = line.strip_prefix('\t') {
            lines.push((time_s, text));
        }
    }
    lines
}

fn changed(lines: &[Line<'_>]) -> Vec<String> {
    let (mut faults, mut id) = (Vec::new(), "");
    let mut begin = 0;
    for end in 1..=lines.len() {
        if end < lines.len() && !lines[end].1.starts_with('[') {
            continue;
        }
        let block = &lines[begin..end];
        let time_of = |key: &str| block.iter().find(|(_, text)| text.starts_with(key)).map(|(time_s, _)| *time_s);
        id = block.iter().find_map(|(_, text)| text.strip_prefix("id = ")).unwrap_or(id);
        if let (Some(rule), Some(record)) = (time_of("rule = "), time_of("changed = "))
            && rule > record
        {
            faults.push(format!("a rule of {id} changed, but its `changed` did not (hint: give date and reason)"));
        }
        begin = end;
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_newer_than_its_record_is_reported() {
        let of = |rule: u64, record: u64| {
            let porcelain = format!(
                "a 1 1\ncommitter-time 5\n\tid = \"B1\"\na 2 2\ncommitter-time 5\n\t[claim.test]\n\
                 a 3 3\ncommitter-time {rule}\n\trule = {{}}\na 4 4\ncommitter-time {record}\n\tchanged = {{}}\n"
            );
            changed(&lines(&porcelain))
        };
        assert_eq!([of(5, 5), of(5, 6)], [Vec::<String>::new(), Vec::new()]);
        let fault = "a rule of \"B1\" changed, but its `changed` did not (hint: give date and reason)";
        assert_eq!(of(6, 5), [fault]);
    }
}
