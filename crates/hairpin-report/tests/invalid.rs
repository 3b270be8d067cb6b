//! The text of each reason why rounds and cases are invalid.

use hairpin_model::flow::Direction;
use hairpin_model::held_up::HeldUp;
use hairpin_model::options::OptionName;
use hairpin_model::round::Purpose;
use hairpin_model::trace::End;
use hairpin_model::{Effective, Flow, Invalid, LeftOut, Load, RoundLeftOut};
use hairpin_report::words::write_reasons;

use crate::support::{links, survey, under_load};

const LATE: LeftOut = LeftOut::RelayLate { late_ns: 140_000, bound_ns: 100_000, tail_of: None };

#[test]
fn rounds_left_out() {
    let reasons = [
        LATE,
        LeftOut::RelayLate { late_ns: 2_400_000, bound_ns: 2_350_000, tail_of: Some(100) },
        LeftOut::RelayLate { late_ns: 2_400_000, bound_ns: 2_350_000, tail_of: Some(99) },
        LeftOut::NoRoom { in_sockets: 3, in_memory: 0 },
        LeftOut::NoRoom { in_sockets: 0, in_memory: 4 },
        LeftOut::NoRoom { in_sockets: 3, in_memory: 4 },
        LeftOut::RelayStalled { stalled_ns: 40_000_000, span_ns: 2_000_000_000 },
        LeftOut::WaitedForCpu { late_ns: 2_100_000, bound_ns: 100_000, is_tail: false, was_taken: false },
        LeftOut::WaitedForCpu { late_ns: 2_100_000, bound_ns: 100_000, is_tail: true, was_taken: true },
        LeftOut::CpuTaken { lost_ns: 300_000_000, span_ns: 2_000_000_000 },
        LeftOut::Overlapped,
        LeftOut::NoFeedback { silent_ns: 612_000_000 },
        LeftOut::IdleUnanswered,
        LeftOut::QueueNotIdle { bytes: 5120.0 },
        LeftOut::NotIdle { p50_ns: 120e6, least_ns: 10e6 },
        LeftOut::LoadLate { late_ns: 700_000_000 },
        LeftOut::LoadShort { received_ns: 2e9, loaded_ns: 5e9 },
        LeftOut::LoadUnsteady { first_ns: 60e6, second_ns: 180e6 },
    ];
    let left_out: Vec<RoundLeftOut> = (0..)
        .zip(reasons)
        .map(|(round, why)| {
            let purpose = if round == 0 { Purpose::Traced } else { Purpose::Timed };
            RoundLeftOut { round, purpose, why, only_tail: false }
        })
        .collect();
    let mut run = links::run();
    let place = run.cases.iter().position(|row| row.path.relay.is_some()).expect("a case over a link");
    run.cases[place].path.relay.as_mut().expect("a link").left_out = left_out.clone();
    write_reasons(&mut run);
    let of_link = &run.cases[place].path.relay.as_ref().expect("a link").rounds_left_out;
    insta::assert_snapshot!(of_link.join("\n"));
    let mut run = under_load::congestion();
    run.cases[0].under_load.as_mut().expect("a case under load").left_out = left_out;
    let saved = run.cases[1].under_load.clone();
    write_reasons(&mut run);
    assert_eq!(run.cases[0].under_load.as_ref().map(|load| &load.rounds_left_out), Some(of_link));
    assert_eq!(run.cases[1].under_load, saved, "a run without structured reasons keeps its texts");
}

#[test]
fn invalid_cases() {
    let option = Effective {
        name: OptionName::Sndbuf,
        asked: Some("4096".to_owned()),
        before: "4608".to_owned(),
        after: "4608".to_owned(),
        met: false,
    };
    let mut run = survey(1);
    let saturated = |held_up| Invalid::Saturated { sent_per_s: 41_200.0, asked_per_s: 50_000.0, held_up };
    run.cases[0].why_invalid = vec!["as saved".to_owned()];
    run.cases[1].reasons = vec![
        Invalid::NotMeasured { failed_rounds: 0 },
        Invalid::NotMeasured { failed_rounds: 3 },
        Invalid::NoSamples,
        saturated(None),
        saturated(Some(HeldUp::SizeOfOneByte)),
        saturated(Some(HeldUp::ReplyOfOneByte)),
        saturated(Some(HeldUp::Unanswered)),
        Invalid::RoundsLeftOut { left_out: 3, rounds: 5, first: LATE },
        Invalid::UnmetOption { end: End::Client, option: option.clone() },
        Invalid::UnmetOption { end: End::Server, option: Effective { asked: None, ..option } },
        Invalid::Unreliable { lost: 2, duplicated: 1, unexplained: -1 },
    ];
    run.cases[2].reasons = vec![Invalid::NoSamples];
    let load = Load::Messages { size_bytes: 64, batch: 1, observer: hairpin_model::flow::Observer::Sampled };
    run.cases[2].case.flows = vec![Flow::one_way("udp", load, Direction::Up)];
    let mut loaded = under_load::congestion().cases.remove(1);
    loaded.reasons = vec![Invalid::NoSamples];
    run.cases.push(loaded);
    write_reasons(&mut run);
    assert_eq!(run.cases[0].why_invalid, ["as saved"]);
    let worded = [&run.cases[1], &run.cases[2], run.cases.last().expect("the case under load")];
    insta::assert_snapshot!(worded.map(|row| row.why_invalid.join("\n")).join("\n"));
}
