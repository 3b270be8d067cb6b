//! The tests of this crate from outside, in one binary: linking one for each file takes longer than running them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod end_to_end;
mod findings_under_load;
mod one_way;
mod oracle;
mod support;
mod under_load;
