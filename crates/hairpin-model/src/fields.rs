//! How fields are read and left out that many types of the saved run have.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Reads a list and refuses an empty one.
///
/// # Errors
/// It is no list of these, or an empty one.
pub(crate) fn at_least_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() { Err(D::Error::custom("a list that needs an entry is empty")) } else { Ok(list) }
}

/// Whether a field has its default, so that it may be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
