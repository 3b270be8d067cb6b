//! One or several cases of a rule.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::selector::Selector;

/// One case, or several cases that ask the same. Pools of one rule have the same length; the ratio of two pools is the
/// geometric mean of the ratios of their pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool(pub Vec<Selector>);

impl<'de> Deserialize<'de> for Pool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMore)
    }
}

/// Reads a case or a list of cases. An untagged enum would hide the name of an unknown field, and read a list of texts
/// as the fields of one case.
struct OneOrMore;

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Pool;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("a case or a list of cases")
    }

    fn visit_map<A: MapAccess<'de>>(self, case: A) -> Result<Pool, A::Error> {
        Selector::deserialize(MapAccessDeserializer::new(case)).map(|case| Pool(vec![case]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut cases: A) -> Result<Pool, A::Error> {
        let mut pool = Vec::new();
        while let Some(case) = cases.next_element()? {
            pool.push(case);
        }
        Ok(Pool(pool))
    }
}
