//! Commands that repeat cases: parsing such a command gives the same cases.

use hairpin_experiments::{Experiment, KnobKind, Knobs, command, experiments};
use hairpin_model::flow::{ConnectionUse, Direction, FlowRole, Observer, Pacing, WRITE_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{
    Arrivals, Case, CpuIdle, EndSettings, Exchange, Extent, FarHost, Flow, HostCapabilities, InjectedFault, Load,
    Options, PhaseLengths, Repeat, Sysctls, Waiting, WhichCpus, shell,
};
use proptest::prelude::*;

use crate::common::{capabilities, every, plan_on, running};
use crate::hosts::with_servers_elsewhere;
use crate::properties::flags;

/// The command that repeats these cases with these lengths.
fn text(repeat: &Repeat) -> String {
    shell::command(&command::words("hairpin", repeat, experiments::ALL.iter()).expect("an experiment for the cases"))
}

fn parsed(words: &[String], capabilities: &HostCapabilities) -> Vec<Case> {
    let told = shell::command(words);
    let mut words = words.iter();
    assert_eq!(words.next().map(String::as_str), Some("hairpin"), "{told}");
    let experiment = experiments::find(words.next().expect("a name"), &[]).expect("a known experiment");
    let mut given = vec![("seed".to_owned(), vec!["7".to_owned()])];
    while let Some(flag) = words.next() {
        let name = flag.strip_prefix("--").unwrap_or_else(|| panic!("{told}: {flag} is no flag"));
        let knob = experiment.knobs.iter().find(|knob| knob.name == name).unwrap_or_else(|| panic!("{told}: {name}"));
        let values = (knob.kind != KnobKind::Switch).then(|| words.next().expect("the flag has a value").clone());
        given.push((name.to_owned(), values.into_iter().collect()));
    }
    let knobs = Knobs::from_given(experiment.knobs, given).unwrap_or_else(|refused| panic!("{told}: {refused}"));
    let first = experiment.next(&knobs, capabilities, &hairpin_experiments::Done::default());
    running(first.unwrap_or_else(|refused| panic!("{told}: {refused}"))).expect("the first step runs").cases
}

/// Capabilities that accept every flag: the reference transport supports several streams per connection.
fn all_capabilities(far: Option<FarHost>) -> HostCapabilities {
    let mut capabilities = HostCapabilities { far, levels: Vec::new(), ..capabilities() };
    capabilities.candidates.iter_mut().for_each(|one| one.card.many_streams = one.card.is_reference);
    capabilities
}

/// The cases planned for these flags; `None` if the flags are refused.
fn planned(experiment: &Experiment, flags: &[(&str, String)], capabilities: &HostCapabilities) -> Option<Vec<Case>> {
    let mut flags: Vec<(&str, &str)> = flags.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let is_placed = |flags: &[(&str, &str)]| flags.iter().any(|(name, _)| *name == "placement");
    let has_placement = experiment.knobs.iter().any(|knob| knob.name == "placement");
    if capabilities.far.is_some() && has_placement && !is_placed(&flags) {
        flags.push(("placement", "pinned"));
    }
    plan_on(capabilities, experiment, &flags).ok().map(|plan| plan.cases)
}

/// Asserts that parsing the command of each case gives that case, preceded by the first case of its A/A pair, if any.
/// `observer` adds its baseline.
/// Returns the number of cases.
fn assert_inverse(cases: &[Case], capabilities: &HostCapabilities) -> usize {
    // A plan may have thousands of cases, so only some are tested.
    for case in cases.iter().step_by(cases.len().div_ceil(12).max(1)) {
        let repeat = Repeat { cards: capabilities.saved_cards(), ..Repeat::of([case.clone()]) };
        let words =
            command::words("hairpin", &repeat, experiments::ALL.iter()).unwrap_or_else(|| panic!("{}", case.label()));
        let first = (case.replicate != 0).then(|| case.without_replicate());
        let expected: Vec<Case> = first.into_iter().chain([case.clone()]).collect();
        let is_baseline = |case: &Case| case.primary().load.observer() == Observer::None;
        let mut plan = parsed(&words, capabilities);
        plan.retain(|planned| expected.contains(planned) || !is_baseline(planned));
        assert_eq!(plan, expected, "{}", shell::command(&words));
    }
    cases.len()
}

proptest! {
    #[test]
    fn parsing_the_command_of_a_case_gives_the_case((which, flags) in flags(), is_far: bool, is_ipv6: bool) {
        let far = if is_far { with_servers_elsewhere(is_ipv6).far } else { None };
        let capabilities = all_capabilities(far);
        let cases = planned(&every()[which], &flags, &capabilities);
        assert_inverse(&cases.unwrap_or_default(), &capabilities);
    }
}

#[test]
fn the_defaults_of_every_experiment_are_repeated_by_their_commands() {
    for far in [None, with_servers_elsewhere(false).far, with_servers_elsewhere(true).far] {
        let capabilities = all_capabilities(far);
        for experiment in every() {
            let cases = planned(&experiment, &[], &capabilities).expect("the experiment runs without flags");
            assert!(assert_inverse(&cases, &capabilities) > 0, "{}", experiment.name);
        }
    }
}

/// Lines with one or two flags that change cases.
#[test]
fn every_flag_is_repeated() {
    let capabilities = all_capabilities(None);
    for line in [
        "survey --link satellite",
        "survey --injected-fault sleep=5ms/100",
        "survey --replicate-fault busy=1300ns",
        "round-trip --size 100 --reply-size 7",
        "round-trip --rate 0.5,1k",
        "round-trip --sysctl 'net.ipv4.tcp_wmem=4096 8192 16384'",
        "round-trip --link 'delay=2ms'",
        "round-trip --link bridged-vm",
        "round-trip --option sndbuf=4096,rcvbuf=8192",
        "round-trip --cpu-idle all",
        "round-trip --transport shm --scheduling other,fifo --timer-slack 1ns,15625us",
        "round-trip --ends all",
        "round-trip --replicate",
        "round-trip --sysctl net.ipv4.tcp_sack=0,1",
        "round-trip --injected-fault busy=2us/7",
        "small-writes --writes 4,3210 --gap 3ms --reply 100 --pipeline 3",
        "small-writes --remedy all --writes 2x10",
        "small-writes --link all",
        "message-rate --connections 3 --size 100 --batch 7",
        "message-rate --direction all",
        "message-rate --option all",
        "observer --build all --observer all --size 64,100",
        "observer --transport tcp --ends threads --option nodelay=on",
        "message-rate --build all",
        "bulk --direction all",
        "bulk --streams 1,3 --connections 2",
        "bulk --source all",
        "bulk --write-size 100",
        "bulk --option zerocopy=on",
        "bulk --threads 1,4 --placement unpinned",
        "message-rate --threads 2 --direction down --placement unpinned",
        "bulk --waiting all --placement all",
        "bulk --link all --direction both",
        "offered-load --rate 100,2.5k --arrivals fixed,poisson,burst=8",
        "offered-load --pacing all",
        "offered-load --pacing kernel --connections 3",
        "under-load --load all",
        "under-load --probe-connection all",
        "under-load --load-rate full,9.5mbit --load-size 100",
        "under-load --closed-loop --size 9",
        "under-load --congestion cubic,reno --load-option tos=4",
        "under-load --load-cpu all",
        "under-load --responsiveness on",
        "under-load --link satellite",
        "under-load --link satellite --responsiveness off",
        "under-load --load-transport shm --load-size 64KiB --placement cross-cpu",
        "under-load --load-transport unix-seqpacket",
        "under-load --load-transport udp",
        "under-load --probe-connection shared --load-option nodelay=on",
        "under-load --connections 4",
        "under-load --load-option none",
    ] {
        let (name, flags) = line.split_once(' ').expect("flags");
        let words = shell::words(flags);
        let mut given: Vec<(&str, String)> = Vec::new();
        for word in &words {
            match word.strip_prefix("--") {
                Some(flag) => given.push((flag, String::new())),
                None => given.last_mut().expect("a flag comes first").1.clone_from(word),
            }
        }
        given.iter_mut().filter(|(_, value)| value.is_empty()).for_each(|(_, value)| *value = "on".to_owned());
        let experiment = experiments::find(name, &[]).unwrap();
        let cases = planned(experiment, &given, &capabilities).unwrap_or_else(|| panic!("{line}"));
        assert!(assert_inverse(&cases, &capabilities) > 0, "{line}");
    }
}

/// The plan of a command for two cases contains both cases.
#[test]
fn a_command_of_several_cases_plans_all_of_them() {
    let capabilities = all_capabilities(None);
    let case =
        |case: Case, options: &str| case.with(|case| case.primary_mut().options = Options::parse(options).unwrap());
    let tcp = || Case::ping_pong("tcp");
    let rcvbuf = |options| {
        case(
            Case::of(Flow::one_way(
                "udp",
                Load::Messages { size_bytes: 64, batch: 1, observer: Observer::Sampled },
                Direction::Up,
            )),
            options,
        )
    };
    let pairs = [
        [case(tcp(), ""), case(tcp(), "nodelay=on")],
        [case(tcp(), "congestion=bbr"), case(tcp(), "congestion=cubic")],
        [rcvbuf("rcvbuf=4096"), rcvbuf("rcvbuf=4194304")],
        [tcp(), tcp().with(|case| case.ends.cpu_idle = CpuIdle::Shallow)],
        [tcp(), tcp().with(|case| case.path.link = "delay=2ms".to_owned())],
        [tcp(), tcp().with(|case| case.primary_mut().load.set_sizes(4, 100))],
        [probed(), probed().with(|case| case.flows[1].options = Options::parse("notsent-lowat=16384").unwrap())],
    ];
    for pair in pairs {
        let words = command::words("hairpin", &Repeat::of(pair.clone()), experiments::ALL.iter()).unwrap();
        let plan = parsed(&words, &capabilities);
        assert!(pair.iter().all(|case| plan.contains(case)), "{}: {plan:?}", shell::command(&words));
    }
}

#[test]
fn the_commands_of_these_cases_are() {
    let told = [round_trips(), loads(), under_loads()].concat();
    let told: String = told.iter().map(|(what, repeat)| format!("{what}\n    {}\n", text(repeat))).collect();
    insta::assert_snapshot!(told);
}

fn of<const N: usize>(cases: [&Case; N]) -> Repeat {
    Repeat::of(cases.map(Clone::clone))
}

/// A round trip over TCP with this change.
fn tcp(change: impl FnOnce(&mut Case)) -> Case {
    Case::ping_pong("tcp").with(change)
}

fn options(text: &str) -> Options {
    Options::parse(text).unwrap()
}

fn round_trips() -> Vec<(&'static str, Repeat)> {
    let some = tcp(|case| case.primary_mut().options = options("nodelay=on,sndbuf=4096"));
    let udp = Case::ping_pong("udp").with(|case| {
        case.primary_mut().load.set_sizes(100, 100);
        case.ends.waiting = Waiting::Poll;
        case.ends.cpu_idle = CpuIdle::Shallow;
    });
    let large = |text: &str| {
        tcp(|case| {
            case.primary_mut().load.set_sizes(65_536, 4);
            case.primary_mut().options = options(text);
        })
    };
    let paced = |per_s| Case::ping_pong("udp").at_rate(per_s);
    let set = |sack: &str| {
        let wmem = "net.ipv4.tcp_wmem=4096 16384 4194304".parse().unwrap();
        let both = format!("net.ipv4.tcp_sack={sack}").parse::<Sysctls>().unwrap().and(wmem);
        tcp(|case| case.sysctls = both)
    };
    let exchange = |writes: &str, remedy: &str| {
        let (writes, remedy) = (writes.parse().unwrap(), remedy.parse().unwrap());
        Case::small_writes("tcp", Exchange { writes, gap_ns: 1_000_000, pipeline: 3, reply_writes: None, remedy })
    };
    let over = |line: &str, name: Option<&str>| {
        Case::ping_pong("udp").with(|case| {
            case.path.link = line.to_owned();
            case.path.name = name.map(str::to_owned);
        })
    };
    let named = over("rate=12mbit delay=2ms", Some("bridged-vm"));
    let line = over("rate=12mbit queue=64KiB,100packets delay=2ms±1ms", None);
    let changed = over("rate=12mbit", Some("home-uplink up.loss=0%"));
    let seeded = |case: Case| Repeat { seed: Some(7), ..Repeat::of([case]) };
    let injected_fault = Some(InjectedFault { stall_ns: 40_000_000, every: 1, sleeps: true });
    vec![
        ("two cases: their differences", of([&some, &udp])),
        ("a longer warm-up", Repeat { warm_up: Some(Extent::Count(2000)), ..of([&Case::ping_pong("pipe")]) }),
        ("options", of([&large("nodelay=on,congestion=bbr"), &large("nodelay=on,congestion=cubic")])),
        ("rates", of([&paced(20_000.0), &paced(10_000.0)])),
        ("kernel settings: each name once", of([&set("0"), &set("1")])),
        ("exchanges", of([&exchange("100x2", "default"), &exchange("4,3210", "nodelay")])),
        ("links: not joined by commas", of([&named, &line, &Case::ping_pong("udp")])),
        ("a link with changes", of([&named, &changed])),
        ("a seed over the loopback: not repeated", seeded(tcp(|_| ()))),
        ("a seed over a link", seeded(tcp(|case| case.path.link = "delay=2ms".to_owned()))),
        ("an injected fault", of([&tcp(|case| case.injected_fault = injected_fault)])),
        ("a replicate", of([&tcp(|case| case.replicate = 1)])),
    ]
}

fn loads() -> Vec<(&'static str, Repeat)> {
    let stream = Case::of(Flow::stream("tcp", 65_536, Direction::Down));
    let offered = |per_s, arrivals, pacing| {
        let load = Load::Offered { offered_per_s: 1.0, size_bytes: 100, arrivals, pacing };
        Case::of(Flow::one_way("tcp", load, Direction::Up)).at_rate(per_s)
    };
    let burst = offered(480.0, Arrivals::Burst(50), Pacing::SleepSpin);
    let kernel = offered(0.5, Arrivals::Poisson, Pacing::Kernel);
    assert_eq!(kernel.primary().options.get(OptionName::PacingRate), Some("50"), "set from the offered rate");
    vec![
        ("a stream", of([&stream])),
        ("a longer stream", Repeat { over_ns: Some(40_000_000_000), ..of([&stream]) }),
        ("several streams of a connection", of([&stream.with(|case| case.primary_mut().streams = 3)])),
        ("offered loads", of([&burst, &offered(480.0, Arrivals::Fixed, Pacing::Spin)])),
        ("paced by the kernel: no option", of([&kernel])),
    ]
}

/// A probe over UDP at 100/s, under the load of an upward stream over TCP.
fn probed() -> Case {
    probed_with(&[Direction::Up])
}

fn probed_with(ways: &[Direction]) -> Case {
    let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
    case.primary_mut().load.set_sizes(64, 64);
    let loads = ways.iter().map(|way| Flow::stream("tcp", WRITE_BYTES, *way).in_role(FlowRole::Load));
    case.flows.extend(loads);
    case.at_rate(100.0)
}

fn under_loads() -> Vec<(&'static str, Repeat)> {
    let four = |ways: &[Direction]| {
        probed_with(ways).with(|case| case.flows[1..].iter_mut().for_each(|load| load.connections = 4))
    };
    let closed =
        probed().with(|case| case.primary_mut().load = Load::PingPong { size_bytes: 100, reply_size_bytes: 100 });
    let of_tcp = |connection_use| {
        probed().with(|case| {
            case.primary_mut().transport = "tcp".to_owned();
            case.primary_mut().connection_use = connection_use;
        })
    };
    let at = |bits_per_s: f64| {
        let (offered_per_s, arrivals, pacing) = (bits_per_s / 8.0 / 1400.0, Arrivals::Fixed, Pacing::SleepSpin);
        let load = Load::Offered { offered_per_s, size_bytes: 1400, arrivals, pacing };
        probed().with(|case| case.flows[1].load = load)
    };
    let link = probed().with(|case| case.path.link = "rate=10mbit queue=256KiB delay=5ms".to_owned());
    let with = |text: &str| link.clone().with(|case| case.flows[1].options = options(text));
    let (cubic, bbr) = (with("congestion=cubic"), with("congestion=bbr,nodelay=on"));
    let on_other_cpu = |case: &Case| {
        let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends };
        case.clone().with(|case| case.flows[1].ends = Some(ends))
    };
    let loopback = link.without_link();
    let foreign = |case: &Case| {
        case.clone().with(|case| case.flows.push(Flow::ping_pong("tcp").in_role(FlowRole::ForeignProbe)))
    };
    let given = [("responsiveness", "off".to_owned()), ("transport", "udp".to_owned())];
    let under_load = experiments::find("under-load", &[]).unwrap();
    let far = planned(under_load, &given, &with_servers_elsewhere(false)).expect("the flags are accepted").remove(0);
    let with_ramp = |case: &Case, ramp_ns: u64| {
        let phases = Some(PhaseLengths { ramp: ramp_ns, ..PhaseLengths::usual(true) });
        Repeat { phases, seed: Some(7), ..of([case]) }
    };
    vec![
        ("under load", of([&probed()])),
        ("no load", of([&probed_with(&[])])),
        ("loads", of([&four(&[Direction::Down]), &four(&[Direction::Up, Direction::Down])])),
        ("a closed loop", of([&closed])),
        ("the probe's connection", of([&of_tcp(ConnectionUse::Shared), &of_tcp(ConnectionUse::Own)])),
        ("a load's rate", of([&at(5e6)])),
        ("a load's rates", of([&probed(), &at(9.12e6)])),
        ("a load's size", of([&probed().with(|case| case.flows[1].load.set_sizes(4096, 0))])),
        ("congestion control", of([&cubic])),
        ("congestion control of each, and another option", of([&cubic, &bbr])),
        ("congestion control of one: an option", of([&link, &cubic])),
        ("a link: no --load-cpu", of([&link])),
        ("a link and another CPU", of([&on_other_cpu(&link)])),
        ("the loopback and another CPU", of([&loopback, &on_other_cpu(&loopback)])),
        ("responsiveness over a link: the default", of([&foreign(&link)])),
        ("responsiveness over the loopback", of([&foreign(&probed())])),
        ("responsiveness of two hosts: the default", of([&foreign(&far)])),
        ("two hosts without responsiveness: no --load-cpu", of([&far])),
        ("a link, the default ramp", with_ramp(&link, 5_000_000_000)),
        ("a link, another ramp", with_ramp(&link, 2_500_000_000)),
        ("two hosts, the default ramp", with_ramp(&far, 5_000_000_000)),
        ("two hosts, another ramp", with_ramp(&far, 2_500_000_000)),
    ]
}
