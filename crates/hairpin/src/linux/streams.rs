//! The standard streams of this process as descriptors, and the signal that ended a program.

use std::fs;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use hairpin_model::Failure;

/// Returns the descriptor number if `path` names an open stream of this process. Opening the path instead would use a
/// separate offset and overwrite what the stream has written to the file.
pub(crate) fn own_stream(path: &Path) -> Option<RawFd> {
    const FOLDERS: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"];
    match path.to_str()? {
        "-" | "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        text => {
            let number = FOLDERS.iter().find_map(|folder| text.strip_prefix(folder));
            match number {
                Some(number) => number.parse().ok().filter(|number| *number >= 0),
                // Follows symbolic links such as /dev/stdin.
                None => own_stream(&fs::read_link(path).ok()?),
            }
        }
    }
}

/// Whether standard output is a file that users other than its owner can read.
pub(crate) fn others_can_read_standard_output() -> bool {
    let copy = std::io::stdout().as_fd().try_clone_to_owned();
    let metadata = copy.map(fs::File::from).and_then(|file| file.metadata());
    metadata.is_ok_and(|file| file.is_file() && file.mode() & 0o044 != 0)
}

pub(crate) fn to_standard_error() -> Result<Stdio, Failure> {
    let copy = std::io::stderr().as_fd().try_clone_to_owned();
    copy.map(Stdio::from).map_err(|error| {
        Failure::new(&error, format!("cannot copy the descriptor of standard error: {error}"), "is it open?")
    })
}

pub(crate) fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}
