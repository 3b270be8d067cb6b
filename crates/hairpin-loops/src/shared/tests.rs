//! Tests of frame parsing, with split and invalid frames, and of the counts of a load.

use hairpin_model::Received;
use proptest::prelude::*;

use super::bulk::Bulk;
use super::frames::{FrameKind, HEAD_BYTES, Incoming, ReceivedFrame, frame};
use super::{BulkOrder, frames};

const ORDER: BulkOrder = BulkOrder { write_size_bytes: 100, goes_up: true, ramp_ns: 10, loaded_ns: 20 };

/// Bulk bytes of the ramp and of the measurement, and the complete frames.
type Taken = ([u64; 2], Vec<(FrameKind, Vec<u8>)>);

/// The result of `bytes`, received in pieces of `piece` bytes.
fn taken(bytes: &[u8], piece: usize) -> Result<Taken, frames::NoFrame> {
    let mut incoming = Incoming::default();
    let (mut bulk, mut whole) = ([0; 2], Vec::new());
    for piece in bytes.chunks(piece) {
        incoming.take(piece, &mut |came| match came {
            ReceivedFrame::Bulk { measured, bytes } => bulk[usize::from(measured)] += bytes,
            ReceivedFrame::Whole(kind, body) => whole.push((kind, body.to_vec())),
        })?;
    }
    Ok((bulk, whole))
}

#[test]
fn frames_are_read_wherever_they_are_split() {
    let all = [
        frame(FrameKind::RampData, &[7; 30]),
        frame(FrameKind::Message, b"number"),
        frame(FrameKind::Data, &[7; 50]),
        frame(FrameKind::End, &[]),
        frame(FrameKind::Answer, b"answer"),
    ]
    .concat();
    let expected = (
        [30, 50],
        vec![
            (FrameKind::Message, b"number".to_vec()),
            (FrameKind::End, Vec::new()),
            (FrameKind::Answer, b"answer".to_vec()),
        ],
    );
    for piece in 1..=all.len() {
        assert_eq!(taken(&all, piece).unwrap(), expected, "pieces of {piece}");
    }
}

#[test]
fn bytes_that_are_not_frames_are_refused() {
    let head = |kind: u8, length: u32| [&[kind, 0, 0, 0][..], &length.to_le_bytes()].concat();
    assert!(taken(&head(0, 1), 1).is_err() && taken(&head(7, 1), 1).is_err());
    assert!(taken(&head(FrameKind::Message as u8, (1 << 20) + 1), 8).is_err());
    assert!(taken(&head(FrameKind::Data as u8, (16 << 20) + 1), 8).is_err());
    assert!(taken(&[FrameKind::End as u8, 1, 0, 0, 0, 0, 0, 0], 8).is_err());
}

proptest! {
    #[test]
    fn no_bytes_panic_and_memory_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..50) {
        if let Ok((bulk, whole)) = taken(&bytes, piece) {
            let told = bulk.iter().sum::<u64>() as usize
                + whole.iter().map(|(_, body)| body.len() + HEAD_BYTES).sum::<usize>();
            prop_assert!(told <= bytes.len());
        }
    }
}

#[test]
fn a_load_has_a_ramp_and_a_measured_part_and_ends_once() {
    let mut sent = Bulk::new(ORDER, true);
    assert_eq!((sent.phase(5), sent.ends(1_000)), (None, false), "the load has not begun");
    assert_eq!([sent.begin(100), sent.begin(200)], [true, false]);
    assert_eq!(
        [100, 109, 110, 129, 130].map(|now_ns| sent.phase(now_ns)),
        [Some(0), Some(0), Some(1), Some(1), None]
    );
    sent.wrote([3, 0], 105);
    sent.wrote([0, 2], 112);
    sent.wrote([0, 1], 125);
    assert_eq!((sent.ends(129), sent.ends(130), sent.ends(131)), (false, true, false));
    assert_eq!(sent.began_ns, Some(100));
    let end = sent.ended();
    assert_eq!((end.sent, end.warm_up_sent), (3, 3));
    assert_eq!(end.departures.map(|sent| (sent.messages, sent.over_ns)), Some((3, 13)));
}

#[test]
fn a_receiver_counts_bytes_after_the_first_measured_bytes() {
    let mut received = Bulk::new(ORDER, false);
    received.on_bytes(false, 300, 1_000_000);
    received.on_bytes(true, 150, 4_000_000);
    received.on_bytes(true, 250, 6_500_000);
    let end = received.ended();
    assert_eq!((end.received, end.warm_up_received), (4, 3));
    let Received { bytes, bytes_after_first, over_ns, warm_up_intervals, interval_bytes, .. } = end.arrivals.unwrap();
    assert_eq!((bytes, bytes_after_first, over_ns, warm_up_intervals), (400, 250, 2_500_000, 3));
    assert_eq!(interval_bytes, [300, 0, 0, 150, 0, 250]);
}
