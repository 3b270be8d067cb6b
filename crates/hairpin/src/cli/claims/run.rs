//! `hairpin claims run`: performs the runs that claims need, and judges the claims by them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use hairpin_analysis::claims::{Runs, is_warning, judge};
use hairpin_engine::links::known;
use hairpin_hosts::ticket::redacted;
use hairpin_model::judged_claim::Headline;
use hairpin_model::quantities::{counted, duration};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Document, JudgedClaim, Reason, Refused, Run, TestRun, shell};
use hairpin_report::{html, words};
use hairpin_store::Folder;

use super::listing::{chosen, new_report, planned, show};
use crate::claims::{SelectedClaims, TESTED, between_hosts};
use crate::claims_folder::read_result;
use crate::cli::exit::{Exit, Stopped};
use crate::cli::measure::{Ends, session_of, shown};
use crate::cli::report::{PAGE, write_page};
use crate::cli::{command, output, two_hosts};
use crate::program::Program;
use crate::saved;
use crate::session::{Session, drawn_seed, new_folder};

/// Number of looks at a claim that stays undecided, and how many times more rounds the next look has. Each look has an
/// equal part of alpha.
const LOOKS: usize = 2;
const MORE_ROUNDS: u64 = 3;
/// Time of a quick run, in ns, and the minimum and maximum rounds of its cases: too few decide nothing.
const QUICK_RUN_NS: u64 = 8_000_000_000;
const QUICK_ROUNDS: [u64; 2] = [4, 8];

/// Performs each needed run once, judges the claims, and looks again at those that are undecided.
pub(super) fn test(program: &Program, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    let mut chosen = chosen(matches)?;
    let names_none = matches.get_many::<String>("ID").is_none_or(|ids| ids.len() == 0);
    if names_none && !matches.get_flag("all") && matches.get_one::<PathBuf>("file").is_none() {
        let why = "no claim was named (hint: name claims such as B1 or texts such as D, or give --all)";
        return Err(Stopped::usage(why));
    }
    let link = matches.get_one::<String>("link").cloned();
    if let Some(Err(why)) = link.as_ref().map(|link| (known::capabilities().read)(link)) {
        return Err(Stopped::usage(Refused::from(why)));
    }
    if two_hosts::is_asked(matches) || link.is_some() {
        chosen = chosen.into_iter().map(SelectedClaims::between_hosts).collect();
    }
    if matches.get_flag("quick") {
        chosen = chosen.into_iter().map(SelectedClaims::quick).collect();
    }
    let needed: usize = chosen.iter().map(|chosen| chosen.runs().len()).sum();
    if needed == 0 {
        return Err(Stopped::usage(nothing_to_test(&chosen)));
    }
    let ends = Ends::prepare(matches)?;
    if ends.cpus.is_some() && ends.server.is_none() {
        return Err(Stopped::usage("--cpu cannot set the CPUs of claims, which name placements (hint: omit --cpu)"));
    }
    let mut report = new_report(&chosen, arguments);
    report.to = ends.server.as_ref().map(|server| server.host().name).or_else(|| link.clone());
    let named = matches.get_one::<PathBuf>("out").cloned();
    let folder = named.unwrap_or_else(|| new_folder("claims", report.started_unix_s));
    let (files, earlier) = open_folder(&folder)?;
    let given_seed = matches.get_one("seed").copied();
    let seed = given_seed.or(earlier.as_ref().and_then(|earlier| earlier.seed)).unwrap_or_else(drawn_seed);
    report.seed = Some(seed);
    let options = RunOptions {
        seed,
        rounds: matches.get_one("rounds").copied(),
        quick: matches.get_flag("quick"),
        quiet: matches.get_flag("quiet"),
        path: match &link {
            Some(link) => Some(vec!["--link".to_owned(), link.clone()]),
            None => report.to.is_some().then(|| server_arguments(matches)),
        },
    };
    let looks = if options.quick || options.rounds.is_some() { 1 } else { LOOKS };
    let mut tests = Tests { program, ends: &ends, options, folder: &folder, earlier, report, unsaved: Vec::new() };
    tests.announce(&chosen, looks)?;
    let judged = tests.judge_all(&chosen, looks);
    let Tests { mut report, mut unsaved, .. } = tests;
    report.claims = judged;
    if matches.get_flag("quick") {
        report.remarks.push("Quick: few rounds, one look, and no rows of other settings.".to_owned());
    }
    if ends.is_stopped() {
        report.state = State::Interrupted;
        report.claims.iter_mut().for_each(withdraw_unless_run);
    }
    words::write_claims(&mut report);
    finish(&report, &files, &folder, matches, &mut unsaved);
    let failed = report.runs.iter().any(|run| run.failed_rounds > 0);
    Ok(match report.state {
        State::Interrupted => Exit::Interrupted,
        _ if failed || !unsaved.is_empty() => Exit::RoundsFailed,
        _ => Exit::Fine,
    })
}

