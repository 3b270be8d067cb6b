//! An exchange: a request in several small writes, then its answer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names;
use crate::options::{OptionName, Options};
use crate::refused::Refused;
use crate::trace::End;

/// The writes of an exchange, and the remedy against stalls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Exchange {
    /// The sizes of a request's writes, in order.
    pub writes: Writes,
    /// Pause between two writes of one request, in ns. Writes that the remedy merges into one call have no pauses.
    pub gap_ns: u64,
    /// Number of requests written before the first answer is read.
    pub pipeline: u64,
    /// The sizes of an answer's writes, in order, without pauses; null for one write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_writes: Option<Writes>,
    #[schemars(with = "String")]
    pub remedy: Remedy,
}

impl Exchange {
    /// Socket options that the remedy sets at `end` for the whole connection, in addition to those of the case.
    pub fn options_at(&self, end: End) -> Options {
        match (self.remedy, end) {
            (Remedy::Nodelay, _) => Options::default().with(OptionName::Nodelay, "on"),
            (Remedy::CorkForgotten, End::Client) => Options::default().with(OptionName::Cork, "on"),
            _ => Options::default(),
        }
    }

    /// Number of calls that write a request, with a pause between consecutive calls.
    pub fn calls_written(&self) -> usize {
        if self.remedy == Remedy::Writev { 1 } else { self.sizes_written().len() }
    }

    /// Number of pauses in an exchange if the remedy merges writes and so omits some pauses; else `None`.
    pub fn pauses_left(&self) -> Option<usize> {
        let calls = self.calls_written();
        (self.gap_ns > 0 && calls < self.writes.sizes().len()).then(|| calls.saturating_sub(1))
    }

    /// Sizes of a request's writes as sent, in bytes, after `one-write` or `batch` has merged some.
    pub fn sizes_written(&self) -> Vec<u64> {
        self.remedy.merge(&self.writes)
    }

    /// Sizes of an answer's writes as sent, in bytes; empty if the answer is one write.
    pub fn sizes_answered(&self) -> Vec<u64> {
        self.reply_writes.as_ref().map(|writes| self.remedy.merge(writes)).unwrap_or_default()
    }
}

/// Sizes of the writes of a request or an answer, in bytes: `100x2`, or `4,3210`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct Writes(Vec<u64>);

/// Maximum writes of a request.
pub const MAX_WRITES: usize = 10_000;
/// Maximum size of a request, all writes together.
pub const MAX_REQUEST_BYTES: u64 = 64 << 20;

impl Writes {
    /// Two writes with the same total, the smaller write first; `None` if the total is one byte.
    pub fn halves(&self) -> Option<Self> {
        let first = self.total_bytes() / 2;
        (first > 0).then(|| Self(vec![first, self.total_bytes() - first]))
    }

    pub fn one(size_bytes: u64) -> Self {
        Self(vec![size_bytes])
    }

    /// Sizes in bytes, all positive; never empty.
    pub fn sizes(&self) -> &[u64] {
        &self.0
    }

    pub fn total_bytes(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl FromStr for Writes {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let too_much = || {
            let what = format!("`{text}` is not a valid list of writes");
            Refused::new(what, "1 to 10000 writes, at most 64 MiB in total")
        };
        let mut sizes: Vec<u64> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (times, size) = match part.split_once('x') {
                Some((times, size)) => (times.trim().parse::<usize>().ok(), size),
                None => (Some(1), part),
            };
            let (Some(times), Ok(size)) = (times, crate::parse::bytes(size)) else {
                let of = if part == text.trim() { String::new() } else { format!(" of `{text}`") };
                return Err(Refused::new(
                    format!("`{part}`{of} is not a valid write size"),
                    "100x2 for a hundred writes of 2 bytes, or 4,3210 for two writes",
                ));
            };
            if size == 0 {
                let what = format!("`{text}` has a write of 0 bytes, which sends nothing");
                return Err(Refused::new(what, "the smallest write is 1 byte"));
            }
            if times == 0 || times > MAX_WRITES || sizes.len() + times > MAX_WRITES {
                return Err(too_much());
            }
            sizes.extend(std::iter::repeat_n(size, times));
        }
        let total = sizes.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size));
        match total {
            Some(total) if total <= MAX_REQUEST_BYTES => Ok(Self(sizes)),
            _ => Err(too_much()),
        }
    }
}

names::saved_as_text!(Writes);

impl Writes {
    /// For labels: `4+3210` for the argument `4,3210`.
    pub fn in_words(&self) -> String {
        self.to_string().replace(',', "+")
    }
}

