//! Captured frames, which any program that can send to the port may send.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_engine::capture::fuzzing::captured_frames(input);
});
