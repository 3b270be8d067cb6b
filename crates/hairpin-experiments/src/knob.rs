//! A knob describes a setting as data. Flags, help, checks and printed commands derive from knobs.

use hairpin_model::{Options, Refused, Repeat, names, parse};

use crate::quantity;
use crate::value::Value;

/// A setting that the user can change.
#[derive(Clone, Copy, Debug)]
pub struct Knob {
    /// The flag without its dashes.
    pub name: &'static str,
    /// Placeholder of the value in the help, in capitals; empty for a switch.
    pub value_name: &'static str,
    /// Default values; empty if the help describes what omitting the flag means.
    pub default: &'static [&'static str],
    /// One line of help: starts with a capital, without a full stop.
    pub help: &'static str,
    pub kind: KnobKind,
    /// Takes a comma-separated list.
    pub many: bool,
    pub repeat: bool,
    /// Not shown in the help.
    pub hidden: bool,
    /// Returns the values for a command that repeats cases, as [`KnobKind::read`] parses them. Empty omits the flag.
    pub print: fn(&Repeat) -> Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KnobKind {
    /// On if given, else off; takes no value.
    Switch,
    /// Words of a finite list, or `all` of them.
    Words(&'static [&'static str]),
    Transport,
    /// A set of socket options such as `nodelay=on,sndbuf=4096`, or `none`, or `all`.
    OptionSet,
    Link,
    /// Values of a kernel setting, such as `net.ipv4.tcp_sack=0,1`.
    Sysctl,
    Whole {
        min: u64,
        max: u64,
    },
    Bytes {
        min: u64,
        max: u64,
    },
    Duration {
        /// 0, 1 or the shortest duration.
        min_ns: u64,
        max_ns: u64,
    },
    /// A share above 0 and below 1.
    Share,
    /// Messages per second, above 0.
    Rate {
        max_per_s: f64,
    },
    /// Messages per second, up to this maximum, or this word.
    RateOr(&'static str, f64),
    /// Bits per second, or this word.
    BitRateOr(&'static str),
    /// Names of congestion controls.
    Congestion,
    /// When messages are due: `fixed`, `poisson` or `burst=N`.
    Arrivals,
    /// A number of messages, a duration, or this word.
    ExtentOr(&'static str),
    InjectedFault,
    /// The writes of a request, such as `100x2` or `4,3210`. A comma is part of one value.
    Writes,
    /// Remedies, or `all`.
    Remedy,
    /// `on` or `off`, given explicitly.
    OnOff,
}

pub const fn joined<const COUNT: usize>(groups: &[&[Knob]]) -> [Knob; COUNT] {
    let mut all = [groups[0][0]; COUNT];
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        let mut index = 0;
        while index < groups[group].len() {
            all[count] = groups[group][index];
            count += 1;
            index += 1;
        }
        group += 1;
    }
    all
}

pub const fn count(groups: &[&[Knob]]) -> usize {
    match groups {
        [] => 0,
        [group, others @ ..] => group.len() + count(others),
    }
}

/// The word that selects every value of a finite list.
pub const EVERY: &str = "all";
/// The word for an empty set of options.
pub const NO_OPTIONS: &str = "none";

impl KnobKind {
    /// Parses one value. Names of transports and links are looked up later among the host capabilities.
    pub fn read(self, text: &str) -> Result<Value, Refused> {
        Ok(match self {
            Self::Words(_) | Self::Transport | Self::Link | Self::OptionSet | Self::Remedy if text == EVERY => {
                Value::Every
            }
            Self::Switch | Self::OnOff => Value::Switch(quantity::switch(text)?),
            Self::Words(words) => Value::Word(names::place("value", text, words)?),
            Self::Transport | Self::Link | Self::Congestion => Value::Name(text.to_owned()),
            Self::OptionSet if text == NO_OPTIONS => Value::Options(Options::default()),
            Self::OptionSet => Value::Options(Options::parse(text)?),
            Self::Sysctl => Value::Sysctl(quantity::sysctl(text)?),
            Self::Whole { min, max } => Value::Whole(quantity::whole(text, min, max)?),
            Self::Bytes { min, max } => Value::Whole(quantity::bytes(text, min, max)?),
            Self::Duration { min_ns, max_ns } => Value::Whole(quantity::duration_ns(text, min_ns, max_ns)?),
            Self::Share => Value::Real(quantity::share(text)?),
            Self::Rate { max_per_s } => Value::Real(quantity::rate_per_s(text, max_per_s)?),
            Self::RateOr(word, _) | Self::BitRateOr(word) | Self::ExtentOr(word) if text == word => Value::Chosen,
            Self::BitRateOr(_) => Value::Real(parse::bits_per_s(text)?),
            Self::RateOr(_, max_per_s) => Value::Real(quantity::rate_per_s(text, max_per_s)?),
            Self::Arrivals => Value::Arrivals(text.parse()?),
            Self::ExtentOr(_) => Value::Extent(quantity::extent(text)?),
            Self::InjectedFault => Value::InjectedFault(quantity::injected_fault(text)?),
            Self::Writes => Value::Writes(text.parse()?),
            Self::Remedy => Value::Remedy(text.parse()?),
        })
    }
}

impl Knob {
    /// A visible knob with one value, no default and no help.
    pub const fn new(name: &'static str, value_name: &'static str, kind: KnobKind) -> Self {
        Self {
            name,
            value_name,
            default: &[],
            help: "",
            kind,
            many: false,
            repeat: false,
            hidden: false,
            print: |_| Vec::new(),
        }
    }

    /// A switch, off by default.
    pub const fn switch(name: &'static str, help: &'static str) -> Self {
        Self::new(name, "", KnobKind::Switch).help(help)
    }

    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    pub const fn or(mut self, default: &'static [&'static str]) -> Self {
        self.default = default;
        self
    }

    /// Takes a comma-separated list.
    pub const fn many(mut self) -> Self {
        self.many = true;
        self
    }

    pub const fn repeat(mut self) -> Self {
        self.repeat = true;
        self
    }

    /// Sets the function that prints the values for a command.
    pub const fn print(mut self, print: fn(&Repeat) -> Vec<String>) -> Self {
        self.print = print;
        self
    }

    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }
}
