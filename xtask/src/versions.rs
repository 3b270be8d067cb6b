//! Clients and servers of two versions: today's and that of [`COMMIT`], the last whose servers are of an older version of the
//! orders. States which orders must be served and which refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process::{self, Ran};
use crate::skips::Done;

const COMMIT: &str = "d26b311d3251";
const LIMIT: Duration = Duration::from_mins(2);
const BUILD_LIMIT: Duration = Duration::from_mins(30);

enum Expected {
    Served,
    Refused(&'static str),
}

/// Runs the orders, unless the repository lacks the earlier version.
pub(crate) fn run(root: &Path, target: &Path, scratch: &Path, today: &Path) -> Result<Done> {
    let Some(earlier) = earlier_version(root, target)? else {
        return Ok(Done::skipped("versions", "the clone lacks the earlier version"));
    };
    let lacks = "lacks: datagram codes";
    let orders = [
        (today, &*earlier, "round-trip --transport tcp --count 100 --rounds 1", Expected::Served),
        (today, &*earlier, "bulk --transport tcp --direction down --duration 50ms --rounds 1", Expected::Served),
        (today, &*earlier, "round-trip --transport udp --count 100 --rounds 1", Expected::Refused(lacks)),
        (&*earlier, today, "round-trip --transport tcp,udp --count 100 --rounds 1", Expected::Served),
        (&*earlier, today, "bulk --transport udp --duration 50ms --rounds 1", Expected::Served),
    ];
    let count = orders.len();
    for (number, (client, server, plan, expected)) in orders.into_iter().enumerate() {
        let folder = scratch.join(format!("versions-{number}"));
        std::fs::create_dir_all(&folder)?;
        let named = |program: &Path| if program == today { "today's" } else { "the earlier" };
        let what = format!("`{plan}` with {} client and {} server", named(client), named(server));
        check(client, server, &folder, plan, &expected).with_context(|| what)?;
    }
    Ok(Done::Passed(format!("{count} orders between this version and {COMMIT}")))
}

fn check(client: &Path, server: &Path, folder: &Path, plan: &str, expected: &Expected) -> Result<()> {
    let ticket = folder.join("ticket");
    let mut command = Command::new(server);
    command.args(["serve", "--bind", "127.0.0.1:0", "--quiet", "--until-input-closes"]);
    command.env("XDG_STATE_HOME", folder.join("state")).stderr(Stdio::null());
    let _server = process::serve(&mut command, &ticket)?;
    let mut command = Command::new(client);
    command.args(plan.split(' ')).args(["--to", &format!("@{}", ticket.display()), "--out"]);
    let ran = process::run(command.arg(folder.join("run")), LIMIT)?;
    match expected {
        Expected::Served => ran.succeeded().map(drop),
        Expected::Refused(what) => refused(&ran, what),
    }
}

fn refused(ran: &Ran, what: &str) -> Result<()> {
    ensure!(ran.code == Some(2) || ran.code == Some(3), "it was served: exit code {:?}", ran.code);
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(said.contains(what), "the refusal does not say `{what}`: {said}");
    Ok(())
}

/// Builds the earlier version, once. `None` if the repository does not have its commit.
fn earlier_version(root: &Path, target: &Path) -> Result<Option<PathBuf>> {
    let folder = target.join("versions");
    let kept = folder.join(COMMIT);
    if kept.exists() {
        return Ok(Some(kept));
    }
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        process::run(command.arg("-C").arg(root).args(arguments), LIMIT)
    };
    if git(&["cat-file", "-e", &format!("{COMMIT}^{{commit}}")])?.succeeded().is_err() {
        return Ok(None);
    }
    let source = folder.join("source");
    process::remove(&source)?;
    std::fs::create_dir_all(&source)?;
    let archive = folder.join("source.tar");
    git(&["archive", "--output", &archive.to_string_lossy(), COMMIT])?.succeeded()?;
    process::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source), LIMIT)?.succeeded()?;
    let build = folder.join("build");
    let mut command = process::cargo(&source);
    command.args(["build", "--quiet", "--locked", "--package", "hairpin"]).env("CARGO_TARGET_DIR", &build);
    process::run(&mut command, BUILD_LIMIT)?.succeeded().context("the earlier version does not build")?;
    std::fs::copy(build.join("debug/hairpin"), &kept)?;
    [source, build].iter().try_for_each(|folder| process::remove(folder))?;
    std::fs::remove_file(archive)?;
    Ok(Some(kept))
}
