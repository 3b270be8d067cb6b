//! Knobs that several experiments share, and what their values mean. [`crate::combinations`] makes cases of them.

use hairpin_model::case::{LOOPBACK, Scheduling};
use hairpin_model::flow::{ConnectionUse, Pacing};
use hairpin_model::options::OptionName;
use hairpin_model::quantities::duration_argument;
use hairpin_model::{
    Case, CpuIdle, EndKind, Extent, HostCapabilities, InjectedFault, Load, Options, Placement, Refused, Repeat,
    Sysctls, Waiting, names,
};

use crate::knob::{Knob, KnobKind, NO_OPTIONS};
use crate::knobs::Knobs;
use crate::quantity::{DAY_NS, MAX_TIMEOUT_NS, SECOND_NS};

/// The word for a value that the experiment chooses for each case.
pub const AUTO: &str = "auto";

/// Sizes of messages and answers.
pub const SIZE: KnobKind = KnobKind::Bytes { min: 1, max: 1 << 30 };
pub const LASTS: KnobKind = KnobKind::Duration { min_ns: 1, max_ns: DAY_NS };

pub const TRANSPORT: Knob = Knob::new("transport", "NAME", KnobKind::Transport)
    .help("Transports, separated by commas [default: all that can run here]")
    .many()
    .print(|repeat| repeat.values("", |case| Some(case.primary().transport.clone())));

pub const WAITING: Knob = Knob::new("waiting", "HOW", KnobKind::Words(Waiting::WORDS))
    .help("How both ends wait for a message: block, poll, spin, or all")
    .many()
    .or(&["block"])
    .print(|repeat| repeat.values("", |case| Some(case.ends.waiting.to_string())));

pub const PLACEMENT: Knob = Knob::new("placement", "WHERE", KnobKind::Words(Placement::WORDS))
    .help(
        "Where ends run: same-cpu, cross-cpu, same-core, same-cache, same-node, cross-node, unpinned, all; --to: pinned",
    )
    .many()
    .or(&["same-cpu", "cross-cpu"])
    // Between two hosts, ends are pinned by default.
    .print(|repeat| repeat.values(Placement::Pinned.word(), |case| Some(case.ends.placement.to_string())));

pub const ENDS: Knob = Knob::new("ends", "WHAT", KnobKind::Words(EndKind::WORDS))
    .help("Kind of both ends: processes, threads, or all")
    .many()
    .or(&["processes"])
    .print(|repeat| repeat.values("processes", |case| Some(case.ends.kind.to_string())));

pub const OPTION: Knob = Knob::new("option", "SET", KnobKind::OptionSet).help("Socket options, for instance congestion=cubic,sndbuf=4096; none; or all, each alone. Repeat it to compare sets")
.repeat()
.print(|repeat| repeat.values(NO_OPTIONS, option_argument));

pub const LINK: Knob = Knob::new("link", "PROFILE", KnobKind::Link)
    .help(
        "Path between ends: a profile (home-uplink), words ('delay=20ms codel=5ms/100ms'), or all; repeat to compare",
    )
    .repeat()
    .or(&[LOOPBACK])
    .print(|repeat| repeat.values(LOOPBACK, |case| Some(case.path.name.as_ref().unwrap_or(&case.path.link).clone())));

/// Prints the link of a run whose experiment has a link by default.
pub fn print_link(repeat: &Repeat) -> Vec<String> {
    let link = |case: &Case| case.path.name.as_ref().unwrap_or(&case.path.link).clone();
    repeat.values("", |case| case.path.across.is_none().then(|| link(case)))
}

/// The options of experiments that compare protocols on one path, see
/// [`Combinations::with_alike_options`](crate::combinations::Combinations::with_alike_options).
pub const ALIKE_OPTION: Knob = OPTION.or(&[ALIKE]).print(|repeat| repeat.values(ALIKE, option_argument));
const ALIKE: &str = "nodelay=on";

pub const SYSCTL: Knob = Knob::new("sysctl", "NAME_VALUES", KnobKind::Sysctl)
    .help("Values of a net. setting, such as net.ipv4.tcp_sack=0,1; others have the defaults of a new network namespace")
    .repeat()
    .print(print_sysctls);

pub const CPU_IDLE: Knob = Knob::new("cpu-idle", "DEPTH", KnobKind::Words(CpuIdle::WORDS))
    .help("How deep idle CPUs may sleep: deep, shallow, or all")
    .many()
    .or(&["deep"])
    .print(|repeat| repeat.values("deep", |case| Some(case.ends.cpu_idle.to_string())));

pub const SCHEDULING: Knob = Knob::new("scheduling", "POLICY", KnobKind::Words(Scheduling::WORDS))
    .help("Scheduling of both ends: other, fifo (SCHED_FIFO), deadline (SCHED_DEADLINE, unpinned), or all")
    .many()
    .or(&["other"])
    .print(|repeat| repeat.values("other", |case| Some(case.ends.scheduling.to_string())));

