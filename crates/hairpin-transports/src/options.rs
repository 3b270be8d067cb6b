//! Options as the kernel grants them.

use hairpin_model::options::OptionName;

/// Whether what the kernel says is what was asked. The kernel doubles buffer sizes (socket(7)), so 4096 is met by
/// exactly 8192.
#[must_use]
pub fn is_met(name: OptionName, asked: &str, effective: &str) -> bool {
    match name {
        OptionName::Sndbuf | OptionName::Rcvbuf => {
            let numbers = (asked.parse::<u64>(), effective.parse::<u64>());
            matches!(numbers, (Ok(asked), Ok(effective)) if effective == 2 * asked)
        }
        _ => asked == effective,
    }
}
