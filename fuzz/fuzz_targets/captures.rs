//! Capture files from untrusted sources, and what `hairpin explain` says of them.
#![no_main]

use hairpin_model::Tier;
use hairpin_model::observed::Observed;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Ok(packets) = hairpin_engine::packets::file::read(input) {
        let observed = Observed { packets, programs: None };
        let _ = hairpin_analysis::explain(observed, Tier::File, String::new());
    }
});
