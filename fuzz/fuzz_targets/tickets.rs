//! Tickets that users paste.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let _ = hairpin_hosts::ticket::fuzzing::tickets(input);
});
