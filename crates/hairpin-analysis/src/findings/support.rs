//! What detectors share: looking cases up, the words of a finding, the command of a counter-experiment.

use hairpin_model::case::{Case, CpuIdle, Ends, LOOPBACK, Pattern};
use hairpin_model::figure::Figure;
use hairpin_model::finding::{CounterExperiment, Evidence, Finding, FindingCard, Severity};
use hairpin_model::round::{Measured, RoundRecord};
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Verdict};

use crate::humane;

/// A finding to be filled in with `..`.
pub(super) fn blank(card: &FindingCard, severity: Severity) -> Finding {
    Finding {
        code: card.code.to_owned(),
        severity,
        cases: Vec::new(),
        summary: String::new(),
        evidence: Vec::new(),
        advice: String::new(),
        counter_experiment: None,
        proved: None,
        share: 0.0,
    }
}

/// A piece of evidence.
pub(super) fn evidence(what: impl Into<String>, value: Figure, unit: &str) -> Evidence {
    Evidence { what: what.into(), value, unit: unit.to_owned() }
}

/// The measured rounds of a case, in order of execution.
pub(super) fn rounds_of<'r>(run: &'r Run, id: &str) -> Vec<(&'r RoundRecord, &'r Measured)> {
    let rounds = run.rounds.iter().filter(|round| round.case_id == id);
    rounds.filter_map(|round| Some((round, round.measured()?))).collect()
}

/// Cases in which a detector found its cause, each with the share that it explains, the greatest first.
pub(super) struct Hits<'r, T>(pub(super) Vec<Hit<'r, T>>);

/// One of them.
pub(super) struct Hit<'r, T> {
    pub(super) case: &'r CaseSummary,
    pub(super) share: f64,
    pub(super) with: T,
}

impl<'r, T> Hits<'r, T> {
    /// Looks at every case of the run.
    pub(super) fn among(run: &'r Run, look: impl Fn(&'r CaseSummary) -> Option<(f64, T)>) -> Self {
        let hit = |case: &'r CaseSummary| look(case).map(|(share, with)| Hit { case, share, with });
        let mut hits: Vec<_> = run.cases.iter().filter_map(hit).collect();
        hits.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self(hits)
    }

    /// The strongest.
    pub(super) fn first(&self) -> Option<&Hit<'r, T>> {
        self.0.first()
    }

    /// The identities of all.
    pub(super) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|hit| hit.case.id.clone()).collect()
    }

    /// All cases.
    pub(super) fn cases(&self) -> Vec<&'r Case> {
        self.0.iter().map(|hit| &hit.case.case).collect()
    }

    /// ` In 3 other cases it is 61 % to 88 %.`, or nothing where there is no other.
    pub(super) fn others(&self) -> String {
        match self.0.get(1..) {
            None | Some([]) => String::new(),
            Some([one]) => format!(" In {} it is {}.", one.case.label, humane::share(one.share)),
            Some(others) => {
                let (most, least) = (others[0].share, others[others.len() - 1].share);
                let (least, most) = (humane::share(least), humane::share(most));
                format!(" In {} other cases it is {least} to {most}.", others.len())
            }
        }
    }
}

/// What changes from case `from` to case `to`, as the run's comparisons say, whichever of them is the baseline there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// to / from.
    pub(super) ratio: Figure,
    /// to - from, in ns.
    pub(super) difference_ns: Figure,
    /// Whether `to` is faster.
    pub(super) verdict: Verdict,
}

impl Change {
    /// The share of `from` that is gone in `to`.
    pub(super) fn saved_share(&self) -> Figure {
        mapped(&self.ratio, |ratio| 1.0 - ratio)
    }

    /// What is gone, in ns.
    pub(super) fn saved_ns(&self) -> Figure {
        mapped(&self.difference_ns, |difference| -difference)
    }
}

/// A figure through a falling function: its bounds change places.
fn mapped(figure: &Figure, falling: impl Fn(f64) -> f64) -> Figure {
    Figure { value: falling(figure.value), low: figure.high.map(&falling), high: figure.low.map(&falling) }
}

/// The change from one case to another, where the run compares them.
pub(super) fn change(run: &Run, from: &CaseSummary, to: &CaseSummary) -> Option<Change> {
    run.comparisons.iter().find_map(|comparison| {
        if comparison.baseline == from.id && comparison.candidate == to.id {
            let &hairpin_model::summary::Comparison { ratio, difference_ns, verdict, .. } = comparison;
            return Some(Change { ratio, difference_ns, verdict });
        }
        if comparison.baseline != to.id || comparison.candidate != from.id {
            return None;
        }
        let ratio = mapped(&comparison.ratio, |ratio| 1.0 / ratio);
        let reference = from.latency_ns.p50?.value;
        let in_ns = |ratio: f64| (ratio - 1.0) * reference;
        let difference_ns =
            Figure { value: in_ns(ratio.value), low: ratio.low.map(in_ns), high: ratio.high.map(in_ns) };
        let verdict = match comparison.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            Verdict::CannotTell => Verdict::CannotTell,
        };
        Some(Change { ratio, difference_ns, verdict })
    })
}

