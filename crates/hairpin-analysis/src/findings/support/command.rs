//! The command of a counter-experiment.

use hairpin_model::case::{Case, CpuIdle, EndKind, InjectedFault, Placement};
use hairpin_model::exchange::Exchange;
use hairpin_model::finding::CounterExperiment;
use hairpin_model::finding_keys::check::LONGER;
use hairpin_model::flow::{ConnectionUse, Flow, FlowRole, Load, PROBE_BYTES, Source};
use hairpin_model::names;
use hairpin_model::quantities::duration_argument;
use hairpin_model::shell;

use super::loads::of_loads;
use super::values::{Values, distinct, set_in_words};

/// A counter-experiment: the command that runs `cases` again with other values of one knob.
pub(in crate::findings) fn counter_experiment(
    kind: &str,
    cases: &[&Case],
    knob: &str,
    values: &[String],
) -> CounterExperiment {
    CounterExperiment { kind: kind.to_owned(), command: command(cases, knob, values), ..CounterExperiment::default() }
}

/// The same cases for longer. The default is 10 s, and a number of rounds alone would end sooner.
pub(in crate::findings) fn for_longer(cases: &[&Case]) -> CounterExperiment {
    counter_experiment(LONGER, cases, "over", &["40s".to_owned()])
}

/// The same with a pair of cases that differ in exactly one thing.
pub(in crate::findings) fn paired(experiment: CounterExperiment, pair: [Case; 2]) -> CounterExperiment {
    CounterExperiment { pair: Some(Box::new(pair)), ..experiment }
}

/// The command that runs `cases` with `values` for `knob` (omitted if empty).
///
/// Knobs take the values of all cases, so it may run a few more combinations than there were cases.
pub(in crate::findings) fn command(cases: &[&Case], knob: &str, values: &[String]) -> String {
    let distinct = |of: &dyn Fn(&Case) -> Option<String>| distinct(cases, of);
    let where_any = |differs: &dyn Fn(&Case) -> bool, of: &dyn Fn(&Case) -> Option<String>| {
        if cases.iter().any(|case| differs(case)) { distinct(of) } else { Vec::new() }
    };
    let load = cases.first().map_or(&Load::PLAIN, |case| &case.primary().load);
    let mut knobs = vec![
        ("transport", distinct(&|case| Some(case.primary().transport.clone()))),
        ("waiting", distinct(&|case| Some(case.ends.waiting.to_string()))),
        // Between two hosts ends are pinned by default.
        (
            "placement",
            where_any(&|case| case.ends.placement != Placement::Pinned, &|case| {
                Some(case.ends.placement.to_string())
            }),
        ),
        ("ends", where_any(&|case| case.ends.kind != EndKind::Processes, &|case| Some(case.ends.kind.to_string()))),
    ];
    let (experiment, of_load) = match load {
        _ if cases.first().is_some_and(|case| case.is_under_load()) => ("under-load", of_probes(cases)),
        Load::Exchange { exchange, .. } => ("small-writes", of_exchanges(cases, exchange)),
        Load::PingPong { .. } | Load::Paced { .. } => ("round-trip", of_messages(cases)),
        Load::Messages { .. } => ("message-rate", of_one_way(cases)),
        Load::Stream { .. } => ("bulk", of_one_way(cases)),
        Load::Offered { .. } => ("offered-load", of_one_way(cases)),
    };
    knobs.extend(of_load);
    knobs.extend([
        ("option", distinct(&options)),
        ("sysctl", sysctls(cases)),
        ("link", where_any(&Case::is_emulated, &|case| Some(link_word(case)))),
        (
            "cpu-idle",
            where_any(&|case| case.ends.cpu_idle != CpuIdle::Deep, &|case| Some(case.ends.cpu_idle.to_string())),
        ),
        // A run has one injected fault: that of the strongest case.
        (
            "injected-fault",
            cases.first().and_then(|case| case.injected_fault).iter().map(InjectedFault::to_string).collect(),
        ),
    ]);
    match knobs.iter_mut().find(|(name, _)| *name == knob) {
        Some((_, old)) => *old = values.to_vec(),
        None => knobs.push((knob, values.to_vec())),
    }
    let mut command = format!("hairpin {experiment}");
    for (name, values) in knobs.iter().filter(|(_, values)| !values.is_empty()) {
        if ["option", "load-option", "sysctl", "link", "writes"].contains(name) {
            // These values can contain commas, so each has its own flag.
            for value in values {
                command += &format!(" --{name} {}", shell::quoted(value));
            }
        } else {
            command += format!(" --{name} {}", values.join(",")).trim_end();
        }
    }
    command
}

/// The knobs of messages.
fn of_messages(cases: &[&Case]) -> Vec<Values> {
    let reply_differs = |case: &Case| case.primary().load.reply_size_bytes() != case.primary().load.size_bytes();
    let replies = cases.iter().any(|case| reply_differs(case));
    let reply_sizes = || distinct(cases, &|case| Some(case.primary().load.reply_size_bytes().to_string()));
    vec![
        ("size", sizes(cases, 4)),
        ("reply-size", if replies { reply_sizes() } else { Vec::new() }),
        ("rate", rates(cases)),
    ]
}

