//! What became of each setting.

use std::fmt::{self, Display, Formatter};

/// Restores a setting of the calling thread.
pub(crate) type Undo = Box<dyn FnOnce()>;

macro_rules! settings {
    ($($setting:ident = $name:literal $unit:literal),+ $(,)?) => {
        /// A setting of a socket or of a thread. Displays its usual name; in the order in which they are made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Setting { $(#[doc = $name] $setting),+ }

        impl Setting {
            fn name_and_unit(self) -> (&'static str, &'static str) {
                match self { $(Self::$setting => ($name, $unit)),+ }
            }
        }
    };
}

// The class comes before the timer slack, as a real-time thread has none.
settings! {
    NoDelay = "TCP_NODELAY" "",
    QuickAck = "TCP_QUICKACK" "",
    NotSentLowat = "TCP_NOTSENT_LOWAT" " B",
    SendBuffer = "SO_SNDBUF" " B",
    ReceiveBuffer = "SO_RCVBUF" " B",
    BusyPoll = "SO_BUSY_POLL" " us",
    Priority = "SO_PRIORITY" "",
    Affinity = "CPU affinity" "",
    Scheduling = "scheduling class" "",
    TimerSlack = "timer slack" " ns",
    MemoryLock = "memory lock" "",
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name_and_unit().0)
    }
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// On or off.
    Switch(bool),
    /// A number, in the unit of its setting: bytes for buffers, us for `SO_BUSY_POLL`, ns for the timer slack.
    Number(u64),
    /// CPU numbers, in ascending order.
    Cpus(Vec<usize>),
    /// A scheduling class by its number in `linux/sched.h`, and its real-time priority (else 0).
    Class(i32, i32),
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
            Self::Number(number) => number.fmt(f),
            Self::Cpus(cpus) => f.write_str(&cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")),
            Self::Class(0, _) => f.write_str("SCHED_OTHER"),
            Self::Class(1, priority) => write!(f, "SCHED_FIFO {priority}"),
            Self::Class(2, priority) => write!(f, "SCHED_RR {priority}"),
            Self::Class(3, _) => f.write_str("SCHED_BATCH"),
            Self::Class(other, _) => write!(f, "class {other}"),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The requested value is in effect.
    Applied,
    /// The kernel accepted the request, but another value is in effect.
    Differs,
    /// The kernel refused the request.
    Refused,
    /// Nothing was requested, since it could not help, or would harm, here.
    NotRequested,
}

/// What became of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// What was to be set.
    pub setting: Setting,
    /// The requested value; `None` if nothing was requested.
    pub requested: Option<Value>,
    /// The value that the kernel reports now; `None` if it reports none.
    pub effective: Option<Value>,
    /// How the request ended.
    pub status: Status,
    /// Why the values differ or nothing was requested, or what to know of the effective value. For people.
    pub reason: Option<String>,
}

impl Outcome {
    pub(crate) fn new(setting: Setting, wanted: Value, effective: Option<Value>, ended: Ended) -> Self {
        let requested = (ended.0 != Status::NotRequested).then_some(wanted);
        Self { setting, requested, effective, status: ended.0, reason: ended.1 }
    }
}

pub(crate) type Ended = (Status, Option<String>);

pub(crate) fn because(reason: &str) -> Option<String> {
    Some(reason.to_owned())
}

/// An outcome for each setting of the profile. Displays a line for each: setting, requested, effective, reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In the order in which they were made.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The outcome of a setting, if the profile has it.
    #[must_use]
    pub fn get(&self, setting: Setting) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.setting == setting)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, outcome) in self.outcomes.iter().enumerate() {
            let (name, unit) = outcome.setting.name_and_unit();
            let shown =
                |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), |value| format!("{value}{unit}"));
            let (requested, effective) = (shown(&outcome.requested), shown(&outcome.effective));
            let reason = outcome.reason.as_deref().unwrap_or_default();
            let line = format!("{name:17} {requested:>13} {effective:>13}  {reason}");
            write!(f, "{}{}", if index == 0 { "" } else { "\n" }, line.trim_end())?;
        }
        Ok(())
    }
}
