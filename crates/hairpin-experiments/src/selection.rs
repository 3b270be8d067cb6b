//! Selects the requested transports and the possible cases, and records why other cases are skipped.

use std::collections::HashSet;

use hairpin_model::names::{self, grouped};
use hairpin_model::{AnsweredBy, Candidate, Card, Case, EndKind, HostCapabilities, Reach, Refused, Skipped, WhyNot};

use crate::experiment::Planning;
use crate::knobs::Knobs;
use crate::links;
use crate::possible;
use crate::sequence::Planned;

/// Returns the candidates that the knob `knob` (for instance `transport`) names, in the order given, without
/// duplicates. With `all` or without a name, returns all candidates, in the order of the host capabilities.
///
/// # Errors
/// [`Refused`] for an unknown name, with the nearest known name.
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

/// Replaces default transports, which use IPv4, by IPv6 counterparts if the server's host is reached over IPv6.
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

/// Returns the kind that both ends get on this transport when `wanted` is requested.
///
/// A transport that the kernel answers has one end, reported as a process. A transport within one process uses
/// threads. If the user explicitly requested processes, the case is later skipped as impossible.
pub fn ends(card: &Card, wanted: EndKind, is_explicit: bool) -> EndKind {
    if card.answered_by == AnsweredBy::Kernel {
        EndKind::Processes
    } else if card.reach == Reach::Process && !is_explicit {
        EndKind::Threads
    } else {
        wanted
    }
}

/// Returns the possible cases that `planned` returns for these transports, and the skipped cases with reasons.
///
/// # Errors
/// [`Refused`] if nothing is left to run.
pub fn possible_cases(
    candidates: &[&Candidate],
    capabilities: &HostCapabilities,
    planned: impl Fn(&Card) -> Vec<Planned>,
) -> Result<Planning, Refused> {
    let mut collector = CaseCollector::new(capabilities);
    for candidate in collector.runnable(candidates) {
        planned(&candidate.card).into_iter().for_each(|planned| collector.offer(&candidate.card, planned));
    }
    collector.finish()
}

/// Collects the possible cases, without duplicates, and the reasons why other cases are skipped.
#[derive(Debug)]
pub struct CaseCollector<'g> {
    capabilities: &'g HostCapabilities,
    planned_cases: Vec<Planned>,
    impossible: Vec<(Case, WhyNot)>,
    cannot_run: Vec<(&'static str, WhyNot)>,
    seen: HashSet<String>,
}

impl<'g> CaseCollector<'g> {
    pub fn new(capabilities: &'g HostCapabilities) -> Self {
        let (planned_cases, impossible, cannot_run) = (Vec::new(), Vec::new(), Vec::new());
        Self { capabilities, planned_cases, impossible, cannot_run, seen: HashSet::new() }
    }

    /// Returns the candidates that can run here, and records why the others cannot.
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

    /// Adds the case if it is possible, otherwise records the reason. Ignores duplicates.
    pub fn offer(&mut self, card: &Card, mut planned: Planned) {
        let card = links::fall_back(&mut planned.case, self.capabilities).unwrap_or(card);
        if !self.seen.insert(planned.case.id()) {
            return;
        }
        match possible::check(&planned.case, card, self.capabilities) {
            Ok(()) => self.planned_cases.push(planned),
            Err(why) => self.impossible.push((planned.case, why)),
        }
    }

    /// Returns the planned cases, and the skipped cases with one entry per transport and reason.
    ///
    /// # Errors
    /// [`Refused`] if nothing is left to run.
    pub fn finish(self) -> Result<Planning, Refused> {
        if self.planned_cases.is_empty() {
            return Err(self.nothing_left());
        }
        let mut skipped: Vec<Skipped> = self.cannot_run.iter().map(|(name, why)| skip(name, why)).collect();
        for ((transport, why), cases) in self.groups() {
            let still_runs = self.planned_cases.iter().any(|planned| planned.case.primary().transport == transport);
            let case = still_runs.then(|| brief_list(&cases));
            skipped.push(Skipped { case, ..skip(transport, why) });
        }
        Ok((self.planned_cases, skipped))
    }

    /// Impossible cases by transport and reason, in order of first appearance.
    fn groups(&self) -> Vec<((&str, &WhyNot), Vec<&Case>)> {
        grouped(self.impossible.iter().map(|(case, why)| ((case.primary().transport.as_str(), why), case)))
    }

    fn nothing_left(&self) -> Refused {
        let of_transports = self.cannot_run.iter().map(|(name, why)| ((*name).to_owned(), why));
        let of_cases = self.groups().into_iter().map(|((_, why), cases)| (brief_list(&cases), why));
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

fn skip(transport: &str, why: &WhyNot) -> Skipped {
    Skipped { transport: transport.to_owned(), case: None, reason: why.to_string() }
}

/// Returns the label of the first case and the number of the others.
pub(crate) fn brief_list(cases: &[&Case]) -> String {
    match cases {
        [] => String::new(),
        [case] => case.label(),
        [case, others @ ..] => format!("{} and {} more", case.label(), others.len()),
    }
}