impl fmt::Display for Writes {
    /// The shortest text that [`Writes::from_str`] parses to the same value.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, alike) in self.0.chunk_by(|a, b| a == b).enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match alike.len() {
                1 => write!(out, "{comma}{}", alike[0])?,
                times => write!(out, "{comma}{times}x{}", alike[0])?,
            }
        }
        Ok(())
    }
}

/// A remedy against stalls of small writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Remedy {
    /// The kernel's defaults.
    Default,
    /// `TCP_NODELAY` at both ends: disables Nagle's algorithm for requests and for consecutive answers.
    Nodelay,
    /// `TCP_CORK` before the first write of a request or an answer, released after the last.
    Cork,
    /// `TCP_CORK` set once and never released: the kernel holds partial segments for up to 200 ms.
    CorkForgotten,
    /// `MSG_MORE` with every write but the last.
    More,
    /// All writes copied together and written at once.
    OneWrite,
    /// All writes in one `writev`.
    Writev,
    /// `TCP_QUICKACK` at the server, set again after each read, as Linux needs (tcp(7)).
    Quickack,
    /// Merges each group of this many writes into one.
    Batch(u64),
}

impl Remedy {
    /// Words of the remedies without a number, in display order, and `batch=N`.
    pub const WORDS: &'static [&'static str] =
        &["default", "nodelay", "cork", "cork-forgotten", "more", "one-write", "writev", "quickack", "batch=N"];

    /// Remedies without a number, in the order of [`Remedy::WORDS`].
    pub const PLAIN: &'static [Self] = &[
        Self::Default,
        Self::Nodelay,
        Self::Cork,
        Self::CorkForgotten,
        Self::More,
        Self::OneWrite,
        Self::Writev,
        Self::Quickack,
    ];

    pub fn summary(self) -> &'static str {
        match self {
            Self::Default => "default options: nothing is changed",
            Self::Nodelay => "TCP_NODELAY at both ends: each write leaves at once",
            Self::Cork => "TCP_CORK before the first write of a request, released after the last",
            Self::CorkForgotten => "TCP_CORK set once and never released",
            Self::More => "MSG_MORE with every write but the last",
            Self::OneWrite => "all writes of a request copied together into one",
            Self::Writev => "all writes of a request in one writev, without a copy",
            Self::Quickack => "TCP_QUICKACK at the server, set again after each read",
            Self::Batch(_) => {
                "merges each N writes into one: batch=10 turns 100 writes into 10; `all` includes batch=10"
            }
        }
    }

    /// Sizes of the writes as sent, in bytes.
    fn merge(self, writes: &Writes) -> Vec<u64> {
        match self {
            Self::OneWrite => vec![writes.total_bytes()],
            Self::Batch(together) => {
                let together = usize::try_from(together).unwrap_or(usize::MAX).max(1);
                writes.sizes().chunks(together).map(|some| some.iter().sum()).collect()
            }
            _ => writes.sizes().to_vec(),
        }
    }

    /// Whether the remedy changes how TCP forms or acknowledges segments, so it does not apply to other byte streams.
    pub fn needs_tcp(self) -> bool {
        matches!(self, Self::Nodelay | Self::Cork | Self::CorkForgotten | Self::More | Self::Quickack)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Batch(together) = self {
            return out.pad(&format!("batch={together}"));
        }
        let place = Self::PLAIN.iter().position(|plain| plain == self).expect("all remedies except batch are plain");
        out.pad(Self::WORDS[place])
    }
}

impl FromStr for Remedy {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        if let Some(number) = text.strip_prefix("batch=") {
            let together = number.parse().ok().filter(|together| (1..=MAX_WRITES as u64).contains(together));
            return together.map(Self::Batch).ok_or_else(|| {
                let what = format!("`batch={number}` is not a valid number of writes");
                Refused::new(what, "1 to 10000, for instance batch=10")
            });
        }
        let plain = &Self::WORDS[..Self::PLAIN.len()];
        match plain.iter().position(|word| *word == text) {
            Some(place) => Ok(Self::PLAIN[place]),
            None => {
                names::find("remedy", text, Self::WORDS)?;
                Err(Refused::new("`batch=N` needs a number for N", "batch=10 merges ten writes into one"))
            }
        }
    }
}

