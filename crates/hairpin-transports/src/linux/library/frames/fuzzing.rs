//! The fuzz target `stream_frames`: how the bytes of frames are split does not change what they mean.

use super::{Frames, HEADER_BYTES, MAX_STREAMS, Part, header};

/// What arrived in a frame, with its stream.
type Frame = (u32, Part<Vec<u8>>);

/// The first byte is the maximum size of a part. Parses the other bytes as frames, at once and in parts. Returns whether they are
/// whole frames and nothing else.
pub fn stream_frames(input: &[u8]) -> bool {
    let Some((&size, bytes)) = input.split_first() else { return false };
    let mut whole = Frames::default();
    let (at_once, is_valid) = parse(&mut whole, [bytes]);
    let mut split = Frames::default();
    let in_parts = parse(&mut split, bytes.chunks(usize::from(size).max(1)));
    assert_eq!(in_parts, (at_once.clone(), is_valid), "parts of {size} bytes");
    let is_complete = is_valid && whole.filled == 0 && whole.missing == 0;
    if is_complete {
        let written = at_once.iter().flat_map(|(stream, frame)| {
            let payload = if let Part::Payload(payload) = frame { payload.as_slice() } else { &[] };
            [&header(*stream, frame), payload].concat()
        });
        assert_eq!(written.collect::<Vec<_>>(), bytes, "parsed frames are encoded differently");
    }
    is_complete && !at_once.is_empty()
}

/// Returns the frames, and whether all are valid.
fn parse<'b>(frames: &mut Frames, parts: impl IntoIterator<Item = &'b [u8]>) -> (Vec<Frame>, bool) {
    let mut all: Vec<Frame> = Vec::new();
    for mut came in parts {
        loop {
            let is_new = frames.missing == 0 || frames.missing == frames.word(4) as usize;
            let before = came.len();
            match frames.next(&mut came) {
                Ok(Some((stream, part))) => {
                    assert!(stream < MAX_STREAMS, "stream {stream}");
                    assert!(came.len() < before, "no byte was taken");
                    let frame = match part {
                        Part::Payload(payload) => Part::Payload(payload.to_vec()),
                        Part::Open => Part::Open,
                        Part::End => Part::End,
                    };
                    match (all.last_mut(), frame) {
                        (Some((_, Part::Payload(so_far))), Part::Payload(more)) if !is_new => so_far.extend(more),
                        (_, frame) => all.push((stream, frame)),
                    }
                }
                Ok(None) => break,
                Err(_) => return (all, false),
            }
        }
        assert!(came.is_empty() && frames.filled < HEADER_BYTES);
    }
    (all, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_of_stream_frames_is_replayed() {
        let frame = |stream, part: Part<&[u8]>| {
            let payload = if let Part::Payload(payload) = part { payload } else { &[] };
            [&header(stream, &part), payload].concat()
        };
        let of = |size: u8, frames: &[Vec<u8>]| [vec![size], frames.concat()].concat();
        let all = [frame(0, Part::Open), frame(0, Part::Payload(b"payload")), frame(0, Part::End)];
        let several =
            [frame(3, Part::Payload(b"a")), frame(9999, Part::Payload(b"bc")), frame(3, Part::Payload(b"d"))];
        let valid = [
            ("open", of(8, &[frame(0, Part::Open)])),
            ("all", of(1, &all)),
            ("several", of(3, &several)),
            ("long", of(200, &[frame(1, Part::Payload(&[7; 1000]))])),
        ];
        hairpin_testing::corpus::replay("stream_frames", &valid, stream_frames);
    }

    #[test]
    fn a_stream_with_a_number_that_is_too_large_is_refused() {
        let mut came = &header(MAX_STREAMS, &Part::<&[u8]>::Open)[..];
        assert!(Frames::default().next(&mut came).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_mean_the_same_in_any_parts(input in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100)) {
            // Random bytes have few valid streams.
            let near: Vec<u8> = input.iter().map(|byte| byte % 4).collect();
            stream_frames(&input);
            stream_frames(&near);
        }
    }
}