pub const TIMER_SLACK: Knob = Knob::new("timer-slack", "TIME", KnobKind::Duration { min_ns: 1, max_ns: SECOND_NS })
    .help(
        "How late the kernel may wake an end that waits for a time; no effect with fifo and deadline [default: 1ns]",
    )
    .many()
    .print(|repeat| repeat.values("", |case| Some(duration_argument(case.ends.timer_slack_ns?))));

pub const DURATION: Knob =
    Knob::new("duration", "TIME", LASTS).help("How long each round measures, instead of --count");

/// The seed of every random choice. If the user gives no seed, the binary passes a random one.
pub const SEED: Knob = Knob::new("seed", "NUMBER", KnobKind::Whole { min: 0, max: u64::MAX })
    .help("Seed of the order of rounds, of links and of resampling [default: random, and recorded]")
    // Only the random events of a link depend on the seed.
    .print(|repeat| match repeat.seed {
        Some(seed) if repeat.cases.iter().any(Case::is_emulated) => vec![seed.to_string()],
        _ => Vec::new(),
    });

pub const TIMEOUT: Knob = Knob::new("timeout", "TIME", KnobKind::Duration { min_ns: 1, max_ns: MAX_TIMEOUT_NS })
    .help("Time-out of an answer [default: 2s; over a link, if longer, 10 round trips plus a full queue plus 1s]");

pub const TRACE: Knob = Knob::new("trace", "ON_OFF", KnobKind::OnOff)
    .help("Trace each TCP case that may stall, in short rounds after the timed ones: on or off")
    .or(&["on"]);

pub const BOUND: Knob = Knob::new("bound", "TIME", LASTS)
    .help("Show how often a latency is above this bound, with an interval that accounts for clusters");

pub const KEEP_SAMPLES: Knob = Knob::new("keep-samples", "NUMBER", KnobKind::Whole { min: 0, max: 10_000_000 })
    .help("Maximum number of raw samples kept per round; a histogram holds all")
    .or(&["100000"]);

pub const KEEP_LINK_LOG: Knob = Knob::switch(
    "keep-link-log",
    "Keep a log of each round over a link, with a line for each packet; writing it takes CPU time",
);

pub const ALLOW_UNMET_OPTIONS: Knob = Knob::switch(
    "allow-unmet-options",
    "Continue if the kernel sets a socket option to another value than requested",
);

pub const PORT: Knob = Knob::new("port", "NUMBER", KnobKind::Whole { min: 0, max: 65_535 })
    .help("Port to listen on; 0 lets the kernel choose")
    .or(&["0"]);

pub const REPLICATE: Knob = Knob::switch("replicate", "Measure each case twice, as an A/A pair")
    .hidden()
    .print(|repeat| repeat.values("", |case| (case.replicate != 0).then(|| "on".to_owned())));

/// A fault in the server of every case, to check that Hairpin detects it.
pub const INJECTED_FAULT: Knob = Knob::new("injected-fault", "FAULT", KnobKind::InjectedFault)
    .help("Stall the server, for instance sleep=5ms/100 or busy=1300ns")
    .hidden()
    .print(|repeat| repeat.values("", |case| Some(case.injected_fault?.to_string())));

/// A fault in the server of the second case of each A/A pair, to check that comparisons detect it.
pub const FAULT_IN_REPLICATE: Knob = Knob::new("replicate-fault", "FAULT", KnobKind::InjectedFault)
    .help("Stall the server only in the second case of each A/A pair")
    .hidden();

/// What surrounds the transport.
pub const CIRCUMSTANCES: &[Knob] = &[OPTION, LINK, SYSCTL, CPU_IDLE];
pub const RUN: &[Knob] = &[SEED, TIMEOUT, KEEP_SAMPLES, KEEP_LINK_LOG, ALLOW_UNMET_OPTIONS, PORT];
pub const FAULTS: &[Knob] = &[REPLICATE, INJECTED_FAULT, FAULT_IN_REPLICATE];

/// Returns the value of `--option` for the case; `None` if `--option` does not set the options of the case.
pub(crate) fn option_argument(case: &Case) -> Option<String> {
    let flow = case.primary();
    let options = match flow.load {
        // On a shared connection, the options of the load apply.
        _ if flow.connection_use == ConnectionUse::Shared => return None,
        // `--rate` sets the pacing rate.
        Load::Offered { pacing: Pacing::Kernel, .. } => flow.options.clone().without(OptionName::PacingRate),
        _ => flow.options.clone(),
    };
    Some(option_set(&options))
}

pub(crate) fn option_set(options: &Options) -> String {
    if options.is_empty() { NO_OPTIONS.to_owned() } else { options.to_string() }
}

/// Prints `NAME=A,B`, each name once.
fn print_sysctls(repeat: &Repeat) -> Vec<String> {
    let names = names::distinct(repeat.cases.iter().flat_map(|case| case.sysctls.iter().map(|(name, _)| name)));
    let values = |name: &str| repeat.values("", |case| case.sysctls.get(name).map(str::to_owned)).join(",");
    names.into_iter().map(|name| format!("{name}={}", values(name))).collect()
}

/// Prints the rates of an open loop.
pub(crate) fn print_rate(repeat: &Repeat) -> Vec<String> {
    repeat.values("", |case| Some(case.primary().load.rate_per_s()?.to_string()))
}

