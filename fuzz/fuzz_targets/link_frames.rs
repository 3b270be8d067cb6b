//! Frames at the interfaces of a link, which any program behind the link may send.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_engine::links::fuzzing::link_frames(input);
});
