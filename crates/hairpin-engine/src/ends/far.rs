//! What the echo half does from its order to its last word, wherever it runs.

use std::path::PathBuf;
use std::time::Duration;

use hairpin_model::card::Card;
use hairpin_model::case::Case;
use hairpin_model::fact::{Fact, FactValue};
use hairpin_model::options::{Effective, Options};
use hairpin_model::round::{EndReport, Failure, RoundOrder};
use hairpin_model::trace::End;
use hairpin_transports::{Setup, Transport, Wire, options};
use serde::{Deserialize, Serialize};

use super::{PINGS, Word, is_woken};
use crate::clock::RealClock;
use crate::halves::echo::Echo;
use crate::halves::undamaged::{Undamaged, may_be_damaged};
use crate::links::{addresses, namespace};
use crate::netstat;
use crate::placement::place;
use crate::probe::Probing;
use crate::tracing::Observed;
use crate::usage::Usage;

/// What the echo half is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EchoOrder {
    /// The round.
    pub round: RoundOrder,
    /// The CPU to run on; `None` leaves it free.
    pub cpu: Option<usize>,
    /// All CPUs that may be used.
    pub allowed_cpus: Vec<usize>,
    /// The client half's clock.
    pub clock: RealClock,
    /// The network namespace to be in, where the echo half is at the far end of a link.
    pub namespace: Option<PathBuf>,
}

/// Across a link a lossy transport may lose the farewell. So the echo half asks after so long a silence whether it is
/// still wanted.
const SILENCE: Duration = Duration::from_millis(100);

/// Listens, accepts and echoes until the other end closes; `say` carries its words to the client half, `pong` answers its
/// next ping, and `is_released` says whether that has let go.
pub fn serve(
    order: &EchoOrder,
    is_released: &(dyn Fn() -> bool + Sync),
    pong: &mut dyn FnMut() -> bool,
    mut say: impl FnMut(Word),
) {
    match attempt(order, is_released, pong, &mut say) {
        Ok(report) => say(Word::Done(Box::new(report))),
        Err(failure) => say(Word::Failed(failure)),
    }
}

fn attempt(
    order: &EchoOrder,
    is_released: &(dyn Fn() -> bool + Sync),
    pong: &mut dyn FnMut() -> bool,
    say: &mut impl FnMut(Word),
) -> Result<EndReport, Failure> {
    let case = &order.round.case;
    let transport = transport(&case.transport)?;
    let card = transport.card();
    place(order.cpu, &order.allowed_cpus).map_err(|error| unplaced(order.cpu, &error))?;
    order.namespace.as_deref().map(namespace::enter).transpose()?;
    let mut setup = setup(&order.round, End::Far);
    if case.is_emulated() && !card.lossless {
        setup.timeout = setup.timeout.min(SILENCE);
    }
    // Before the address is told: the client starts its own probe, on the same CPU perhaps, when it has that.
    let probing = Probing::begin(&order.clock);
    let accept = transport.listen(&setup).map_err(|error| unopened("echo half", &error))?;
    say(Word::Listening(accept.address()));
    let mut wire = accept.accept().map_err(|error| unopened("echo half", &error))?;
    let before = wire.effective();
    check_options(End::Far, &card, &order.round, &before)?;
    let mut observed = Observed::begin(&order.round, End::Far, &mut *wire, &order.clock);
    say(Word::Ready);
    if is_woken(case) {
        let _ = (0..PINGS).all(|_| pong());
    }
    let usage = Usage::now();
    let echo = Echo { clock: &order.clock, case, boundaries: card.boundaries, is_released };
    let turnaround = if !card.lossless && may_be_damaged(case) {
        echo.run(&mut Undamaged::new(observed.wire(), case))?
    } else {
        echo.run(observed.wire())?
    };
    let report = EndReport { probe_ns: probing.end(&order.clock), ..usage.since(order.cpu) };
    let trace = observed.finish()?.map(Box::new);
    let facts = facts(case, &card, &*wire);
    Ok(EndReport {
        options: effective(&card, &asked(case, End::Far), &before, &facts),
        facts: counters(facts),
        turnaround,
        trace,
        ..report
    })
}

