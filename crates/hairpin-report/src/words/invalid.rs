//! Explains why rounds and cases are invalid.

use hairpin_model::held_up::HeldUp;
use hairpin_model::link::MAX_MEMORY_MIB;
use hairpin_model::quantities::{bytes, duration, rounded};
use hairpin_model::round::Purpose;
use hairpin_model::{CaseSummary, Invalid, LeftOut, RoundLeftOut, Run};

/// Writes why cases and rounds of the run are invalid. Older runs have the text but no structured reasons.
pub fn write_reasons(run: &mut Run) {
    for row in &mut run.cases {
        if !row.reasons.is_empty() {
            row.why_invalid = row.reasons.iter().map(|reason| invalid(row, reason)).collect();
        }
        let of_link = row.path.relay.as_mut().map(|link| (&link.left_out, &mut link.rounds_left_out));
        let of_load = row.under_load.as_mut().map(|load| (&load.left_out, &mut load.rounds_left_out));
        for (left_out, texts) in of_link.into_iter().chain(of_load).filter(|(left_out, _)| !left_out.is_empty()) {
            *texts = left_out.iter().map(round_left_out).collect();
        }
    }
}

fn invalid(row: &CaseSummary, reason: &Invalid) -> String {
    match reason {
        Invalid::NotMeasured { failed_rounds: 0 } => "none of its rounds was measured completely".to_owned(),
        Invalid::NotMeasured { failed_rounds } => format!("all {failed_rounds} rounds failed"),
        Invalid::NoSamples if row.case.primary().load.is_one_way() => "no message arrived".to_owned(),
        Invalid::NoSamples if row.case.loads().is_empty() => "no message was answered".to_owned(),
        Invalid::NoSamples => "no message was answered under load".to_owned(),
        Invalid::Saturated { sent_per_s, asked_per_s, held_up } => {
            let sent =
                format!("it sent {} of the {} messages/s requested", rounded(*sent_per_s), rounded(*asked_per_s));
            held_up.map_or_else(
                || format!("the generator was saturated: {sent}"),
                |limit| {
                    let (cause, remedy) = held_up_by(limit);
                    format!("the generator had to wait for answers: {sent}, as {cause} (hint: {remedy})")
                },
            )
        }
        Invalid::RoundsLeftOut { left_out: count, rounds, first } => {
            format!("{count} of {rounds} rounds are invalid, the first because {}", left_out(first))
        }
        Invalid::UnmetOption { end, option } => {
            let (name, asked) = (option.name, option.asked.as_deref().unwrap_or("nothing"));
            format!("option {name} at the {end}: requested {asked}, the kernel granted {}", option.before)
        }
        Invalid::Unreliable { lost, duplicated, unexplained } => format!(
            "{} is reliable, but {lost} messages were lost, {duplicated} arrived twice and {unexplained} are unaccounted for",
            row.case.primary().transport
        ),
    }
}

/// Returns the cause and the remedy if the generator had to wait for answers.
pub(crate) fn held_up_by(limit: HeldUp) -> (&'static str, &'static str) {
    const OF_ONE_BYTE: &str = "at most 128 messages can be unanswered where their number has one byte";
    match limit {
        HeldUp::SizeOfOneByte => (OF_ONE_BYTE, "--size 2 or more, or a shorter --timeout"),
        HeldUp::ReplyOfOneByte => (OF_ONE_BYTE, "--reply-size 2 or more, or a shorter --timeout"),
        HeldUp::Unanswered => ("at most 32 768 messages can be unanswered", "a lower --rate, or a shorter --timeout"),
    }
}

/// Returns `round 7 (traced): the emulator was late by 140 us at p50, bound 100 us`.
fn round_left_out(RoundLeftOut { round, purpose, why, .. }: &RoundLeftOut) -> String {
    let purpose = if *purpose == Purpose::Timed { String::new() } else { format!(" ({purpose})") };
    format!("round {round}{purpose}: {}", left_out(why))
}

pub fn left_out(why: &LeftOut) -> String {
    let time = |ns: &u64| duration(*ns as f64);
    match why {
        LeftOut::FlowFailed { id } => format!("its flow `{id}` failed"),
        LeftOut::NoRoom { in_sockets, in_memory } => {
            let memory = format!("the {MAX_MEMORY_MIB} MiB of the emulator for packets in the link had");
            let both = [(in_sockets, "the sockets of the emulator had"), (in_memory, &memory)];
            let some = both.iter().filter(|(packets, _)| **packets > 0);
            some.map(|(packets, had)| format!("{had} no room for {packets} packets"))
                .collect::<Vec<_>>()
                .join(", and ")
        }
        LeftOut::RelayLate { late_ns, bound_ns, tail_of } => {
            let of = match tail_of {
                None => "at p50".to_owned(),
                Some(packets @ 0..100) => format!("for the latest of {packets} packets"),
                Some(_) => "at p99".to_owned(),
            };
            format!("the emulator was late by {} {of}, bound {}", time(late_ns), time(bound_ns))
        }
        LeftOut::RelayStalled { stalled_ns, span_ns } => {
            format!("the emulator was late for {} of {}", time(stalled_ns), time(span_ns))
        }
        LeftOut::WaitedForCpu { late_ns, bound_ns, is_tail, was_taken } => {
            let at = if *is_tail { "p99" } else { "p50" };
            let by = if *was_taken { " that the hypervisor or a quota took" } else { "" };
            format!("messages waited up to {} for a CPU{by} at {at}, bound {}", time(late_ns), time(bound_ns))
        }
        LeftOut::CpuTaken { lost_ns, span_ns } => {
            format!("an end was kept from its CPU for {} of {}", time(lost_ns), time(span_ns))
        }
        LeftOut::Overlapped => "a round of another client ran at the same time on the server".to_owned(),
        LeftOut::NoFeedback { silent_ns } => {
            format!("no feedback: the sender heard nothing from the receiver for {} and stopped", time(silent_ns))
        }
        LeftOut::IdleUnanswered => "no message of the probe was answered in the idle phase".to_owned(),
        LeftOut::QueueNotIdle { bytes: queued } => {
            format!("the path was not idle before the load: {} in its queue", bytes(*queued))
        }
        LeftOut::NotIdle { p50_ns, least_ns } => format!(
            "the path was not idle before the load, or the probe alone fills it: p50 {}, minimum {}",
            duration(*p50_ns),
            duration(*least_ns)
        ),
        LeftOut::LoadLate { late_ns } => format!("the load began {} late", time(late_ns)),
        LeftOut::LoadShort { received_ns, loaded_ns } => {
            format!("the load was received for {} of {} only", duration(*received_ns), duration(*loaded_ns))
        }
        LeftOut::LoadUnsteady { first_ns, second_ns } => format!(
            "the load was not steady: mean latency {} in the first half of the loaded phase, {} in the second",
            duration(*first_ns),
            duration(*second_ns)
        ),
    }
}