/// The message sizes, if any differs from the default.
fn sizes(cases: &[&Case], usual_bytes: u64) -> Vec<String> {
    let differs = cases.iter().any(|case| case.primary().load.size_bytes() != usual_bytes);
    if differs { distinct(cases, &|case| Some(case.primary().load.size_bytes().to_string())) } else { Vec::new() }
}

fn rates(cases: &[&Case]) -> Vec<String> {
    distinct(cases, &|case| case.primary().load.rate_per_s().map(|rate_per_s| rate_per_s.to_string()))
}

/// The knobs of probes and of their loads.
fn of_probes(cases: &[&Case]) -> Vec<Values> {
    let closed_loop = cases.first().is_some_and(|case| case.primary().load.rate_per_s().is_none());
    let sends = if closed_loop { ("closed-loop", vec![String::new()]) } else { ("rate", rates(cases)) };
    let connections = distinct(cases, &|case| Some(case.primary().connection_use.to_string()));
    let own = [ConnectionUse::Own.to_string()];
    let connections = if connections == own { Vec::new() } else { connections };
    let mut values = vec![("size", sizes(cases, PROBE_BYTES)), sends, ("probe-connection", connections)];
    values.extend(of_loads(cases));
    values.push(("responsiveness", cases.first().and_then(|case| responsiveness(case)).into_iter().collect()));
    values
}

/// The value of the switch if it is not the default, which is on over a link and to another host.
fn responsiveness(case: &Case) -> Option<String> {
    let is_on = case.flows.iter().any(|flow| flow.role == FlowRole::ForeignProbe);
    let differs = !case.loads().is_empty() && is_on != case.crosses_a_network();
    differs.then(|| if is_on { "on" } else { "off" }.to_owned())
}

/// The knobs of exchanges. A run has one gap, answer size and number in flight: those of the strongest case.
fn of_exchanges(cases: &[&Case], strongest: &Exchange) -> Vec<Values> {
    let of = |word: fn(&Exchange) -> String| distinct(cases, &|case| case.primary().load.exchange().map(word));
    let unless = |plain: bool, word: String| if plain { Vec::new() } else { vec![word] };
    let reply = cases.first().map_or(4, |case| case.primary().load.reply_size_bytes());
    vec![
        ("writes", of(|exchange| exchange.writes.to_string())),
        ("remedy", of(|exchange| exchange.remedy.to_string())),
        ("gap", unless(strongest.gap_ns == 0, duration_argument(strongest.gap_ns))),
        ("reply", unless(reply == 4, reply.to_string())),
        ("pipeline", unless(strongest.pipeline == 1, strongest.pipeline.to_string())),
    ]
}

/// The value of `--direction`.
fn directions(case: &Case) -> String {
    if case.goes_both_ways() { "both".to_owned() } else { case.primary().direction.to_string() }
}

/// The knobs of loads without answers.
fn of_one_way(cases: &[&Case]) -> Vec<Values> {
    let of = |word: &dyn Fn(&Flow) -> Option<String>| distinct(cases, &|case| word(case.primary()));
    let is_stream = cases.first().is_some_and(|case| matches!(case.primary().load, Load::Stream { .. }));
    let [size, connections] = if is_stream { ["write-size", "streams"] } else { ["size", "connections"] };
    vec![
        ("direction", distinct(cases, &|case| Some(directions(case)))),
        (size, of(&|flow| Some(flow.load.size_bytes().to_string()))),
        (connections, of(&|flow| Some(flow.connections.to_string()))),
        ("batch", of(&|flow| matches!(flow.load, Load::Messages { .. }).then(|| flow.load.batch().to_string()))),
        (
            "source",
            of(&|flow| match flow.load {
                Load::Stream { source: Source::File, .. } => Some(Source::File.to_string()),
                _ => None,
            }),
        ),
        ("rate", of(&|flow| flow.load.rate_per_s().map(|per_s| per_s.to_string()))),
        (
            "arrivals",
            of(&|flow| match flow.load {
                Load::Offered { arrivals, .. } => Some(arrivals.to_string()),
                _ => None,
            }),
        ),
        (
            "pacing",
            of(&|flow| match flow.load {
                Load::Offered { pacing, .. } => Some(pacing.to_string()),
                _ => None,
            }),
        ),
    ]
}

/// The requested kernel settings, for `--sysctl`: `NAME=A,B`, each name once.
pub(in crate::findings) fn sysctls(cases: &[&Case]) -> Vec<String> {
    let names = names::distinct(cases.iter().flat_map(|case| case.sysctls.iter().map(|(name, _)| name)));
    let values = |name: &str| distinct(cases, &|case| case.sysctls.get(name).map(str::to_owned)).join(",");
    names.into_iter().map(|name| format!("{name}={}", values(name))).collect()
}

/// The link, for `--link`: its name, or else a line of figures.
pub(in crate::findings) fn link_word(case: &Case) -> String {
    case.path.name.clone().unwrap_or_else(|| case.path.link.clone())
}