names::saved_as_text!(Remedy);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn writes_are_parsed_and_printed_in_their_shortest_form() {
        let writes = |text: &str| text.parse::<Writes>().unwrap();
        assert_eq!(writes("100x2").sizes(), [2; 100]);
        assert_eq!(writes("4, 3210").sizes(), [4, 3210]);
        assert_eq!(writes("2,2,1KiB,3x1").to_string(), "2x2,1024,3x1");
        assert_eq!(writes("4,3210").total_bytes(), 3214);
        assert_eq!(
            ["1", "2", "37", "4,3"].map(|text| writes(text).halves().map(|two| two.to_string())),
            [None, Some("2x1".to_owned()), Some("18,19".to_owned()), Some("3,4".to_owned())]
        );
    }

    #[test]
    fn impossible_writes_are_refused_with_the_reason() {
        let refused = |text: &str| text.parse::<Writes>().unwrap_err();
        for text in ["0", "100x0", "4,0"] {
            assert!(refused(text).what.starts_with(&format!("`{text}` has a write of 0 bytes")), "{text}");
        }
        for text in ["", "x", "x2", "2x", "-1", "4,,4", "axb", "1x2x3"] {
            assert!(refused(text).what.ends_with("is not a valid write size"), "{text}");
        }
        assert!(refused("foo").to_string().starts_with("`foo` is not a valid write size"));
        assert!(refused("2x100, foo").to_string().starts_with("`foo` of `2x100, foo` is not a valid"));
        for text in ["0x2", "10001x1", "65MiB", "9000x1,9000x1", "10000x8GiB"] {
            assert_eq!(refused(text).what, format!("`{text}` is not a valid list of writes"));
        }
    }

    #[test]
    fn every_remedy_is_parsed_from_its_word() {
        for remedy in Remedy::PLAIN.iter().copied().chain([Remedy::Batch(10)]) {
            assert_eq!(remedy.to_string().parse::<Remedy>().unwrap(), remedy);
        }
        let text = |given: &str| given.parse::<Remedy>().unwrap_err().to_string();
        assert_eq!(text("nodleay"), "unknown remedy `nodleay` (hint: did you mean `nodelay`?)");
        assert!(text("batch=0").contains("1 to 10000"));
        assert!(text("batch=N").contains("number of writes"));
        assert!(text("zzz").contains("one of default, nodelay"));
    }

    #[test]
    fn merging_leaves_fewer_writes() {
        let of = |gap_ns, remedy| Exchange {
            writes: "5x2".parse().unwrap(),
            gap_ns,
            pipeline: 1,
            reply_writes: None,
            remedy,
        };
        assert_eq!(of(0, Remedy::Default).sizes_written(), [2; 5]);
        assert_eq!(of(0, Remedy::OneWrite).sizes_written(), [10]);
        assert_eq!(of(0, Remedy::Batch(2)).sizes_written(), [4, 4, 2]);
        assert_eq!(of(0, Remedy::Batch(2)).sizes_answered(), [0; 0], "an answer in one write is not merged");
        let answered =
            |remedy| Exchange { reply_writes: Some("40,2x500".parse().unwrap()), ..of(0, remedy) }.sizes_answered();
        assert_eq!(
            [Remedy::Default, Remedy::OneWrite, Remedy::Batch(2)].map(answered),
            [vec![40, 500, 500], vec![1040], vec![540, 500]]
        );
        let remedies = [Remedy::Default, Remedy::OneWrite, Remedy::Writev, Remedy::Batch(2)];
        assert_eq!(remedies.map(|remedy| of(0, remedy).calls_written()), [5, 1, 1, 3]);
        assert_eq!(remedies.map(|remedy| of(1, remedy).pauses_left()), [None, Some(0), Some(0), Some(2)]);
        assert_eq!(remedies.map(|remedy| of(0, remedy).pauses_left()), [None; 4]);
    }

    #[test]
    fn only_nodelay_is_for_both_ends() {
        let of = |remedy, end| {
            Exchange { writes: "2".parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy }
                .options_at(end)
                .to_string()
        };
        for remedy in Remedy::PLAIN {
            let (client, server) = match remedy {
                Remedy::Nodelay => ("nodelay=on", "nodelay=on"),
                Remedy::CorkForgotten => ("cork=on", ""),
                _ => ("", ""),
            };
            assert_eq!([End::Client, End::Server].map(|end| of(*remedy, end)), [client, server], "{remedy}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9x, ]{0,12}|.*") {
            if let Ok(writes) = text.parse::<Writes>() {
                prop_assert_eq!(writes.to_string().parse::<Writes>().unwrap(), writes);
            }
            let _ = text.parse::<Remedy>();
        }
    }
}
