//! Frames of `tcp-streams`, which the other end may forge.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_transports::frames_fuzzing::stream_frames(input);
});
