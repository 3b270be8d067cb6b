//! Socket options: what is requested, and what was granted.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::refused::Refused;
use crate::words;

words! {
    /// A socket option, by its name on the command line.
    pub enum OptionName: "option" {
        /// `TCP_NODELAY`: send small segments at once (no Nagle).
        Nodelay = "nodelay",
        /// `TCP_CORK`: hold partial segments until the option is cleared, 200 ms at most.
        Cork = "cork",
        /// `TCP_QUICKACK`: acknowledge at once; the kernel may leave this mode by itself.
        Quickack = "quickack",
        /// `SO_SNDBUF` in bytes; the kernel doubles the value.
        Sndbuf = "sndbuf",
        /// `SO_RCVBUF` in bytes; the kernel doubles the value.
        Rcvbuf = "rcvbuf",
        /// `SO_BUSY_POLL` in microseconds.
        BusyPoll = "busy-poll",
        /// `IP_TOS` / `IPV6_TCLASS`, the whole byte (DSCP is its upper six bits).
        Tos = "tos",
        /// DSCP, 0 to 63: the upper six bits of the TOS byte.
        Dscp = "dscp",
        /// `TCP_CONGESTION`: the congestion control's name. Libraries may have their own.
        Congestion = "congestion",
        /// `TCP_NOTSENT_LOWAT` in bytes.
        NotsentLowat = "notsent-lowat",
        /// `SO_PRIORITY`, 0 to 6 without privilege.
        Priority = "priority",
        /// `UDP_SEGMENT` and `UDP_GRO`: the datagrams of a batch go through the kernel as one packet.
        Gso = "gso",
        /// `SO_ZEROCOPY`: batches are sent with `MSG_ZEROCOPY`.
        Zerocopy = "zerocopy",
        /// `SO_MAX_PACING_RATE` in bytes per second.
        PacingRate = "pacing-rate",
    }
}

/// Values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `on` or `off`.
    Switch,
    /// A whole number in the range.
    Number {
        min: u64,
        max: u64,
        /// Unit, or empty.
        unit: &'static str,
    },
    /// A name.
    Word,
}

impl OptionName {
    pub fn values(self) -> ValueKind {
        const INT_MAX: u64 = i32::MAX as u64;
        // Values may be computed as floats, which are exact up to this value.
        const MAX_EXACT: u64 = 1 << 53;
        match self {
            Self::Nodelay | Self::Cork | Self::Quickack | Self::Gso | Self::Zerocopy => ValueKind::Switch,
            Self::Sndbuf | Self::Rcvbuf => ValueKind::Number { min: 1, max: INT_MAX / 2, unit: "bytes" },
            Self::BusyPoll => ValueKind::Number { min: 0, max: INT_MAX, unit: "us" },
            Self::Tos => ValueKind::Number { min: 0, max: 255, unit: "" },
            Self::Dscp => ValueKind::Number { min: 0, max: 63, unit: "" },
            Self::NotsentLowat => ValueKind::Number { min: 0, max: INT_MAX, unit: "bytes" },
            Self::Priority => ValueKind::Number { min: 0, max: 15, unit: "" },
            Self::PacingRate => ValueKind::Number { min: 1, max: MAX_EXACT, unit: "bytes/s" },
            Self::Congestion => ValueKind::Word,
        }
    }

    /// Description in a line, with the kernel's name.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Nodelay => "TCP_NODELAY: send small segments at once (no Nagle)",
            Self::Cork => "TCP_CORK: hold partial segments, 200 ms at most",
            Self::Quickack => "TCP_QUICKACK: send ACKs at once; the kernel may leave this mode by itself",
            Self::Sndbuf => "SO_SNDBUF: send buffer; the kernel doubles the value",
            Self::Rcvbuf => "SO_RCVBUF: receive buffer; the kernel doubles the value",
            Self::BusyPoll => {
                "SO_BUSY_POLL: busy-poll the device queue in receive calls; loopback and links have none"
            }
            Self::Tos => "IP_TOS / IPV6_TCLASS: the whole type-of-service byte",
            Self::Dscp => "DSCP: the upper six bits of the type-of-service byte",
            Self::Congestion => "TCP_CONGESTION, or that of a library: the congestion control, for instance cubic",
            Self::NotsentLowat => "TCP_NOTSENT_LOWAT: unsent bytes above which a socket is not writable",
            Self::Priority => "SO_PRIORITY: the queueing priority of sent packets",
            Self::Gso => {
                "UDP_SEGMENT and UDP_GRO: a batch (quic: a burst) goes through the kernel as one packet, if it fits"
            }
            Self::Zerocopy => "SO_ZEROCOPY: send batches with MSG_ZEROCOPY; the loopback device copies anyway",
            Self::PacingRate => "SO_MAX_PACING_RATE: the maximum rate at which TCP sends segments",
        }
    }

    /// Value that `--option all` tries; `None` if the option is not useful in a ping-pong.
    pub fn trial_value(self) -> Option<&'static str> {
        match self {
            Self::Nodelay | Self::Quickack => Some("on"),
            Self::Sndbuf | Self::Rcvbuf => Some("65536"),
            Self::Dscp => Some("46"),
            Self::Congestion => Some("cubic"),
            Self::NotsentLowat => Some("16384"),
            Self::Priority => Some("6"),
            Self::Cork | Self::Tos | Self::BusyPoll | Self::Gso | Self::Zerocopy | Self::PacingRate => None,
        }
    }
}

