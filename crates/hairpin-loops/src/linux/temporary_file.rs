//! Temporary files without a name, which the kernel removes when the process ends, however it ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Creates a file in the directory for temporary files (open(2), `O_TMPFILE`).
pub(crate) fn create() -> io::Result<File> {
    let folder = std::env::temp_dir();
    File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(&folder).map_err(|error| {
        let hint = "set TMPDIR to a writable directory on tmpfs, ext4 or xfs";
        io::Error::new(error.kind(), format!("cannot create a file in {}: {error} (hint: {hint})", folder.display()))
    })
}
