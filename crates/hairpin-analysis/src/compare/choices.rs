//! The choices that define a case, to compare two cases that are equal in all choices but one.

use std::collections::{BTreeMap, BTreeSet};

use hairpin_model::flow::FlowRole;
use hairpin_model::names::distinct;
use hairpin_model::quantities::{duration_argument, exact_bytes};
use hairpin_model::{Case, EndSettings, Exchange, Flow, Load, Periodic, Run, Unlike, words};

words! {
    /// The subject of a choice: one field of a case, or one set of options.
    pub(super) enum Subject: "choice" {
        Transport = "transport",
        Options = "options",
        Load = "load",
        Size = "size",
        Rate = "rate",
        Writes = "writes",
        Gap = "gap",
        Pipeline = "pipeline",
        Remedy = "remedy",
        Batch = "batch",
        Observer = "observer",
        Source = "source",
        Arrivals = "arrivals",
        Pacing = "pacing",
        Direction = "direction",
        Connections = "connections",
        Threads = "threads",
        Build = "build",
        Streams = "streams",
        Receivers = "receivers",
        Ends = "ends",
        Waiting = "waiting",
        Placement = "placement",
        Cpus = "CPUs",
        ConnectionUse = "connection of a message",
        Opening = "opening of a connection",
        CpuIdle = "CPU idle state",
        Scheduling = "scheduling",
        TimerSlack = "timer slack",
        LockMemory = "locked memory",
        Period = "period",
        Deadline = "deadline",
        Overrun = "overrun",
        Timing = "timing",
        Link = "link",
        Sysctls = "sysctls",
    }
}

/// Returns every choice of a case by subject; choices of several flows are joined. Excludes parts of the experiment
/// that are not the user's choice: an injected fault, and the replicate number in an A/A pair.
pub(super) fn choices(case: &Case) -> BTreeMap<Subject, String> {
    let Case { flows, ends, path, sysctls, injected_fault: _, replicate: _ } = case;
    let EndSettings { kind, waiting, placement, cpus, cpu_idle, scheduling, timer_slack_ns, lock_memory } = ends;
    let mut choices = BTreeMap::from([
        (Subject::Ends, kind.to_string()),
        (Subject::Waiting, waiting.to_string()),
        (Subject::Placement, placement.to_string()),
        (Subject::CpuIdle, cpu_idle.to_string()),
        (Subject::Scheduling, scheduling.to_string()),
        (Subject::TimerSlack, timer_slack_ns.map(duration_argument).unwrap_or_default()),
        (Subject::LockMemory, if *lock_memory { "yes" } else { "no" }.to_owned()),
        (Subject::Link, path.link.clone()),
        (Subject::Sysctls, sysctls.to_string()),
    ]);
    for flow in flows {
        let Flow {
            id: _,
            role: _,
            transport,
            options,
            load,
            direction,
            streams,
            connections,
            threads,
            build,
            receivers,
            connection_use,
            opening,
            ends: own,
        } = flow;
        let of_flow = [
            (Subject::Transport, transport.clone()),
            (Subject::Options, options.to_string()),
            (Subject::Direction, direction.to_string()),
            (Subject::Streams, streams.to_string()),
            (Subject::Connections, connections.to_string()),
            (Subject::Threads, threads.to_string()),
            (Subject::Build, build.to_string()),
            (Subject::Receivers, receivers.to_string()),
            (Subject::ConnectionUse, connection_use.to_string()),
            (Subject::Opening, opening.map(|opening| opening.to_string()).unwrap_or_default()),
            (Subject::Cpus, own.map_or(*cpus, |own| own.cpus).to_string()),
        ];
        for (about, value) in of_flow.into_iter().chain(load_choices(load)) {
            let before = choices.entry(about).or_default();
            *before = if before.is_empty() { value } else { format!("{before}+{value}") };
        }
    }
    choices
}

