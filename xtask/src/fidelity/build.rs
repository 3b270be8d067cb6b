//! A build of Hairpin and its command line. An older build may lack some flags, or have other names for values.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::combination::{Combination, LIMIT, WARM_UP};
use crate::process::{self, Ran};
use crate::reported::{cpus_used, only_case};

/// Renamed values of flags: for each value its names, the current name first.
const RENAMED: &[&[&str]] =
    &[&["same-cpu", "together"], &["cross-cpu", "apart"], &["unpinned", "free"], &["block", "blocking"]];

/// Flags that every build must have.
const NEEDED: &[&str] = &["--transport", "--waiting", "--placement", "--count", "--rounds", "--json", "--out"];

/// A program, and its output for `round-trip --help`.
#[derive(Clone, Debug)]
pub(super) struct Build {
    program: PathBuf,
    help: String,
    out: PathBuf,
    /// The server on another host; `None` if both ends are on this host.
    to: Option<To>,
}

/// How a build reaches a server on another host.
#[derive(Clone, Debug)]
pub(super) struct To {
    /// Command prefix that runs a command on the client's host.
    pub(super) enter: Vec<String>,
    pub(super) ticket: PathBuf,
    pub(super) cpu: u64,
}

impl Build {
    pub(super) fn probe(program: &Path, scratch: &Path) -> Result<Self> {
        let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
        let mut command = Command::new(&program);
        command.args(["round-trip", "--help"]);
        let asked = process::run(&mut command, LIMIT).and_then(process::Ran::succeeded);
        let help = asked.with_context(|| format!("{} is not a build of hairpin", program.display()))?.stdout;
        let build = Self { program, help, out: scratch.join("run"), to: None };
        if let Some(missing) = NEEDED.iter().find(|flag| !build.knows(flag)) {
            bail!("{} has no {missing} in `round-trip --help`", build.program.display());
        }
        Ok(build)
    }

