//! The tests of this crate from outside, in one binary: linking one for each file takes longer than running them.

mod allocations;
mod contract;
mod several_streams;
