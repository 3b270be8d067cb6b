//! Requests follow each other on a long path, each after the answer of the one before.

use hairpin_model::Cause;

use super::super::peer::Peer;
use super::super::rule::{Judged, Rule};
use super::sequences::{is_windowed, judge_sequence};

pub(super) const RULE: Rule = Rule { code: Cause::OneRequestPerRoundTrip, judge, explains: &[] };

fn judge(peer: &Peer) -> Option<Judged<'_>> {
    judge_sequence(peer).filter(|_| !is_windowed(peer))
}
