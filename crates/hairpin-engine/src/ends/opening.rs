//! Opening an end: its transport, the requested socket options, and the options actually granted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hairpin_model::flow::ConnectionUse;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{
    Card, Case, Effective, Fact, FactValue, Failure, FailureKind, Hinted, Load, Options, RoundOrder, fact_names,
};
use hairpin_transports::{Cookie, ServerAddresses, Setup, Transport, Wire, descriptors, join, options};

use crate::links::addresses;
use crate::netstat;
use crate::sysctl;

/// Returns the transport `name`. The plan has already checked the name.
pub fn transport(name: &str) -> Result<&'static dyn Transport, Failure> {
    hairpin_transports::find(name).ok_or_else(|| {
        Failure::new(
            FailureKind::Unsupported,
            format!("this build has no transport `{name}`"),
            "`hairpin list` shows the transports",
        )
    })
}

/// The socket options requested at one end: the case's own options, and the options of its remedy at this end.
pub fn asked(case: &Case, end: End) -> Options {
    let remedy = case.primary().load.exchange().map(|exchange| exchange.options_at(end));
    remedy
        .unwrap_or_default()
        .iter()
        .fold(case.primary().options.clone(), |options, (name, value)| options.with(name, value))
}

/// How an end is opened; `across` is the server's address on another host.
pub fn setup(round: &RoundOrder, end: End, cookie: Cookie, across: Option<SocketAddr>) -> Setup {
    let case = &round.case;
    let largest = case.primary().load.size_bytes().max(case.primary().load.reply_size_bytes());
    let largest = usize::try_from(largest).expect("sizes are at most 1 GiB");
    Setup {
        options: asked(case, end),
        port: round.port,
        has_answers: has_answers(case),
        streams: case.primary().streams,
        connections: case.primary().connections,
        opening: case.primary().opening,
        opens_with_message: case.primary().connection_use == ConnectionUse::PerMessage,
        cookie,
        server: case.is_emulated().then_some(addresses::FAR).or_else(|| across.map(only)),
        ..Setup::new(case.ends.waiting, Duration::from_nanos(round.timeout_ns), largest)
    }
}

/// Whether the server answers each message and sends nothing else.
fn has_answers(case: &Case) -> bool {
    let flow = case.primary();
    matches!(flow.load, Load::PingPong { .. } | Load::Paced { .. } | Load::Periodic { .. })
        && flow.connection_use != ConnectionUse::Shared
}

