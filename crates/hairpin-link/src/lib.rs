//! The link emulator: packets and time in, packets and fates out.
//!
//! Only the interface and the link that changes nothing stand here. The stages (delay, rate and queue, loss,
//! reordering, duplication) come with the work on links; each will be one file with its own tests. A stage has no
//! clock and no socket: time is an argument, so that a test runs it on a manual clock and gets exact numbers.
#![forbid(unsafe_code)]

pub mod loopback;
pub mod stage;
