//! `nagle-meets-delayed-ack`: written bytes stayed until a delayed acknowledgement of earlier ones came.
//!
//! Why: Nagle's algorithm (RFC 896) keeps a small segment back while an earlier one is unacknowledged, and the far end
//! delays its acknowledgement (RFC 1122, 4.2.3.2) as it hopes to send it along with an answer, which cannot come before
//! the rest of the request: both wait, 40 ms on Linux. Evidence, never the latency alone: in traced rounds, writes that
//! left when the acknowledgement of all before them came, and that acknowledgement came by itself, 10 ms and more after
//! its data; `TCP_NODELAY` and `TCP_CORK` off as granted in the timed rounds too. Its share is the time that writes were
//! so held, of all exchanges' time. Advice: one write, a cork, or `TCP_NODELAY`.

use hairpin_model::exchange::Remedy;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{Evidence, Finding, FindingCard, Severity};
use hairpin_model::options::OptionName;
use hairpin_model::run::Run;
use hairpin_model::summary::CaseSummary;
use hairpin_model::time_sequence::{TracedExchange, Wait, WaitCause};
use hairpin_model::trace::End;

use super::Detector;
use super::support::{Hit, Hits, OtherRemedy, Traced, blank, evidence, held_ns, other_remedy};
use crate::humane;
use crate::trace::switch;

pub(super) struct NagleMeetsDelayedAck;

const CARD: FindingCard = FindingCard {
    code: "nagle-meets-delayed-ack",
    what: "small writes stayed until a delayed acknowledgement of an earlier one came",
    why: "both ends wait for each other, 40 ms and more in every exchange, and neither the network nor a program is slow",
};

/// From this share of the exchanges' time on it is worth a word.
const LEAST: f64 = 0.05;
/// The acknowledgement came and the bytes left within so long of each other, in ns.
const TOGETHER_NS: u64 = 1_500_000;

/// What the traces of a case say of it.
pub(super) struct Stall {
    held_ns: Figure,
    acknowledged_ns: Figure,
    writes: Figure,
    segments: Figure,
    exchanges: (usize, usize),
}

impl Detector for NagleMeetsDelayedAck {
    fn card(&self) -> FindingCard {
        CARD
    }

    fn detect(&self, run: &Run) -> Vec<Finding> {
        let hits = Hits::among(run, |case| stall(run, case).filter(|(share, _)| *share >= LEAST));
        let Some(first) = hits.first() else { return Vec::new() };
        // Where nothing was done against stalls the change of one thing is the plainest.
        let plain =
            |hit: &&Hit<'_, Stall>| hit.case.case.exchange.as_ref().is_some_and(|own| own.remedy == Remedy::None);
        let tried = hits.0.iter().find(plain).unwrap_or(first);
        let words = "the same with TCP_NODELAY: if it takes as long, it was not Nagle's algorithm";
        let other = other_remedy(run, tried.case, Remedy::Nodelay, words, "switching Nagle's algorithm off");
        let refuted = other.as_ref().is_some_and(OtherRemedy::refuted);
        vec![Finding {
            cases: hits.ids(),
            summary: format!(
                "{}{}{}",
                summary(first),
                hits.others(),
                other.as_ref().map_or("", |other| other.told.as_str())
            ),
            evidence: all_evidence(first),
            advice: "Write a request at once: collect its parts and use one write or writev, or MSG_MORE, or TCP_CORK \
                     released after the last part. Where that cannot be done, set TCP_NODELAY, which stops the waiting \
                     but sends a segment for each write. Quick acknowledgements (TCP_QUICKACK) help only if you own the \
                     far end."
                .to_owned(),
            proved: other.as_ref().and_then(|other| other.proved.clone()),
            counter_experiment: other.map(|other| other.experiment),
            // What the counter-experiment refuted explains nothing.
            share: if refuted { 0.0 } else { first.share },
            ..blank(&CARD, if refuted { Severity::Note } else { Severity::Warning })
        }]
    }
}

