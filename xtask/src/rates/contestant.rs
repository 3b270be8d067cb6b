//! The compared programs.

use hairpin_testing::program;

#[derive(Debug)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) arguments: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Hairpin,
    BareLoop,
    Sockperf,
    Iperf3,
}

impl Program {
    /// Returns the Debian package of a program that is not installed; `None` if the program is available.
    pub(super) fn missing(self) -> Option<&'static str> {
        let name = match self {
            Self::Hairpin | Self::BareLoop => return None,
            Self::Sockperf => "sockperf",
            Self::Iperf3 => "iperf3",
        };
        program(name).is_err().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_programs_need_no_package() {
        assert_eq!(Program::BareLoop.missing(), None);
        assert_eq!(Program::Hairpin.missing(), None);
    }
}
