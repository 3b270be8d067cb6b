//! What the unit tests share.

pub(crate) mod fixture;