fn summary(first: &Hit<'_, Stall>) -> String {
    let stall = &first.with;
    let (some, all) = stall.exchanges;
    format!(
        "{}: of the {} writes of a request only the first leaves at once. Nagle's algorithm keeps the others for {} \
         until the first is acknowledged, and the far end delays that by {} ({some} of {all} traced exchanges): {} of \
         an exchange is this wait.",
        first.case.label,
        humane::count(stall.writes.value),
        humane::duration_figure(&stall.held_ns),
        humane::duration(stall.acknowledged_ns.value),
        humane::share(first.share)
    )
}

fn all_evidence(first: &Hit<'_, Stall>) -> Vec<Evidence> {
    let (stall, label) = (&first.with, &first.case.label);
    let (some, all) = stall.exchanges;
    let stalled = some as f64 / all.max(1) as f64;
    let mut every = vec![
        evidence(format!("time that written bytes were held, traced, {label}"), stall.held_ns, "ns"),
        evidence(
            format!("delay of the acknowledgement that released them, traced, {label}"),
            stall.acknowledged_ns,
            "ns",
        ),
        evidence(format!("traced exchanges that stalled so, {label}"), Figure::bare(stalled), "share"),
        evidence(format!("TCP_NODELAY as granted to the client (0 is off), {label}"), Figure::bare(0.0), "count"),
        evidence(format!("write calls a request, traced, {label}"), stall.writes, "count"),
        evidence(format!("segments that a request left in, traced, {label}"), stall.segments, "count"),
    ];
    let counted = first.case.exchanges.as_ref();
    every.extend(counted.and_then(|exchanges| exchanges.bare_acks_per_exchange).map(|acks| {
        evidence(format!("acknowledgements by themselves an exchange, counted, {label}"), acks, "count")
    }));
    every.extend(first.case.latency_ns.p50.map(|p50| evidence(format!("p50 of an exchange, {label}"), p50, "ns")));
    every
}

/// What Nagle's algorithm and delayed acknowledgements did to a case together; null where they did not.
pub(super) fn stall(run: &Run, case: &CaseSummary) -> Option<(f64, Stall)> {
    let client = &case.effective_options.client;
    let off = |name| switch(client, name) == Some(false);
    if case.case.twin != 0 || !off(OptionName::Nodelay) || !off(OptionName::Cork) {
        return None;
    }
    let traced = Traced::of(run, case)?;
    let share = traced.share(met);
    let stalled = |exchange: &TracedExchange| exchange.waits.iter().any(|wait| met(exchange, wait));
    let figure = |name: &str, of: &dyn Fn(&TracedExchange) -> f64| {
        traced.figure(name, |exchange| stalled(exchange).then(|| of(exchange)))
    };
    let stall = Stall {
        held_ns: figure("held", &|exchange| held_ns(exchange, met))?,
        acknowledged_ns: figure("acknowledged", &delay_ns)?,
        writes: figure("writes", &|exchange| exchange.writes as f64)?,
        segments: figure("segments", &|exchange| exchange.segments as f64)?,
        exchanges: traced.count(met),
    };
    Some((share, stall))
}

/// Whether the wait is one of Nagle's at the near end that ended with a delayed acknowledgement.
fn met(exchange: &TracedExchange, wait: &Wait) -> bool {
    wait.cause == WaitCause::Nagle
        && wait.end == End::Near
        && exchange.waits.iter().any(|other| late(other) && other.until_ns.abs_diff(wait.until_ns) <= TOGETHER_NS)
}

fn late(wait: &Wait) -> bool {
    wait.cause == WaitCause::DelayedAck && wait.end == End::Far
}

