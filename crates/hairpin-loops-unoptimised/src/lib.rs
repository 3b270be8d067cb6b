//! The loops of one-way loads, compiled without optimisation, whatever the profile (see the workspace's Cargo.toml).
//!
//! They are the files of `hairpin-loops`. Parameters, marks and outcomes are its types too, so that a caller chooses
//! between the two builds at run time. Transports are optimised in both.

// Excludes the crate from link-time optimisation, which would optimise it.
#![no_builtins]

use hairpin_loops::{clock, driver::*};

#[path = "../../hairpin-loops/src/driver/end.rs"]
mod end;
#[path = "../../hairpin-loops/src/driver/gaps.rs"]
mod gaps;
#[path = "../../hairpin-loops/src/driver/messages.rs"]
pub mod messages;
#[path = "../../hairpin-loops/src/driver/phase.rs"]
pub mod phase;
#[path = "../../hairpin-loops/src/driver/receiving.rs"]
mod receiving;
#[path = "../../hairpin-loops/src/driver/sending.rs"]
mod sending;
#[path = "../../hairpin-loops/src/driver/window.rs"]
pub mod window;

pub use receiving::receive;
pub use sending::send;