/// The transport of that name, which the plan has already checked.
///
/// # Errors
/// It is not known to this build.
pub fn transport(name: &str) -> Result<&'static dyn Transport, Failure> {
    hairpin_transports::find(name).ok_or_else(|| Failure {
        cause: format!("this build has no transport `{name}`"),
        hint: "`hairpin list` shows the transports".to_owned(),
    })
}

/// What is asked of the socket of one end: the case's options, and what its remedy asks for there.
#[must_use]
pub fn asked(case: &Case, end: End) -> Options {
    let remedy = case.exchange.as_ref().map(|exchange| exchange.options_at(end));
    remedy.unwrap_or_default().iter().fold(case.options.clone(), |options, (name, value)| options.with(name, value))
}

/// What an end is told when it opens.
#[must_use]
pub fn setup(round: &RoundOrder, end: End) -> Setup {
    let case = &round.case;
    let largest = case.size_bytes.max(case.reply_size_bytes);
    Setup {
        options: asked(case, end),
        waiting: case.waiting,
        timeout: Duration::from_nanos(round.timeout_ns),
        largest_message: usize::try_from(largest).expect("sizes are at most 1 GiB"),
        port: round.port,
        far: case.is_emulated().then_some(addresses::FAR),
    }
}

/// A failure to open, with the end it happened at; the error carries its own hint.
pub fn unopened(end: &str, error: &hairpin_transports::TransportError) -> Failure {
    let text = error.to_string();
    let apart = text.rsplit_once(" (hint: ").and_then(|(cause, hint)| Some((cause, hint.strip_suffix(')')?)));
    let (cause, hint) = apart.unwrap_or((text.as_str(), ""));
    Failure { cause: format!("{end}: {cause}"), hint: hint.to_owned() }
}