/// The longest delay of an acknowledgement that released something.
fn delay_ns(exchange: &TracedExchange) -> f64 {
    let released = |ack: &&Wait| {
        let with = |wait: &Wait| met(exchange, wait) && wait.until_ns.abs_diff(ack.until_ns) <= TOGETHER_NS;
        late(ack) && exchange.waits.iter().any(with)
    };
    let delays = exchange.waits.iter().filter(released).map(|ack| ack.until_ns - ack.from_ns);
    delays.max().unwrap_or(0) as f64
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;

    use super::*;
    use crate::made_up::traces::{self, MS, US, switches, uncaptured};
    use crate::made_up::{MadeUp, small_writes, traced_rounds};

    const CODE: &str = "nagle-meets-delayed-ack";

    fn none() -> Case {
        small_writes("none")
    }

    #[test]
    fn it_is_found_with_a_capture_and_without() {
        for trace in [traces::none(), uncaptured(traces::none())] {
            let mut made_up = MadeUp::new();
            traced_rounds(&mut made_up, &none(), 44 * MS, &trace, &switches("off", "off"));
            let found = made_up.findings(CODE);
            assert_eq!((found.len(), found[0].severity, found[0].proved.as_ref()), (1, Severity::Warning, None));
            assert!(found[0].share > 0.99, "{}", found[0].share);
            assert!(found[0].summary.contains("of the 100 writes of a request"), "{}", found[0].summary);
            assert!(found[0].summary.contains("for 40.1 ms"), "{}", found[0].summary);
            assert!(found[0].summary.contains("(15 of 18 traced exchanges)"), "{}", found[0].summary);
            let experiment = found[0].counter_experiment.as_ref().unwrap();
            assert_eq!(
                experiment.command,
                "hairpin small-writes --transport tcp --waiting block --placement together --writes 100x2 --remedy \
                 none,nodelay"
            );
            assert_eq!(experiment.pair.as_deref(), Some(&[none(), small_writes("nodelay")]));
        }
    }

    #[test]
    fn nodelay_in_the_same_run_proves_it_or_refutes_it() {
        for (with_nodelay, verdict, severity) in
            [(500 * US, "confirmed", Severity::Warning), (44 * MS, "refuted", Severity::Note)]
        {
            let mut made_up = MadeUp::new();
            traced_rounds(&mut made_up, &none(), 44 * MS, &traces::none(), &switches("off", "off"));
            let nodelay = small_writes("nodelay");
            traced_rounds(&mut made_up, &nodelay, with_nodelay, &traces::nodelay(), &switches("on", "off"));
            let found = made_up.findings(CODE);
            let proved = found[0].proved.as_ref().unwrap();
            assert_eq!((proved.verdict.as_str(), found[0].severity), (verdict, severity));
            assert_eq!(found[0].share == 0.0, verdict == "refuted");
            assert_eq!(found[0].cases, [none().id()]);
        }
    }

    #[test]
    fn no_remedy_has_it() {
        let (off, on) = (switches("off", "off"), switches("on", "off"));
        let all = [
            ("nodelay", traces::nodelay(), on),
            ("cork", traces::cork(), off.clone()),
            ("cork-forgotten", traces::cork_forgotten(), switches("off", "on")),
            ("more", traces::more(0), off.clone()),
            ("one-write", traces::one_write(5 * US), off),
        ];
        let mut made_up = MadeUp::new();
        for (remedy, trace, options) in all {
            traced_rounds(&mut made_up, &small_writes(remedy), MS, &trace, &options);
        }
        assert_eq!(made_up.findings(CODE), []);
    }

    /// The same 40 ms with Nagle's algorithm on, made by something else.
    #[test]
    fn an_echo_half_that_sleeps_40_ms_is_not_called_nagle() {
        let sleeping = [
            traces::one_write(40 * MS),
            traces::one_write(44 * MS),
            traces::acknowledged_in_time(),
            uncaptured(traces::one_write(44 * MS)),
            uncaptured(traces::acknowledged_in_time()),
        ];
        for trace in sleeping {
            let mut made_up = MadeUp::new();
            traced_rounds(&mut made_up, &none(), 40 * MS, &trace, &switches("off", "off"));
            assert_eq!(made_up.findings(CODE), []);
        }
    }

    #[test]
    fn without_a_trace_or_without_the_options_nothing_is_said() {
        let mut untraced = MadeUp::new();
        untraced.rounds_with(&none(), &[44 * MS; 6], |measured| measured.client.options = switches("off", "off"));
        assert_eq!(untraced.findings(CODE), []);
        for options in [Vec::new(), switches("on", "off"), switches("off", "on")] {
            let mut made_up = MadeUp::new();
            traced_rounds(&mut made_up, &none(), 44 * MS, &traces::none(), &options);
            assert_eq!(made_up.findings(CODE), [], "{options:?}");
        }
    }
}
