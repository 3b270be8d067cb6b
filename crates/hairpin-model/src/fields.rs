//! Serde helpers for fields of the saved run.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::flow::FlowId;
use crate::names::distinct;

/// Reads a list and refuses an empty one.
///
/// # Errors
/// Not a list of `T`, or an empty one.
pub(crate) fn at_least_one<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() { Err(D::Error::custom("a list that needs an entry is empty")) } else { Ok(list) }
}

/// A flow, or the results of one.
pub(crate) trait OfFlow {
    fn flow_id(&self) -> &FlowId;
}

/// Reads the flows of a case or their results.
///
/// # Errors
/// Not a list of `T`, an empty one, or one with the same identity twice.
pub(crate) fn flows<'de, D: Deserializer<'de>, T: Deserialize<'de> + OfFlow>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let flows: Vec<T> = at_least_one(deserializer)?;
    let ids = distinct(flows.iter().map(OfFlow::flow_id));
    if ids.len() < flows.len() { Err(D::Error::custom("two flows have the same identity")) } else { Ok(flows) }
}

/// Whether a field has its default and may be omitted.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
