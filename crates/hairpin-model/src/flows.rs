//! Lists of flows or of their results, with unique identities.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::fields::at_least_one;
use crate::flow::{Flow, FlowId};
use crate::names::distinct;

/// A flow, or the results of a flow.
pub(crate) trait OfFlow {
    fn flow_id(&self) -> &FlowId;
}

impl OfFlow for Flow {
    fn flow_id(&self) -> &FlowId {
        &self.id
    }
}

/// Reads the flows of a case or their results; refuses an empty list and duplicate identities.
pub(crate) fn flows<'de, D: Deserializer<'de>, T: Deserialize<'de> + OfFlow>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let flows: Vec<T> = at_least_one(deserializer)?;
    let ids = distinct(flows.iter().map(OfFlow::flow_id));
    if ids.len() < flows.len() { Err(D::Error::custom("two flows have the same identity")) } else { Ok(flows) }
}
