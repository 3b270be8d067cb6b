//! The tests of this crate from outside, in one binary: linking one for each file takes longer than running them.

mod end_to_end;
mod findings_under_load;
mod one_way;
mod oracle;
mod support;
mod under_load;
