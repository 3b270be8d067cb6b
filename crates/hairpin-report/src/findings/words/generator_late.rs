use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{HALF_RATE, KEEP_AWAKE, LONGER};
use hairpin_model::quantities::{duration, duration_figure, share};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice,
    checks: &[
        (
            KEEP_AWAKE,
            "keep the CPUs awake",
            "keep the CPUs awake; if waking is the cause, the generator is then on time",
        ),
        (
            HALF_RATE,
            "halve the rate",
            "halve the rate; if the generator has too little time, it is then on time",
        ),
        (
            LONGER,
            "measure for longer",
            "measure for longer; lateness caused by other programs changes",
        ),
    ],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let ranked = told.show(keys::RANKED_UP_TO, share).map_or_else(String::new, |most| {
        format!(" Cases that send later than {most} of their median latency are not ranked.")
    });
    Some(format!(
        "{}: messages were sent {} late on average, {} of the mean latency of {}.{ranked}{}",
        told.label(),
        told.show_figure(keys::LATENESS_MEAN, duration_figure)?,
        told.share(),
        told.show(keys::LATENCY_MEAN, duration)?,
        told.others()
    ))
}

fn advice(told: &Told<'_>) -> Option<String> {
    let (one_way, two_hosts) = (told.has(keys::ONE_WAY), told.has(keys::TWO_HOSTS));
    let remedy = match told.word(keys::CAUSE)? {
        "busy" => "The generator is still busy with one message when the next is due: lower the rate.".to_owned(),
        "woken-late" => {
            let spin = if one_way { "Let it spin" } else { "Busy-poll" };
            let knob = if one_way { "--pacing spin" } else { "--waiting spin" };
            let ways = if two_hosts {
                format!("{spin} ({knob}), or keep the CPUs of its host out of deep idle states (cpupower idle-set)")
            } else {
                format!(
                    "{spin} on a CPU of its own ({knob} --placement cross-cpu), or keep the CPUs awake (--cpu-idle shallow)"
                )
            };
            format!("The generator sleeps between messages and wakes late, and a lower rate does not help. {ways}.")
        }
        "displaced" => {
            let machine = if two_hosts {
                "measure on idle hosts, or choose another CPU (--cpu)"
            } else {
                "measure on an idle machine, with --placement cross-cpu"
            };
            format!("The generator busy-polls and has time to spare, so something else used its CPU: {machine}.")
        }
        _ => return None,
    };
    Some(format!("For the time after the send, see the service time. {remedy}"))
}
