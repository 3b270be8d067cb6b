//! From traces to figures.

mod summary;

pub(crate) use summary::summary;
