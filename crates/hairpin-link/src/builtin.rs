//! The built-in profiles: names for lines of text.

use crate::profile::Profile;

/// A profile with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// What path it stands for, in one line.
    pub summary: &'static str,
    /// Its figures.
    pub line: &'static str,
}

impl Builtin {
    /// Its figures.
    #[must_use]
    pub fn profile(&self) -> Profile {
        if self.line == hairpin_model::case::LOOPBACK {
            return Profile::loopback();
        }
        self.line.parse().expect("a test reads every built-in line")
    }
}

/// Every built-in profile, the shortest path first.
pub const ALL: &[Builtin] = &[
    Builtin { name: "loopback", summary: "the kernel's own loopback, with no relay", line: "loopback" },
    Builtin { name: "bridged-vm", summary: "a bridged virtual machine, round trip 4 ms", line: "delay=2ms" },
];

/// The profile of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

/// All names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|builtin| builtin.name).collect()
}
