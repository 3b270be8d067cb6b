//! Records the git commit and the build profile, so that every saved run identifies its program.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    if let Some(commit) = commit {
        println!("cargo::rustc-env=HAIRPIN_COMMIT={commit}{}", if dirty { "-dirty" } else { "" });
    }
    // OUT_DIR is TARGET/PROFILE/build/hairpin-HASH/out. The variable PROFILE is only `debug` or `release`.
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let profile = folder.ancestors().nth(3).and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    println!("cargo::rustc-env=HAIRPIN_BUILD={profile}");
    // Watches only compiled files: changes of tests and documents, and `git add`, do not cause a build.
    for package in std::fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}/src", package.path().display());
    }
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        // Each commit and each checkout adds a line to this file.
        println!("cargo::rerun-if-changed={folder}/logs/HEAD");
    }
}

/// Output of git; `None` without git or a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
