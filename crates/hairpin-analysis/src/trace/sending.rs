//! How an end sends: the granted options, and the periods in which it was corked.

use hairpin_model::options::OptionName;
use hairpin_model::trace::CallKind;
use hairpin_model::{Call, Effective, EndTrace, fact, fact_names};

pub(super) struct Sending {
    /// `TCP_NODELAY`; `None` if unknown or changed during the round.
    pub(super) nodelay: Option<bool>,
    /// Maximum payload of a segment.
    pub(super) mss_bytes: Option<f64>,
    /// `SO_MAX_PACING_RATE`, if it was set.
    pub(super) pacing_bytes_per_s: Option<u64>,
    /// `SO_SNDBUF` as granted.
    pub(super) sndbuf_bytes: Option<u64>,
    corked: Vec<Corked>,
}

/// A period during which the socket was corked.
pub(super) struct Corked {
    from_ns: u64,
    pub(super) release: Option<Call>,
}

impl Sending {
    /// `more` is the request size if all writes of a request except the last were sent with `MSG_MORE`, which corks
    /// until the next write without `MSG_MORE`.
    pub(super) fn new(end: &EndTrace, options: &[Effective], more: Option<u64>) -> Self {
        let mut corked = Vec::new();
        let mut from_ns = (switch(options, OptionName::Cork) == Some(true)).then_some(0);
        for call in &end.calls {
            let (begins, ends) = match call.kind {
                CallKind::Cork => (true, false),
                CallKind::Uncork => (false, true),
                CallKind::Write => more.map_or((false, false), |request_bytes| {
                    let last = request_bytes == 0 || call.end_byte.is_multiple_of(request_bytes);
                    (!last, last)
                }),
                CallKind::Read | CallKind::Quickack => (false, false),
            };
            if begins {
                from_ns = from_ns.or(Some(call.began_ns));
            } else if ends && let Some(from_ns) = from_ns.take() {
                corked.push(Corked { from_ns, release: Some(*call) });
            }
        }
        corked.extend(from_ns.map(|from_ns| Corked { from_ns, release: None }));
        let number = |name: OptionName| {
            options.iter().find(|option| option.name == name)?.after.parse().ok().filter(|value| *value > 0)
        };
        Self {
            nodelay: switch(options, OptionName::Nodelay),
            mss_bytes: fact::number(&end.before, fact_names::SND_MSS_BYTES),
            pacing_bytes_per_s: number(OptionName::PacingRate),
            sndbuf_bytes: number(OptionName::Sndbuf),
            corked,
        }
    }

    pub(super) fn corked_at(&self, at_ns: u64) -> Option<&Corked> {
        let held = |corked: &&Corked| corked.release.is_none_or(|release| release.ended_ns > at_ns);
        self.corked.iter().find(|corked| corked.from_ns <= at_ns && held(corked))
    }
}

/// Returns whether the option was on or off for the whole round; `None` if unknown or changed.
pub(crate) fn switch(options: &[Effective], name: OptionName) -> Option<bool> {
    let option = options.iter().find(|option| option.name == name).filter(|option| option.before == option.after)?;
    match option.before.as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}
