//! System calls behind safe functions; the only place of this crate with `unsafe`.
