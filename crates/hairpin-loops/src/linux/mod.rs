//! Linux-only code: reading clocks, and files without a name.

pub(crate) mod system;
pub(crate) mod temporary_file;
