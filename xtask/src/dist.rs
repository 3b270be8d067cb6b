//! `cargo xtask dist`: packs a static binary, manual pages and completions into a tar.gz; tests it in an empty root.
//!
//! The target is musl if its standard library and a C compiler for musl are installed, else statically linked glibc.
//! The same binary always gives the same archive: sorted names, owner 0, the time of the commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hairpin_testing::{contract, program};

use crate::{platforms, process};

/// The binary had 20.7 MB with link-time optimisation and without the libraries of HTTP, gRPC and QUIC; it has 25.3 MB with them and
/// without that optimisation. A larger growth than that of the next features needs a reason.
const MAX_BINARY_BYTES: u64 = 28_000_000;

/// Time limit of each program started here, except the build.
const LIMIT: Duration = Duration::from_mins(1);

/// Shells, each with the name of its completion file.
const SHELLS: &[(&str, &str)] = &[("bash", "hairpin.bash"), ("zsh", "_hairpin"), ("fish", "hairpin.fish")];

const TEXTS: &[&str] = &["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Builds the archive below `target/dist`, unpacks it, and runs the binary in an empty root. Returns a line for the
/// summary.
pub(crate) fn run(root: &Path) -> Result<String> {
    let (target, binary) = build(root)?;
    let bytes = std::fs::metadata(&binary).context("the build created no binary")?.len();
    if bytes > MAX_BINARY_BYTES {
        bail!("{} has {bytes} bytes; the limit is {MAX_BINARY_BYTES}", binary.display());
    }
    let folder = binary.ancestors().nth(3).context("no target directory")?.join("dist");
    let name = format!("hairpin-{}-{target}", env!("CARGO_PKG_VERSION"));
    let content = folder.join(&name);
    process::remove(&content)?;
    fill(root, &binary, &content)?;
    let archive = pack(root, &folder, &name)?;
    process::remove(&content)?;
    let scratch = process::scratch("dist")?;
    let ran = in_empty_root(&archive, &name, &scratch);
    process::remove(&scratch)?;
    let ran = ran.context("cannot run the archive's binary in an empty root")?;
    Ok(format!("{}: static binary of {:.1} MB; in an empty root: {ran}", archive.display(), bytes as f64 / 1e6))
}

fn build(root: &Path) -> Result<(String, PathBuf)> {
    let target = |libc: &str| format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
    let mut command = process::cargo(root);
    let has_compiler = program("musl-gcc").is_ok();
    let target = if has_compiler && platforms::is_installed(&target("musl"))? {
        target("musl")
    } else {
        let hint = if has_compiler { "run rustup target add" } else { "install Debian's package musl-tools" };
        println!("cannot build for {}: linking glibc statically (hint: {hint})", target("musl"));
        command.env("RUSTFLAGS", "-C target-feature=+crt-static");
        target("gnu")
    };
    command.args("build --profile dist --locked --package hairpin --bin hairpin --features full --target".split(' '));
    process::run_cargo(command.arg(&target), &format!("cargo build --profile dist --target {target} failed"))?;
    let binary = process::target(root)?.join(&target).join("dist/hairpin");
    Ok((target, binary))
}

fn fill(root: &Path, binary: &Path, content: &Path) -> Result<()> {
    for folder in ["man/man1", "completions"] {
        std::fs::create_dir_all(content.join(folder))
            .with_context(|| format!("cannot create {}", content.display()))?;
    }
    let copy = |from: &Path, to: &str| {
        std::fs::copy(from, content.join(to)).with_context(|| format!("cannot copy {}", from.display()))
    };
    copy(binary, "hairpin")?;
    for text in TEXTS {
        copy(&root.join(text), text)?;
    }
    let write = |name: String, text: &str| {
        std::fs::write(content.join(&name), text).with_context(|| format!("cannot write {name}"))
    };
    for (shell, file) in SHELLS {
        write(format!("completions/{file}"), &printed(binary, &["completions", shell])?)?;
    }
    let mut commands = vec![Vec::new()];
    while let Some(command) = commands.pop() {
        let words: Vec<&str> = std::iter::once("man").chain(command.iter().map(String::as_str)).collect();
        let page = printed(binary, &words)?;
        let name = std::iter::once("hairpin").chain(words[1..].iter().copied()).collect::<Vec<_>>().join("-");
        commands.extend(commands_in(&page, &name).into_iter().map(|last| [&command[..], &[last]].concat()));
        write(format!("man/man1/{name}.1"), &page)?;
    }
    Ok(())
}

fn printed(binary: &Path, arguments: &[&str]) -> Result<String> {
    let ran = process::run(Command::new(binary).args(arguments), LIMIT)?.succeeded();
    Ok(ran.with_context(|| format!("hairpin {}", arguments.join(" ")))?.stdout)
}

/// Returns the subcommands that a page refers to, except `help`, which only prints the same pages.
fn commands_in(page: &str, name: &str) -> Vec<String> {
    let plain = page.replace("\\-", "-");
    let names = plain.lines().filter_map(|line| line.strip_suffix("(1)")?.strip_prefix(name)?.strip_prefix('-'));
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn pack(root: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let mut log = Command::new("git");
    let log = process::run(log.current_dir(root).args(["log", "-1", "--format=@%ct"]), LIMIT)?;
    let time = if log.code == Some(0) { log.stdout.trim().to_owned() } else { "@0".to_owned() };
    let file = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(folder).args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime={time}")).args(["--use-compress-program=gzip --no-name --best", "--file"]);
    process::run(tar.arg(&file).arg(name), LIMIT)?.succeeded().context("tar")?;
    let mut sum = Command::new("sha256sum");
    let sum = process::run(sum.current_dir(folder).arg(&file), LIMIT)?.succeeded().context("sha256sum")?;
    std::fs::write(folder.join(format!("{file}.sha256")), sum.stdout).context("cannot write the checksum")?;
    Ok(folder.join(file))
}

/// Runs the archive's binary in a root with only `/proc` and an empty `/tmp`. Libraries and data files are missing.
fn in_empty_root(archive: &Path, name: &str, scratch: &Path) -> Result<String> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--file"]).arg(archive).arg("--directory").arg(scratch);
    process::run(&mut tar, LIMIT)?.succeeded().context("tar")?;
    let empty = scratch.join("root");
    for folder in ["proc", "tmp"] {
        std::fs::create_dir_all(empty.join(folder)).context("cannot create the empty root")?;
    }
    let binary = scratch.join(name).join("hairpin");
    std::fs::copy(&binary, empty.join("hairpin")).with_context(|| format!("cannot copy {}", binary.display()))?;
    let ran = |arguments: &[&str]| -> Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--root"]);
        command.arg(&empty).args(["--wd", "/tmp", "/hairpin"]).args(arguments).env_clear();
        let ran = process::run(&mut command, LIMIT)?.succeeded();
        Ok(ran.with_context(|| format!("hairpin {}", arguments.join(" ")))?.stdout)
    };
    let version = ran(&["--version"])?;
    if !ran(&["list"])?.contains("tcp") {
        bail!("`hairpin list` does not list tcp");
    }
    let transports = "tcp,unix-stream,pipe,shm";
    let words = ["round-trip", "--quick", "--transport", transports, "--placement", "same-cpu", "--json"];
    let run: serde_json::Value = serde_json::from_str(&ran(&words)?).context("hairpin round-trip --json")?;
    process::fail_with(&contract::faults(&run)).context("hairpin round-trip")?;
    let cases = contract::list(&run, "cases");
    let measured = cases.iter().filter(|case| case["ledger"]["received"].as_u64() > Some(0)).count();
    if measured != transports.split(',').count() {
        bail!("hairpin round-trip: only {measured} of {transports} received messages");
    }
    Ok(format!("{}, {measured} transports measured", version.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subcommands_of_a_page_are_found() {
        let page = ".SH SUBCOMMANDS\n.TP\nhairpin\\-link\\-run(1)\nAny\n.TP\nhairpin\\-link\\-help(1)\nHelp\n";
        assert_eq!(commands_in(page, "hairpin-link"), ["run"]);
        assert_eq!(commands_in("hairpin\\-small\\-writes(1)\nsee hairpin(1)\n", "hairpin"), ["small-writes"]);
    }
}
