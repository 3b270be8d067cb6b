//! Hellos, which any program that can send to the port may forge.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_transports::fuzzing::hellos(input);
});
