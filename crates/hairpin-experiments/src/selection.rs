//! Selects the requested transports and the possible cases, and records why other cases are skipped.

use std::collections::HashSet;

use hairpin_model::names::{self, grouped};
use hairpin_model::{
    AnsweredBy, Candidate, Card, Case, EndKind, HostCapabilities, Reach, Refused, RoundOrder, Skipped, WhyNot,
};

use crate::experiment::Planning;
use crate::knobs::Knobs;
use crate::links;
use crate::possible;

/// Returns the candidates that the knob `knob` (for instance `transport`) names, in the order given, without
/// duplicates. With `all`, returns all candidates, in the order of the host capabilities; without a name, those without a
/// library.
///
/// # Errors
/// [`Refused`] for an unknown name, with the nearest known name, and for a transport that this build omits.
pub fn candidates<'g>(
    knobs: &Knobs,
    knob: &str,
    capabilities: &'g HostCapabilities,
) -> Result<Vec<&'g Candidate>, Refused> {
    let known = capabilities.names();
    let given = knobs.values::<String>(knob).into_iter().map(|name| {
        let omitted = capabilities.omitted.iter().find(|(_, omitted)| omitted.contains(&name.as_str()));
        match omitted {
            Some((feature, _)) => Err(Refused::new(
                format!("this build has no transport `{name}`"),
                format!("build Hairpin with `--features {feature}`, or with `--features full`"),
            )),
            None => names::find("transport", &name, &known).map_err(Refused::from),
        }
    });
    let mut chosen = names::distinct(given.collect::<Result<Vec<_>, _>>()?);
    if let Some(far) = capabilities.far.as_ref().filter(|far| far.is_foreign && chosen.is_empty()) {
        let count = if knobs.has_every(knob) { far.transports.len() } else { 1 };
        chosen = known.into_iter().filter(|name| far.transports[..count].iter().any(|own| own == name)).collect();
    } else if knobs.has_every(knob) {
        chosen = known;
    } else if chosen.is_empty() {
        let is_plain = |name: &&str| capabilities.candidate(name).is_some_and(|known| known.card.library.is_none());
        chosen = known.into_iter().filter(is_plain).collect();
    }
    Ok(chosen.into_iter().filter_map(|name| capabilities.candidate(name)).collect())
}

/// Returns the transports given on the command line, otherwise those of `defaults` that are built in.
pub fn candidates_or<'g>(
    defaults: &[&str],
    knobs: &Knobs,
    capabilities: &'g HostCapabilities,
) -> Result<Vec<&'g Candidate>, Refused> {
    if knobs.is_given("transport") {
        return candidates(knobs, "transport", capabilities);
    }
    Ok(reaching(defaults.iter().filter_map(|name| capabilities.candidate(name)).collect(), capabilities))
}

/// Returns the candidates that the knob `knob` names, otherwise those whose card suits.
pub fn candidates_if<'g>(
    knobs: &Knobs,
    knob: &str,
    capabilities: &'g HostCapabilities,
    suits: impl Fn(&Card) -> bool,
) -> Result<Vec<&'g Candidate>, Refused> {
    let mut candidates = candidates(knobs, knob, capabilities)?;
    if !knobs.is_given(knob) {
        candidates.retain(|candidate| suits(&candidate.card));
        candidates = reaching(candidates, capabilities);
    }
    Ok(candidates)
}

/// Replaces default transports, which use IPv4, by IPv6 counterparts if the server's host is reached over IPv6.
fn reaching<'g>(defaults: Vec<&'g Candidate>, capabilities: &'g HostCapabilities) -> Vec<&'g Candidate> {
    if !capabilities.far.as_ref().is_some_and(|far| far.is_ipv6) {
        return defaults;
    }
    let kind = |card: &Card| (card.protocol, card.reach, card.answered_by, card.library);
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

/// Returns the possible cases among those that `plan` makes of the transports that can run here, without duplicates,
/// and the skipped cases with one entry per transport and reason.
///
/// # Errors
/// [`Refused`] if nothing is left to run.
pub fn possible_cases(
    candidates: &[&Candidate],
    capabilities: &HostCapabilities,
    plan: impl FnOnce(&[&Candidate]) -> Vec<RoundOrder>,
) -> Result<Planning, Refused> {
    let runnable: Vec<&Candidate> = candidates.iter().copied().filter(|one| one.can_run.is_ok()).collect();
    let cannot_run = candidates.iter().filter_map(|one| Some((one.card.name, one.can_run.as_ref().err()?)));
    let (mut possible, mut impossible, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for mut order in plan(&runnable) {
        links::fall_back(&mut order.case, capabilities);
        let carrier = capabilities.candidate(&order.case.primary().transport);
        let Some(Candidate { card, .. }) = carrier.filter(|_| seen.insert(order.case.id())) else { continue };
        match possible::check(&order.case, card, capabilities) {
            Ok(()) => possible.push(order),
            Err(why) => impossible.push((order.case, why)),
        }
    }
    // By transport and reason, in order of first appearance.
    let groups = grouped(impossible.iter().map(|(case, why)| ((case.primary().transport.as_str(), why), case)));
    if possible.is_empty() {
        let of_cases = groups.into_iter().map(|((_, why), cases)| (brief_list(&cases), why));
        return Err(nothing_left(cannot_run.map(|(name, why)| (name.to_owned(), why)).chain(of_cases).collect()));
    }
    let skip = |transport: &str, case, why: &WhyNot| Skipped {
        transport: transport.to_owned(),
        case,
        reason: why.to_string(),
    };
    let mut skipped: Vec<Skipped> = cannot_run.map(|(name, why)| skip(name, None, why)).collect();
    for ((transport, why), cases) in groups {
        let still_runs = possible.iter().any(|order| order.case.primary().transport == transport);
        skipped.push(skip(transport, still_runs.then(|| brief_list(&cases)), why));
    }
    Ok((possible, skipped))
}

/// Why nothing can run, given what cannot run and why.
fn nothing_left(reasons: Vec<(String, &WhyNot)>) -> Refused {
    match reasons.as_slice() {
        [] => Refused::new("no transport can be measured", "`hairpin list` shows what can run here"),
        [(what, why)] => Refused::new(format!("cannot run {what}: {}", why.reason), why.hint.clone()),
        [(what, why), others @ ..] => {
            let same = others.iter().all(|(_, other)| other == why);
            let more = if same { "for the same reason" } else { "for other reasons" };
            let rest = format!("{} more cannot run {more}", others.len());
            Refused::new(format!("cannot run {what}: {}; {rest}", why.reason), why.hint.clone())
        }
    }
}

/// Returns the label of the first case and the number of the others.
pub(crate) fn brief_list(cases: &[&Case]) -> String {
    match cases {
        [] => String::new(),
        [case] => case.label(),
        [case, others @ ..] => format!("{} and {} more", case.label(), others.len()),
    }
}
