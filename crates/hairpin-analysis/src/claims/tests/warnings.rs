//! What the runs behind a claim warn of.

use super::*;

fn finding(code: &str, about: &str, severity: &str, cases: &[&str]) -> Json {
    json!({
        "code": code, "about": about, "severity": severity, "cases": cases, "summary": "", "evidence": [], "advice": "",
        "counter_experiment": null, "share": 0
    })
}

#[test]
fn a_claim_has_the_warnings_about_its_cases_and_their_whole_runs() {
    let mut run = run();
    let id = |run: &Run, transport: &str| {
        let of = |case: &&hairpin_model::CaseSummary| case.case.primary().transport == transport;
        run.cases.iter().find(of).unwrap().id.clone()
    };
    let [tcp, udp] = [id(&run, "tcp"), id(&run, "udp")];
    let findings = [
        finding("drift", "run", "warning", &[&tcp]),
        finding("unexplained-loss", "run", "warning", &[&udp]),
        finding("noisy-machine", "run", "warning", &[]),
        finding("machine-states", "run", "note", &[]),
        finding("congestion-control", "cause", "warning", &[&tcp]),
        finding("wake-up-dominated", "cause", "warning", &[&tcp]),
    ];
    run.findings = findings.map(|finding| serde_json::from_value(finding).unwrap()).to_vec();
    let published = json!({"value": 1, "unit": "ms"});
    let rule = |of: Json| json!({"kind": "at-most", "of": of});
    let warnings = |rule: &Json| judge_on(&claim(&published, rule), &run).warnings;
    assert_eq!(warnings(&rule(p50("tcp"))), ["drift", "noisy-machine", "congestion-control"]);
    assert_eq!(warnings(&rule(p50("udp"))), ["unexplained-loss", "noisy-machine"]);
    assert_eq!(warnings(&rule(p50("pipe"))), ["noisy-machine"]);
    let both = rule(json!({"figure": "p50", "case": case("udp"), "against": case("tcp")}));
    assert_eq!(warnings(&both), ["unexplained-loss", "noisy-machine", "drift", "congestion-control"]);
    assert_eq!(warnings(&rule(p50("tcp6"))), [""; 0], "a claim without cases");
    assert_eq!(listed(&claim(&published, &both), &text()).warnings, [""; 0]);
}
