//! Clients and servers of two versions: today's and that of [`COMMIT`], the last whose servers are of an older version of the
//! orders. States which orders must be served and which refused.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Ran};

const COMMIT: &str = "d26b311d3251";
const LIMIT: Duration = Duration::from_mins(2);
const BUILD_LIMIT: Duration = Duration::from_mins(30);

/// What a run between two versions must do.
enum Expected {
    Served,
    /// The client must say this.
    Refused(&'static str),
}

/// Runs the orders. Returns a line for the summary, or `None` if the repository lacks the earlier version.
pub(crate) fn run(root: &Path, target: &Path, scratch: &Path, today: &Path) -> Result<Option<String>> {
    let Some(earlier) = earlier_version(root, target)? else { return Ok(None) };
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
    Ok(Some(format!("{count} orders between this version and {COMMIT}")))
}

fn check(client: &Path, server: &Path, folder: &Path, plan: &str, expected: &Expected) -> Result<()> {
    let served = Served::start(server, folder)?;
    let mut command = Command::new(client);
    command.args(plan.split(' ')).args(["--to", &format!("@{}", served.ticket.display()), "--out"]);
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

/// A server with its own state. Dropping this ends it.
struct Served {
    server: Child,
    ticket: PathBuf,
}

impl Served {
    fn start(program: &Path, folder: &Path) -> Result<Self> {
        let ticket = folder.join("ticket");
        let file = std::fs::File::create(&ticket)?;
        let mut command = Command::new(program);
        command.args(["serve", "--bind", "127.0.0.1:0", "--quiet", "--until-input-closes"]);
        command.env("XDG_STATE_HOME", folder.join("state"));
        let server = command.stdin(Stdio::piped()).stdout(file).stderr(Stdio::null()).spawn()?;
        let served = Self { server, ticket };
        let began = Instant::now();
        while !std::fs::read_to_string(&served.ticket)?.ends_with('\n') {
            if began.elapsed() > LIMIT {
                bail!("the server has printed no ticket");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.server.kill().and_then(|()| self.server.wait()));
    }
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
