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

/// Time limit of a run.
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

/// A slow program and its fixed form.
struct Pair {
    cause: &'static str,
    language: Language,
    /// The link of the slow form, and of the fixed one; empty for a network with only loopback.
    links: [&'static str; 2],
    /// Shell commands at the client's end of the link, for the slow form.
    before: &'static str,
    /// Causes that are true of the fixed form.
    also: &'static [&'static str],
}

const fn pair(cause: &'static str, language: Language, link: &'static str, also: &'static [&'static str]) -> Pair {
    Pair { cause, language, links: [link, link], before: "", also }
}

const LARGE_PACKETS_DROPPED: &str = "nft add table ip t; \
    nft 'add chain ip t i { type filter hook prerouting priority -300; }'; nft add rule ip t i ip length \\> 1000 drop; ";

#[rustfmt::skip]
const ALL: &[Pair] = &[
    pair("nagle-meets-delayed-ack", Language::Python, "", &[]),
    pair("nagle-meets-delayed-ack", Language::C, "", &[]),
    pair("nagle-waits", Language::Python, "delay=10ms", &["one-request-per-round-trip"]),
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
    pair("udp-receive-overrun", Language::Python, "", &[]),
    pair("client-idle", Language::Python, "", &[]),
    pair("client-idle", Language::Rust, "delay=1ms", &["one-request-per-round-trip"]),
    Pair { links: ["delay=5ms rate=8mbit", "delay=5ms"], ..pair("link-saturated", Language::Python, "", &["congestion-window"]) },
];

/// How often each cause was named first.
type Named = BTreeMap<String, usize>;

/// Runs both forms of the pairs whose cause contains `only`, and prints a line for each. Returns whether all limits hold.
pub(crate) fn run(root: &Path, runs: usize, only: Option<&str>) -> Result<bool> {
    let chosen: Vec<&Pair> = ALL.iter().filter(|pair| only.is_none_or(|word| pair.cause.contains(word))).collect();
    if chosen.is_empty() {
        bail!("no program has the cause `{}`", only.unwrap_or_default());
    }
    let [hairpin, rust] = process::build_release(root, [("hairpin", "hairpin"), ("xtask", "slow")])?;
    let scratch = process::scratch("explain")?;
    let programs = Programs::build(root, &scratch, rust)?;
    let started = Instant::now();
    let mut named = vec![[Named::new(), Named::new()]; chosen.len()];
    for number in 0..runs {
        for (pair, named) in chosen.iter().zip(&mut named) {
            for (form, named) in ["slow", "fixed"].into_iter().zip(named) {
                let code = first_cause(&hairpin, &programs, pair, form)?;
                *named.entry(code).or_default() += 1;
            }
        }
        println!("{} of {runs}, {:.0} s", number + 1, started.elapsed().as_secs_f64());
    }
    process::remove(&scratch)?;
    Ok(judge(&chosen, &named, runs))
}

fn judge(chosen: &[&Pair], named: &[[Named; 2]], runs: usize) -> bool {
    let (mut right, mut wrong, mut all_hold) = (0, 0, true);
    for (pair, [slow, fixed]) in chosen.iter().zip(named) {
        let of_slow = slow.get(pair.cause).copied().unwrap_or(0);
        let is_true = |code: &String| code == NOTHING || pair.also.contains(&code.as_str());
        let of_fixed: usize = fixed.iter().filter(|(code, _)| !is_true(code)).map(|(_, count)| count).sum();
        (right, wrong) = (right + of_slow, wrong + of_fixed);
        let holds = of_slow as f64 >= MIN_EACH * runs as f64;
        all_hold &= holds;
        let word = if holds { "holds " } else { "MISSED" };
        println!("{word} {:28} {of_slow} of {runs}; fixed: {of_fixed} wrong; {slow:?} {fixed:?}", pair.cause);
    }
    let all = (chosen.len() * runs) as f64;
    let (pooled, share_wrong) = (right as f64 / all, wrong as f64 / all);
    println!(
        "named first in {:.1} % (at least 95 %), wrong in {:.1} % of the fixed forms (at most 3 %)",
        100.0 * pooled,
        100.0 * share_wrong
    );
    all_hold && pooled >= MIN_POOLED && share_wrong <= MAX_WRONG
}

const NOTHING: &str = "nothing";

struct Programs {
    python: String,
    c: PathBuf,
    rust: PathBuf,
}

impl Programs {
    fn build(root: &Path, scratch: &Path, rust: PathBuf) -> Result<Self> {
        let source = |name: &str| root.join("xtask/programs").join(name);
        let c = scratch.join("slow-c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o"]).arg(&c).arg(source("slow.c"));
        process::run(&mut cc, LIMIT)?.succeeded().context("cannot build a slow program")?;
        Ok(Self { python: format!("python3 {}", source("slow.py").display()), c, rust })
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
    let program = format!("{} {} {form}", programs.of(pair.language), pair.cause);
    let is_slow = form == "slow";
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
