//! How long messages take to encode and to decode, where a transport puts them into documents.

use std::time::Instant;

use hairpin_model::{Fact, fact_names};

/// Messages for each timed one: reading the clock for each message would take up to 1 % of a round trip.
const TIMED_EVERY: u64 = 16;

/// The times of both directions.
#[derive(Default)]
pub(crate) struct CodingTimes {
    pub(crate) encode: Times,
    pub(crate) decode: Times,
}

/// The time of a direction.
#[derive(Default)]
pub(crate) struct Times {
    messages: u64,
    timed_ns: u64,
}

impl Times {
    /// Makes a call for one message.
    pub(crate) fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        self.messages += 1;
        // The first messages are omitted: the caches are cold.
        if !self.messages.is_multiple_of(TIMED_EVERY) {
            return call();
        }
        let begin = Instant::now();
        let result = call();
        self.timed_ns += u64::try_from(begin.elapsed().as_nanos()).unwrap_or(0);
        result
    }

    fn mean_ns(&self) -> Option<f64> {
        let timed = self.messages / TIMED_EVERY;
        (timed > 0).then(|| self.timed_ns as f64 / timed as f64)
    }
}

impl CodingTimes {
    /// Empty until enough messages were coded.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let of = [(fact_names::ENCODE_NS, &self.encode), (fact_names::DECODE_NS, &self.decode)];
        of.into_iter().filter_map(|(name, times)| times.mean_ns().map(|ns| Fact::number(name, ns))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_in_16_is_timed_in_each_direction() {
        let mut times = CodingTimes::default();
        let names = |times: &CodingTimes| times.facts().into_iter().map(|fact| fact.name).collect::<Vec<_>>();
        let calls = (0..15).map(|call| times.encode.time(|| call)).collect::<Vec<_>>();
        assert_eq!(calls, (0..15).collect::<Vec<_>>(), "calls are made whether or not they are timed");
        assert_eq!(names(&times), [""; 0]);
        times.encode.time(|| ());
        assert_eq!(names(&times), [fact_names::ENCODE_NS]);
        (0..31).for_each(|_| times.decode.time(|| ()));
        assert_eq!(names(&times), [fact_names::ENCODE_NS, fact_names::DECODE_NS]);
        let times = Times { messages: 47, timed_ns: 900 };
        assert_eq!(times.mean_ns(), Some(450.0));
    }
}
