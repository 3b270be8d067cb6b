//! What only Linux has: its clocks.

pub(crate) mod system;
