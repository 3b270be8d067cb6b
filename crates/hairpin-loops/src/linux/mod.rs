//! Linux-only code: reading clocks.

pub(crate) mod system;
