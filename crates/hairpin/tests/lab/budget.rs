//! `hairpin budget` on a machine of its own: the injected cause is the largest part and is named first.

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

fn first_finding(run: &Value) -> &str {
    list(&run["findings"]).first().map_or("", |finding| text(&finding["code"]))
}

#[test]
fn work_of_200_us_is_named_first() {
    let place = Place::new();
    for (number, plan) in [
        "budget --transport tcp --placement same-cpu",
        "budget --transport udp --placement cross-cpu",
        "budget --transport tcp --placement cross-cpu --waiting spin",
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("--injected-fault busy=200us --count 2000 --rounds 6 --quiet --out run-{number}");
        let run = place.json((plan, &out));
        assert_eq!(largest(median(&run)), ("server", "work"), "{run}");
        assert_eq!(first_finding(&run), "server-work", "{plan}: {}", run["findings"]);
        assert!(text(&run["answer"]["headline"]).contains("work of the server"), "{}", run["answer"]);
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
    let codes = ["run-queue", "server-work", "stack-dominated", "wake-up-dominated"];
    assert!(!codes.contains(&first_finding(&run)), "{}", run["findings"]);
}

#[test]
fn ends_that_busy_poll_spend_their_time_in_the_stack() {
    let place = Place::new();
    let plan =
        "budget --transport tcp --placement cross-cpu --waiting spin --count 8000 --rounds 6 --quiet --out run";
    let run = place.json(plan);
    assert_eq!(first_finding(&run), "stack-dominated", "{}", run["findings"]);
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
    let quiet = place.json((plan, "--out quiet"));
    let ends = list(&rounds(&place.path("quiet"))[0]["outcome"]["ends"]).to_vec();
    let server = ends.iter().find(|end| end["role"] == "server").expect("it has a server");
    let Some(_neighbour) = BusyLoop::on(&server["pinned_cpu"].to_string()) else {
        skip!("taskset cannot be started")
    };
    let busy = place.json((plan, "--out busy"));
    assert_eq!(largest(&budget(&busy)["slowest"]), ("server", "run-queue"), "{}", budget(&busy)["slowest"]);
    assert_eq!(first_finding(&busy), "run-queue", "{}", busy["findings"]);
    assert_ne!(first_finding(&quiet), "run-queue", "{}", quiet["findings"]);
}
