//! Lists of all recorded facts about the plan and the machine.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use hairpin_model::trace::End;
use hairpin_model::{Environment, Run, quantities};

use crate::hosts;

pub(super) fn of(run: &Run) -> Vec<Value> {
    let map = |facts: &BTreeMap<String, String>| facts.clone().into_iter().collect::<Vec<_>>();
    let interface = |environment: &Environment| environment.interface.as_ref().map_or_else(Vec::new, hosts::rows);
    let server = run.host(End::Server);
    let settings = |environment: &Environment| map(&environment.settings);
    let sections = [
        ("Plan", plan(run)),
        ("Machine", machine(run.environment())),
        ("Network interface", interface(run.environment())),
        ("Machine of the server", server.map_or_else(Vec::new, machine)),
        ("Network interface of the server", server.map_or_else(Vec::new, interface)),
        ("Kernel settings of the server", server.map_or_else(Vec::new, settings)),
        ("Clock", clock(run)),
        ("Kernel settings", settings(run.environment())),
        ("Loopback device", map(&run.environment().loopback)),
        ("Mitigations in force", map(&run.environment().mitigations)),
    ];
    let with_rows = sections.into_iter().filter(|(_, rows)| !rows.is_empty());
    with_rows.map(|(title, rows)| context! { title, rows }).collect()
}

fn plan(run: &Run) -> Vec<(String, String)> {
    let mut rows = vec![
        pair("experiment", &run.plan.experiment),
        pair("question", &run.plan.question),
        pair("rounds ordered", quantities::count(run.plan.rounds_ordered)),
    ];
    rows.extend(run.plan.knobs.iter().map(|(name, values)| pair(name, values.join(", "))));
    rows
}

fn machine(machine: &Environment) -> Vec<(String, String)> {
    let numbers = |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let load = |load: &[f64]| load.iter().map(|one| format!("{one:.2}")).collect::<Vec<_>>().join(", ");
    let yes_no = |fact: Option<bool>| fact.map_or("unknown", |fact| if fact { "yes" } else { "no" });
    let bytes = |bytes: u64| quantities::bytes(bytes as f64);
    let memory = bytes(machine.memory_bytes);
    vec![
        pair("kernel", &machine.kernel),
        pair("architecture", &machine.architecture),
        pair("CPU", &machine.cpu_model),
        pair("CPUs online", machine.cpus_online),
        pair("CPUs allowed", numbers(&machine.cpus_allowed)),
        pair("CPUs used by the ends", numbers(&machine.cpus_used)),
        pair("CPUs share a core", yes_no(machine.cpus_share_core)),
        pair(
            "CPU quota of the control group",
            machine.cpu_quota.map_or("none".to_owned(), |cpus| format!("{cpus} CPUs")),
        ),
        pair("scheduling", machine.scheduling.as_deref().unwrap_or("SCHED_OTHER, nice 0")),
        pair("CPU frequency limit", machine.frequency_limit.map_or("none".to_owned(), quantities::share)),
        pair("memory", memory),
        pair("memory limit of the control group", machine.memory_limit_bytes.map_or("none".to_owned(), bytes)),
        pair("container", machine.container.as_deref().unwrap_or("none")),
        pair("hypervisor", machine.hypervisor.as_deref().unwrap_or("unknown")),
        pair("frequency governor", machine.governor.as_deref().unwrap_or("none")),
        pair("idle states, shallowest first", machine.idle_states.join(", ")),
        pair("load averages before (1, 5, 15 min)", load(&machine.load)),
        pair("load averages after", load(&machine.load_after)),
        pair("run as root", yes_no(machine.root)),
    ]
}

fn clock(run: &Run) -> Vec<(String, String)> {
    let clock = &run.environment().clock;
    vec![
        pair("source", &clock.source),
        pair("kernel clock source", &clock.kernel_source),
        pair("resolution", format!("{} ns", clock.resolution_ns)),
        pair("median cost of a clock read", quantities::duration(clock.read_cost_ns)),
        pair("Hairpin's recorder, per message", quantities::duration(clock.recorder_cost_ns.unwrap_or(f64::NAN))),
        pair("nanoseconds per tick", format!("{:.6}", clock.ns_per_tick)),
        pair("bound on the calibration error", format!("{:.1} ppm", clock.calibration_error_ppm)),
    ]
}

/// Returns a name and its value; an empty value becomes a dash.
fn pair(name: &str, value: impl ToString) -> (String, String) {
    let value = value.to_string();
    (name.to_owned(), if value.is_empty() { quantities::DASH.to_owned() } else { value })
}
