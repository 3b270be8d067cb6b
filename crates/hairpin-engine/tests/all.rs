//! The tests of this crate from outside, in one binary: linking one for each file takes longer than running them.

mod allocations;
mod capture;
mod common;
mod driver;
mod server_end;
mod small_writes;
mod traced;
