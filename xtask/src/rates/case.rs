//! The compared cases, with the contestants' arguments and the bounds.

use anyhow::{Result, bail};

use super::contestant::{Contestant, Program};

#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) question: &'static str,
    pub(super) unit: Unit,
    /// The contestants, Hairpin first.
    pub(super) contestants: &'static [Contestant],
    pub(super) bounds: &'static [Bound],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Messages,
    Bytes,
}

pub(super) const MESSAGE_BYTES: f64 = 64.0;

impl Unit {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Messages => "millions of messages/s",
            Self::Bytes => "MB/s",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) to: &'static str,
    pub(super) rule: Rule,
}

/// Minimum of the ratio's median over rounds, or of its interval too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rule {
    Median(f64),
    /// Minimum of the interval's lower bound, and minimum of the median.
    LowerAndMedian(f64, f64),
}

const BARE: &str = "bare loop";
const SOCKPERF: &str = "sockperf";
const IPERF3: &str = "iperf3";
const ONE_CALL: &str = "hairpin, one call each";

const TO_BARE: Bound = Bound { to: BARE, rule: Rule::Median(0.97) };
const TO_SOCKPERF: Bound = Bound { to: SOCKPERF, rule: Rule::LowerAndMedian(0.97, 1.0) };
const TO_IPERF3: Bound = Bound { to: IPERF3, rule: Rule::LowerAndMedian(0.97, 1.0) };

const fn hairpin(arguments: &'static str) -> Contestant {
    Contestant { name: "hairpin", program: Program::Hairpin, arguments }
}

const fn bare(arguments: &'static str) -> Contestant {
    Contestant { name: BARE, program: Program::BareLoop, arguments }
}

const fn sockperf(arguments: &'static str) -> Contestant {
    Contestant { name: SOCKPERF, program: Program::Sockperf, arguments }
}

const fn iperf3(arguments: &'static str) -> Contestant {
    Contestant { name: IPERF3, program: Program::Iperf3, arguments }
}

const BARE_ONE_CALL: Contestant =
    Contestant { name: "bare loop, one call each", program: Program::BareLoop, arguments: "--transport udp" };

const UDP_ONE_CALL: &str = "message-rate --transport udp --size 64 --batch 1";