fn load_choices(load: &Load) -> Vec<(Subject, String)> {
    let (kind, rate) = match load {
        Load::PingPong { .. } => ("round trip", "closed loop".to_owned()),
        Load::Paced { rate_per_s, .. } => ("round trip", format!("{rate_per_s}/s")),
        Load::Exchange { .. } => ("exchange", "closed loop".to_owned()),
        Load::Messages { .. } => ("messages", "as fast as possible".to_owned()),
        Load::Stream { .. } => ("stream", "as fast as possible".to_owned()),
        Load::Offered { offered_per_s, .. } => ("messages", format!("{offered_per_s}/s")),
        Load::Periodic { periodic, .. } if periodic.only_waits => ("waits", "periodic".to_owned()),
        Load::Periodic { .. } => ("control loop", "periodic".to_owned()),
    };
    let mut choices = vec![(Subject::Load, kind.to_owned()), (Subject::Rate, rate)];
    match load {
        Load::PingPong { size_bytes, reply_size_bytes }
        | Load::Paced { size_bytes, reply_size_bytes, .. }
        | Load::Periodic { size_bytes, reply_size_bytes, .. } => {
            let reply =
                (size_bytes != reply_size_bytes).then(|| format!(", answer {}", exact_bytes(*reply_size_bytes)));
            choices.push((Subject::Size, format!("{}{}", exact_bytes(*size_bytes), reply.unwrap_or_default())));
        }
        Load::Exchange { exchange, reply_size_bytes } => {
            let Exchange { writes, gap_ns, pipeline, reply_writes, remedy } = exchange;
            let reply = match reply_writes {
                Some(writes) => format!("answer {} B", writes.in_words()),
                None => format!("answer {}", exact_bytes(*reply_size_bytes)),
            };
            choices.extend([
                (Subject::Writes, writes.to_string()),
                (Subject::Gap, duration_argument(*gap_ns)),
                (Subject::Pipeline, pipeline.to_string()),
                (Subject::Remedy, remedy.to_string()),
                (Subject::Size, reply),
            ]);
        }
        Load::Messages { size_bytes, batch, observer } => {
            choices.extend([
                (Subject::Size, exact_bytes(*size_bytes)),
                (Subject::Batch, batch.to_string()),
                (Subject::Observer, observer.to_string()),
            ]);
        }
        Load::Stream { write_size_bytes, source } => {
            choices.extend([(Subject::Size, exact_bytes(*write_size_bytes)), (Subject::Source, source.to_string())]);
        }
        Load::Offered { offered_per_s: _, size_bytes, arrivals, pacing } => {
            choices.extend([
                (Subject::Size, exact_bytes(*size_bytes)),
                (Subject::Batch, "1".to_owned()),
                (Subject::Arrivals, arrivals.to_string()),
                (Subject::Pacing, pacing.to_string()),
            ]);
        }
    }
    if let Some(Periodic { period_ns, deadline_ns, overrun, timing, only_waits: _ }) = load.periodic() {
        choices.extend([
            (Subject::Period, duration_argument(*period_ns)),
            (Subject::Deadline, duration_argument(*deadline_ns)),
            (Subject::Overrun, overrun.to_string()),
            (Subject::Timing, timing.to_string()),
        ]);
    }
    choices
}

/// Returns the difference between two cases in the choice `about`, for instance `option nodelay`, `on`, `off`.
pub(super) fn difference(about: Subject, baseline: &Case, candidate: &Case) -> Unlike {
    let both = [baseline, candidate];
    let [one, other] = match about {
        Subject::Options => return options_difference(both),
        Subject::Sysctls => return sets_difference("sysctl", both.map(|case| pairs(case.sysctls.iter()))),
        Subject::Link => link_names(both),
        _ => both.map(|case| choices(case).remove(&about).unwrap_or_default()),
    };
    Unlike { what: about.word().to_owned(), baseline: one, candidate: other }
}

fn options_difference(both: [&Case; 2]) -> Unlike {
    let [one, other] = both;
    let same = |flow: &Flow| other.flows.iter().find(|other| other.id == flow.id);
    let mut pairs_of_flows = one.flows.iter().filter_map(|flow| Some((flow, same(flow)?)));
    let differs = pairs_of_flows.find(|(flow, other)| flow.options != other.options);
    let (one, other) = differs.unwrap_or((one.primary(), other.primary()));
    let whose = if one.role == FlowRole::Load { "load option" } else { "option" };
    sets_difference(whose, [one, other].map(|flow| pairs(flow.options.iter())))
}

type Pairs = BTreeMap<String, String>;