fn only(at: SocketAddr) -> ServerAddresses {
    let (v4, v6) = match at.ip() {
        IpAddr::V4(v4) => (v4, Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(v6) => (Ipv4Addr::UNSPECIFIED, v6),
    };
    ServerAddresses { v4, v6 }
}

/// Raises the limit of open descriptors to what this end's flow needs. With several wires, each is one socket.
pub fn allow_descriptors(end: End, case: &Case) -> Result<(), Failure> {
    descriptors::allow(case.descriptors()).map_err(|error| unopened(end, &error))
}

pub fn unopened(end: End, error: &hairpin_transports::TransportError) -> Failure {
    if let hairpin_transports::TransportError::Foreign(refusal) = error {
        return refusal.failure("cannot connect");
    }
    Failure::new(error, format!("{end}: {}", error.cause()), error.hint())
}

/// The failure to pin a thread.
pub fn unplaced(cpu: Option<usize>, error: &std::io::Error) -> Failure {
    let place = cpu.map_or_else(|| "all allowed CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
    Failure::new(error, format!("cannot run on {place}: {error}"), "did the allowed CPUs change meanwhile?")
}

/// Every option on the card: its requested value, and its actual values before and after the load. Of several wires,
/// reports the first that was not granted the option, else the first whose value changed, else the first.
pub fn effective(card: &Card, asked: &Options, before: &[Vec<Fact>], after: &[Vec<Fact>]) -> Vec<Effective> {
    let of_wire = |name: OptionName, before: &[Fact], after: &[Fact]| {
        let before = option_text(before, name.word())?;
        let after = option_text(after, name.word()).unwrap_or_else(|| before.clone());
        let asked = asked.get(name).map(str::to_owned);
        let met = asked.as_deref().is_none_or(|asked| options::is_met(name, asked, &before));
        Some(Effective { name, asked, before, after, met })
    };
    let of_wires = |name: &OptionName| {
        let wires = before.iter().zip(after).filter_map(|(before, after)| of_wire(*name, before, after));
        wires.min_by_key(|one| (one.met, one.before == one.after))
    };
    card.options.iter().filter_map(of_wires).collect()
}

/// Closes all wires, whose waits for the other end overlap.
pub(super) fn close(mut wires: Vec<Box<dyn Wire>>) {
    wires.iter_mut().for_each(|wire| wire.begin_close());
}

/// Returns the only wire of a load with answers, or one that waits for all connections. The client sends on each in turn.
pub(super) fn wire_of_all(end: End, wires: Vec<Box<dyn Wire>>, setup: &Setup) -> Result<Box<dyn Wire>, Failure> {
    let wires = match <[Box<dyn Wire>; 1]>::try_from(wires) {
        Ok([wire]) => return Ok(wire),
        Err(wires) => wires,
    };
    if setup.streams > 1 {
        let cause = format!("{end}: cannot run this load on {} streams", wires.len());
        return Err(Failure::new(FailureKind::Unsupported, cause, "use one stream in each connection"));
    }
    join(wires, setup, end == End::Client).map_err(|error| unopened(end, &error))
}

pub(crate) fn add_events<'f>(facts: &mut Vec<Fact>, others: impl Iterator<Item = &'f Fact>) {
    for event in others.filter(|fact| fact_names::EVENTS.contains(&fact.name.as_str())) {
        let own = facts.iter_mut().find(|own| own.name == event.name);
        match (own.map(|own| &mut own.value), &event.value) {
            (Some(FactValue::Number(so_far)), FactValue::Number(count)) => *so_far += count,
            (None, _) => facts.push(event.clone()),
            (Some(_), _) => {}
        }
    }
}

/// Interval between checks whether the hellos are acknowledged.
const ACKNOWLEDGMENT_CHECK: Duration = Duration::from_micros(100);

/// Waits until all sent bytes are acknowledged, at most for the time-out: then the first message starts anyway.
pub(super) fn wait_until_acknowledged(mut bytes_left: impl FnMut() -> u64, timeout: Duration) {
    let checks = timeout.as_nanos() / ACKNOWLEDGMENT_CHECK.as_nanos();
    for _ in 0..checks {
        if bytes_left() == 0 {
            return;
        }
        std::thread::sleep(ACKNOWLEDGMENT_CHECK);
    }
}

/// Bytes sent on these wires and not yet acknowledged; 0 on wires for which the kernel does not report them.
pub(super) fn unacknowledged_bytes(wires: &mut [Box<dyn Wire>]) -> u64 {
    let states = wires.iter_mut().filter_map(|wire| wire.stream()?.sender_state());
    states.map(|state| state.in_flight_bytes + state.not_sent_bytes).sum()
}

/// The kernel's facts about each wire. For all wires but the first, returns only options and events.
pub fn facts_of_each(wires: &[Box<dyn Wire>]) -> Vec<Vec<Fact>> {
    let counts = |name: &str| name.starts_with(OPTION_PREFIX) || fact_names::EVENTS.contains(&name);
    let effective = wires.iter().enumerate().map(|(place, wire)| {
        let mut facts = wire.effective();
        facts.retain(|fact| place == 0 || counts(&fact.name));
        facts
    });
    effective.collect()
}

/// Removes the options from the facts.
pub fn counters(facts: Vec<Fact>) -> Vec<Fact> {
    facts.into_iter().filter(|fact| !fact.name.starts_with(OPTION_PREFIX)).collect()
}

/// The kernel's facts at an end: about its wire, the requested kernel settings and, with a link, the network namespace.
pub fn facts(case: &Case, card: &Card, of_wire: Vec<Fact>) -> Vec<Fact> {
    let mut facts = of_wire;
    facts.extend(sysctl::facts(&case.sysctls));
    if case.is_emulated() {
        facts.extend(netstat::of_the_connection(card));
    }
    facts
}

/// Fails if a requested socket option or kernel setting was not granted, unless the order allows unmet options.
pub fn check_options(end: End, card: &Card, round: &RoundOrder, facts: &[Vec<Fact>]) -> Result<(), Failure> {
    let effective = effective(card, &asked(&round.case, end), facts, facts);
    let unmet = effective.iter().find(|option| !option.met);
    let unmet = unmet.map(|option| {
        let asked = option.asked.as_deref().unwrap_or_default();
        format!("option {}={asked} was not granted: the kernel says {}", option.name, option.before)
    });
    // This end stays in its namespace for the whole round, so it reads the settings of that namespace.
    let settings = sysctl::facts(&round.case.sysctls);
    let unset = || {
        sysctl::unmet(&round.case.sysctls, &settings)
            .map(|(name, asked, is)| format!("sysctl {name}={asked} was not granted: the kernel says {is}"))
    };
    match unmet.or_else(unset) {
        Some(unmet) if !round.allow_unmet_options => Err(Failure::new(
            FailureKind::Unsupported,
            format!("{end}: {unmet}"),
            "--allow-unmet-options continues with what was granted",
        )),
        _ => Ok(()),
    }
}

const OPTION_PREFIX: &str = "option.";

fn option_text(facts: &[Fact], name: &str) -> Option<String> {
    let fact = facts.iter().find(|fact| fact.name.strip_prefix(OPTION_PREFIX) == Some(name))?;
    Some(match &fact.value {
        FactValue::Number(number) => number.to_string(),
        FactValue::Word(word) => word.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use hairpin_model::{Exchange, Remedy};
    use hairpin_transports::WireError;

    fn card() -> Card {
        let mut card = hairpin_transports::find("tcp").expect("tcp is always built").card();
        card.options = &[OptionName::Nodelay, OptionName::Sndbuf];
        card
    }

    fn round(options: &str, allow_unmet_options: bool) -> RoundOrder {
        let case = Case::ping_pong("tcp").with(|case| case.primary_mut().options = Options::parse(options).unwrap());
        RoundOrder { allow_unmet_options, ..RoundOrder::of(case, 1) }
    }

    /// The operating system's message may itself contain a parenthesized hint.
    #[test]
    fn a_failure_to_open_separates_cause_and_hint() {
        let source = std::io::Error::other("no (hint: none)");
        let object = "a wire".to_owned();
        let hint = "try (hint: again)".to_owned();
        let error =
            hairpin_transports::TransportError::System { operation: "open", object, source, hint: hint.clone() };
        let cause = "client: cannot open a wire: no (hint: none)".to_owned();
        assert_eq!(unopened(End::Client, &error), Failure::new(FailureKind::Other, cause, hint));
    }

    #[test]
    fn the_first_message_waits_until_the_hello_is_acknowledged() {
        let mut left = vec![0, 40, 40];
        wait_until_acknowledged(|| left.pop().expect("no check follows an acknowledgment"), Duration::from_secs(60));
        assert_eq!(left, [0; 0], "all three states were read");
        let mut checks = 0;
        let never = || {
            checks += 1;
            40
        };
        wait_until_acknowledged(never, 5 * ACKNOWLEDGMENT_CHECK);
        assert_eq!(checks, 5, "a lost acknowledgment does not block the round");
    }

    /// A wire that only notes how it is closed: its number, and whether it began to close or was dropped.
    struct Closing(u32, Arc<Mutex<Vec<(u32, &'static str)>>>);

    impl Wire for Closing {
        fn send(&mut self, _bytes: &[u8]) -> Result<(), WireError> {
            unreachable!("a closing wire sends nothing")
        }

        fn receive(&mut self, _into: &mut [u8]) -> Result<usize, WireError> {
            unreachable!("a closing wire receives nothing")
        }

        fn try_receive(&mut self, _into: &mut [u8]) -> Result<Option<usize>, WireError> {
            unreachable!("a closing wire receives nothing")
        }

        fn wait(&mut self, _at_most: Duration) -> Result<bool, WireError> {
            unreachable!("a closing wire does not wait for data")
        }

        fn effective(&self) -> Vec<Fact> {
            Vec::new()
        }

        fn begin_close(&mut self) {
            self.1.lock().unwrap().push((self.0, "begins"));
        }
    }

    impl Drop for Closing {
        fn drop(&mut self) {
            self.1.lock().unwrap().push((self.0, "ends"));
        }
    }

    #[test]
    fn every_wire_begins_to_close_before_the_first_one_waits() {
        let steps = Arc::default();
        close((0..3).map(|number| Box::new(Closing(number, Arc::clone(&steps))) as _).collect());
        let begins = (0..3).map(|number| (number, "begins"));
        assert_eq!(*steps.lock().unwrap(), begins.chain((0..3).map(|number| (number, "ends"))).collect::<Vec<_>>());
    }

    #[test]
    fn an_unmet_option_is_an_error_unless_it_is_allowed() {
        let facts = [vec![Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 4608.0)]];
        let failure = check_options(End::Client, &card(), &round("sndbuf=1", false), &facts).unwrap_err();
        assert_eq!(failure.cause, "client: option sndbuf=1 was not granted: the kernel says 4608");
        assert!(check_options(End::Client, &card(), &round("sndbuf=1", true), &facts).is_ok());
        assert!(check_options(End::Client, &card(), &round("sndbuf=2304,nodelay=off", false), &facts).is_ok());
    }

    #[test]
    fn options_of_the_remedy_are_added_to_those_of_the_case() {
        let exchange =
            |remedy| Exchange { writes: "2".parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy };
        let case = |remedy| {
            Case::small_writes("tcp", exchange(remedy))
                .with(|changed| changed.primary_mut().options = Options::parse("sndbuf=4096").unwrap())
        };
        let text = |remedy, end| asked(&case(remedy), end).to_string();
        assert_eq!(text(Remedy::Nodelay, End::Client), "nodelay=on,sndbuf=4096");
        assert_eq!(text(Remedy::Nodelay, End::Server), "nodelay=on,sndbuf=4096");
        assert_eq!(text(Remedy::CorkForgotten, End::Client), "cork=on,sndbuf=4096");
        assert_eq!(text(Remedy::CorkForgotten, End::Server), "sndbuf=4096");
        assert_eq!(text(Remedy::Default, End::Client), "sndbuf=4096");
        let refused = RoundOrder { case: case(Remedy::Nodelay), ..round("", false) };
        let facts = [vec![Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 8192.0)]];
        for (end, name) in [(End::Client, "client"), (End::Server, "server")] {
            let failure = check_options(end, &card(), &refused, &facts).unwrap_err();
            assert_eq!(failure.cause, format!("{name}: option nodelay=on was not granted: the kernel says off"));
        }
    }

    #[test]
    fn options_that_were_not_asked_for_are_reported_too() {
        let before = vec![Fact::word("option.nodelay", "off"), Fact::number("option.sndbuf", 1.0)];
        let after = vec![Fact::word("option.nodelay", "on"), Fact::number("tcp_info.lost", 0.0)];
        let effective = effective(&card(), &Options::default(), &[before], std::slice::from_ref(&after));
        let texts: Vec<_> = effective.iter().map(|one| (one.before.as_str(), one.after.as_str(), one.met)).collect();
        assert_eq!(texts, [("off", "on", true), ("1", "1", true)]);
        assert_eq!(counters(after).len(), 1);
    }

    #[test]
    fn an_option_that_one_of_several_wires_was_not_granted_is_unmet() {
        let wires = [4608.0, 4608.0, 1024.0, 2048.0].map(|sndbuf| vec![Fact::number("option.sndbuf", sndbuf)]);
        let asked = |options| Options::parse(options).unwrap();
        let shown = |asked: &Options, before: &[Vec<Fact>], after: &[Vec<Fact>]| {
            let one = effective(&card(), asked, before, after).remove(0);
            (one.before, one.after, one.met)
        };
        let of = |before: &str, after: &str, met| (before.to_owned(), after.to_owned(), met);
        assert_eq!(shown(&asked("sndbuf=2304"), &wires, &wires), of("1024", "1024", false));
        assert_eq!(shown(&asked("sndbuf=2304"), &wires[..2], &wires[..2]), of("4608", "4608", true));
        let grown = [wires[0].clone(), wires[3].clone()];
        assert_eq!(shown(&asked(""), &wires[..2], &grown), of("4608", "2048", true), "wire 2 has changed");
        let failure = check_options(End::Server, &card(), &round("sndbuf=2304", false), &wires).unwrap_err();
        assert_eq!(failure.cause, "server: option sndbuf=2304 was not granted: the kernel says 1024");
    }
}
