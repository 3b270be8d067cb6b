//! Commands that repeat cases, and that parsing them gives the cases.

use hairpin_experiments::{Experiment, KnobKind, Knobs, command, experiments};
use hairpin_model::flow::{ConnectionUse, Direction, FlowRole, Pacing, WRITE_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{
    Arrivals, Case, CpuIdle, EndSettings, Exchange, Extent, FarHost, Flow, HostCapabilities, InjectedFault, Load,
    Options, PhaseLengths, Repeat, Sysctls, Waiting, WhichCpus, shell,
};
use proptest::prelude::*;

use crate::common::{capabilities, every, plan_on, running};
use crate::hosts::with_servers_elsewhere;
use crate::properties::flags;

/// The command of these cases and lengths.
fn text(repeat: &Repeat) -> String {
    shell::command(&command::words("hairpin", repeat, experiments::ALL.iter()).expect("an experiment repeats them"))
}

fn of(cases: &[&Case]) -> String {
    text(&Repeat::of(cases.iter().map(|case| (*case).clone()).collect::<Vec<_>>()))
}

fn parsed(words: &[String], capabilities: &HostCapabilities) -> Vec<Case> {
    let told = shell::command(words);
    let mut words = words.iter();
    assert_eq!(words.next().map(String::as_str), Some("hairpin"), "{told}");
    let experiment = experiments::find(words.next().expect("a name")).expect("it is known");
    let mut given = vec![("seed".to_owned(), vec!["7".to_owned()])];
    while let Some(flag) = words.next() {
        let name = flag.strip_prefix("--").unwrap_or_else(|| panic!("{told}: {flag} is no flag"));
        let knob = experiment.knobs.iter().find(|knob| knob.name == name).unwrap_or_else(|| panic!("{told}: {name}"));
        let values = (knob.kind != KnobKind::Switch).then(|| words.next().expect("it has a value").clone());
        given.push((name.to_owned(), values.into_iter().collect()));
    }
    let knobs = Knobs::from_given(experiment.knobs, given).unwrap_or_else(|refused| panic!("{told}: {refused}"));
    let first = experiment.next(&knobs, capabilities, &hairpin_experiments::Done::default());
    running(first.unwrap_or_else(|refused| panic!("{told}: {refused}"))).expect("the first step runs").cases
}

/// Every flag can be tried: the reference has connections of several streams.
fn all_capabilities(far: Option<FarHost>) -> HostCapabilities {
    let mut capabilities = HostCapabilities { far, ..capabilities() };
    capabilities.candidates.iter_mut().for_each(|one| one.card.many_streams = one.card.is_reference);
    capabilities
}

/// The cases of a plan with these flags, if it is accepted.
fn planned(experiment: &Experiment, flags: &[(&str, String)], capabilities: &HostCapabilities) -> Option<Vec<Case>> {
    let mut flags: Vec<(&str, &str)> = flags.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let is_placed = |flags: &[(&str, &str)]| flags.iter().any(|(name, _)| *name == "placement");
    let has_placement = experiment.knobs.iter().any(|knob| knob.name == "placement");
    if capabilities.far.is_some() && has_placement && !is_placed(&flags) {
        flags.push(("placement", "pinned"));
    }
    plan_on(capabilities, experiment, &flags).ok().map(|plan| plan.cases)
}

/// Fails unless the command of each case gives that case, and the pair where it is the second of one; returns their
/// number.
fn assert_inverse(cases: &[Case], capabilities: &HostCapabilities) -> usize {
    // A plan may have thousands.
    for case in cases.iter().step_by(cases.len().div_ceil(12).max(1)) {
        let repeat = Repeat { cards: capabilities.saved_cards(), ..Repeat::of([case.clone()]) };
        let words =
            command::words("hairpin", &repeat, experiments::ALL.iter()).unwrap_or_else(|| panic!("{}", case.label()));
        let first = (case.replicate != 0).then(|| case.without_replicate());
        let expected: Vec<Case> = first.into_iter().chain([case.clone()]).collect();
        assert_eq!(parsed(&words, capabilities), expected, "{}", shell::command(&words));
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
            let cases = planned(&experiment, &[], &capabilities).expect("it has defaults");
            assert!(assert_inverse(&cases, &capabilities) > 0, "{}", experiment.name);
        }
    }
}