/// The requested options, for `--option`; `None` if there are none.
pub(in crate::findings) fn options(case: &Case) -> Option<String> {
    // Options of a shared connection belong to the load.
    let own = case.primary().connection_use != ConnectionUse::Shared;
    set_in_words(&case.primary().options).filter(|_| own)
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Waiting;
    use hairpin_model::options::Options;
    use hairpin_model::sysctls::Sysctls;

    use super::*;

    #[test]
    fn a_stream_is_repeated_by_bulk() {
        let case = Case::of(Flow::stream("tcp", 65_536, hairpin_model::flow::Direction::Down));
        let told = "hairpin bulk --transport tcp --waiting block --placement same-cpu --direction down --write-size 65536 \
                    --streams 1 --over 40s";
        assert_eq!(command(&[&case], "over", &["40s".to_owned()]), told);
    }

    #[test]
    fn a_command_has_the_differences_of_the_cases_and_the_one_change() {
        let tcp = Case::ping_pong("tcp")
            .with(|changed| changed.primary_mut().options = Options::parse("nodelay=on,sndbuf=4096").unwrap());
        let udp = Case::ping_pong("udp").with(|changed| {
            changed.primary_mut().load.set_sizes(100, 100);
            changed.ends.waiting = Waiting::Poll;
        });
        let values = ["deep", "shallow"].map(str::to_owned);
        assert_eq!(
            command(&[&tcp, &udp], "cpu-idle", &values),
            "hairpin round-trip --transport tcp,udp --waiting block,poll --placement same-cpu --size 4,100 \
             --option nodelay=on,sndbuf=4096 --cpu-idle deep,shallow"
        );
        assert_eq!(
            command(&[&Case::ping_pong("pipe")], "rounds", &["20".to_owned()]),
            "hairpin round-trip --transport pipe --waiting block --placement same-cpu --rounds 20"
        );
    }

    #[test]
    fn kernel_settings_are_asked_for_again_each_name_once() {
        let with = |sack: &str| {
            Case::ping_pong("tcp").with(|changed| {
                let wmem = "net.ipv4.tcp_wmem=4096 16384 4194304".parse().unwrap();
                changed.sysctls = format!("net.ipv4.tcp_sack={sack}").parse::<Sysctls>().unwrap().and(wmem);
            })
        };
        assert_eq!(
            command(&[&with("0"), &with("1")], "rounds", &["20".to_owned()]),
            "hairpin round-trip --transport tcp --waiting block --placement same-cpu --sysctl net.ipv4.tcp_sack=0,1 \
             --sysctl 'net.ipv4.tcp_wmem=4096 16384 4194304' --rounds 20"
        );
    }

    #[test]
    fn exchanges_have_a_command_of_their_own() {
        let exchange = |writes: &str| Exchange {
            writes: writes.parse().unwrap(),
            gap_ns: 1_000_000,
            pipeline: 3,
            remedy: "default".parse().unwrap(),
        };
        let one = Case::small_writes("tcp", exchange("100x2"));
        let other =
            Case::small_writes("tcp", exchange("4,3210")).with(|changed| changed.primary_mut().load.set_sizes(4, 1));
        assert_eq!(
            command(&[&one, &other], "remedy", &["default", "nodelay"].map(str::to_owned)),
            "hairpin small-writes --transport tcp --waiting block --placement same-cpu --writes 100x2 --writes 4,3210 \
             --remedy default,nodelay --gap 1ms --pipeline 3"
        );
    }

    #[test]
    fn links_are_named_or_quoted_and_never_joined_by_commas() {
        let over = |line: &str, name: Option<&str>| {
            Case::ping_pong("udp").with(|changed| {
                changed.path.link = line.to_owned();
                changed.path.name = name.map(str::to_owned);
            })
        };
        let named = over("rate=12mbit delay=2ms", Some("bridged-vm"));
        let line = over("rate=12mbit queue=64KiB,100packets delay=2ms±1ms", None);
        let plain = "hairpin round-trip --transport udp --waiting block --placement same-cpu";
        let rounds = |cases: &[&Case]| command(cases, "rounds", &["20".to_owned()]);
        assert_eq!(
            rounds(&[&named, &line, &Case::ping_pong("udp")]),
            format!(
                "{plain} --link bridged-vm --link 'rate=12mbit queue=64KiB,100packets delay=2ms±1ms' --link loopback \
                 --rounds 20"
            )
        );
        let other = ["bridged-vm", "home-uplink up.loss=0%"].map(str::to_owned);
        assert_eq!(
            command(&[&named], "link", &other),
            format!("{plain} --link bridged-vm --link 'home-uplink up.loss=0%'")
        );
    }

    #[test]
    fn an_injected_fault_is_injected_again() {
        let injected_fault = Some(InjectedFault { stall_ns: 40_000_000, every: 1, sleeps: true });
        let injected = Case::ping_pong("tcp").with(|changed| changed.injected_fault = injected_fault);
        assert_eq!(
            command(&[&injected], "rounds", &["20".to_owned()]),
            "hairpin round-trip --transport tcp --waiting block --placement same-cpu --injected-fault sleep=40ms/1 --rounds 20"
        );
    }
}
