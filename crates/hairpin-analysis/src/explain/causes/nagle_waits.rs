//! A small segment waits one round trip for the acknowledgment of earlier ones.

use hairpin_model::Cause;

use super::super::rule::Rule;
use super::with_acks::judge;

pub(super) const RULE: Rule = Rule { code: Cause::NagleWaits, judge: |peer| judge(peer, true, false), explains: &[] };
