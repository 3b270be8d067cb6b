//! A small segment waits for an acknowledgment that the receiver delays.

use hairpin_model::Cause;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::with_acks::judge;

pub(super) const RULE: Rule =
    Rule { code: Cause::NagleMeetsDelayedAck, judge: small_behind_delayed, explains: &[Cause::NagleWaits] };

fn small_behind_delayed(peer: &Peer) -> Option<Judged<'_>> {
    judge(peer, true, true)
}
