//! Ways to wait: what their ends need, and the chart of latency against CPU time.

use hairpin_model::{Case, Figure, Plan, Run, Waiting};
use hairpin_report::announcement;

use crate::html::sound;
use crate::support;

#[test]
fn what_many_connections_and_threads_need_is_announced() {
    let case = |waiting, connections| {
        Case::ping_pong("tcp").with(|case| {
            case.ends.waiting = waiting;
            case.primary_mut().connections = connections;
        })
    };
    let plan = Plan { rounds: 8, seconds: 2.5, ..Plan::default() };
    let said = |cases: &[Case]| announcement(&plan, cases).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(said(&[case(Waiting::Epoll, 99), case(Waiting::Block, 1)]), [""; 0]);
    let needs = "Each end needs up to 1064 descriptors, and about 5.86 MiB for its connections";
    let epoll = case(Waiting::Epoll, 1000);
    assert_eq!(said(&[epoll.clone(), case(Waiting::Block, 1)]), [needs]);
    let threads = [case(Waiting::ThreadPerConnection, 1000), case(Waiting::AsyncThreads, 1), epoll];
    let needs = "Each end needs up to 2064 descriptors, and about 21.5 MiB for its connections";
    assert_eq!(said(&threads), [needs, "Threads of an end: 1001 with thread-per-connection, 3 with async-threads"]);
    assert_eq!(said(&threads[1..2]), ["Threads of an end: 3 with async-threads"]);
}

#[test]
fn ways_to_wait_are_drawn_by_latency_and_cpu_time() {
    let mut run = support::survey(1);
    let blocking = support::find(&run.cases, "tcp block cross-cpu").clone();
    let row = |waiting, connections, p50_ns: f64, cpu_s: f64| {
        let mut row = blocking.clone();
        row.case.ends.waiting = waiting;
        row.case.primary_mut().connections = connections;
        row.id = row.case.id();
        row.primary_mut().latency_ns.p50 = Some(Figure::new(p50_ns, p50_ns * 0.9, p50_ns * 1.1));
        for end in &mut row.ends {
            end.cpu_seconds_per_message = Some(Figure::new(cpu_s, cpu_s * 0.9, cpu_s * 1.1));
        }
        row
    };
    let section = |run: &Run| {
        let page = sound(run);
        let (_, rest) = page.split_once("<section id=\"waiting\">")?;
        Some(rest.split_once("</section>").expect("a section ends").0.to_owned())
    };
    let [block, spin] = [row(Waiting::Block, 1, 70e3, 50e-6), row(Waiting::Spin, 1, 8e3, 9e-6)];
    run.cases = vec![block.clone(), spin.clone()];
    assert_eq!(section(&run), None, "basic ways to wait have no picture");
    let epoll = [row(Waiting::Epoll, 100, 80e3, 60e-6), row(Waiting::Epoll, 1, 75e3, 55e-6)];
    run.cases = [vec![block, spin], epoll.to_vec()].concat();
    let drawn = section(&run).expect("a picture");
    // All four, and once more the three that sleep, each with a bar for each interval.
    assert_eq!(drawn.matches("<title>").count(), 7);
    assert_eq!(drawn.matches("class=\"bar-of\"").count(), 14);
    let many = "epoll, connections: 100; round trip p50 80.0\u{a0}us";
    let text = drawn.replace('\u{b5}', "u");
    assert!(text.contains(many) && text.contains("CPU time 120\u{a0}us"), "{text}");
    assert_eq!(drawn.matches(">100</text>").count(), 2, "the number of connections is shown next to the mark");
}
