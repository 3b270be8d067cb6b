//! A full segment waits for an acknowledgment that the receiver delays.

use hairpin_model::Cause;

use super::super::rule::Rule;
use super::with_acks::judge;

pub(super) const RULE: Rule = Rule { code: Cause::DelayedAck, judge: |peer| judge(peer, false, true), explains: &[] };
