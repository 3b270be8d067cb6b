//! Messages that the link damaged without failing a checksum, on the manual clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hairpin_model::Fact;
use hairpin_transports::{Wire, WireError};

use super::*;
use crate::echo::{Answered, Echo};
use crate::message::Message;
use crate::undamaged::{Filtered, is_whole};

fn loads() -> [Load; 2] {
    [Load::PLAIN, Load::PLAIN.paced(1000.0)]
}

fn order_over(link: &str, load: &Load, count: u64) -> RoundOrder {
    let order = order(load.clone(), count, 0);
    RoundOrder { case: order.case.clone().with(|changed| changed.path.link = link.to_owned()), ..order }
}

#[test]
fn a_damaged_answer_is_dropped_and_the_link_counts_the_loss() {
    for load in &loads() {
        for link in ["delay=1ms corrupt=8%", "up.corrupt=1%", "down.corrupt=1%"] {
            let order = order_over(link, load, 4);
            let acts = [Act::After(100), Act::Garbled(5), Act::Twice(200), Act::After(300)];
            let client_result = travel(&order, &acts, true).unwrap();
            let tally = &client_result.tally;
            let counts = (tally.sent, tally.received, tally.late, tally.duplicated);
            assert_eq!(counts, (4, 3, 0, 1), "{link}, {load:?}");
            let lost = BTreeMap::from([("link-corrupt".to_owned(), 1)]);
            let ledger = tally.ledger(false, &[], &[], Some(&lost));
            assert_eq!((ledger.unexplained, ledger.lost), (0, lost));
            let samples = client_result.recorder.finish(client_result.origin_ns);
            let lost: Vec<_> =
                samples.sequence.iter().zip(&samples.fate).filter(|(_, fate)| **fate == Fate::Lost).collect();
            assert_eq!(lost, [(&1, &Fate::Lost)], "{link}, {load:?}");
        }
    }
}

#[test]
fn a_damaged_answer_after_the_loop_is_ignored() {
    for load in &loads() {
        let order = order_over("corrupt=1%", load, 2);
        let clock = ManualClock::default();
        let mut wire = ScriptedWire::new(&clock, &[Act::After(5), Act::Garbled(5 * TIMEOUT_NS)], TIMEOUT_NS);
        let mut client_result = travel_over(&mut wire, &clock, &order, true).unwrap();
        clock.advance(9 * TIMEOUT_NS);
        assert!(client_result.take_late_replies(&clock, &mut wire).unwrap(), "the wire is open");
        assert!(!wire.wait(Duration::from_secs(1)).unwrap(), "the damaged answer was received");
        let tally = &client_result.tally;
        assert_eq!((tally.sent, tally.received, tally.late, tally.duplicated), (2, 1, 0, 0), "{load:?}");
        assert!(!client_result.late_replies.is_empty(), "the message with the damaged answer has no answer");
    }
}

#[test]
fn a_wrong_answer_is_a_failure_unless_the_link_may_damage_messages() {
    for load in &loads() {
        for (link, lossy) in [("delay=1ms loss=1%", true), ("loopback", true), ("corrupt=8%", false)] {
            let failure = travel(&order_over(link, load, 4), &[Act::Garbled(5)], lossy).unwrap_err();
            assert!(failure.cause.contains("is not what was sent: byte 11 is"), "{link}: {}", failure.cause);
        }
    }
}

/// The server's wire: the messages that arrive, and the answers that the server sends.
pub(super) struct ServerWire {
    pub(super) coming: VecDeque<Vec<u8>>,
    pub(super) answers: Vec<Vec<u8>>,
}

impl Wire for ServerWire {
    fn send(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.answers.push(message.to_vec());
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<usize, WireError> {
        self.try_receive(into)?.ok_or(WireError::Closed)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> Result<Option<usize>, WireError> {
        Ok(self.coming.pop_front().map(|message| {
            let len = message.len().min(into.len());
            into[..len].copy_from_slice(&message[..len]);
            len
        }))
    }

    fn wait(&mut self, _at_most: Duration) -> Result<bool, WireError> {
        Ok(!self.coming.is_empty())
    }

    fn effective(&self) -> Vec<Fact> {
        Vec::new()
    }
}

#[test]
fn the_server_does_not_answer_damaged_messages() {
    let case = Case::ping_pong("udp").with(|changed| changed.primary_mut().load.set_sizes(40, 20));
    let whole = |number| {
        let mut message = Message::new(40, 20);
        message.number(number);
        message.request().to_vec()
    };
    let flipped = |number, at: usize, also_at: usize| {
        let mut message = whole(number);
        message[at] ^= 0x10;
        message[also_at] ^= 0x10;
        message
    };
    // The damage is beyond the answered bytes, or includes the sequence number, or shortens the datagram.
    let coming = [whole(0), flipped(1, 25, 39), flipped(2, 1, 30), whole(3)[..24].to_vec(), Vec::new(), whole(4)];
    let mut server = ServerWire { coming: coming.into(), answers: Vec::new() };
    let clock = ManualClock::default();
    let warm_up = Extent::Count(1);
    let echo = Echo { clock: &clock, case: &case, boundaries: true, cpu_only: false, warm_up, notes_order: false };
    let Answered { turnaround, .. } = echo.run(&mut Filtered::new(&mut server, is_whole(&case)), &mut Alone).unwrap();
    assert_eq!(server.answers, [whole(0)[..20].to_vec(), whole(4)[..20].to_vec()]);
    assert_eq!(turnaround.map(|turnaround| turnaround.counts.iter().sum()), Some(2_u64));
}