pub(crate) fn print_warm_up(repeat: &Repeat) -> Vec<String> {
    let argument = |extent| match extent {
        Extent::Count(count) => count.to_string(),
        Extent::DurationNs(duration_ns) => duration_argument(duration_ns),
    };
    repeat.warm_up.map(argument).into_iter().collect()
}

pub(crate) fn refuse_across_hosts(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<(), Refused> {
    if capabilities.far.is_none() {
        return Ok(());
    }
    let why = [
        ("link", "an emulated link has both ends on one host, and the network between two hosts is real"),
        ("sysctl", "kernel settings change on this host only, in a network namespace that does not reach the other"),
        ("port", "the ticket names the port of the server"),
        ("ends", "the ends are processes on two hosts"),
        ("cpu-idle", "only the CPUs of this host can be kept awake"),
    ];
    match why.into_iter().find(|(name, _)| knobs.is_given(name)) {
        Some((name, why)) => Err(Refused::new(
            format!("--{name} and --to cannot be combined: {why}"),
            format!("omit --{name} or --to"),
        )),
        None => Ok(()),
    }
}

/// Returns the requested or default placements.
///
/// # Errors
/// [`Refused`] for a placement that is not possible with this number of hosts.
pub fn placements(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<Placement>, Refused> {
    // With `--cpu`, the first placement uses the given CPUs.
    let (possible, hosts) = match (&capabilities.far, capabilities.given_cpus) {
        (Some(_), _) => (&[Placement::Pinned, Placement::Unpinned][..], "two hosts"),
        (None, Some([client, server])) if client == server => (&[Placement::SameCpu][..], "--cpu"),
        (None, Some(_)) => (&[Placement::CrossCpu, Placement::SameCpu][..], "--cpu"),
        (None, None) => (Placement::ON_ONE_HOST, "one host"),
    };
    let has_own_default = capabilities.far.is_some() || capabilities.given_cpus.is_some();
    if has_own_default && !knobs.is_given("placement") {
        return Ok(vec![possible[0]]);
    }
    if knobs.has_every("placement") {
        return Ok(possible.to_vec());
    }
    let asked: Vec<Placement> = knobs.choices("placement", possible);
    match asked.iter().find(|placement| !possible.contains(placement)) {
        Some(placement) => {
            let words: Vec<&str> = possible.iter().map(|placement| placement.word()).collect();
            Err(Refused::new(
                format!("--placement {placement} does not exist with {hosts}"),
                format!("use {}", words.join(" or ")),
            ))
        }
        None => Ok(asked),
    }
}

/// Returns the names and values of all knobs that have a value, for the saved run. Between two hosts, includes the
/// actual placements, and the server's host instead of a link.
///
/// # Errors
/// [`Refused`] for a placement that is not possible with this number of hosts.
pub fn knobs_applied(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<(String, Vec<String>)>, Refused> {
    let mut pairs = knobs.pairs();
    let far = capabilities.far.as_ref();
    for (name, values) in &mut pairs {
        match (name.as_str(), far) {
            ("placement", _) if far.is_some() || capabilities.given_cpus.is_some() => {
                *values = placements(knobs, capabilities)?.iter().map(|place| place.to_string()).collect();
            }
            ("link", Some(far)) => (*name, *values) = ("path".to_owned(), vec![far.name.clone()]),
            _ => {}
        }
    }
    Ok(pairs)
}

/// Returns the values of the requested kernel settings. Refuses settings that cannot be changed here.
pub(crate) fn sysctls(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<Vec<Sysctls>>, Refused> {
    let settings: Vec<Vec<Sysctls>> = knobs.values("sysctl");
    let mut seen: Vec<&str> = Vec::new();
    for name in settings.iter().filter_map(|values| values.first()).flat_map(Sysctls::iter).map(|(name, _)| name) {
        if seen.contains(&name) {
            let hint = format!("list all values in one flag: --sysctl {name}=A,B");
            return Err(Refused::new(format!("--sysctl {name} is given twice"), hint));
        }
        (capabilities.may_set)(name)?;
        seen.push(name);
    }
    Ok(settings)
}

/// Returns the measured length of a round, if the knob `count` or the knob `duration` sets it.
///
/// # Errors
/// [`Refused`] if both are given.
pub fn extent(knobs: &Knobs, count: &str) -> Result<Option<Extent>, Refused> {
    match (knobs.value(count), knobs.value("duration")) {
        (Some(_), Some(_)) => {
            Err(Refused::new(format!("--{count} and --duration both set the length of a round"), "give one of them"))
        }
        (None, duration_ns) => Ok(duration_ns.map(Extent::DurationNs)),
        (count, None) => Ok(count.map(Extent::Count)),
    }
}

/// Returns the fault to inject into the server of a case with this replicate number.
pub(crate) fn fault(knobs: &Knobs, replicate: u8) -> Option<InjectedFault> {
    let of_replicate = knobs.value("replicate-fault").filter(|_| replicate == 1);
    of_replicate.or(knobs.value("injected-fault"))
}