struct Tests<'a> {
    program: &'a Program,
    ends: &'a Ends,
    options: RunOptions,
    folder: &'a Path,
    earlier: Option<ClaimsReport>,
    report: ClaimsReport,
    unsaved: Vec<String>,
}

impl Tests<'_> {
    /// The arguments of a run. A quick one has as many rounds as fit its time, within bounds.
    fn words(&self, command: &str, look: usize) -> Vec<String> {
        if !self.options.quick {
            return self.options.words(command, look, None);
        }
        let [least, most] = QUICK_ROUNDS;
        let lasts_ns = self.lasts_ns(self.options.words(command, look, Some(most))).max(1);
        let rounds = (most * QUICK_RUN_NS / lasts_ns).clamp(least, most);
        self.options.words(command, look, Some(rounds))
    }

    /// Announced duration of a run, in ns; 0 if it cannot be planned here, which is reported when its turn comes.
    fn lasts_ns(&self, words: Vec<String>) -> u64 {
        self.session(words).ok().and_then(|session| session.lasts_ns().ok()).unwrap_or(0)
    }

    fn announce(&self, chosen: &[SelectedClaims], looks: usize) -> Result<(), Stopped> {
        if self.options.quiet {
            return Ok(());
        }
        let (mut runs, mut lasts_ns) = (0, 0_u64);
        for (of, name) in chosen.iter().flat_map(|of| of.runs().into_iter().map(move |name| (of, name))) {
            runs += 1;
            lasts_ns = lasts_ns.saturating_add(self.lasts_ns(self.words(&planned(of, name).command, 1)));
        }
        let more = if looks > 1 {
            format!("; up to {MORE_ROUNDS} times more where a claim stays undecided")
        } else {
            String::new()
        };
        let runs = counted(runs, "run");
        output::note(&format!("{runs}, about {}{more}", duration(lasts_ns as f64)));
        Ok(())
    }

    fn judge_all(&mut self, chosen: &[SelectedClaims], looks: usize) -> Vec<JudgedClaim> {
        let mut judged = Vec::new();
        for of in chosen {
            let first = of.runs().into_iter().map(str::to_owned).collect();
            let share = 1.0 / looks as f64;
            let mut of_text = self.look(of, &first, 1, share);
            for look in 1..looks {
                let open = |claim: &&JudgedClaim| claim.headline == Some(Headline::Undecided);
                let ids: BTreeSet<String> = of_text.iter().filter(open).map(|claim| claim.id.clone()).collect();
                let again = of.claims.iter().filter(|claim| ids.contains(&claim.id));
                let runs: BTreeSet<String> = again.flat_map(|claim| claim.runs()).map(str::to_owned).collect();
                if runs.is_empty() || self.ends.is_stopped() {
                    break;
                }
                let next = self.look(of, &runs, look + 1, share);
                let is_better =
                    |claim: &JudgedClaim| ids.contains(&claim.id) && claim.headline != Some(Headline::NotTestable);
                for (claim, next) in of_text.iter_mut().zip(next).filter(|(_, next)| is_better(next)) {
                    *claim = next;
                }
            }
            judged.extend(of_text);
        }
        judged
    }

    /// Performs these runs of a text, with more rounds at a later look, and judges the claims by them.
    fn look(&mut self, of: &SelectedClaims, runs: &BTreeSet<String>, look: usize, share: f64) -> Vec<JudgedClaim> {
        let mut results: BTreeMap<String, Result<Run, String>> = BTreeMap::new();
        for name in of.runs().into_iter().filter(|name| runs.contains(*name)) {
            let mut test_run = planned(of, name);
            if look > 1 {
                test_run.name = format!("{}-{look}", test_run.name);
            }
            let words = self.words(&test_run.command, look);
            test_run.command = shell::command(&words);
            let run = self.earlier_run(&test_run).map_or_else(|| self.one_run(&mut test_run, words), Ok);
            if run.is_ok() {
                test_run.folder = Some(test_run.name.clone());
            }
            record_run(&mut self.report, &run, test_run);
            results.insert(name.to_owned(), run);
        }
        let runs: Runs<'_> =
            results.iter().map(|(name, run)| (name.clone(), run.as_ref().map_err(Clone::clone))).collect();
        let source = of.source();
        let mut judged: Vec<JudgedClaim> =
            of.claims.iter().map(|claim| judge(claim, &source, &runs, share)).collect();
        if look > 1 {
            let evidence = |file: &String| file.replacen('/', &format!("-{look}/"), 1);
            for row in judged.iter_mut().flat_map(|claim| &mut claim.rows) {
                row.evidence = row.evidence.as_ref().map(evidence);
            }
        }
        judged
    }

    /// The run from the interrupted folder, if it is complete and has the same command.
    fn earlier_run(&self, test_run: &TestRun) -> Option<Run> {
        let of_earlier = self.earlier.as_ref()?.runs.iter().find(|run| run.name == test_run.name)?;
        let is_usable = of_earlier.folder.is_some() && of_earlier.command == test_run.command;
        // The name in the file is not trusted as a path.
        let (_, run) = is_usable.then(|| saved::open(&self.folder.join(&test_run.name)))?.ok()?;
        (run.state == State::Complete).then_some(run)
    }

    fn session(&self, words: Vec<String>) -> Result<Session<'_>, String> {
        let matches = command::command(self.program).try_get_matches_from(&words);
        let first_line =
            |text: String| text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let matches = matches.map_err(|error| first_line(error.to_string()))?;
        let Some((experiment, matches)) = matches.subcommand() else {
            return Err("its command names no experiment".to_owned());
        };
        let session = session_of(self.program, experiment, matches).map_err(|stopped| stopped.to_string())?;
        Ok(self.ends.joined(session).command_line(words))
    }

    /// Performs one run and saves it with its page. On failure returns the reason.
    fn one_run(&mut self, test_run: &mut TestRun, words: Vec<String>) -> Result<Run, String> {
        if self.ends.is_stopped() {
            return Err(ENDED.to_owned());
        }
        if !self.options.quiet {
            output::note(&format!("Run {}: {}", test_run.name, test_run.command));
        }
        let folder = self.folder.join(&test_run.name);
        set_aside(&folder)?;
        let session = self.session(words)?.save_in(folder);
        let (folder, run) = self.ends.run(session).map_err(|refused| refused.to_string())?;
        self.unsaved.extend(write_page(&html::render(&run), folder.files()).err());
        self.unsaved.extend(run.unsaved.iter().map(|failure| failure.cause.clone()));
        Ok(run)
    }
}

