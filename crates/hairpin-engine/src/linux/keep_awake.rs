//! Holds `/dev/cpu_dma_latency` at 0: idle CPUs then keep polling instead of halting.
//!
//! The kernel (Documentation/power/pm_qos_interface.rst) keeps the request while the file is open, so it ends with this
//! value, even if the process is killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use hairpin_model::WhyNot;

const DEVICE: &str = "/dev/cpu_dma_latency";

/// The request; dropping it ends it.
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

/// Whether this process may keep CPUs awake. Changes nothing: the file is only opened.
pub fn may_keep_awake() -> Result<(), WhyNot> {
    OpenOptions::new().write(true).open(DEVICE).map(drop).map_err(|error| {
        WhyNot::new(
            format!("{DEVICE} cannot be opened for writing: {error}"),
            "run as root, or let an administrator give your user write access to it",
        )
    })
}