/// The requested options by name; values are checked texts (`on`, `4096`, `cubic`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, crate::JsonSchema)]
#[serde(transparent)]
pub struct Options(BTreeMap<OptionName, String>);

impl Options {
    /// Parses `nodelay=on,sndbuf=4096`; an empty text has no options.
    ///
    /// # Errors
    /// [`Refused`] for an unknown name, a missing or invalid value, or a repeated name.
    pub fn parse(text: &str) -> Result<Self, Refused> {
        let mut options = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                Refused::new(format!("option `{part}` has no value"), "write name=value, for instance nodelay=on")
            })?;
            let name: OptionName = name.trim().parse()?;
            let value = checked(name, value.trim())?;
            if options.insert(name, value).is_some() {
                return Err(Refused::new(
                    format!("option `{name}` is given twice"),
                    "use --option twice to compare two values",
                ));
            }
        }
        if options.contains_key(&OptionName::Tos) && options.contains_key(&OptionName::Dscp) {
            return Err(Refused::new("options `tos` and `dscp` set the same byte", "give one of them"));
        }
        Ok(Self(options))
    }

    pub fn iter(&self) -> impl Iterator<Item = (OptionName, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    pub fn get(&self, name: OptionName) -> Option<&str> {
        self.0.get(&name).map(String::as_str)
    }

    /// Adds or changes an option; the value must be one that [`Options::parse`] accepts.
    pub fn with(mut self, name: OptionName, value: &str) -> Self {
        self.0.insert(name, value.to_owned());
        self
    }

    pub fn without(mut self, name: OptionName) -> Self {
        self.0.remove(&name);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Options {
    /// The text that [`Options::parse`] reads.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.write_str(&options.join(","))
    }
}

fn checked(name: OptionName, value: &str) -> Result<String, Refused> {
    let bad = |expected: &str| Refused::new(format!("option `{name}` does not take `{value}`"), expected);
    match name.values() {
        ValueKind::Switch => match value {
            "on" | "1" | "true" => Ok("on".to_owned()),
            "off" | "0" | "false" => Ok("off".to_owned()),
            _ => Err(bad("on or off")),
        },
        ValueKind::Number { min, max, unit } => {
            let number = crate::parse::bytes(value).ok().filter(|number| (min..=max).contains(number));
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            number
                .map(|number| number.to_string())
                .ok_or_else(|| bad(&format!("a whole number from {min} to {max}{unit}")))
        }
        ValueKind::Word if !value.is_empty() && value.len() < 16 => Ok(value.to_owned()),
        ValueKind::Word => Err(bad("a name of 1 to 15 letters")),
    }
}

/// One option at one end: the requested value, and the kernel's value before and after the round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Effective {
    pub name: OptionName,
    /// The requested value; null if the kernel's default was not changed.
    pub asked: Option<String>,
    /// The value read back before the first message.
    pub before: String,
    /// The value read back after the last message.
    pub after: String,
    /// Whether `before` is the requested value; true if none was requested.
    pub met: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_checked_and_kept_in_order() {
        let options = Options::parse("sndbuf=4KiB, nodelay=1").unwrap();
        let pairs: Vec<_> = options.iter().collect();
        assert_eq!(pairs, [(OptionName::Nodelay, "on"), (OptionName::Sndbuf, "4096")]);
    }

    #[test]
    fn refusals_name_the_option_and_what_it_takes() {
        let text = |given: &str| Options::parse(given).unwrap_err().to_string();
        assert_eq!(text("nodlay=on"), "unknown option `nodlay` (hint: did you mean `nodelay`?)");
        assert_eq!(
            text("nodelay"),
            "option `nodelay` has no value (hint: write name=value, for instance nodelay=on)"
        );
        assert_eq!(text("dscp=64"), "option `dscp` does not take `64` (hint: a whole number from 0 to 63)");
        assert_eq!(
            text("cork=on,cork=off"),
            "option `cork` is given twice (hint: use --option twice to compare two values)"
        );
        assert_eq!(text("tos=1,dscp=1"), "options `tos` and `dscp` set the same byte (hint: give one of them)");
    }
}
