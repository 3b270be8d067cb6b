//! Files relative to an open folder, which needs system calls of Linux.

pub(crate) mod folder;
