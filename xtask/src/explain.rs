//! `cargo xtask explain`: checks that `hairpin explain` names the cause of small slow programs first, and no wrong cause of
//! their fixed forms.
//!
//! The programs are in xtask/programs (Python and C) and xtask/src/bin/slow.rs. Those with a link run at both ends of it, the others
//! in a network of their own. Needs python3, cc and nft.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hairpin_testing::contract;

use crate::process;

const LIMIT: Duration = Duration::from_secs(60);
/// Minimum share of runs that name the cause first: pooled, and of each pair. Maximum share of fixed forms with a wrong one.
const MIN_POOLED: f64 = 0.95;
const MIN_EACH: f64 = 17.0 / 20.0;
const MAX_WRONG: f64 = 0.03;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    C,
    Rust,
}

struct Pair {
    /// The program, which is named after its cause.
    cause: &'static str,
    language: Language,
    /// The link of the slow form, and of the fixed one; empty for a network with only loopback.
    links: [&'static str; 2],
    /// Shell commands at the client's end of the link, for the slow form.
    before: &'static str,
    /// A quota of the slow form's control group, in percent of a CPU; 0 for none. It needs root.
    quota_percent: u32,
    /// Causes that are true of the fixed form.
    also: &'static [&'static str],
}

const fn pair(cause: &'static str, language: Language, link: &'static str, also: &'static [&'static str]) -> Pair {
    Pair { cause, language, links: [link, link], before: "", quota_percent: 0, also }
}

/// A program without a problem.
const fn decoy(name: &'static str, link: &'static str, also: &'static [&'static str]) -> Pair {
    pair(name, Language::Python, link, also)
}

const WINDOW_OF_ONE_SEGMENT: &str = "ip route change 10.77.0.0/24 dev eth0 src 10.77.0.1 congctl cubic initcwnd 1; ";
const LARGE_PACKETS_DROPPED: &str = "nft add table ip t; \
    nft 'add chain ip t i { type filter hook prerouting priority -300; }'; nft add rule ip t i ip length \\> 1000 drop; ";

#[rustfmt::skip]
const ALL: &[Pair] = &[
    pair("nagle-meets-delayed-ack", Language::Python, "", &[]),
    pair("nagle-meets-delayed-ack", Language::C, "", &[]),
    pair("nagle-waits", Language::Python, "delay=10ms", &["one-request-per-round-trip"]),
    Pair {
        before: WINDOW_OF_ONE_SEGMENT,
        ..pair("delayed-ack", Language::Python, "delay=1ms", &["client-idle"])
    },
    Pair { links: ["delay=10ms rate=8mbit", "delay=10ms"], ..pair("own-send-queue", Language::Python, "", &[]) },
    pair("receive-window", Language::Python, "delay=20ms", &["congestion-window"]),
    pair("slow-reader", Language::Python, "", &[]),
    pair("slow-reader", Language::C, "", &[]),
    pair("blocked-in-send", Language::Python, "", &[]),
    pair("congestion-window", Language::Python, "delay=25ms", &[]),
    pair("slow-start-after-idle", Language::Python, "delay=20ms", &["congestion-window"]),
    Pair { links: ["delay=5ms loss=2%", "delay=5ms"], ..pair("retransmission", Language::Python, "", &["congestion-window"]) },
    Pair {
        links: ["delay=5ms down.drop-data=5,6,7,20,21,22,35,36,37", "delay=5ms"],
        ..pair("retransmission-time-out", Language::Python, "", &["one-request-per-round-trip"])
    },
    pair("application-window", Language::Python, "delay=10ms", &["congestion-window", "receive-window"]),
    pair("one-request-per-round-trip", Language::Python, "delay=10ms", &["congestion-window"]),
    pair("one-request-per-round-trip", Language::Rust, "delay=10ms", &["congestion-window"]),
    pair("connection-per-request", Language::Python, "delay=10ms", &["congestion-window"]),
    pair("connection-per-request", Language::Rust, "delay=10ms", &["congestion-window"]),
    pair("accept-queue-overflow", Language::Python, "", &["server-work"]),
    Pair { before: LARGE_PACKETS_DROPPED, ..pair("path-mtu", Language::Python, "delay=2ms", &["congestion-window"]) },
    pair("server-work", Language::Python, "", &[]),
    pair("server-work", Language::C, "", &[]),
    pair("server-stalled", Language::Python, "", &["client-idle"]),
    pair("cpu-contention", Language::Python, "", &["server-work"]),
    Pair { quota_percent: 25, ..pair("cpu-quota", Language::Python, "", &["server-work"]) },
    pair("udp-receive-overrun", Language::Python, "", &[]),
    pair("client-idle", Language::Python, "", &[]),
    pair("client-idle", Language::Rust, "delay=1ms", &["one-request-per-round-trip"]),
    Pair { links: ["delay=5ms rate=8mbit", "delay=5ms"], ..pair("link-saturated", Language::Python, "", &["congestion-window"]) },
];

