//! Hellos, from anything that can send to a port.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_transports::fuzzing::hellos(input);
});
