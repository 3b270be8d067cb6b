//! The words of findings, a file each. They may change without the analysis, its tests or saved runs.

use super::told::Told;

/// The words of a finding. `None` if a figure is missing, as in a damaged run: the finding then gets generic words.
#[derive(Clone, Copy)]
pub(super) struct Words {
    /// What was found: one or two sentences with the figures.
    pub(super) summary: fn(&Told<'_>) -> Option<String>,
    /// What to do.
    pub(super) advice: fn(&Told<'_>) -> Option<String>,
    /// For each kind of check: what was done, and what to do and to expect.
    pub(super) checks: &'static [(&'static str, &'static str, &'static str)],
}

macro_rules! words {
    ($($file:ident,)*) => {
        $(mod $file;)*

        const ALL: &[(&str, Words)] = &[$((stringify!($file), $file::WORDS)),*];
    };
}

words! {
    aa_differs,
    autocorking,
    bufferbloat,
    cold_start,
    congestion_control,
    cork_not_released,
    cpu_contention,
    delayed_ack,
    drift,
    echo_stalled,
    generator_late,
    link_drops,
    link_late,
    link_saturated,
    machine_states,
    many_small_segments,
    nagle_meets_delayed_ack,
    nagle_waits,
    noisy_machine,
    own_send_queue,
    placement_lottery,
    rate_not_reached,
    retransmission,
    rounds_left_out,
    sender_bursts,
    shared_connection,
    udp_receive_overrun,
    udp_send_overrun,
    unexplained_loss,
    wake_up_dominated,
}

/// The words of the finding with that code, if it has any.
pub(super) fn of(code: &str) -> Option<Words> {
    let file = code.replace('-', "_");
    ALL.iter().find(|(name, _)| *name == file).map(|(_, words)| *words)
}

/// Advice that is always the same.
fn always(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// One figure over another, at most 1.
fn part(of: f64, whole: f64) -> f64 {
    (of / whole).min(1.0)
}
