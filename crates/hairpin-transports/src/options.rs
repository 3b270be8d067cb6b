//! Requested socket options and the values that the kernel uses.

use hairpin_model::options::OptionName;

#[cfg(target_os = "linux")]
pub(crate) use crate::linux::options::{apply, effective, switch};

/// Whether the kernel uses the requested value. The kernel doubles buffer sizes (socket(7)), so 8192 meets 4096.
pub fn is_met(name: OptionName, asked: &str, effective: &str) -> bool {
    match name {
        OptionName::Sndbuf | OptionName::Rcvbuf => {
            let numbers = (asked.parse::<u64>(), effective.parse::<u64>());
            matches!(numbers, (Ok(asked), Ok(effective)) if Some(effective) == asked.checked_mul(2))
        }
        _ => asked == effective,
    }
}

#[cfg(target_os = "linux")]
/// The protocol family, which determines the option that sets the type of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    Unix,
}

#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the socket is bound or connected, since buffer sizes determine the window in the first packets (tcp(7)).
    Opened,
    /// After the socket is connected. Accepted sockets inherit only some options of the listener. `TCP_QUICKACK` set
    /// to off before would delay the last packet of the handshake and then be on again. `UDP_GRO` could join hellos.
    Connected,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_doubled_buffer_size_meets_the_request(asked in 1_u64..1 << 40, effective in 0_u64..1 << 41) {
            let met = |effective: u64| is_met(OptionName::Sndbuf, &asked.to_string(), &effective.to_string());
            prop_assert!(met(2 * asked));
            prop_assert_eq!(met(effective), effective == 2 * asked);
        }

        #[test]
        fn no_text_panics(asked in ".*", effective in ".*") {
            for name in OptionName::ALL {
                let met = is_met(*name, &asked, &effective);
                prop_assert!(!met || asked == effective || asked.parse::<u64>().is_ok());
            }
        }
    }

    #[test]
    fn other_options_are_met_only_by_the_same_value() {
        assert!(is_met(OptionName::Nodelay, "on", "on"));
        assert!(!is_met(OptionName::Nodelay, "on", "off"));
        assert!(!is_met(OptionName::Congestion, "cubic", "bbr"));
        assert!(!is_met(OptionName::Rcvbuf, "18446744073709551615", "18446744073709551614"), "no overflow");
    }
}