/// Why a run was not executed after Ctrl-C.
const ENDED: &str = "the user ended the command before this run";

/// Withdraws the verdict on a claim that is not testable only because the command was ended.
fn withdraw_unless_run(claim: &mut JudgedClaim) {
    let is_ended = |reason: &Reason| match reason {
        Reason::NoRun { cause, .. } => cause.as_deref() == Some(ENDED),
        Reason::Ended { .. } => true,
        Reason::Order { steps, .. } => {
            steps.iter().any(|step| matches!(step.absent.as_deref(), Some(Reason::Ended { .. })))
        }
        _ => false,
    };
    let was_ended = claim.rows.iter().any(|row| row.judgement.reason.as_ref().is_some_and(is_ended));
    if claim.headline == Some(Headline::NotTestable) && was_ended {
        (claim.headline, claim.age_s) = (None, None);
    }
}

/// Renames the folder of an incomplete run, or of a run by another or a killed command, since its name is needed again.
fn set_aside(folder: &Path) -> Result<(), String> {
    if !folder.is_dir() {
        return Ok(());
    }
    let name = |number: u32| format!("{}-earlier-{number}", folder.file_name().unwrap_or_default().to_string_lossy());
    let free = (1..=u32::MAX).map(|number| folder.with_file_name(name(number))).find(|aside| !aside.exists());
    let renamed = free.map_or(Ok(()), |aside| std::fs::rename(folder, aside));
    renamed.map_err(|error| format!("cannot rename {}: {error}", shown(folder)))
}

/// Why none of these claims can be tested: missing parts, or reasons for skipping.
fn nothing_to_test(chosen: &[SelectedClaims]) -> String {
    let why = chosen.iter().flat_map(|text| &text.claims).map(|claim| {
        let joined = |parts: Vec<&str>| parts.join(", ");
        if claim.missing().is_empty() {
            format!("{} is skipped: {}", claim.id, joined(claim.skipped()))
        } else {
            format!("{} needs {}", claim.id, joined(claim.missing()))
        }
    });
    let why = why.collect::<Vec<_>>().join("; ");
    format!("nothing can be tested, and nothing was run: {why} (hint: `hairpin claims` lists what can be tested)")
}

