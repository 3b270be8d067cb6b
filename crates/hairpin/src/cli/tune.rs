//! `hairpin tune`: runs a command with one change at a time, and says which one helps.

use std::ffi::OsString;

use clap::ArgMatches;
use hairpin_analysis::explain;
use hairpin_analysis::tuning::{Suggestion, figure, saved, suggestions, verdict};
use hairpin_engine::links::tcp;
use hairpin_engine::tuning::Setting;
use hairpin_experiments::sequence::permutation;
use hairpin_model::tuning::{Change, TriedChange, TuneMetric, TuneVerdict, Tuning};
use hairpin_model::{Explanation, Figure, Options, Tier};
use hairpin_report::terminal::render_tuning;
use hairpin_report::tuning::{keep, without_option};
use regex_lite::Regex;

use super::exit::{Exit, Stopped};
use super::explain::subject;
use super::link::LinkRunOptions;
use super::output;
use super::start::How;
use super::watched::{self, Place, Ran};
use crate::interrupt::Signals;
use crate::linux::programs::{gains_privileges, max_rcvbuf_bytes};
use crate::session::drawn_seed;

/// Level of the intervals of all changes together.
const ALPHA: f64 = 0.05;
/// With fewer runs of each arm there is no interval.
const MIN_RUNS: u64 = 2;

struct Tune {
    words: Vec<OsString>,
    link: Option<LinkRunOptions>,
    has_own_network: bool,
    metric: TuneMetric,
    /// The server whose exchanges are compared, as the first run has it.
    server: Option<String>,
    pattern: Option<Regex>,
    signals: Signals,
    quiet: bool,
}

struct Arm {
    name: String,
    suggestion: Option<Suggestion>,
    supervised: bool,
    values: Vec<f64>,
    /// Whether the options held in all runs, and how often the program's own were held back.
    held: bool,
    held_back: u64,
}

pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let link = matches.contains_id("link").then(|| LinkRunOptions::read(matches)).transpose()?;
    let has_own_network = matches.get_flag("own-network") || link.is_some();
    let asked = changes(matches, has_own_network)?;
    watched::place(link.as_ref(), has_own_network)?;
    let pattern = pattern(matches)?;
    let metric: Option<TuneMetric> =
        matches.get_one::<String>("metric").map(|word| word.parse().map_err(Stopped::usage)).transpose()?;
    if metric == Some(TuneMetric::Output) && pattern.is_none() {
        return Err(Stopped::usage("--metric output needs --match (hint: --match 'took ([0-9.]+) ms')"));
    }
    let signals = watched::catch_signals()?;
    let words: Vec<OsString> = matches.get_many("COMMAND").unwrap_or_default().cloned().collect();
    let quiet = matches.get_flag("quiet");
    if let Some(path) = gains_privileges(&words[0]) {
        return Err(Stopped::usage(format!(
            "{} gains privileges when it starts, and tune takes them (hint: run tune as the user that it becomes)",
            path.display()
        )));
    }
    let mut tune =
        Tune { words, link, has_own_network, metric: TuneMetric::Time, server: None, pattern, signals, quiet };
    let first = tune.run(None, None)?;
    // Its addresses are printed once.
    tune.link.iter_mut().for_each(|link| link.quiet = true);
    let explanation = explain(first.observed, Tier::Packets, subject(&tune.words));
    // Samples of 1 ms do not measure an exchange.
    let has_packets = explanation.packets.frames > 0;
    tune.metric = match metric {
        Some(metric) => metric,
        None if tune.pattern.is_some() => TuneMetric::Output,
        None if has_packets && mean_exchange_ns(&explanation, None).is_some() => TuneMetric::Exchange,
        None => TuneMetric::Time,
    };
    tune.server = explanation.connections.first().map(|busiest| busiest.ends[1].clone());
    let (tried, not_tried) = if asked.is_empty() {
        let other = other_congestion_control();
        let (tried, without) = suggestions(&explanation, tune.metric, other.as_deref(), max_rcvbuf_bytes());
        (tried, without.into_iter().map(without_option).collect())
    } else {
        (asked, Vec::new())
    };
    let (possible, impossible): (Vec<_>, Vec<_>) =
        tried.into_iter().partition(|one: &Suggestion| has_own_network || !matches!(one.change, Change::Sysctl(..)));
    let mut not_tried: Vec<String> = not_tried;
    not_tried.extend(
        impossible.iter().map(|one| format!("{}: a setting of the host; --own-network tries it", one.change)),
    );
    let runs = *matches.get_one::<u64>("runs").expect("it has a default");
    let seed = matches.get_one("seed").copied().unwrap_or_else(drawn_seed);
    let (arms, ended_early) = if possible.is_empty() { (Vec::new(), None) } else { tune.arms(possible, runs, seed)? };
    let result = tune.result(arms, not_tried);
    output::result(matches.get_flag("json"), &result, |look| render_tuning(&result, &look));
    // What was measured until then is reported.
    ended_early.map_or(Ok(Exit::Fine), Err)
}

