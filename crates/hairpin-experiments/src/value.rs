//! The parsed value of a knob.

use hairpin_model::case::Scheduling;
use hairpin_model::flow::{Build, Channels, ConnectionUse, Direction, LoadWays, Observer, Opening, Pacing, Source};
use hairpin_model::periodic::{BackgroundLoad, Overrun, Timing};
use hairpin_model::{
    Arrivals, CpuIdle, EndKind, Extent, InjectedFault, Options, Placement, Remedy, Sysctls, Waiting, WhichCpus,
    Writes,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// All values of a finite list, written `all`.
    Every,
    /// Chosen by the experiment for each case, written `auto`.
    Chosen,
    Switch(bool),
    /// Index into the knob's list of words.
    Word(usize),
    /// A transport, link or congestion control.
    Name(String),
    /// A whole number, a number of bytes or a duration in ns.
    Whole(u64),
    /// A share, or a rate in messages or bits per second.
    Real(f64),
    Extent(Extent),
    Options(Options),
    /// A kernel setting with each of its values.
    Sysctl(Vec<Sysctls>),
    /// When messages are due.
    Arrivals(Arrivals),
    InjectedFault(InjectedFault),
    Writes(Writes),
    Remedy(Remedy),
}

/// A type that knob values convert to.
pub trait OfKnob: Clone + PartialEq {
    /// Converts the value; `None` if it is of another kind.
    fn of(value: &Value) -> Option<Self>;
}

macro_rules! of_knob {
    ($($kind:ident($type:ty)),+) => {
        $(impl OfKnob for $type {
            fn of(value: &Value) -> Option<Self> {
                if let Value::$kind(value) = value.clone() { Some(value) } else { None }
            }
        })+
    };
}

of_knob!(
    Arrivals(Arrivals),
    Switch(bool),
    Name(String),
    Whole(u64),
    Real(f64),
    Extent(Extent),
    Options(Options),
    Sysctl(Vec<Sysctls>),
    InjectedFault(InjectedFault),
    Writes(Writes),
    Remedy(Remedy)
);

macro_rules! word_of_knob {
    ($($type:ty),+) => {
        $(impl OfKnob for $type {
            fn of(value: &Value) -> Option<Self> {
                if let Value::Word(place) = value { Self::ALL.get(*place).copied() } else { None }
            }
        })+
    };
}

word_of_knob!(
    Build,
    Waiting,
    Placement,
    EndKind,
    CpuIdle,
    Direction,
    Pacing,
    Source,
    Channels,
    Opening,
    LoadWays,
    WhichCpus,
    ConnectionUse,
    Observer,
    Overrun,
    BackgroundLoad,
    Timing,
    Scheduling
);