/// Each flag that changes cases, alone: the command of every case of such a plan gives the case.
#[test]
fn every_flag_is_repeated() {
    let capabilities = all_capabilities(None);
    for (name, flags) in [
        ("survey", vec!["--link satellite", "--injected-fault sleep=5ms/100", "--replicate-fault busy=1300ns"]),
        (
            "round-trip",
            vec!["--size 100 --reply-size 7", "--rate 0.5,1k", "--sysctl 'net.ipv4.tcp_wmem=4096 8192 16384'"],
        ),
        (
            "round-trip",
            vec!["--link 'delay=2ms'", "--link bridged-vm", "--option sndbuf=4096,rcvbuf=8192", "--cpu-idle all"],
        ),
        (
            "round-trip",
            vec!["--ends all", "--replicate", "--sysctl net.ipv4.tcp_sack=0,1", "--injected-fault busy=2us/7"],
        ),
        (
            "small-writes",
            vec!["--writes 4,3210 --gap 3ms --reply 100 --pipeline 3", "--remedy all --writes 2x10", "--link all"],
        ),
        ("message-rate", vec!["--connections 3 --size 100 --batch 7", "--direction all", "--option all"]),
        ("bulk", vec!["--direction all", "--streams 1,3 --connections 2", "--source all", "--write-size 100"]),
        ("bulk", vec!["--option zerocopy=on", "--waiting all --placement all", "--link all --direction both"]),
        (
            "offered-load",
            vec!["--rate 100,2.5k --arrivals all-three", "--pacing all", "--pacing kernel --connections 3"],
        ),
        ("under-load", vec!["--load all", "--probe-connection all", "--load-rate full,9.5mbit --load-size 100"]),
        (
            "under-load",
            vec!["--closed-loop --size 9", "--congestion cubic,reno --load-option tos=4", "--load-cpu all"],
        ),
        ("under-load", vec!["--responsiveness on", "--link satellite", "--link satellite --responsiveness off"]),
        (
            "under-load",
            vec![
                "--load-transport shm --load-size 64KiB --placement cross-cpu",
                "--load-transport unix-seqpacket",
                "--load-transport udp",
            ],
        ),
        (
            "under-load",
            vec!["--probe-connection shared --load-option nodelay=on", "--connections 4", "--load-option none"],
        ),
    ] {
        let experiment = experiments::find(name).unwrap();
        for line in flags {
            let line = line.replace("all-three", "fixed,poisson,burst=8");
            let words = shell::words(&line);
            let mut given: Vec<(&str, String)> = Vec::new();
            for word in &words {
                match word.strip_prefix("--") {
                    Some(flag) => given.push((flag, String::new())),
                    None => given.last_mut().expect("a flag comes first").1.clone_from(word),
                }
            }
            given.iter_mut().filter(|(_, value)| value.is_empty()).for_each(|(_, value)| *value = "on".to_owned());
            let cases = planned(experiment, &given, &capabilities).unwrap_or_else(|| panic!("{name} {line}"));
            assert!(assert_inverse(&cases, &capabilities) > 0, "{name} {line}");
        }
    }
}

