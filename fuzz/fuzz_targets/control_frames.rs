//! Frames of control messages, which the other end of a round sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_engine::control::frames::fuzzing::control_frames(input);
});
