//! A small segment waits one round trip for the acknowledgment of earlier ones.

use hairpin_model::Cause;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::with_acks::judge;

pub(super) const RULE: Rule = Rule { code: Cause::NagleWaits, judge: small_behind_ack, explains: &[] };

fn small_behind_ack(peer: &Peer) -> Option<Judged<'_>> {
    judge(peer, true, false)
}
