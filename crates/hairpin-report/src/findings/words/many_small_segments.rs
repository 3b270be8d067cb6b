use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::{CORK_REQUESTS, ONE_WRITE};
use hairpin_model::quantities::rounded;

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words {
    summary,
    advice: |_| {
        always(
            "Send the parts of a request together: one write, writev, MSG_MORE for all but the last, or a \
             cork released after the last. Keep TCP_NODELAY on, so that the request leaves at once.",
        )
    },
    checks: &[
        (CORK_REQUESTS, "cork each request", IN_ONE_SEGMENT),
        (ONE_WRITE, "send each request in one write", IN_ONE_SEGMENT),
    ],
};

const IN_ONE_SEGMENT: &str =
    "send the same request in one segment; if the time stays the same, the segments cost nothing";

fn summary(told: &Told<'_>) -> Option<String> {
    Some(format!(
        "{}: an exchange takes {} segments with payload, where {} are enough.{}",
        told.label(),
        told.show(keys::COUNTED_SEGMENTS, rounded)?,
        told.show(keys::NEEDED, rounded)?,
        told.in_all()
    ))
}
