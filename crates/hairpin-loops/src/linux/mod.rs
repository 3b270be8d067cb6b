//! The part that needs Linux: clocks.

pub(crate) mod system;
