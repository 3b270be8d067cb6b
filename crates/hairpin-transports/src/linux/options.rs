//! Sets the requested socket options and reads the kernel's values.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_model::options::OptionName;
use hairpin_model::{Fact, Options, ValueKind};

use crate::options::{Family, Moment};
use crate::system::sockopt::{self, SockOpt};
use crate::wire::TransportError;

/// Sets the options in the order of [`OptionName::ALL`]. The order matters: setting the type of service also sets the
/// priority (ip(7)), so the priority is set after the type of service.
pub(crate) fn apply(
    on: BorrowedFd<'_>,
    family: Family,
    options: &Options,
    moment: Moment,
) -> Result<(), TransportError> {
    let later = |name| matches!(name, OptionName::Quickack | OptionName::Gso) && moment == Moment::Opened;
    for (name, asked) in options.iter().filter(|(name, _)| !later(*name)) {
        set(on, family, name, asked).map_err(|source| TransportError::Option {
            name,
            asked: asked.to_owned(),
            source,
        })?;
    }
    Ok(())
}

/// Returns the fact `option.NAME` for each of `names`: the kernel's current value, as text for [`Options::parse`].
pub(crate) fn effective(on: BorrowedFd<'_>, family: Family, names: &[OptionName]) -> Vec<Fact> {
    names
        .iter()
        .filter_map(|name| {
            let value = get(on, family, *name).ok()?;
            Some(Fact::word(&format!("option.{name}"), value))
        })
        .collect()
}

pub(crate) fn switch(on: BorrowedFd<'_>, family: Family, name: OptionName, value: bool) -> io::Result<()> {
    sockopt::set(on, option_of(family, name), value.into())
}

pub(crate) fn set(on: BorrowedFd<'_>, family: Family, name: OptionName, asked: &str) -> io::Result<()> {
    if name == OptionName::Congestion {
        return sockopt::set_bytes(on, sockopt::CONGESTION, asked.as_bytes());
    }
    let bad = |_| io::Error::from(io::ErrorKind::InvalidInput);
    if name == OptionName::PacingRate {
        let rate: u64 = asked.parse().map_err(bad)?;
        return sockopt::set_bytes(on, sockopt::MAX_PACING_RATE, &rate.to_ne_bytes());
    }
    let asked = match asked {
        "on" => 1,
        "off" => 0,
        number => number.parse().map_err(bad)?,
    };
    // The lower two bits of the byte are for ECN (RFC 3168).
    let asked = if name == OptionName::Dscp { asked << 2 } else { asked };
    sockopt::set(on, option_of(family, name), asked)
}

pub(crate) fn get(on: BorrowedFd<'_>, family: Family, name: OptionName) -> io::Result<String> {
    if name == OptionName::Congestion {
        return sockopt::get_text(on, sockopt::CONGESTION);
    }
    if name == OptionName::PacingRate {
        return sockopt::get_long(on, sockopt::MAX_PACING_RATE).map(|rate| rate.to_string());
    }
    let value = sockopt::get(on, option_of(family, name))?;
    Ok(match name {
        _ if name.values() == ValueKind::Switch => if value == 0 { "off" } else { "on" }.to_owned(),
        OptionName::Dscp => (value >> 2).to_string(),
        // The kernel's value is unsigned, and all bits are set by default.
        OptionName::NotsentLowat => value.cast_unsigned().to_string(),
        _ => value.to_string(),
    })
}

pub(crate) fn option_of(family: Family, name: OptionName) -> SockOpt {
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
        OptionName::Gso => sockopt::UDP_GRO,
        OptionName::Zerocopy => sockopt::ZEROCOPY,
        OptionName::PacingRate => sockopt::MAX_PACING_RATE,
    }
}
