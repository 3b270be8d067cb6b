//! Serde helpers for fields of the saved run.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

pub(crate) fn at_least_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() { Err(D::Error::custom("a list that needs at least one entry is empty")) } else { Ok(list) }
}

/// Whether a field has its default and may be omitted.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
