//! Holds `/dev/cpu_dma_latency` at 0, so that idle CPUs poll instead of halting.
//!
//! The kernel (Documentation/power/pm_qos_interface.rst) honours the request while the file is open, so the request
//! ends when [`KeptAwake`] is dropped or the process is killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use hairpin_model::WhyNot;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// A request to keep CPUs awake. Dropping it withdraws the request.
#[derive(Debug)]
pub struct KeptAwake {
    _file: File,
}

/// Asks the kernel to keep idle CPUs awake.
pub fn keep_awake() -> io::Result<KeptAwake> {
    let mut file = OpenOptions::new().write(true).open(DEVICE)?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(KeptAwake { _file: file })
}

/// Whether this process may keep CPUs awake. Only opens the file, which changes nothing.
pub fn may_keep_awake() -> Result<(), WhyNot> {
    OpenOptions::new().write(true).open(DEVICE).map(drop).map_err(|error| {
        WhyNot::new(
            format!("{DEVICE} cannot be opened for writing: {error}"),
            "run as root, or let an administrator give your user write access to it",
        )
    })
}
