use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::LARGER_BUFFER;
use hairpin_model::quantities::{rounded, share};

use super::{Told, Words};

pub(super) const WORDS: Words = Words {
    summary,
    advice,
    checks: &[(
        LARGER_BUFFER,
        "use a receive buffer of 4 MiB",
        "use a receive buffer of 4 MiB; if as much is lost, the receiver is too slow for any buffer",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    let too_slow = told.show(keys::LOST_WITH_LARGE, share).map_or_else(String::new, |lost| {
        format!(" With a buffer of 4 MiB the loss is {lost}: the receiver is slower than the sender, and no buffer helps.")
    });
    Some(format!(
        "{}: the receive buffer was full for {} of {} messages ({}). The receiver's kernel dropped them; the network \
         lost none of these.{too_slow}{}",
        told.label(),
        told.show(keys::LOST_FOR_ROOM, rounded)?,
        told.show(keys::SENT, rounded)?,
        told.show(keys::SHARE_OF_SENT, share)?,
        told.others()
    ))
}

fn advice(told: &Told<'_>) -> Option<String> {
    let buffer = if told.has(keys::BUFFER_HELPS) {
        "Use a larger receive buffer (SO_RCVBUF, --option rcvbuf=4194304; net.core.rmem_max limits it). "
    } else {
        ""
    };
    let cpu = if told.has(keys::SAME_CPU) {
        ", give the receiver a CPU of its own (--placement cross-cpu)"
    } else {
        ""
    };
    Some(format!(
        "{buffer}Receive several datagrams per call (recvmmsg, UDP_GRO; hairpin message-rate --batch 64){cpu}, or send more \
         slowly (hairpin offered-load --rate). The sender does not learn of these losses, so the program must limit itself."
    ))
}