const CASES: &[Case] = &[
    Case {
        name: "tcp",
        question: "TCP, one write per message of 64 B",
        unit: Unit::Messages,
        contestants: &[
            hairpin("message-rate --transport tcp --size 64 --batch 1 --option congestion=cubic"),
            bare("--transport tcp"),
            sockperf("--tcp"),
            iperf3("-l 64"),
        ],
        bounds: &[TO_BARE, TO_SOCKPERF, TO_IPERF3],
    },
    Case {
        name: "tcp-nodelay",
        question: "TCP with TCP_NODELAY, one write per message of 64 B",
        unit: Unit::Messages,
        contestants: &[
            hairpin("message-rate --transport tcp --size 64 --batch 1 --option congestion=cubic,nodelay=on"),
            bare("--transport tcp --nodelay on"),
            sockperf("--tcp --tcp-avoid-nodelay"),
            iperf3("-l 64 -N"),
        ],
        bounds: &[TO_BARE, TO_SOCKPERF, TO_IPERF3],
    },
    Case {
        name: "tcp-batch",
        question: "TCP, 64 messages of 64 B in one write",
        unit: Unit::Messages,
        contestants: &[
            hairpin("message-rate --transport tcp --size 64 --batch 64 --option congestion=cubic"),
            bare("--transport tcp --batch 64"),
        ],
        bounds: &[TO_BARE],
    },
    Case {
        name: "udp",
        question: "UDP, one call per datagram of 64 B",
        unit: Unit::Messages,
        contestants: &[hairpin(UDP_ONE_CALL), bare("--transport udp"), sockperf(""), iperf3("-u -b 0 -l 64")],
        bounds: &[TO_BARE, TO_SOCKPERF, TO_IPERF3],
    },
    Case {
        name: "udp-sendmmsg",
        // Waking a sleeping receiver every few datagrams would cost the sender more time than its calls.
        question: "UDP, 64 datagrams of 64 B in one sendmmsg or recvmmsg, busy-polling",
        unit: Unit::Messages,
        contestants: &[
            hairpin("message-rate --transport udp --size 64 --batch 64 --waiting spin"),
            bare("--transport udp --batch 64 --waiting spin"),
            Contestant {
                name: "bare loop, one call each",
                program: Program::BareLoop,
                arguments: "--transport udp --waiting spin",
            },
            Contestant {
                name: ONE_CALL,
                program: Program::Hairpin,
                arguments: "message-rate --transport udp --size 64 --batch 1 --waiting spin",
            },
        ],
        bounds: &[Bound { to: ONE_CALL, rule: Rule::Median(1.05) }],
    },
    Case {
        name: "udp-gso",
        question: "UDP with GSO and GRO, 64 datagrams of 64 B in one call",
        unit: Unit::Messages,
        contestants: &[
            hairpin("message-rate --transport udp --size 64 --batch 64 --option gso=on"),
            bare("--transport udp --batch 64 --gso on"),
            BARE_ONE_CALL,
            Contestant { name: ONE_CALL, program: Program::Hairpin, arguments: UDP_ONE_CALL },
        ],
        bounds: &[Bound { to: ONE_CALL, rule: Rule::Median(10.0) }],
    },
    Case {
        name: "tcp-bulk",
        question: "TCP, writes of 128 KiB",
        unit: Unit::Bytes,
        contestants: &[
            hairpin("bulk --transport tcp --write-size 128KiB --option congestion=cubic"),
            bare("--transport tcp --size 131072"),
            Contestant {
                name: "bare loop, 1 MiB reads",
                program: Program::BareLoop,
                arguments: "--transport tcp --size 131072 --read-size 1048576",
            },
            iperf3("-l 128K"),
        ],
        bounds: &[TO_IPERF3],
    },
    Case {
        name: "unix-stream-bulk",
        question: "Unix stream, writes of 128 KiB",
        unit: Unit::Bytes,
        contestants: &[
            hairpin("bulk --transport unix-stream --write-size 128KiB"),
            bare("--transport unix-stream --size 131072 --read-size 1048576"),
        ],
        bounds: &[TO_BARE],
    },
    Case {
        name: "pipe-bulk",
        question: "pipe, writes of 128 KiB",
        unit: Unit::Bytes,
        contestants: &[
            hairpin("bulk --transport pipe --write-size 128KiB"),
            bare("--transport pipe --size 131072 --read-size 1048576"),
        ],
        bounds: &[TO_BARE],
    },
];

/// Returns the cases with these names, or all cases if there are no names.
pub(super) fn all(only: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = only.iter().find(|name| CASES.iter().all(|case| case.name != name.as_str())) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        bail!("unknown case `{unknown}` (hint: one of {})", names.join(", "));
    }
    Ok(CASES.iter().filter(|case| only.is_empty() || only.iter().any(|name| name == case.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_name_contestants_and_hairpin_is_first() {
        let cases = all(&[]).unwrap();
        assert_eq!(cases.len(), 9);
        for case in cases {
            let names: Vec<&str> = case.contestants.iter().map(|contestant| contestant.name).collect();
            assert_eq!(names[0], "hairpin", "{}", case.name);
            assert!(case.bounds.iter().all(|bound| names[1..].contains(&bound.to)), "{}", case.name);
        }
    }

    #[test]
    fn cases_are_chosen_by_name() {
        let chosen = all(&["udp".to_owned(), "tcp".to_owned()]).unwrap();
        assert_eq!(chosen.iter().map(|case| case.name).collect::<Vec<_>>(), ["tcp", "udp"]);
        assert!(
            all(&["utp".to_owned()]).unwrap_err().to_string().starts_with("unknown case `utp` (hint: one of tcp, ")
        );
    }
}