fn pairs<'a>(named: impl Iterator<Item = (impl ToString, &'a str)>) -> Pairs {
    named.map(|(name, value)| (name.to_string(), value.to_owned())).collect()
}

/// Returns the difference of two sets of named values: the only name in which they differ, or all differing values.
fn sets_difference(word: &str, sets: [Pairs; 2]) -> Unlike {
    let names: BTreeSet<&String> = sets.iter().flat_map(BTreeMap::keys).collect();
    let differing: Vec<&String> = names.into_iter().filter(|name| sets[0].get(*name) != sets[1].get(*name)).collect();
    if let [name] = differing[..] {
        let [baseline, candidate] =
            sets.each_ref().map(|set| set.get(name).cloned().unwrap_or_else(|| "default".to_owned()));
        return Unlike { what: format!("{word} {name}"), baseline, candidate };
    }
    let told = |set: &Pairs| {
        let own = differing.iter().filter_map(|name| Some(format!("{name}={}", set.get(*name)?)));
        let own = own.collect::<Vec<_>>().join(" ");
        if own.is_empty() { "default".to_owned() } else { own }
    };
    let [baseline, candidate] = sets.each_ref().map(told);
    Unlike { what: format!("{word}s"), baseline, candidate }
}

fn link_names(both: [&Case; 2]) -> [String; 2] {
    let names = both.map(|case| case.path.name.clone().unwrap_or_else(|| case.path.link.clone()));
    if names[0] == names[1] { both.map(|case| case.path.link.clone()) } else { names }
}

pub(super) fn cases<'r>(runs: &[&'r Run]) -> Vec<&'r Case> {
    runs.iter().flat_map(|run| run.cases.iter().map(|row| &row.case)).collect()
}

/// Returns the choices in which two sides without common cases differ, with the values of each side.
pub fn choices_that_differ(baselines: &[&Run], candidates: &[&Run]) -> Vec<Unlike> {
    let sides = [baselines, candidates].map(cases);
    let values = sides.each_ref().map(|cases| {
        let mut values: BTreeMap<Subject, Vec<String>> = BTreeMap::new();
        for (about, value) in distinct(cases.iter().flat_map(|case| choices(case))) {
            values.entry(about).or_default().push(value);
        }
        values
    });
    let set = |values: Option<&Vec<String>>| values.into_iter().flatten().cloned().collect::<BTreeSet<String>>();
    let abouts: BTreeSet<Subject> = values.iter().flat_map(BTreeMap::keys).copied().collect();
    let differing = abouts.into_iter().filter(|about| set(values[0].get(about)) != set(values[1].get(about)));
    let all = |about: Subject, side: &BTreeMap<Subject, Vec<String>>| {
        let shown = |value: &String| if value.is_empty() { "default".to_owned() } else { value.clone() };
        let values = side.get(&about).map(|values| values.iter().map(shown).collect::<Vec<_>>());
        values.map_or_else(|| "none".to_owned(), |values| values.join(" and "))
    };
    let told = |about: Subject| match sides.each_ref().map(Vec::as_slice) {
        // One value on each side allows a shorter form.
        [[one, ..], [other, ..]] if values.iter().all(|side| side.get(&about).is_some_and(|all| all.len() == 1)) => {
            difference(about, one, other)
        }
        _ => Unlike {
            what: about.word().to_owned(),
            baseline: all(about, &values[0]),
            candidate: all(about, &values[1]),
        },
    };
    differing.map(told).collect()
}

#[cfg(test)]
mod tests {
    use hairpin_model::options::Options;

    use super::*;

    #[test]
    fn flows_are_compared_by_identity_in_any_order() {
        let flow = |id: &str, options: &str| Flow {
            id: id.into(),
            options: Options::parse(options).unwrap(),
            ..Flow::ping_pong("tcp")
        };
        let of = |flows: [Flow; 2]| Case::ping_pong("tcp").with(|case| case.flows = flows.to_vec());
        let one = of([flow("a", "nodelay=on"), flow("b", "sndbuf=4096")]);
        let other = of([flow("b", "sndbuf=8192"), flow("a", "nodelay=on")]);
        let unlike = options_difference([&one, &other]);
        assert_eq!([&*unlike.what, &*unlike.baseline, &*unlike.candidate], ["option sndbuf", "4096", "8192"]);
    }
}