    pub(super) fn to(&self, to: To) -> Self {
        Self { to: Some(to), ..self.clone() }
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    fn knows(&self, word: &str) -> bool {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        self.help.split(|letter| !is_letter(letter)).any(|found| found == word)
    }

    fn word(&self, value: &'static str) -> &'static str {
        let names = RENAMED.iter().find(|names| names.contains(&value)).copied().unwrap_or_default();
        names.iter().copied().find(|name| self.knows(name)).unwrap_or(value)
    }

    /// Returns the arguments of one round. Sets all flags that this build has, since defaults of builds may differ.
    fn arguments(&self, combination: Combination, number: usize) -> Vec<String> {
        let Combination { transport, waiting, placement } = combination;
        let ends = match &self.to {
            None => [
                ("--placement", self.word(placement).to_owned()),
                ("--ends", "processes".to_owned()),
                ("--cpu-idle", "deep".to_owned()),
            ],
            Some(to) => [
                ("--placement", "pinned".to_owned()),
                ("--cpu", to.cpu.to_string()),
                ("--to", format!("@{}", to.ticket.display())),
            ],
        };
        let way = [("--transport", transport.to_owned()), ("--waiting", self.word(waiting).to_owned())];
        let rest = [
            ("--count", combination.count().to_string()),
            ("--rounds", "1".to_owned()),
            ("--warmup", WARM_UP.to_string()),
            ("--seed", number.to_string()),
            ("--size", "4".to_owned()),
            ("--reply-size", "4".to_owned()),
            ("--timeout", "2s".to_owned()),
            ("--keep-samples", "100000".to_owned()),
        ];
        let flags = way.into_iter().chain(ends).chain(rest);
        let known = flags.filter(|(flag, _)| NEEDED.contains(flag) || self.knows(flag));
        let words = known.flat_map(|(flag, value)| [flag.to_owned(), value]);
        ["round-trip".to_owned()].into_iter().chain(words).chain(["--json".to_owned()]).collect()
    }

    /// Returns the command of one round of a case. `place` tells commands that run at the same time apart.
    pub(super) fn command(&self, combination: Combination, number: usize, place: usize) -> Result<Command> {
        let out = self.out.with_extension(place.to_string());
        process::remove(&out)?;
        let enter = self.to.as_ref().map_or(&[][..], |to| &to.enter);
        let mut command = process::prefixed(enter, &self.program);
        command.args(self.arguments(combination, number)).arg("--out").arg(out);
        Ok(command)
    }

    pub(super) fn run(&self, combination: Combination) -> Result<Value> {
        let ran = process::run(&mut self.command(combination, 0, 0)?, LIMIT)?;
        told(ran).with_context(|| self.program.display().to_string())
    }

    pub(super) fn has_both_ends(&self) -> bool {
        self.to.is_none()
    }
}

/// Returns what a build has printed, even if something else used the CPUs, which the base cannot notice.
pub(super) fn told(ran: Ran) -> Result<Value> {
    ran.json_of(&[5]).context("hairpin failed")
}

pub(super) fn p50_ns(run: &Value) -> Result<f64> {
    only_case(run)?["latency_ns"]["p50"]["value"].as_f64().context("the case has no p50")
}

/// Returns the CPUs of Hairpin's client and server, in the bare loop's format.
pub(super) fn cpus(run: &Value, placement: &str) -> Result<String> {
    let used = cpus_used(run, "client");
    match (placement, &used[..]) {
        ("same-cpu", [.., echo]) => Ok(format!("{echo},{echo}")),
        ("cross-cpu", [client, echo]) => Ok(format!("{client},{echo}")),
        _ => bail!("cannot find the CPUs of the ends for {placement}: cpus_used is {used:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_testing::contract::{example, with};
    use serde_json::json;

    fn build(help: &str) -> Build {
        Build { program: "hairpin".into(), help: help.to_owned(), out: "run".into(), to: None }
    }

    #[test]
    fn an_older_build_gets_old_names() {
        let case = Combination { transport: "pipe", waiting: "block", placement: "cross-cpu" };
        let old = build("--placement <WHERE> together (one CPU), apart, free\n--waiting <HOW> block, poll\n--seed");
        let old = old.arguments(case, 3).join(" ");
        assert!(old.contains("--waiting block --placement apart --count 10000 --rounds 1 --seed 3 --json"), "{old}");
        let new = build("--placement <WHERE> same-cpu, cross-cpu, unpinned\n--waiting block\n--warmup <EXTENT>");
        let new = new.arguments(case, 3).join(" ");
        assert!(new.contains("--placement cross-cpu --count 10000 --rounds 1 --warmup 500 --json"), "{new}");
    }

    #[test]
    fn a_client_of_a_server_on_another_host_is_pinned() {
        let case = Combination { transport: "tcp", waiting: "block", placement: "same-cpu" };
        let to = To { enter: Vec::new(), ticket: "ticket".into(), cpu: 3 };
        let build = build("--to --cpu --placement same-cpu pinned --ends --cpu-idle --size").to(to);
        let words = build.arguments(case, 0).join(" ");
        assert!(words.contains("--waiting block --placement pinned --cpu 3 --to @ticket --count 40000"), "{words}");
        assert!(!words.contains("--ends") && !words.contains("--cpu-idle"), "these flags are for one host: {words}");
    }

    #[test]
    fn only_whole_words_are_known() {
        let build = build("set apart, --count-all (same-cpu)");
        assert!(build.knows("apart") && build.knows("same-cpu") && build.knows("--count-all"));
        assert!(!build.knows("--count") && !build.knows("cpu"));
    }

    #[test]
    fn a_program_that_is_not_hairpin_is_refused() {
        let scratch = std::env::temp_dir();
        let why = Build::probe(Path::new("/bin/true"), &scratch).unwrap_err().to_string();
        assert!(why.contains("has no --transport in `round-trip --help`"), "{why}");
        let why = format!("{:#}", Build::probe(Path::new("/bin/false"), &scratch).unwrap_err());
        assert!(why.contains("is not a build of hairpin: exit code 1"), "{why}");
    }

    #[test]
    fn the_cpus_of_both_ends_are_found() {
        assert_eq!(cpus(&example(), "cross-cpu").unwrap(), "0,1");
        assert_eq!(cpus(&example(), "same-cpu").unwrap(), "1,1");
        assert!(cpus(&with("/hosts/0/environment/cpus_used", json!([3])), "cross-cpu").is_err());
    }

    #[test]
    fn the_p50_of_a_run_is_read() {
        assert!((p50_ns(&example()).unwrap() - 10.0).abs() < 1e-12);
        assert!(p50_ns(&with("/cases", json!([]))).unwrap_err().to_string().contains("0 cases instead of one"));
        assert!(p50_ns(&with("/cases/0/latency_ns/p50", json!(null))).is_err());
    }
}
