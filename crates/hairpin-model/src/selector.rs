//! Selects the case of a run that a claim is about.

use serde::Deserialize;

use crate::case::{Case, CpuIdle, EndKind, Placement, Scheduling, Waiting, WhichCpus};
use crate::exchange::{Remedy, Writes};
use crate::flow::{Build, ConnectionUse, Direction, LoadWays, Observer, Opening, Source};
use crate::options::Options;
use crate::periodic::Timing;

/// Selects a case of a run: exactly one case must match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selector {
    pub transport: Option<String>,
    pub waiting: Option<Waiting>,
    pub placement: Option<Placement>,
    pub cpus: Option<WhichCpus>,
    pub ends: Option<EndKind>,
    /// Name of a built-in profile, or the line of a link.
    pub link: Option<String>,
    /// Messages due per second.
    pub rate_per_s: Option<f64>,
    /// Bytes of each message or write, or of all writes of a request.
    pub size_bytes: Option<u64>,
    pub batch: Option<u64>,
    pub observer: Option<Observer>,
    pub source: Option<Source>,
    pub build: Option<Build>,
    pub direction: Option<Direction>,
    pub connections: Option<u32>,
    pub connection_use: Option<ConnectionUse>,
    pub opening: Option<Opening>,
    /// Directions of the load on a probe.
    pub load: Option<LoadWays>,
    /// Selector that at least one load of the case must match, as if the load were a case of its own.
    pub of_load: Option<Box<Selector>>,
    /// The exact set of requested options.
    pub options: Option<Options>,
    pub cpu_idle: Option<CpuIdle>,
    pub scheduling: Option<Scheduling>,
    pub timer_slack_ns: Option<u64>,
    /// How a control loop waits.
    pub timing: Option<Timing>,
    pub remedy: Option<Remedy>,
    pub writes: Option<Writes>,
    pub gap_ns: Option<u64>,
    /// Requests in flight.
    pub pipeline: Option<u64>,
}

impl Selector {
    pub fn chooses(&self, case: &Case) -> bool {
        let exchange = case.primary().load.exchange();
        fits(self.transport.as_ref(), Some(&case.primary().transport))
            && fits(self.waiting.as_ref(), Some(&case.ends.waiting))
            && fits(self.placement.as_ref(), Some(&case.ends.placement))
            && fits(self.cpus.as_ref(), Some(&case.ends.cpus))
            && fits(self.ends.as_ref(), Some(&case.ends.kind))
            && self.link.as_ref().is_none_or(|link| *link == case.path.link || case.path.name.as_ref() == Some(link))
            && fits(self.rate_per_s.as_ref(), case.primary().load.rate_per_s().as_ref())
            && fits(self.size_bytes.as_ref(), Some(&case.primary().load.size_bytes()))
            && fits(self.batch.as_ref(), Some(&case.primary().load.batch()))
            && fits(self.observer.as_ref(), Some(&case.primary().load.observer()))
            && fits(self.source.as_ref(), case.primary().load.source().as_ref())
            && fits(self.build.as_ref(), Some(&case.primary().build))
            && fits(self.direction.as_ref(), Some(&case.primary().direction))
            && fits(self.connections.as_ref(), Some(&case.primary().connections))
            && fits(self.connection_use.as_ref(), Some(&case.primary().connection_use))
            && fits(self.opening.as_ref(), case.primary().opening.as_ref())
            && fits(self.load.as_ref(), case.load_ways().as_ref())
            && self
                .of_load
                .as_ref()
                .is_none_or(|asked| case.loads().into_iter().any(|load| asked.chooses(&case.alone(load))))
            && fits(self.options.as_ref(), Some(&case.primary().options))
            && fits(self.cpu_idle.as_ref(), Some(&case.ends.cpu_idle))
            && fits(self.scheduling.as_ref(), Some(&case.ends.scheduling))
            && fits(self.timer_slack_ns.as_ref(), case.ends.timer_slack_ns.as_ref())
            && fits(self.timing.as_ref(), case.primary().load.periodic().map(|periodic| &periodic.timing))
            && fits(self.remedy.as_ref(), exchange.map(|exchange| &exchange.remedy))
            && fits(self.writes.as_ref(), exchange.map(|exchange| &exchange.writes))
            && fits(self.gap_ns.as_ref(), exchange.map(|exchange| &exchange.gap_ns))
            && fits(self.pipeline.as_ref(), exchange.map(|exchange| &exchange.pipeline))
    }
}

