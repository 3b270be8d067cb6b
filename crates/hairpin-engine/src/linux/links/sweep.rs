//! Ends all processes in network namespaces that are to be removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use hairpin_model::{Failure, FailureKind};

use crate::system::process::Process;

/// Maximum searches for processes: a killed one may have started another.
const PASSES: usize = 50;

/// Time for a killed process to end, in ms.
const PATIENCE_MS: i32 = 100;

/// Kills every process in these network namespaces, except the spared ones, until none is left.
///
/// These files hold the namespaces open, so their identities cannot be reused.
pub(super) fn sweep(namespaces: [&File; 2], spared: &[u32]) -> Result<(), Failure> {
    let failed = |cause: String| {
        Failure::new(
            FailureKind::Other,
            format!("cannot end what runs in the link's namespaces: {cause}"),
            "`ip netns identify PID` and `lsns -t net` show what is left; end it manually",
        )
    };
    let doomed = namespaces.map(|file| file.metadata().map(|meta| (meta.dev(), meta.ino())));
    let doomed = doomed.into_iter().collect::<io::Result<Vec<_>>>().map_err(|error| failed(error.to_string()))?;
    let is_there = |id: u32| {
        let namespace = fs::metadata(format!("/proc/{id}/ns/net"));
        namespace.is_ok_and(|meta| doomed.contains(&(meta.dev(), meta.ino())))
    };
    for _ in 0..PASSES {
        let found = processes_in(&is_there, spared).map_err(|error| failed(error.to_string()))?;
        if found.is_empty() {
            return Ok(());
        }
        for id in found {
            // Its id may have passed to another process since the search, so check this one again.
            let process = Process::with_id(id).ok().filter(|_| is_there(id));
            if let Some(process) = process.filter(|process| process.kill().is_ok()) {
                drop(process.ends_within(PATIENCE_MS));
            }
        }
    }
    Err(failed(format!("new processes appeared {PASSES} times")))
}

fn processes_in(is_there: &dyn Fn(u32) -> bool, spared: &[u32]) -> io::Result<Vec<u32>> {
    let ids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    Ok(ids.filter(|id| *id != own && !spared.contains(id) && is_there(*id)).collect())
}
