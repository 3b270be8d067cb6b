use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::NO_AUTOCORKING;
use hairpin_model::quantities::rounded;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Usually leave it on: it saves packets and rarely costs time. Where every write must leave at \
             once, switch it off for the machine (net.ipv4.tcp_autocorking=0). Otherwise send the request in \
             one write.",
        )
    },
    checks: &[(
        NO_AUTOCORKING,
        "switch autocorking off",
        "switch autocorking off; every write must then leave as a segment of its own",
    )],
};

fn summary(told: &Told<'_>) -> Option<String> {
    Some(format!(
        "{}: with TCP_NODELAY on, the {} writes of a request left in {} segments. The kernel held a \
         segment back {} times because an earlier packet was still in the device queue (autocorking).{}",
        told.label(),
        told.show(keys::WRITES, rounded)?,
        told.show(keys::SEGMENTS, rounded)?,
        told.show(keys::AUTOCORKED, rounded)?,
        told.in_all()
    ))
}
