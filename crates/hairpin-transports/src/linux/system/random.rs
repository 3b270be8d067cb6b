//! Unpredictable random bytes.

use std::io::{Error, ErrorKind, Result};

/// `getrandom(2)` of a few bytes.
pub(crate) fn bytes<const COUNT: usize>() -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    // SAFETY: the pointer and the length describe a live, exclusively borrowed array.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), COUNT, 0) };
    match usize::try_from(count) {
        Err(_) => Err(Error::last_os_error()),
        // The kernel fills requests of up to 256 bytes completely (getrandom(2)).
        Ok(count) if count == COUNT => Ok(bytes),
        Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
    }
}
