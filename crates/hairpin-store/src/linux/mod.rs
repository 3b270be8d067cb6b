//! Files relative to an open folder, by Linux system calls.

pub(crate) mod folder;