/// A thread that could not be put where it belongs.
pub fn unplaced(cpu: Option<usize>, error: &std::io::Error) -> Failure {
    let place = cpu.map_or_else(|| "all allowed CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
    Failure {
        cause: format!("cannot run on {place}: {error}"),
        hint: "did the allowed CPUs change meanwhile?".to_owned(),
    }
}

/// Every option on the card: asked for, and read back before and after.
#[must_use]
pub fn effective(card: &Card, asked: &Options, before: &[Fact], after: &[Fact]) -> Vec<Effective> {
    card.options
        .iter()
        .filter_map(|name| {
            let before = option_text(before, name.word())?;
            let after = option_text(after, name.word()).unwrap_or_else(|| before.clone());
            let asked = asked.get(*name).map(str::to_owned);
            let met = asked.as_deref().is_none_or(|asked| options::is_met(*name, asked, &before));
            Some(Effective { name: *name, asked, before, after, met })
        })
        .collect()
}

/// The facts that are no options.
#[must_use]
pub fn counters(facts: Vec<Fact>) -> Vec<Fact> {
    facts.into_iter().filter(|fact| !fact.name.starts_with("option.")).collect()
}

/// What the kernel says at an end: of its wire, and under a link of its network namespace.
#[must_use]
pub fn facts(case: &Case, card: &Card, wire: &dyn Wire) -> Vec<Fact> {
    let mut facts = wire.effective();
    if case.is_emulated() {
        facts.extend(netstat::of_the_connection(card));
    }
    facts
}

/// Refuses to go on when an option was not granted, unless that is allowed.
///
/// # Errors
/// Names the option, what was asked and what the kernel says.
pub fn check_options(end: End, card: &Card, round: &RoundOrder, facts: &[Fact]) -> Result<(), Failure> {
    let effective = effective(card, &asked(&round.case, end), facts, facts);
    let unmet = effective.iter().find(|option| !option.met);
    match unmet {
        Some(option) if !round.allow_unmet_options => {
            let asked = option.asked.as_deref().unwrap_or_default();
            let half = if end == End::Near { "client half" } else { "echo half" };
            Err(Failure {
                cause: format!(
                    "{half}: option {}={asked} was not granted: the kernel says {}",
                    option.name, option.before
                ),
                hint: "--allow-unmet-options goes on with what was granted".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

fn option_text(facts: &[Fact], name: &str) -> Option<String> {
    let fact = facts.iter().find(|fact| fact.name.strip_prefix("option.") == Some(name))?;
    Some(match &fact.value {
        FactValue::Number(number) => number.to_string(),
        FactValue::Word(word) => word.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hairpin_model::exchange::{Exchange, Remedy};
    use hairpin_model::options::OptionName;
    use hairpin_model::round::Extent;

    fn card() -> Card {
        let mut card = hairpin_transports::find("tcp").expect("tcp is always built").card();
        card.options = &[OptionName::Nodelay, OptionName::Sndbuf];
        card
    }

    fn round(options: &str, allow_unmet_options: bool) -> RoundOrder {
        RoundOrder {
            case: Case { options: Options::parse(options).unwrap(), ..Case::ping_pong("tcp") },
            purpose: hairpin_model::round::Purpose::Timed,
            block: 0,
            extent: Extent::Count(1),
            warm_up: Extent::Count(0),
            timeout_ns: 1,
            keep_samples: 1,
            allow_unmet_options,
            port: 0,
            not_before_ns: 0,
            link_seed: 0,
        }
    }

    #[test]
    fn an_unmet_option_is_an_error_unless_it_is_allowed() {
        let facts = [Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 4608.0)];
        let failure = check_options(End::Near, &card(), &round("sndbuf=1", false), &facts).unwrap_err();
        assert_eq!(failure.cause, "client half: option sndbuf=1 was not granted: the kernel says 4608");
        assert!(check_options(End::Near, &card(), &round("sndbuf=1", true), &facts).is_ok());
        assert!(check_options(End::Near, &card(), &round("sndbuf=2304,nodelay=off", false), &facts).is_ok());
    }

    #[test]
    fn what_a_remedy_asks_is_asked_beside_the_options_of_the_case() {
        let exchange = |remedy| Exchange { writes: "2".parse().unwrap(), gap_ns: 0, pipeline: 1, remedy };
        let case = |remedy| Case {
            options: Options::parse("sndbuf=4096").unwrap(),
            ..Case::small_writes("tcp", exchange(remedy))
        };
        let text = |remedy, end| {
            let asked = asked(&case(remedy), end);
            asked.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
        };
        assert_eq!(text(Remedy::Nodelay, End::Near), "nodelay=on,sndbuf=4096");
        assert_eq!(text(Remedy::Nodelay, End::Far), "nodelay=on,sndbuf=4096");
        assert_eq!(text(Remedy::CorkForgotten, End::Near), "cork=on,sndbuf=4096");
        assert_eq!(text(Remedy::CorkForgotten, End::Far), "sndbuf=4096");
        assert_eq!(text(Remedy::None, End::Near), "sndbuf=4096");
        let refused = RoundOrder { case: case(Remedy::Nodelay), ..round("", false) };
        let facts = [Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 8192.0)];
        for (end, half) in [(End::Near, "client"), (End::Far, "echo")] {
            let failure = check_options(end, &card(), &refused, &facts).unwrap_err();
            assert_eq!(failure.cause, format!("{half} half: option nodelay=on was not granted: the kernel says off"));
        }
    }

    #[test]
    fn options_that_were_not_asked_for_are_reported_too() {
        let before = [Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 1.0)];
        let after = [Fact::word("option.nodelay", "on"), Fact::number("tcp_info.lost", 0.0)];
        let effective = effective(&card(), &Options::default(), &before, &after);
        let texts: Vec<_> = effective.iter().map(|one| (one.before.as_str(), one.after.as_str(), one.met)).collect();
        assert_eq!(texts, [("off", "on", true), ("1", "1", true)]);
        assert_eq!(counters(after.to_vec()).len(), 1);
    }
}
