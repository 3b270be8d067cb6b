//! A small segment waits for an acknowledgment that the receiver delays.

use hairpin_model::Cause;

use super::super::rule::Rule;
use super::with_acks::judge;

pub(super) const RULE: Rule =
    Rule { code: Cause::NagleMeetsDelayedAck, judge: |peer| judge(peer, true, true), explains: &[Cause::NagleWaits] };
