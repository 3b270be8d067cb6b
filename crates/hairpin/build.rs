//! Records the git commit and the build profile, so that every saved run says what made it.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    if let Some(commit) = commit {
        println!("cargo::rustc-env=HAIRPIN_COMMIT={commit}{}", if dirty { "-dirty" } else { "" });
    }
    let profile = std::env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=HAIRPIN_BUILD={profile}");
    println!("cargo::rerun-if-changed=../");
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={folder}/HEAD");
        println!("cargo::rerun-if-changed={folder}/index");
    }
}

/// What git answers; nothing where there is no git or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