fn fits<T: PartialEq>(asked: Option<&T>, is: Option<&T>) -> bool {
    asked.is_none() || asked == is
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::end_settings::EndSettings;
    use crate::flow::{Flow, FlowRole, Load};
    use crate::periodic::Periodic;

    fn choose(written: serde_json::Value) -> Selector {
        serde_json::from_value(written).unwrap()
    }

    #[test]
    fn a_selector_compares_only_the_given_fields() {
        let selector = choose(json!({"transport": "tcp", "options": {"nodelay": "on"}}));
        let plain = Case::ping_pong("tcp");
        let options = Options::parse("nodelay=on").unwrap();
        assert!(!selector.chooses(&plain), "the case has no options");
        assert!(selector.chooses(&plain.clone().with(|changed| {
            changed.primary_mut().options = options.clone();
            changed.ends.waiting = Waiting::Spin;
        })));
        assert!(!selector.chooses(&Case::ping_pong("tcp6").with(|changed| changed.primary_mut().options = options)));
        assert!(!choose(json!({"remedy": "cork"})).chooses(&plain), "a ping-pong has no remedy");
    }

    #[test]
    fn a_link_is_selected_by_name_or_line_and_a_rate_by_number() {
        let link = Case::ping_pong("udp").with(|changed| {
            changed.path.link = "delay=2ms".to_owned();
            changed.path.name = Some("bridged-vm".to_owned());
            changed.primary_mut().load = changed.primary().load.paced(467.0);
        });
        for meant in ["bridged-vm", "delay=2ms"] {
            assert!(choose(json!({"link": meant})).chooses(&link), "{meant}");
        }
        for other in ["loopback", "bridged", ""] {
            assert!(!choose(json!({"link": other})).chooses(&link), "{other}");
        }
        assert!(choose(json!({"link": "loopback"})).chooses(&Case::ping_pong("udp")));
        let rate = |rate: f64| choose(json!({"rate_per_s": rate}));
        assert!(rate(467.0).chooses(&link) && !rate(608.0).chooses(&link));
        assert!(!rate(467.0).chooses(&Case::ping_pong("udp")), "a closed loop has no rate");
    }

    #[test]
    fn a_control_loop_is_selected_by_how_it_waits_and_by_its_thread() {
        let periodic = Periodic { timing: Timing::Timerfd, ..Periodic::default() };
        let fifo = Case::ping_pong("tcp").with(|changed| {
            changed.primary_mut().load = Load::Periodic { periodic, size_bytes: 4, reply_size_bytes: 4 };
            (changed.ends.scheduling, changed.ends.timer_slack_ns) = (Scheduling::Fifo, Some(1));
        });
        let chosen = |written: serde_json::Value| {
            let selector = choose(written);
            [&fifo, &Case::ping_pong("tcp")].map(|case| selector.chooses(case))
        };
        assert_eq!(chosen(json!({"timing": "timerfd"})), [true, false]);
        assert_eq!(chosen(json!({"timing": "absolute"})), [false; 2], "a round trip waits for no release");
        assert_eq!(chosen(json!({"scheduling": "fifo"})), [true, false]);
        assert_eq!(chosen(json!({"scheduling": "other"})), [false, true]);
        assert_eq!(chosen(json!({"timer_slack_ns": 1})), [true, false]);
    }

    #[test]
    fn a_one_way_load_is_selected_by_batch_source_direction_and_connections() {
        let of = |load: Load, direction: Direction| {
            Case::ping_pong("tcp").with(|changed| {
                *changed.primary_mut() = Flow { connections: 8, ..Flow::one_way("tcp", load.clone(), direction) };
            })
        };
        let messages = of(Load::Messages { size_bytes: 64, batch: 8, observer: Observer::Sampled }, Direction::Up);
        let file = of(Load::Stream { write_size_bytes: 65_536, source: Source::File }, Direction::Down);
        let chosen = |written: serde_json::Value| {
            let selector = choose(written);
            [&messages, &file, &Case::ping_pong("tcp")].map(|case| selector.chooses(case))
        };
        assert_eq!(chosen(json!({"batch": 8})), [true, false, false]);
        assert_eq!(chosen(json!({"batch": 1})), [false, true, true], "one message per call");
        assert_eq!(chosen(json!({"source": "file"})), [false, true, false]);
        assert_eq!(chosen(json!({"source": "buffer"})), [false; 3], "only a stream has a source");
        assert_eq!(chosen(json!({"direction": "down"})), [false, true, false]);
        assert_eq!(chosen(json!({"connections": 8})), [true, true, false]);
        assert_eq!(
            [chosen(json!({"build": "optimised"})), chosen(json!({"build": "unoptimised"}))],
            [[true; 3], [false; 3]]
        );
        assert_eq!(chosen(json!({"size_bytes": 65_536})), [false, true, false], "the size of each write");
    }

    #[test]
    fn a_case_under_load_is_selected_by_its_load() {
        let unloaded = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        let under = |flows: &[Flow]| unloaded.clone().with(|changed| changed.flows.extend_from_slice(flows));
        let stream = |direction: Direction| Flow::stream("tcp", 65_536, direction).in_role(FlowRole::Load);
        let other_cpu = EndSettings { cpus: WhichCpus::Other, ..unloaded.ends };
        let up = under(&[Flow { ends: Some(other_cpu), ..stream(Direction::Up) }]);
        let down = under(&[Flow { options: Options::parse("congestion=bbr").unwrap(), ..stream(Direction::Down) }]);
        let both = under(&[stream(Direction::Up), stream(Direction::Down)]);
        let cases = [&unloaded, &up, &down, &both, &Case::ping_pong("udp")];
        let chosen = |written: serde_json::Value| {
            let selector = choose(written);
            cases.map(|case| selector.chooses(case))
        };
        assert_eq!(chosen(json!({"load": "none"})), [true, false, false, false, false], "an unloaded probe");
        assert_eq!(chosen(json!({"load": "up"})), [false, true, false, false, false]);
        assert_eq!(chosen(json!({"load": "down"})), [false, false, true, false, false]);
        assert_eq!(chosen(json!({"load": "both"})), [false, false, false, true, false]);
        let of_load = |written: serde_json::Value| chosen(json!({"of_load": written}));
        assert_eq!(of_load(json!({})), [false, true, true, true, false], "any load");
        assert_eq!(of_load(json!({"transport": "udp"})), [false; 5], "the probe is not the load");
        assert_eq!(of_load(json!({"cpus": "other"})), [false, true, false, false, false]);
        let bbr = json!({"options": {"congestion": "bbr"}});
        assert_eq!(of_load(bbr), [false, false, true, false, false]);
        assert_eq!(chosen(json!({"cpus": "other"})), [false; 5], "the probe is on the usual CPUs");
        let shared = down.with(|changed| changed.primary_mut().connection_use = ConnectionUse::Shared);
        let one = choose(json!({"connection_use": "shared"}));
        assert!(one.chooses(&shared) && !one.chooses(&up));
    }

    #[test]
    fn a_case_is_selected_by_any_of_its_loads() {
        let selector = choose(json!({"of_load": {"transport": "tcp6"}}));
        let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        case.flows.push(Flow { id: "one".into(), ..Flow::ping_pong("tcp").in_role(FlowRole::Load) });
        assert!(!selector.chooses(&case));
        case.flows.push(Flow { id: "two".into(), ..Flow::ping_pong("tcp6").in_role(FlowRole::Load) });
        assert!(selector.chooses(&case));
        assert!(case.load_words()[0].starts_with("under tcp+tcp6"), "{:?}", case.load_words());
    }
}