fn changes(matches: &ArgMatches, has_own_network: bool) -> Result<Vec<Suggestion>, Stopped> {
    let change = |text: &String| {
        let is_setting = text.split_once('=').is_some_and(|(name, _)| name.contains('.'));
        let change = match text.split_once('=').filter(|_| is_setting) {
            Some(_) if !has_own_network => {
                return Err(Stopped::usage(format!(
                    "`{text}` is a setting of the host (hint: add --own-network or --link)"
                )));
            }
            Some((name, value)) => Change::Sysctl(name.to_owned(), value.to_owned()),
            None if let Some(setting) = Setting::parse(text) => {
                setting.map_err(Stopped::usage)?;
                Change::Process(text.clone())
            }
            None => Change::Options(Options::parse(text).map_err(Stopped::usage)?),
        };
        Ok(Suggestion { change, because: None, predicted: None })
    };
    matches.get_many::<String>("change").unwrap_or_default().map(change).collect()
}

fn pattern(matches: &ArgMatches) -> Result<Option<Regex>, Stopped> {
    let Some(text) = matches.get_one::<String>("match") else { return Ok(None) };
    let pattern = Regex::new(text).map_err(|error| Stopped::usage(format!("--match `{text}`: {error}")))?;
    if pattern.captures_len() < 2 {
        return Err(Stopped::usage(format!(
            "--match `{text}` has no group (hint: put the number in parentheses: ([0-9.]+))"
        )));
    }
    Ok(Some(pattern))
}

/// A congestion control that programs may use and that is not the default.
fn other_congestion_control() -> Option<String> {
    let used = tcp::default_congestion_control();
    ["bbr", "cubic", "reno"].into_iter().find(|name| *name != used && tcp::may_use(name).is_ok()).map(str::to_owned)
}

/// Returns the mean duration of the exchanges with a server, or with the one that takes most time if it has no connection.
fn mean_exchange_ns(explanation: &Explanation, server: Option<&str>) -> Option<f64> {
    let of_server = explanation.connections.iter().find(|connection| Some(connection.ends[1].as_str()) == server);
    let busiest = of_server.or(explanation.connections.first()).filter(|connection| connection.exchanges > 0)?;
    Some(busiest.states.iter().map(|time| time.ns).sum())
}

impl Tune {
    fn run(&self, change: Option<&Change>, supervised: Option<&Options>) -> Result<Ran, Stopped> {
        let (mut sysctls, mut settings, mut options) = (Vec::new(), Vec::new(), supervised);
        match change {
            Some(Change::Sysctl(name, value)) => sysctls.push((name.clone(), value.clone())),
            Some(Change::Process(text)) => settings.extend(Setting::parse(text).and_then(Result::ok)),
            Some(Change::Options(changed)) => options = Some(changed),
            None => {}
        }
        let place = Place::of(self.link.as_ref(), self.has_own_network);
        let how = How { sysctls: &sysctls, settings: &settings, options, keeps_output: self.pattern.is_some() };
        let ran = watched::run(&self.words, place, how, &self.signals)?;
        match ran.exit.code() {
            _ if ran.interrupted => Err(Stopped::with(Exit::Interrupted, "interrupted".to_owned())),
            0 => Ok(ran),
            code => Err(Stopped::with(
                Exit::RoundsFailed,
                format!(
                    "`{}` ended with exit code {code} (hint: tune needs a command that succeeds)",
                    subject(&self.words)
                ),
            )),
        }
    }

