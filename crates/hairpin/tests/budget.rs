//! `hairpin budget` on real rounds: which part is named, that parts sum to the round trip, and what is missing where.

use hairpin_testing::or_skip;
use serde_json::Value;

use crate::support::served::Served;
use crate::support::{Place, can_link, edit_json, list, number, rounds, text};

/// Enough sampled round trips for the bands p50 and p90-p99.
const SHORT: &str = "--count 2000 --rounds 4 --quiet --out run";

/// The budget of the only case.
fn budget(run: &Value) -> &Value {
    let cases = list(&run["cases"]);
    assert_eq!(cases.len(), 1, "{cases:?}");
    &cases[0]["budget"]
}

/// Whether the kernel stamps messages here, which qemu-user does not.
fn is_stamped(budget: &Value) -> Result<(), String> {
    match budget["missing"].as_array().and_then(|all| all.iter().find(|one| one["why"] == "refused")) {
        Some(refused) => Err(format!("the kernel does not stamp messages: {refused}")),
        None => Ok(()),
    }
}

/// The parts of a band as (end, name, mean in ns), which must sum to the round trip.
fn parts(band: &Value) -> Vec<(String, String, f64)> {
    let parts: Vec<(String, String, f64)> = list(&band["parts"])
        .iter()
        .map(|part| {
            let end = part["end"].as_str().unwrap_or("both").to_owned();
            (end, text(&part["name"]).to_owned(), part["mean_ns"].as_f64().expect("a mean"))
        })
        .collect();
    let (sum, whole) = (parts.iter().map(|(_, _, ns)| ns).sum::<f64>(), band["round_trip_ns"].as_f64());
    let whole = whole.expect("enough samples");
    assert!((sum - whole).abs() <= 1e-6 * whole, "{sum} of {whole}: {band}");
    parts
}

/// The end and the name of the largest part of all round trips.
fn largest(run: &Value) -> (String, String) {
    let bands = list(&budget(run)["bands"]);
    let names: Vec<&str> = bands.iter().map(|band| text(&band["band"])).collect();
    assert_eq!(names, ["p50", "p90-p99", "p99-p99.9", "above p99.9"]);
    let largest =
        parts(&budget(run)["all"]).into_iter().max_by(|one, other| one.2.total_cmp(&other.2)).expect("parts");
    (largest.0, largest.1)
}

fn of(end: &str, name: &str) -> (String, String) {
    (end.to_owned(), name.to_owned())
}

#[test]
fn injected_work_of_the_server_is_its_largest_part() {
    let place = Place::new();
    for (number, transport) in ["tcp", "udp", "unix-stream"].into_iter().enumerate() {
        // Longer than a message waits for a busy CPU; 30 round trips are sampled.
        let plan = format!("budget --transport {transport} --placement same-cpu --injected-fault busy=10ms");
        let out = format!("--count 160 --warmup 0 --rounds 3 --quiet --out run-{number}");
        let run = place.json((&plan, &out));
        assert_eq!(largest(&run), of("server", "work"), "{run}");
        let codes: Vec<&str> = list(&run["findings"]).iter().map(|finding| text(&finding["code"])).collect();
        assert!(codes.contains(&"server-work"), "{codes:?}");
    }
}

#[test]
fn a_long_link_is_the_largest_part_in_both_directions() {
    let place = Place::new();
    or_skip!(can_link());
    let plan =
        "budget --transport tcp --placement same-cpu --link delay=4ms --count 160 --rounds 4 --quiet --out run";
    let run = place.json(plan);
    or_skip!(is_stamped(budget(&run)));
    let (_, name) = largest(&run);
    assert_eq!(name, "network", "{run}");
    let of_network: f64 =
        parts(&budget(&run)["all"]).iter().filter(|(_, name, _)| name == "network").map(|(_, _, ns)| ns).sum();
    assert!(of_network >= 8e6, "no packet is faster than its link: {of_network}");
}

#[test]
fn every_point_of_a_stamped_round_is_saved_and_the_report_computes_the_same_again() {
    let place = Place::new();
    let run = place.json(("budget --transport tcp,udp --placement same-cpu", SHORT));
    let stamped: Vec<Value> =
        rounds(&place.path("run")).into_iter().filter(|round| round["order"]["purpose"] == "stamped").collect();
    assert_eq!(stamped.len(), 8);
    for round in &stamped {
        let file = place.path("run").join(text(&round["outcome"]["budget_file"]));
        let saved: Value = serde_json::from_slice(&std::fs::read(file).expect("it was saved")).expect("it is JSON");
        let trips = list(&saved["trips"]);
        assert_eq!(trips.len(), 125, "one of 16 of 2000 messages");
        for trip in trips {
            assert_eq!(number(&trip["sequence"]) % 16, 0);
            assert_eq!(trip["client"][0], 0, "times count from the send call");
            assert!(list(&trip["server"]).len() == 9 && trip["server"][6].is_i64(), "{trip}");
        }
    }
    for case in list(&run["cases"]) {
        let cost = &case["budget"]["cost"];
        assert!(cost["stamped"]["value"].is_number() && cost["others"]["value"].is_number(), "{cost}");
        if is_stamped(&case["budget"]).is_ok() {
            let names: Vec<&str> =
                list(&case["budget"]["all"]["parts"]).iter().map(|part| text(&part["name"])).collect();
            assert!(
                ["send-stack", "send-queue", "network", "work"].iter().all(|part| names.contains(part)),
                "{names:?}"
            );
        }
    }
    // As after a crash: the budget is computed from the saved points.
    edit_json(&place.path("run/run.json"), |run| run["state"] = "running".into());
    let again = place.json("report run");
    let budgets = |run: &Value| list(&run["cases"]).iter().map(|case| case["budget"].clone()).collect::<Vec<_>>();
    assert_eq!(budgets(&again), budgets(&run));
    let page = place.hairpin("report run --html=page.html").with_code(0);
    let html = std::fs::read_to_string(place.path("page.html")).expect("it was written");
    assert!(html.contains("id=\"budget\"") && html.contains("Beside the typical values"), "{page:?}");
}

#[test]
fn transports_without_stamps_have_the_parts_that_exist() {
    let place = Place::new();
    let plan = "budget --transport unix-stream,pipe,shm,memory --placement same-cpu --count 2000 --rounds 3 --quiet --out run";
    let run = place.json(plan);
    for case in list(&run["cases"]) {
        let budget = &case["budget"];
        let parts = parts(&budget["all"]);
        let ends: Vec<(&str, bool)> = parts.iter().map(|(end, name, _)| (end.as_str(), name == "work")).collect();
        assert_eq!(ends, [("server", false), ("server", true), ("client", false)], "{case}");
        let refused = list(&budget["missing"]).iter().filter(|one| one["why"] == "refused").count();
        assert_eq!(refused, 2, "{budget}");
    }
}

#[test]
fn between_two_hosts_only_the_network_is_not_separated() {
    let place = Place::new();
    let _served = Served::new(&place);
    let run = place.json(("budget --transport tcp,udp --to @ticket", SHORT));
    for case in list(&run["cases"]) {
        or_skip!(is_stamped(&case["budget"]));
        let parts = parts(&case["budget"]["all"]);
        let both: Vec<&str> = parts.iter().filter(|part| part.0 == "both").map(|part| part.1.as_str()).collect();
        assert!(both.contains(&"network"), "{parts:?}");
        assert!(parts.iter().any(|(end, name, _)| end == "server" && name == "work"), "{parts:?}");
    }
}