/// The same for two cases: the command of both plans both.
#[test]
fn a_command_of_several_cases_plans_all_of_them() {
    let capabilities = all_capabilities(None);
    let case =
        |case: Case, options: &str| case.with(|case| case.primary_mut().options = Options::parse(options).unwrap());
    let tcp = || Case::ping_pong("tcp");
    let rcvbuf = |options| {
        case(Case::of(Flow::one_way("udp", Load::Messages { size_bytes: 64, batch: 1 }, Direction::Up)), options)
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
fn a_stream_is_repeated_by_bulk_for_longer() {
    let case = Case::of(Flow::stream("tcp", 65_536, Direction::Down));
    let told = "hairpin bulk --transport tcp --waiting block --placement same-cpu --direction down --write-size 65536 \
                --connections 1";
    assert_eq!(of(&[&case]), told);
    let longer = Repeat { over_ns: Some(40_000_000_000), ..Repeat::of([case.clone()]) };
    assert_eq!(text(&longer), format!("{told} --over 40s"));
    assert_eq!(of(&[&case.with(|case| case.primary_mut().streams = 3)]), format!("{told} --streams 3"));
}

#[test]
fn a_command_has_the_differences_of_the_cases() {
    let tcp = Case::ping_pong("tcp")
        .with(|changed| changed.primary_mut().options = Options::parse("nodelay=on,sndbuf=4096").unwrap());
    let udp = Case::ping_pong("udp").with(|changed| {
        changed.primary_mut().load.set_sizes(100, 100);
        changed.ends.waiting = Waiting::Poll;
        changed.ends.cpu_idle = CpuIdle::Shallow;
    });
    assert_eq!(
        of(&[&tcp, &udp]),
        "hairpin round-trip --transport tcp,udp --waiting block,poll --placement same-cpu --size 4,100 \
         --option nodelay=on,sndbuf=4096 --option none --cpu-idle deep,shallow"
    );
    let warmer = Repeat { warm_up: Some(Extent::Count(2000)), ..Repeat::of([Case::ping_pong("pipe")]) };
    assert_eq!(
        text(&warmer),
        "hairpin round-trip --transport pipe --waiting block --placement same-cpu --warmup 2000"
    );
    let large = |options: &str| {
        Case::ping_pong("tcp").with(|changed| {
            changed.primary_mut().load.set_sizes(65_536, 4);
            changed.primary_mut().options = Options::parse(options).unwrap();
        })
    };
    assert_eq!(
        of(&[&large("nodelay=on,congestion=bbr"), &large("nodelay=on,congestion=cubic")]),
        "hairpin round-trip --transport tcp --waiting block --placement same-cpu --size 65536 --reply-size 4 \
         --option nodelay=on,congestion=bbr --option nodelay=on,congestion=cubic"
    );
    let paced = |per_s| Case::ping_pong("udp").at_rate(per_s);
    assert!(of(&[&paced(20_000.0), &paced(10_000.0)]).ends_with(" --rate 20000,10000"));
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
        of(&[&with("0"), &with("1")]),
        "hairpin round-trip --transport tcp --waiting block --placement same-cpu --sysctl net.ipv4.tcp_sack=0,1 \
         --sysctl 'net.ipv4.tcp_wmem=4096 16384 4194304'"
    );
}

#[test]
fn exchanges_have_a_command_of_their_own() {
    let exchange = |writes: &str, remedy: &str| Exchange {
        writes: writes.parse().unwrap(),
        gap_ns: 1_000_000,
        pipeline: 3,
        remedy: remedy.parse().unwrap(),
    };
    let one = Case::small_writes("tcp", exchange("100x2", "default"));
    let other = Case::small_writes("tcp", exchange("4,3210", "nodelay"));
    assert_eq!(
        of(&[&one, &other]),
        "hairpin small-writes --transport tcp --waiting block --placement same-cpu --writes 100x2 --writes 4,3210 \
         --remedy default,nodelay --gap 1ms --pipeline 3"
    );
}

#[test]
fn loads_at_a_rate_are_repeated_by_offered_load() {
    let offered = |per_s, arrivals, pacing| {
        let load = Load::Offered { offered_per_s: 1.0, size_bytes: 100, arrivals, pacing };
        Case::of(Flow::one_way("tcp", load, Direction::Up)).at_rate(per_s)
    };
    let plain = "hairpin offered-load --transport tcp --waiting block --placement same-cpu --direction up --size 100 \
                 --connections 1";
    assert_eq!(
        of(&[
            &offered(480.0, Arrivals::Burst(50), Pacing::SleepSpin),
            &offered(480.0, Arrivals::Fixed, Pacing::Spin)
        ]),
        format!("{plain} --rate 480 --arrivals burst=50,fixed --pacing sleep+spin,spin")
    );
    let kernel = offered(0.5, Arrivals::Poisson, Pacing::Kernel);
    assert_eq!(kernel.primary().options.get(OptionName::PacingRate), Some("50"));
    assert_eq!(of(&[&kernel]), format!("{plain} --rate 0.5 --arrivals poisson --pacing kernel"), "the rate sets it");
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
    let changed = over("rate=12mbit", Some("home-uplink up.loss=0%"));
    let plain = "hairpin round-trip --transport udp --waiting block --placement same-cpu";
    assert_eq!(
        of(&[&named, &line, &Case::ping_pong("udp")]),
        format!(
            "{plain} --link bridged-vm --link 'rate=12mbit queue=64KiB,100packets delay=2ms±1ms' --link loopback"
        )
    );
    assert_eq!(of(&[&named, &changed]), format!("{plain} --link bridged-vm --link 'home-uplink up.loss=0%'"));
}

#[test]
fn a_command_over_a_link_repeats_the_seed_and_one_over_the_loopback_need_not() {
    let seeded = |case: Case| text(&Repeat { seed: Some(7), ..Repeat::of([case]) });
    let plain = "hairpin round-trip --transport tcp --waiting block --placement same-cpu";
    assert_eq!(seeded(Case::ping_pong("tcp")), plain);
    let link = Case::ping_pong("tcp").with(|changed| changed.path.link = "delay=2ms".to_owned());
    assert_eq!(seeded(link), format!("{plain} --link delay=2ms --seed 7"));
}

#[test]
fn an_injected_fault_and_a_replicate_are_repeated() {
    let injected_fault = Some(InjectedFault { stall_ns: 40_000_000, every: 1, sleeps: true });
    let injected = Case::ping_pong("tcp").with(|changed| changed.injected_fault = injected_fault);
    let plain = "hairpin round-trip --transport tcp --waiting block --placement same-cpu";
    assert_eq!(of(&[&injected]), format!("{plain} --injected-fault sleep=40ms/1"));
    assert_eq!(of(&[&Case::ping_pong("tcp").with(|changed| changed.replicate = 1)]), format!("{plain} --replicate"));
}

/// A probe over UDP at 100/s beside a load of a stream over TCP, up.
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

const LINE: &str = "rate=10mbit queue=256KiB delay=5ms";

fn probed_over_link() -> Case {
    probed().with(|case| case.path.link = LINE.to_owned())
}

const PROBED: &str = "hairpin under-load --transport udp --waiting block --placement same-cpu --rate 100";

#[test]
fn a_case_under_load_is_repeated_by_under_load_with_non_default_options() {
    assert_eq!(of(&[&probed()]), format!("{PROBED} --load-transport tcp --load-cpu same"));
    assert_eq!(of(&[&probed_with(&[])]), format!("{PROBED} --load none"));
    let down = probed_with(&[Direction::Down]).with(|case| case.flows[1].connections = 4);
    let both = probed_with(&[Direction::Up, Direction::Down])
        .with(|case| case.flows[1..].iter_mut().for_each(|load| load.connections = 4));
    assert_eq!(
        of(&[&down, &both]),
        format!("{PROBED} --load down,both --load-transport tcp --connections 4 --load-cpu same")
    );
    let closed =
        probed().with(|case| case.primary_mut().load = Load::PingPong { size_bytes: 100, reply_size_bytes: 100 });
    assert_eq!(
        of(&[&closed]),
        "hairpin under-load --transport udp --waiting block --placement same-cpu --size 100 --closed-loop \
         --load-transport tcp --load-cpu same"
    );
    let of_tcp = |connection_use| {
        probed().with(|case| {
            case.primary_mut().transport = "tcp".to_owned();
            case.primary_mut().connection_use = connection_use;
        })
    };
    assert!(
        of(&[&of_tcp(ConnectionUse::Shared), &of_tcp(ConnectionUse::Own)])
            .contains(" --probe-connection shared,own ")
    );
}

#[test]
fn a_load_rate_and_a_write_size_are_in_the_command() {
    let at = |bits_per_s: f64| {
        probed().with(|case| {
            case.flows[1].load = Load::Offered {
                offered_per_s: bits_per_s / 8.0 / 1400.0,
                size_bytes: 1400,
                arrivals: Arrivals::Fixed,
                pacing: Pacing::SleepSpin,
            };
        })
    };
    let load = "--load-transport tcp";
    assert_eq!(of(&[&at(5e6)]), format!("{PROBED} {load} --load-rate 5mbit --load-cpu same"));
    assert_eq!(of(&[&probed(), &at(9.12e6)]), format!("{PROBED} {load} --load-rate full,9.12mbit --load-cpu same"));
    let small = probed().with(|case| case.flows[1].load.set_sizes(4096, 0));
    assert_eq!(of(&[&small]), format!("{PROBED} {load} --load-size 4096 --load-cpu same"));
}

#[test]
fn congestion_controls_have_a_knob_of_their_own_where_each_load_has_one() {
    let with =
        |options: &str| probed_over_link().with(|case| case.flows[1].options = Options::parse(options).unwrap());
    let (cubic, bbr) = (with("congestion=cubic"), with("congestion=bbr,nodelay=on"));
    let link = format!("--responsiveness off --link '{LINE}'");
    let before = format!("{PROBED} --load-transport tcp");
    assert_eq!(of(&[&cubic]), format!("{before} --congestion cubic {link}"));
    assert_eq!(
        of(&[&cubic, &bbr]),
        format!("{before} --congestion cubic,bbr --load-option none --load-option nodelay=on {link}")
    );
    assert_eq!(
        of(&[&probed_over_link(), &cubic]),
        format!("{before} --load-option none --load-option congestion=cubic {link}")
    );
}

#[test]
fn the_load_cpu_is_in_the_command_if_not_default() {
    let elsewhere = |case: &Case| {
        let ends = EndSettings { cpus: WhichCpus::Other, ..case.ends };
        case.clone().with(|case| case.flows[1].ends = Some(ends))
    };
    let link = probed_over_link();
    assert!(!of(&[&link]).contains("--load-cpu"));
    assert!(of(&[&elsewhere(&link)]).contains(" --load-cpu other "));
    let loopback = link.without_link();
    assert!(of(&[&loopback, &elsewhere(&loopback)]).ends_with(" --load-cpu same,other"));
}

#[test]
fn responsiveness_and_the_phases_are_in_the_command_if_not_default() {
    let foreign = |mut case: Case| {
        case.flows.push(Flow::ping_pong("tcp").in_role(FlowRole::ForeignProbe));
        case
    };
    let elsewhere = || {
        let case = planned(
            experiments::find("under-load").unwrap(),
            &[("responsiveness", "off".to_owned()), ("transport", "udp".to_owned())],
            &with_servers_elsewhere(false),
        );
        case.expect("it runs").remove(0)
    };
    assert!(!of(&[&foreign(probed_over_link())]).contains("--responsiveness"));
    assert!(of(&[&foreign(probed())]).contains(" --responsiveness on"));
    assert!(!of(&[&foreign(elsewhere())]).contains("--responsiveness"), "{}", of(&[&foreign(elsewhere())]));
    assert!(of(&[&elsewhere()]).contains(" --responsiveness off"));
    assert!(!of(&[&elsewhere()]).contains("--load-cpu"), "its loads have one place");

    let with_ramp = |case: &Case, ramp_ns: u64| {
        let phases = Some(PhaseLengths { ramp: ramp_ns, ..PhaseLengths::usual(true) });
        text(&Repeat { phases, seed: Some(7), ..Repeat::of([case.clone()]) })
    };
    for (case, seed) in [(probed_over_link(), " --seed 7"), (elsewhere(), "")] {
        assert_eq!(with_ramp(&case, 5_000_000_000), format!("{}{seed}", of(&[&case])));
        assert_eq!(with_ramp(&case, 2_500_000_000), format!("{} --ramp 2500ms{seed}", of(&[&case])));
    }
}
