//! The kernel's own emulator, netem, on the interfaces of both ends, set by the program `tc` (tc-netem(8)).

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hairpin_link::netem;
use hairpin_link::profile::Profile;
use hairpin_model::card::{Receipt, WhyNot};
use hairpin_model::link::{Backend, Direction, DirectionRecord, LateBoundsNs, LinkRecord, PacketCounts};
use hairpin_model::round::Failure;
use serde::Deserialize;

use super::wiring::{self, END_INTERFACE, Ends};
use super::{LinkEnd, LinkOrder, namespace};
use crate::clock::Clock;
use crate::system::process::{self, Process};

/// How long a call of tc may take, in ms. It takes a small part of it; this only ends a hang.
const PATIENCE_MS: i32 = 10_000;

/// Whether the kernel's emulator can run here.
///
/// # Errors
/// What is missing.
pub(super) fn can_run() -> Result<Receipt, WhyNot> {
    let tc = find_tc().map_err(|failure| WhyNot { reason: failure.cause, hint: failure.hint })?;
    namespace::may_emulate()?;
    Ok(Receipt { detail: format!("sch_netem, set by {}", tc.display()) })
}

/// Both ends joined by one pair of interfaces, with netem on each.
pub(super) struct Emulated<'a> {
    order: &'a LinkOrder,
    tc: PathBuf,
    started_ns: u64,
}

/// Makes both ends, and has netem at each do what the profile says of the way out of it.
///
/// # Errors
/// netem has no argument for a word, or what refused, and what would help.
pub(super) fn open<'a>(order: &'a LinkOrder, profile: &Profile) -> Result<(Ends, Emulated<'a>), Failure> {
    let arguments = |direction: Direction| {
        let words = netem::arguments(profile.path(direction), profile.mtu_bytes);
        words.map_err(|fault| Failure {
            cause: format!("netem cannot do `{}` ({direction}): {}", fault.word, fault.because),
            hint: "the relay can: --link-backend relay".to_owned(),
        })
    };
    let (up, down) = (arguments(Direction::Up)?, arguments(Direction::Down)?);
    let tc = find_tc()?;
    let ends = wiring::directly(profile.mtu_bytes)?;
    for (end, words) in [(&ends.near, up), (&ends.far, down)] {
        wiring::enter(end)?;
        let set = ["qdisc", "add", "dev", END_INTERFACE, "root", "netem"].map(str::to_owned);
        run(&tc, set.into_iter().chain(words))?;
    }
    Ok((ends, Emulated { order, tc, started_ns: order.clock.now_ns() }))
}

impl Emulated<'_> {
    /// Waits until `end` can be read, and says what netem counted.
    pub(super) fn carry(self, ends: &Ends, end: BorrowedFd<'_>) -> Result<LinkEnd, Failure> {
        while !process::readable(end, -1).map_err(|error| unheard(&error))? {}
        let record = |namespace| {
            wiring::enter(namespace)?;
            let show = ["-s", "-j", "qdisc", "show", "dev", END_INTERFACE, "root"].map(str::to_owned);
            direction_record(&run(&self.tc, show)?)
        };
        let (up, down) = (record(&ends.near)?, record(&ends.far)?);
        let record = LinkRecord {
            backend: Backend::Netem,
            seed: self.order.seed,
            lateness_ns: None,
            late_bounds_ns: LateBoundsNs::default(),
            packets: up.packets.clone().plus(&down.packets),
            up,
            down,
            traces: BTreeMap::new(),
            relay: None,
            samples_began_ns: None,
            log_file: None,
            log_problem: self.order.log.as_ref().map(|_| "netem tells of no single packet".to_owned()),
        };
        Ok(LinkEnd { record, started_ns: self.started_ns, lost_messages: BTreeMap::new() })
    }
}

/// What tc tells of a queueing discipline.
#[derive(Deserialize)]
struct Statistics {
    kind: String,
    packets: u64,
    drops: u64,
    #[serde(default)]
    qlen: u64,
}

/// What is known of a direction. Its stages are counted by nobody: none is listed, rather than each with zeros.
fn direction_record(text: &str) -> Result<DirectionRecord, Failure> {
    Ok(DirectionRecord { packets: counts(text)?, ..DirectionRecord::default() })
}