#[rustfmt::skip]
const DECOYS: &[Pair] = &[
    decoy("ping-pong", "", &[]),
    decoy("ping-pong", "delay=200us", &[]),
    decoy("few-requests", "", &[]),
    decoy("few-requests", "delay=30ms", &[]),
    decoy("download", "", &[]),
    decoy("long-download", "delay=20ms", &["congestion-window"]),
    decoy("upload", "", &[]),
    decoy("long-upload", "delay=20ms", &["congestion-window"]),
    decoy("many-clients", "", &["client-idle"]),
    decoy("several-in-flight", "", &[]),
    decoy("several-in-flight", "delay=2ms", &["one-request-per-round-trip"]),
    decoy("gathered-writes", "", &["client-idle"]),
    decoy("corked-writes", "", &["client-idle"]),
    decoy("web-pages", "", &["server-work"]),
    decoy("large-web-pages", "delay=5ms", &["congestion-window", "one-request-per-round-trip"]),
    decoy("closed-web-pages", "", &["client-idle", "server-work"]),
    decoy("asynchronous", "", &["client-idle"]),
    decoy("datagrams", "", &[]),
    decoy("updates", "delay=10ms", &[]),
    decoy("updates", "", &[]),
];
/// Runs of each.
const MAX_DECOY_RUNS: usize = 5;

type Named = BTreeMap<String, usize>;

/// Runs both forms of the pairs whose cause contains `only`, and prints a line for each. Returns whether all limits hold.
pub(crate) fn run(root: &Path, runs: usize, only: Option<&str>) -> Result<bool> {
    let of = |pairs: &'static [Pair]| -> Vec<&Pair> {
        pairs.iter().filter(|pair| only.is_none_or(|word| pair.cause.contains(word))).collect()
    };
    let (chosen, decoys) = (of(ALL), of(DECOYS));
    if chosen.is_empty() && decoys.is_empty() {
        bail!("no program has the cause `{}`", only.unwrap_or_default());
    }
    let [hairpin, rust] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "slow")])?;
    let scratch = process::scratch("explain")?;
    let programs = Programs::build(root, &scratch, rust)?;
    let decoy_runs = runs.min(MAX_DECOY_RUNS);
    let started = Instant::now();
    let mut named = vec![[Named::new(), Named::new()]; chosen.len()];
    let mut of_decoys = vec![Named::new(); decoys.len()];
    for number in 0..runs {
        for (pair, named) in chosen.iter().zip(&mut named) {
            for (form, named) in ["slow", "fixed"].into_iter().zip(named) {
                let code = first_cause(&hairpin, &programs, pair, form)?;
                *named.entry(code).or_default() += 1;
            }
        }
        for (decoy, named) in decoys.iter().zip(&mut of_decoys).filter(|_| number < decoy_runs) {
            let code = first_cause(&hairpin, &programs, decoy, "fixed")?;
            *named.entry(code).or_default() += 1;
        }
        println!("{} of {runs}, {:.0} s", number + 1, started.elapsed().as_secs_f64());
    }
    process::remove(&scratch)?;
    let mut wrong = 0;
    for (decoy, named) in decoys.iter().zip(&of_decoys) {
        let of_decoy = count_wrong(decoy, named);
        wrong += of_decoy;
        println!("decoy  {:28} {of_decoy} of {decoy_runs} wrong; {named:?}", decoy.cause);
    }
    Ok(judge(&chosen, &named, runs, [wrong, decoys.len() * decoy_runs]))
}