    /// The value of the metric; less is better.
    fn value(&self, ran: Ran) -> Result<f64, Stopped> {
        let missing =
            |what: &str| Stopped::with(Exit::Unusable, format!("a run of `{}` has {what}", subject(&self.words)));
        match self.metric {
            TuneMetric::Time => Ok(ran.took.as_nanos() as f64),
            TuneMetric::Exchange => {
                let explanation = explain(ran.observed, Tier::Packets, String::new());
                mean_exchange_ns(&explanation, self.server.as_deref())
                    .ok_or_else(|| missing("no exchange (hint: use --metric time)"))
            }
            TuneMetric::Output => {
                let found = self.pattern.as_ref().and_then(|pattern| pattern.captures_iter(&ran.output).last());
                let number = found.and_then(|found| found.get(1)?.as_str().parse().ok());
                number.ok_or_else(|| missing("no number that --match finds in its output"))
            }
        }
    }

    /// Runs all arms in turn, each time in another order. Also returns why that ended early, after two runs of each.
    fn arms(&self, changes: Vec<Suggestion>, runs: u64, seed: u64) -> Result<(Vec<Arm>, Option<Stopped>), Stopped> {
        let arm = |name: &str, suggestion, supervised| Arm {
            name: name.to_owned(),
            suggestion,
            supervised,
            values: Vec::new(),
            held: true,
            held_back: 0,
        };
        let mut arms =
            vec![arm("as it is", None, false), arm("the same again", None, false), arm("supervisor", None, true)];
        arms.extend(changes.into_iter().map(|one| arm(&one.change.to_string(), Some(one), false)));
        let none = Options::default();
        let order = (0..runs).flat_map(|number| {
            let places = permutation(arms.len(), seed, u32::try_from(number).unwrap_or(u32::MAX));
            places.into_iter().map(move |place| (number, place))
        });
        for (number, place) in order.collect::<Vec<_>>() {
            let arm = &mut arms[place];
            if !self.quiet {
                output::note(&format!("run {} of {runs}: {}", number + 1, arm.name));
            }
            let change = arm.suggestion.as_ref().map(|one| &one.change);
            let ran = self.run(change, arm.supervised.then_some(&none));
            let measured = ran.and_then(|ran| Ok((ran.supervised, self.value(ran)?)));
            let (supervised, value) = match measured {
                Ok(measured) => measured,
                Err(why) if number >= MIN_RUNS => {
                    // Each run is compared with those of the other arms in the same turn.
                    let turns = usize::try_from(number).unwrap_or(usize::MAX);
                    arms.iter_mut().for_each(|arm| arm.values.truncate(turns));
                    return Ok((arms, Some(why)));
                }
                Err(why) => return Err(why),
            };
            if let Some(supervised) = supervised {
                let is_option = matches!(arm.suggestion, Some(Suggestion { change: Change::Options(_), .. }));
                let is_set = supervised.refused == 0 && supervised.met == supervised.changed;
                arm.held &= !is_option || (is_set && supervised.changed > 0);
                arm.held_back += supervised.held_back;
            }
            arm.values.push(value);
        }
        Ok((arms, None))
    }

    fn result(&self, arms: Vec<Arm>, not_tried: Vec<String>) -> Tuning {
        let mut arms = arms.into_iter();
        let [plain, again, supervisor] = [(); 3].map(|()| arms.next().map(|arm| arm.values).unwrap_or_default());
        let changes: Vec<Arm> = arms.collect();
        let runs = plain.len() as u64;
        // Several changes are compared with one arm (Bonferroni).
        let alpha = ALPHA / changes.len().max(1) as f64;
        let baseline = figure(&plain, ALPHA);
        let tried = changes.into_iter().filter_map(|arm| {
            let Suggestion { change, because, predicted } = arm.suggestion?;
            let measured = saved(&plain, &arm.values, alpha);
            let part = |figure: &Figure| figure.value / baseline.as_ref().map_or(f64::NAN, |baseline| baseline.value);
            Some(TriedChange {
                change: change.to_string(),
                because,
                predicted,
                measured_share: measured.as_ref().map(part).filter(|part| part.is_finite()),
                verdict: if arm.held { verdict(measured) } else { TuneVerdict::NotMade },
                measured,
                held: arm.held,
                held_back: arm.held_back,
                keep: keep(&change),
            })
        });
        Tuning {
            subject: subject(&self.words),
            metric: self.metric,
            runs,
            tune: tried.collect(),
            same_again: saved(&plain, &again, ALPHA),
            supervised: saved(&plain, &supervisor, ALPHA),
            baseline,
            not_tried,
        }
    }
}