/// netem's ledger. It does not count what comes in, nor copies: what is told as having come in is what it has sent,
/// dropped and still holds, so the ledger closes by construction.
fn counts(text: &str) -> Result<PacketCounts, Failure> {
    let unread = |what: String| Failure {
        cause: format!("cannot read what tc tells of netem: {what}"),
        hint: "is tc older than its option -j (iproute2 4.16)?".to_owned(),
    };
    let all: Vec<Statistics> = serde_json::from_str(text).map_err(|error| unread(error.to_string()))?;
    let netem = all.into_iter().find(|one| one.kind == "netem");
    let Statistics { packets, drops, qlen, .. } = netem.ok_or_else(|| unread("it tells of none".to_owned()))?;
    Ok(PacketCounts {
        entered: packets + drops + qlen,
        out: packets,
        dropped: if drops > 0 { BTreeMap::from([("netem".to_owned(), drops)]) } else { BTreeMap::new() },
        inside: qlen,
        ..PacketCounts::default()
    })
}

fn find_tc() -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    // An ordinary user's PATH often has no folder of system programs.
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join("tc")).find(|file| file.is_file());
    found.ok_or_else(|| Failure {
        cause: "the program tc, which sets the kernel's emulator, is missing".to_owned(),
        hint: "it is in Debian's package iproute2".to_owned(),
    })
}

/// Runs tc in the calling thread's network namespace; answers what it prints.
fn run(tc: &Path, arguments: impl IntoIterator<Item = String>) -> Result<String, Failure> {
    let arguments: Vec<String> = arguments.into_iter().collect();
    let failed = |why: &str, hint: &str| Failure {
        cause: format!("`{} {}` failed: {why}", tc.display(), arguments.join(" ")),
        hint: hint.to_owned(),
    };
    let output = output_of(Command::new(tc).args(&arguments), PATIENCE_MS);
    let output = output.map_err(|error| failed(&error.to_string(), "is a limit on processes reached?"))?;
    let Some(output) = output else {
        return Err(failed(&format!("it has not ended after {} s", PATIENCE_MS / 1000), "was it stopped?"));
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let hint = if said.contains("qdisc kind is unknown") {
            "a kernel with sch_netem (CONFIG_NET_SCH_NETEM) is needed; the relay needs none: --link-backend relay"
        } else {
            "the relay needs no tc: --link-backend relay"
        };
        return Err(failed(said.trim(), hint));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a program printed; nothing where it had to be killed: the link must not outlive the program that started it for
/// one that is stopped.
fn output_of(command: &mut Command, patience_ms: i32) -> io::Result<Option<Output>> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let process = Process::with_id(child.id())?;
    let has_ended = process.ends_within(patience_ms)?;
    if !has_ended {
        process.kill()?;
    }
    child.wait_with_output().map(|output| has_ended.then_some(output))
}

fn unheard(error: &io::Error) -> Failure {
    Failure {
        cause: format!("cannot wait for the end of the link: {error}"),
        hint: "this is a defect of Hairpin; please report it with the command line".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_tells_becomes_a_ledger_of_the_direction_and_of_no_stage() {
        let text = r#"[{"kind":"netem","handle":"8001:","root":true,"refcnt":3,"options":{"limit":1000},
            "bytes":1500,"packets":97,"drops":3,"overlimits":0,"requeues":0,"backlog":84,"qlen":1}]"#;
        let record = direction_record(text).unwrap();
        assert_eq!(record.stages, [], "nobody counted them");
        let counts = record.packets;
        assert_eq!((counts.entered, counts.out, counts.dropped["netem"], counts.inside), (101, 97, 3, 1));
        assert_eq!(counts.unexplained(), 0);
    }

    #[test]
    fn a_program_that_is_stopped_is_not_waited_for() {
        let shell =
            |script: &str, patience_ms| output_of(Command::new("sh").args(["-c", script]), patience_ms).unwrap();
        assert_eq!(shell("kill -s STOP $$", 50).map(|output| output.status), None);
        assert_eq!(shell("echo told", 20_000).map(|output| output.stdout), Some(b"told\n".to_vec()));
    }

    #[test]
    fn what_is_not_netem_or_no_json_is_refused() {
        let other = r#"[{"kind":"noqueue","root":true,"packets":0,"drops":0}]"#;
        assert_eq!(counts(other).unwrap_err().cause, "cannot read what tc tells of netem: it tells of none");
        assert!(
            counts("qdisc netem 8001: root").unwrap_err().cause.starts_with("cannot read what tc tells of netem: ")
        );
    }
}