/// A counter-experiment: the command that runs `cases` again with other values for one knob.
pub(super) fn counter_experiment(change: &str, cases: &[&Case], knob: &str, values: &[String]) -> CounterExperiment {
    CounterExperiment { change: change.to_owned(), command: command(cases, knob, values), pair: None }
}

/// The command that runs `cases`, with `values` (none: the knob is left out) for `knob`.
///
/// Knobs take the values of all cases, so that it may run a few combinations more than there were cases.
pub(super) fn command(cases: &[&Case], knob: &str, values: &[String]) -> String {
    let distinct = |of: &dyn Fn(&Case) -> Option<String>| {
        let mut all: Vec<String> = Vec::new();
        for value in cases.iter().filter_map(|case| of(case)) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    };
    let any = |differs: &dyn Fn(&Case) -> bool| cases.iter().any(|case| differs(case));
    let where_any = |differs: &dyn Fn(&Case) -> bool, of: &dyn Fn(&Case) -> Option<String>| {
        if any(differs) { distinct(of) } else { Vec::new() }
    };
    let rate = |case: &Case| match case.pattern {
        Pattern::PingPong | Pattern::SmallWrites => None,
        Pattern::Paced { rate_per_s } => Some(rate_per_s.to_string()),
    };
    let mut knobs = vec![
        ("transport", distinct(&|case| Some(case.transport.clone()))),
        ("waiting", distinct(&|case| Some(case.waiting.to_string()))),
        ("placement", distinct(&|case| Some(case.placement.to_string()))),
        ("ends", where_any(&|case| case.ends != Ends::Processes, &|case| Some(case.ends.to_string()))),
        ("size", where_any(&|case| case.size_bytes != 4, &|case| Some(case.size_bytes.to_string()))),
        (
            "reply-size",
            where_any(&|case| case.reply_size_bytes != case.size_bytes, &|case| {
                Some(case.reply_size_bytes.to_string())
            }),
        ),
        ("rate", distinct(&rate)),
        ("option", distinct(&options)),
        ("link", where_any(&|case| case.link != LOOPBACK, &|case| Some(case.link.clone()))),
        ("cpu-idle", where_any(&|case| case.cpu_idle != CpuIdle::Deep, &|case| Some(case.cpu_idle.to_string()))),
    ];
    match knobs.iter_mut().find(|(name, _)| *name == knob) {
        Some((_, old)) => *old = values.to_vec(),
        None => knobs.push((knob, values.to_vec())),
    }
    let mut command = "hairpin round-trip".to_owned();
    for (name, values) in knobs.iter().filter(|(_, values)| !values.is_empty()) {
        if *name == "option" || *name == "link" {
            // A comma within one of these joins parts of one choice, so each choice is given by itself.
            for value in values {
                let quoted = if value.contains(' ') { format!("'{value}'") } else { value.clone() };
                command += &format!(" --{name} {quoted}");
            }
        } else {
            command += &format!(" --{name} {}", values.join(","));
        }
    }
    command
}

/// The options asked for, as `--option` takes them; `None` where none are.
pub(super) fn options(case: &Case) -> Option<String> {
    let all: Vec<String> = case.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!all.is_empty()).then(|| all.join(","))
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Waiting;
    use hairpin_model::options::Options;

    use super::*;

    #[test]
    fn a_command_says_what_sets_the_cases_apart_and_the_one_change() {
        let tcp = Case { options: Options::parse("nodelay=on,sndbuf=4096").unwrap(), ..Case::ping_pong("tcp") };
        let udp = Case { waiting: Waiting::Poll, size_bytes: 100, reply_size_bytes: 100, ..Case::ping_pong("udp") };
        let values = ["deep", "shallow"].map(str::to_owned);
        assert_eq!(
            command(&[&tcp, &udp], "cpu-idle", &values),
            "hairpin round-trip --transport tcp,udp --waiting block,poll --placement together --size 4,100 \
             --option nodelay=on,sndbuf=4096 --cpu-idle deep,shallow"
        );
        assert_eq!(
            command(&[&Case::ping_pong("pipe")], "rounds", &["20".to_owned()]),
            "hairpin round-trip --transport pipe --waiting block --placement together --rounds 20"
        );
    }
}
