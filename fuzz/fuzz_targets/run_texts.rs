//! The text files of run folders from untrusted sources.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_store::fuzzing::run_texts(input);
});
