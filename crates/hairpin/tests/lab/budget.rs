//! `hairpin budget` with injected causes: each is in its own part.

use std::process::{Command, Stdio};

use hairpin_testing::{or_skip, skip};
use serde_json::Value;

use crate::support::{Place, can_link, list, rounds, text};

/// The largest part of a band: its end and its name.
fn largest(band: &Value) -> (&str, &str) {
    let mean = |part: &&Value| part["mean_ns"].as_f64().expect("a mean");
    let largest = list(&band["parts"]).iter().max_by(|one, other| mean(one).total_cmp(&mean(other)));
    let largest = largest.unwrap_or_else(|| panic!("too few samples: {band}"));
    (largest["end"].as_str().unwrap_or("both"), text(&largest["name"]))
}

fn budget(run: &Value) -> &Value {
    &list(&run["cases"])[0]["budget"]
}

fn median(run: &Value) -> &Value {
    &list(&budget(run)["bands"])[0]
}

fn codes(run: &Value) -> Vec<&str> {
    list(&run["findings"]).iter().map(|finding| text(&finding["code"])).collect()
}

/// The mean of a part of a band at an end, in ns; `None` if the band has no such part.
fn mean_ns(band: &Value, end: &str, name: &str) -> Option<f64> {
    let part = list(&band["parts"]).iter().find(|part| part["end"] == end && part["name"] == name)?;
    part["mean_ns"].as_f64()
}

/// Other tests keep the CPUs busy meanwhile, so waits for a CPU may be larger than the work.
#[test]
fn work_of_200_us_is_the_work_of_the_server() {
    let place = Place::new();
    for (number, plan) in [
        "budget --transport tcp --placement same-cpu",
        "budget --transport udp --placement cross-cpu",
        "budget --transport tcp --placement cross-cpu --waiting spin",
    ]
    .into_iter()
    .enumerate()
    {
        let with_work = format!("--injected-fault busy=200us --count 2000 --rounds 6 --quiet --out run-{number}");
        let run = place.json((plan, &with_work));
        let work_ns = mean_ns(median(&run), "server", "work").expect("it has samples");
        assert!(work_ns >= 200_000.0, "{plan}: {work_ns} ns");
        let without = place.json((plan, &format!("--count 2000 --rounds 6 --quiet --out without-{number}")));
        let own_ns = mean_ns(median(&without), "server", "work").expect("it has samples");
        assert!(own_ns < work_ns / 2.0, "{plan}: {own_ns} ns without the work");
        assert!(!codes(&without).contains(&"server-work"), "{plan}: {}", without["findings"]);
    }
}

#[test]
fn a_link_of_4_ms_is_the_network() {
    let place = Place::new();
    or_skip!(can_link());
    let run = place.json(
        "budget --transport udp --placement same-cpu --link delay=4ms --count 240 --rounds 10 --quiet --out run",
    );
    assert_eq!(largest(median(&run)).1, "network", "{run}");
    assert!(!codes(&run).contains(&"stack-dominated"), "{}", run["findings"]);
}

#[test]
fn ends_that_busy_poll_have_no_wake_up() {
    let place = Place::new();
    let plan =
        "budget --transport tcp --placement cross-cpu --waiting spin --count 8000 --rounds 6 --quiet --out run";
    let run = place.json(plan);
    let names: Vec<&str> = list(&median(&run)["parts"]).iter().map(|part| text(&part["name"])).collect();
    assert!(names.contains(&"send-stack") && !names.contains(&"wake-up"), "{names:?}");
    assert!(!codes(&run).contains(&"wake-up-dominated"), "{}", run["findings"]);
}

/// A loop that keeps a CPU busy until it is dropped.
struct BusyLoop(std::process::Child);

impl BusyLoop {
    fn on(cpu: &str) -> Option<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", cpu, "sh", "-c", "while :; do :; done"]).stdout(Stdio::null());
        command.spawn().ok().map(Self)
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_server_behind_a_busy_neighbour_waits_for_its_cpu() {
    let place = Place::new();
    let plan = "budget --transport udp --placement cross-cpu --count 8000 --rounds 6 --quiet";
    place.json((plan, "--out quiet"));
    let ends = list(&rounds(&place.path("quiet"))[0]["outcome"]["ends"]).to_vec();
    let server = ends.iter().find(|end| end["role"] == "server").expect("it has a server");
    let Some(_neighbour) = BusyLoop::on(&server["pinned_cpu"].to_string()) else {
        skip!("taskset cannot be started")
    };
    let busy = place.json((plan, "--out busy"));
    assert_eq!(largest(&budget(&busy)["slowest"]).1, "run-queue", "{}", budget(&busy)["slowest"]);
    assert!(codes(&busy).contains(&"run-queue"), "{}", busy["findings"]);
}
