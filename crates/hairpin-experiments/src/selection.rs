//! From the request to the plan: the transports, the possible cases, and the skipped ones with reasons.

use std::collections::HashSet;

use hairpin_model::names::{self, grouped};
use hairpin_model::{AnsweredBy, Candidate, Card, Case, EndKind, HostCapabilities, Reach, Refused, Skipped, WhyNot};

use crate::experiment::Planning;
use crate::knobs::Knobs;
use crate::links;
use crate::possible;
use crate::sequence::Planned;

/// The candidates of the knob `knob`, for instance `transport`, in the order given, without duplicates; all in the
/// ladder's order for `all` or without a name.
///
/// # Errors
/// [`Refused`] for an unknown name, with the nearest one.
pub fn candidates<'g>(
    knobs: &Knobs,
    knob: &str,
    capabilities: &'g HostCapabilities,
) -> Result<Vec<&'g Candidate>, Refused> {
    let known = capabilities.names();
    let given = knobs.values::<String>(knob).into_iter().map(|name| names::find("transport", &name, &known));
    let mut chosen = names::distinct(given.collect::<Result<Vec<_>, _>>()?);
    if chosen.is_empty() || knobs.has_every(knob) {
        chosen = known;
    }
    Ok(chosen.into_iter().filter_map(|name| capabilities.candidate(name)).collect())
}

/// Default transports of an experiment, which are over IPv4; their IPv6 counterparts if the server's host is reached
/// over IPv6.
pub fn reaching<'g>(defaults: Vec<&'g Candidate>, capabilities: &'g HostCapabilities) -> Vec<&'g Candidate> {
    if !capabilities.far.as_ref().is_some_and(|far| far.is_ipv6) {
        return defaults;
    }
    let kind = |card: &Card| (card.protocol, card.reach, card.answered_by);
    let over_ipv6 = |own: &Card| {
        let fits = |other: &&Candidate| possible::is_ipv6(&other.card) && kind(&other.card) == kind(own);
        capabilities.candidates.iter().find(fits)
    };
    defaults.into_iter().map(|own| over_ipv6(&own.card).unwrap_or(own)).collect()
}

/// The kind of both ends on a transport if `wanted` is requested.
///
/// A kernel that answers has one end, reported as a process. A transport within one process runs as threads, unless the
/// user explicitly asked for processes: then the case is impossible and says so.
pub fn ends(card: &Card, wanted: EndKind, in_so_many_words: bool) -> EndKind {
    if card.answered_by == AnsweredBy::Kernel {
        EndKind::Processes
    } else if card.reach == Reach::Process && !in_so_many_words {
        EndKind::Threads
    } else {
        wanted
    }
}

/// The possible cases that `planned` makes for these transports, and the reasons for the others.
///
/// # Errors
/// [`Refused`] if nothing is left to run.
pub fn possible_cases(
    candidates: &[&Candidate],
    capabilities: &HostCapabilities,
    planned: impl Fn(&Card) -> Vec<Planned>,
) -> Result<Planning, Refused> {
    let mut sieve = CaseCollector::new(capabilities);
    for candidate in sieve.runnable(candidates) {
        planned(&candidate.card).into_iter().for_each(|planned| sieve.offer(&candidate.card, planned));
    }
    sieve.finish()
}

/// Collects the possible cases, without duplicates, and the reasons for the others.
#[derive(Debug)]
pub struct CaseCollector<'g> {
    capabilities: &'g HostCapabilities,
    kept: Vec<Planned>,
    turned_away: Vec<(Case, WhyNot)>,
    cannot_run: Vec<(&'static str, WhyNot)>,
    seen: HashSet<String>,
}

impl<'g> CaseCollector<'g> {
    pub fn new(capabilities: &'g HostCapabilities) -> Self {
        let (kept, turned_away, cannot_run) = (Vec::new(), Vec::new(), Vec::new());
        Self { capabilities, kept, turned_away, cannot_run, seen: HashSet::new() }
    }

    /// Returns the candidates that can run here, and notes the reasons for the others.
    pub fn runnable<'c>(&mut self, candidates: &[&'c Candidate]) -> Vec<&'c Candidate> {
        let mut runnable = Vec::new();
        for candidate in candidates {
            match &candidate.can_run {
                Ok(_) => runnable.push(*candidate),
                Err(why) => self.cannot_run.push((candidate.card.name, why.clone())),
            }
        }
        runnable
    }

    /// Keeps the case if it is possible, else notes the reason. Ignores duplicates.
    pub fn offer(&mut self, card: &Card, mut planned: Planned) {
        let card = links::fall_back(&mut planned.case, self.capabilities).unwrap_or(card);
        if !self.seen.insert(planned.case.id()) {
            return;
        }
        match possible::check(&planned.case, card, self.capabilities) {
            Ok(()) => self.kept.push(planned),
            Err(why) => self.turned_away.push((planned.case, why)),
        }
    }

    /// The planned and the skipped cases, the latter with one entry per transport and reason.
    ///
    /// # Errors
    /// [`Refused`] if nothing is left to run.
    pub fn finish(self) -> Result<Planning, Refused> {
        if self.kept.is_empty() {
            return Err(self.nothing_left());
        }
        let mut skipped: Vec<Skipped> = self.cannot_run.iter().map(|(name, why)| whole(name, why)).collect();
        for ((transport, why), cases) in self.groups() {
            let still_runs = self.kept.iter().any(|planned| planned.case.primary().transport == transport);
            let case = still_runs.then(|| several(&cases));
            skipped.push(Skipped { case, ..whole(transport, why) });
        }
        Ok((self.kept, skipped))
    }

    /// Impossible cases by transport and reason, in order of first appearance.
    fn groups(&self) -> Vec<((&str, &WhyNot), Vec<&Case>)> {
        grouped(self.turned_away.iter().map(|(case, why)| ((case.primary().transport.as_str(), why), case)))
    }

    fn nothing_left(&self) -> Refused {
        let of_transports = self.cannot_run.iter().map(|(name, why)| ((*name).to_owned(), why));
        let of_cases = self.groups().into_iter().map(|((_, why), cases)| (several(&cases), why));
        let reasons: Vec<(String, &WhyNot)> = of_transports.chain(of_cases).collect();
        match reasons.as_slice() {
            [] => Refused::new("no transport can be measured", "`hairpin list` shows what can run here"),
            [(what, why)] => Refused::new(format!("cannot run {what}: {}", why.reason), why.hint.clone()),
            [(what, why), others @ ..] => {
                let same = others.iter().all(|(_, other)| *other == *why);
                let more = if same { "for the same reason" } else { "for other reasons" };
                let rest = format!("{} more cannot run {more}", others.len());
                Refused::new(format!("cannot run {what}: {}; {rest}", why.reason), why.hint.clone())
            }
        }
    }
}

fn whole(transport: &str, why: &WhyNot) -> Skipped {
    Skipped { transport: transport.to_owned(), case: None, reason: why.to_string() }
}

/// Names cases briefly: the first, and how many more.
pub(crate) fn several(cases: &[&Case]) -> String {
    match cases {
        [] => String::new(),
        [case] => case.label(),
        [case, others @ ..] => format!("{} and {} more", case.label(), others.len()),
    }
}