fn server_arguments(matches: &ArgMatches) -> Vec<String> {
    let as_given = |name: &str| {
        let value = matches.get_raw(name)?.next()?;
        Some([format!("--{name}"), value.to_string_lossy().into_owned()])
    };
    let flags = ["to", "fallback", "bind", "cpu", "server-port"];
    let mut words: Vec<String> = flags.into_iter().filter_map(as_given).flatten().collect();
    words.extend(matches.get_one::<String>("copy-binary").map(|file| match file.as_str() {
        "" => "--copy-binary".to_owned(),
        file => format!("--copy-binary={file}"),
    }));
    redacted(&words)
}

struct RunOptions {
    seed: u64,
    rounds: Option<u64>,
    quick: bool,
    quiet: bool,
    /// Arguments that select the server on another host, or a link, if claims are tested on a given path.
    path: Option<Vec<String>>,
}

impl RunOptions {
    fn words(&self, command: &str, look: usize, quick_rounds: Option<u64>) -> Vec<String> {
        let mut words: Vec<String> = std::iter::once("hairpin".to_owned()).chain(shell::words(command)).collect();
        let few = self.rounds.or(quick_rounds);
        // A search chooses its rounds. Where few are asked for, its confirmation takes at most a second for each.
        let is_search = words.iter().any(|word| word == "--find");
        let name = if is_search { "--over" } else { "--rounds" };
        let flag = words.iter().position(|word| word == name);
        let planned = flag.and_then(|flag| words.get(flag + 1)).cloned();
        let more = if look > 1 { MORE_ROUNDS } else { 1 };
        let value = match (is_search, few, planned.and_then(|planned| planned.parse::<u64>().ok())) {
            (true, few, _) => few.map(|rounds| format!("{rounds}s")),
            (false, few, planned) => few.or(planned.map(|planned| planned * more)).map(|rounds| rounds.to_string()),
        };
        if let Some(value) = value {
            if let Some(flag) = flag {
                words.drain(flag..(flag + 2).min(words.len()));
            }
            words.extend([name.to_owned(), value]);
        }
        words.extend(["--seed".to_owned(), (self.seed + look as u64 - 1).to_string()]);
        match &self.path {
            Some(path) => between_hosts(words).into_iter().chain(path.iter().cloned()).collect(),
            None => words,
        }
    }
}

fn record_run(report: &mut ClaimsReport, run: &Result<Run, String>, mut test_run: TestRun) {
    match run {
        Ok(run) => {
            test_run.failed_rounds = run.failed_rounds() as u64;
            let warnings = run.findings.iter().filter(|finding| is_warning(finding));
            test_run.warnings = warnings.map(|finding| finding.code.clone()).collect();
            report.duration_ns += run.duration_ns;
            report.environment.get_or_insert_with(|| run.environment().clone());
        }
        Err(why) => test_run.problem = Some(why.clone()),
    }
    report.runs.push(test_run);
}

/// Creates the folder, or opens that of an interrupted command. Refuses a folder whose claims are tested.
fn open_folder(folder: &Path) -> Result<(Folder, Option<ClaimsReport>), Stopped> {
    let files = Folder::create(folder).map_err(|error| {
        Stopped::usage(format!("cannot create {}: {error} (hint: use another folder with --out)", shown(folder)))
    })?;
    if !files.holds(TESTED) {
        return Ok((files, None));
    }
    let earlier = read_result(folder).map_err(Stopped::usage)?;
    if earlier.state != State::Interrupted {
        let path = shown(folder);
        return Err(Stopped::usage(format!("{path} already holds tested claims (hint: use another folder)")));
    }
    Ok((files, Some(earlier)))
}

fn finish(report: &ClaimsReport, files: &Folder, folder: &Path, matches: &ArgMatches, unsaved: &mut Vec<String>) {
    for (name, text) in [(TESTED, report.to_json()), (PAGE, html::render_claims(report))] {
        if let Err(error) = files.replace(name, text.as_bytes()) {
            let path = shown(&folder.join(name));
            unsaved.push(format!("cannot write {path}: {error} (hint: is the disk full?)"));
        }
    }
    show(report, matches);
    output::note(&format!("\nClaims folder  {}\nReport         {}", shown(folder), shown(&folder.join(PAGE))));
    for cause in unsaved {
        output::error(cause);
    }
}
