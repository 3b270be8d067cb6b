//! Options as they are asked of a socket, and as the kernel grants them.

#[cfg(target_os = "linux")]
use hairpin_model::card::{IPV4_MTU_BYTES, IPV6_MTU_BYTES};
use hairpin_model::options::OptionName;

#[cfg(target_os = "linux")]
pub(crate) use linux::{apply, effective, switch};

/// Whether what the kernel says is what was asked. The kernel doubles buffer sizes (socket(7)), so 4096 is met by
/// exactly 8192.
#[must_use]
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
/// The kernel's protocol family: where the type-of-service byte is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Unix domain.
    Unix,
}

#[cfg(target_os = "linux")]
impl Family {
    /// The smallest MTU, in bytes, of a path that can carry it; 0 where no packets do.
    pub(crate) fn min_mtu_bytes(self) -> u32 {
        match self {
            Self::V4 => IPV4_MTU_BYTES,
            Self::V6 => IPV6_MTU_BYTES,
            Self::Unix => 0,
        }
    }
}

#[cfg(target_os = "linux")]
/// When options are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the socket is bound or connected: buffer sizes decide on the window that the first packets offer
    /// (tcp(7)).
    Opened,
    /// Once it is connected: a listener passes only some options on, and `TCP_QUICKACK` is a state of a connection.
    /// Switched off earlier, it would hold back the last packet of the handshake and then be on again.
    Connected,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::BorrowedFd;

    use hairpin_model::fact::Fact;
    use hairpin_model::options::{OptionName, Options};

    use super::{Family, Moment};
    use crate::system::sockopt::{self, Place};
    use crate::wire::TransportError;

    /// Asks the kernel for every option. They are asked in the order of [`OptionName::ALL`], and it matters: setting
    /// the type of service also sets the priority (ip(7)), so the priority comes after it.
    ///
    /// # Errors
    /// [`TransportError::Option`] with the first refusal.
    pub(crate) fn apply(
        on: BorrowedFd<'_>,
        family: Family,
        options: &Options,
        moment: Moment,
    ) -> Result<(), TransportError> {
        let later = |name| name == OptionName::Quickack && moment == Moment::Opened;
        for (name, asked) in options.iter().filter(|(name, _)| !later(*name)) {
            set(on, family, name, asked).map_err(|source| TransportError::Option {
                name,
                asked: asked.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    /// `option.NAME` for every one of `names`, as the kernel says now, in the words of [`Options::parse`].
    pub(crate) fn effective(on: BorrowedFd<'_>, family: Family, names: &[OptionName]) -> Vec<Fact> {
        names
            .iter()
            .filter_map(|name| {
                let value = get(on, family, *name).ok()?;
                Some(Fact::word(&format!("option.{name}"), value))
            })
            .collect()
    }

    /// Sets a switch, by one system call.
    pub(crate) fn switch(on: BorrowedFd<'_>, family: Family, name: OptionName, value: bool) -> io::Result<()> {
        sockopt::set(on, place(family, name), value.into())
    }

    fn set(on: BorrowedFd<'_>, family: Family, name: OptionName, asked: &str) -> io::Result<()> {
        if name == OptionName::Congestion {
            return sockopt::set_text(on, sockopt::CONGESTION, asked);
        }
        let asked = match asked {
            "on" => 1,
            "off" => 0,
            number => number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        };
        // The lower two bits of the byte are ECN's (RFC 3168).
        let asked = if name == OptionName::Dscp { asked << 2 } else { asked };
        sockopt::set(on, place(family, name), asked)
    }

    fn get(on: BorrowedFd<'_>, family: Family, name: OptionName) -> io::Result<String> {
        if name == OptionName::Congestion {
            return sockopt::get_text(on, sockopt::CONGESTION);
        }
        let value = sockopt::get(on, place(family, name))?;
        Ok(match name {
            OptionName::Nodelay | OptionName::Cork | OptionName::Quickack => {
                if value == 0 { "off" } else { "on" }.to_owned()
            }
            OptionName::Dscp => (value >> 2).to_string(),
            // It is unsigned in the kernel: the default is all bits set.
            OptionName::NotsentLowat => value.cast_unsigned().to_string(),
            _ => value.to_string(),
        })
    }

    fn place(family: Family, name: OptionName) -> Place {
        match name {
            OptionName::Nodelay => sockopt::NODELAY,
            OptionName::Cork => sockopt::CORK,
            OptionName::Quickack => sockopt::QUICKACK,
            OptionName::Sndbuf => sockopt::SNDBUF,
            OptionName::Rcvbuf => sockopt::RCVBUF,
            OptionName::BusyPoll => sockopt::BUSY_POLL,
            OptionName::Tos | OptionName::Dscp if family == Family::V6 => sockopt::TRAFFIC_CLASS,
            OptionName::Tos | OptionName::Dscp => sockopt::TOS,
            OptionName::Congestion => sockopt::CONGESTION,
            OptionName::NotsentLowat => sockopt::NOTSENT_LOWAT,
            OptionName::Priority => sockopt::PRIORITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_buffer_is_met_by_its_double_and_by_nothing_else(asked in 1_u64..1 << 40, effective in 0_u64..1 << 41) {
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
    fn other_options_are_met_by_the_very_word() {
        assert!(is_met(OptionName::Nodelay, "on", "on"));
        assert!(!is_met(OptionName::Nodelay, "on", "off"));
        assert!(!is_met(OptionName::Congestion, "cubic", "bbr"));
        assert!(!is_met(OptionName::Rcvbuf, "18446744073709551615", "18446744073709551614"), "no overflow");
    }
}
