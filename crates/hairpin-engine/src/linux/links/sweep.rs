//! Ends all processes in the network namespaces that are about to be removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use hairpin_model::{Failure, FailureKind};

use crate::system::process::Process;

/// Maximum searches for processes. Several searches may be needed: a killed process may have started another.
const MAX_PASSES: usize = 50;

/// Time for a killed process to end.
const EXIT_TIMEOUT: Duration = Duration::from_millis(100);

/// Kills the processes in these network namespaces, except those in `spared`, until no process is left.
///
/// The open files keep the namespaces' identities from being reused.
pub(super) fn sweep(namespaces: [&File; 2], spared: &[u32]) -> Result<(), Failure> {
    let failed = |cause: String| {
        Failure::new(
            FailureKind::Other,
            format!("cannot end the processes in the link's namespaces: {cause}"),
            "`ip netns identify PID` and `lsns -t net` show what is left; end it manually",
        )
    };
    let doomed = namespaces.map(|file| file.metadata().map(|meta| (meta.dev(), meta.ino())));
    let doomed = doomed.into_iter().collect::<io::Result<Vec<_>>>().map_err(|error| failed(error.to_string()))?;
    let is_there = |id: u32| {
        let namespace = fs::metadata(format!("/proc/{id}/ns/net"));
        namespace.is_ok_and(|meta| doomed.contains(&(meta.dev(), meta.ino())))
    };
    for _ in 0..MAX_PASSES {
        let found = processes_in(&is_there, spared).map_err(|error| failed(error.to_string()))?;
        if found.is_empty() {
            return Ok(());
        }
        for id in found {
            // The id may have been reused since the search, so check the process again.
            let process = Process::with_id(id).ok().filter(|_| is_there(id));
            if let Some(process) = process.filter(|process| process.kill().is_ok()) {
                drop(process.ends_within(EXIT_TIMEOUT));
            }
        }
    }
    Err(failed(format!("new processes appeared {MAX_PASSES} times")))
}

fn processes_in(is_there: &dyn Fn(u32) -> bool, spared: &[u32]) -> io::Result<Vec<u32>> {
    let ids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    Ok(ids.filter(|id| *id != own && !spared.contains(id) && is_there(*id)).collect())
}