/// Returns how often a cause was named that is not true.
fn count_wrong(pair: &Pair, named: &Named) -> usize {
    let is_true = |code: &String| code == NOTHING || pair.also.contains(&code.as_str());
    named.iter().filter(|(code, _)| !is_true(code)).map(|(_, count)| count).sum()
}

/// `decoys` are wrong runs and all runs of the decoys.
fn judge(chosen: &[&Pair], named: &[[Named; 2]], runs: usize, decoys: [usize; 2]) -> bool {
    let (mut right, mut wrong, mut all_hold) = (0, decoys[0], true);
    for (pair, [slow, fixed]) in chosen.iter().zip(named) {
        let of_slow = slow.get(pair.cause).copied().unwrap_or(0);
        let of_fixed = count_wrong(pair, fixed);
        (right, wrong) = (right + of_slow, wrong + of_fixed);
        let holds = of_slow as f64 >= MIN_EACH * runs as f64;
        all_hold &= holds;
        let word = if holds { "holds " } else { "MISSED" };
        println!("{word} {:28} {of_slow} of {runs}; fixed: {of_fixed} wrong; {slow:?} {fixed:?}", pair.cause);
    }
    let all = chosen.len() * runs;
    let part = |count: usize, of: usize| count as f64 / of.max(1) as f64;
    let (pooled, share_wrong) = (part(right, all), part(wrong, all + decoys[1]));
    println!(
        "named first in {:.1} % (at least 95 %), wrong in {:.1} % of the fixed forms and decoys (at most 3 %)",
        100.0 * pooled,
        100.0 * share_wrong
    );
    all_hold && (pooled >= MIN_POOLED || all == 0) && share_wrong <= MAX_WRONG
}

const NOTHING: &str = "nothing";

struct Programs {
    python: String,
    c: PathBuf,
    rust: PathBuf,
    with_quota: PathBuf,
}

impl Programs {
    fn build(root: &Path, scratch: &Path, rust: PathBuf) -> Result<Self> {
        let source = |name: &str| root.join("xtask/programs").join(name);
        let c = scratch.join("slow-c");
        let with_quota = root.join("xtask/src/diagnose/with_quota.sh");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o"]).arg(&c).arg(source("slow.c"));
        process::run(&mut cc, LIMIT)?.succeeded().context("cannot build a slow program")?;
        Ok(Self { python: format!("python3 {}", source("slow.py").display()), c, rust, with_quota })
    }

    fn of(&self, language: Language) -> String {
        match language {
            Language::Python => self.python.clone(),
            Language::C => self.c.display().to_string(),
            Language::Rust => self.rust.display().to_string(),
        }
    }
}

fn first_cause(hairpin: &Path, programs: &Programs, pair: &Pair, form: &str) -> Result<String> {
    let mut program = format!("{} {} {form}", programs.of(pair.language), pair.cause);
    let is_slow = form == "slow";
    if is_slow && pair.quota_percent > 0 {
        program = format!("sh {} {} {program}", programs.with_quota.display(), pair.quota_percent);
    }
    let link = pair.links[usize::from(!is_slow)];
    let mut command = Command::new(hairpin);
    command.args(["explain", "--json", "--quiet"]);
    if link.is_empty() {
        command.args(["--own-network", "--", "sh", "-c", &format!("{program} both")]);
    } else {
        let before = if is_slow { pair.before } else { "" };
        let client = format!("{before}{program} client $HAIRPIN_FAR");
        command.args(["--link", link, "--far", &format!("{program} server"), "--", "sh", "-c", &client]);
    }
    let told = process::run(&mut command, LIMIT)?.json().with_context(|| format!("hairpin explain -- {program}"))?;
    let first = contract::list(&told, "causes").first().and_then(|cause| cause["code"].as_str());
    Ok(first.unwrap_or(NOTHING).to_owned())
}
