//! A full segment waits for an acknowledgment that the receiver delays.

use hairpin_model::Cause;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::with_acks::judge;

pub(super) const RULE: Rule = Rule { code: Cause::DelayedAck, judge: full_behind_delayed, explains: &[] };

fn full_behind_delayed(peer: &Peer) -> Option<Judged<'_>> {
    judge(peer, false, true)
}
