//! Unpredictable random bytes.

use std::io::{Error, ErrorKind, Result};

/// `getrandom(2)` of a few bytes.
pub(crate) fn bytes<const COUNT: usize>() -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    // SAFETY: the pointer and the length are those of a live, exclusively borrowed array.
    let drawn = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), COUNT, 0) };
    match usize::try_from(drawn) {
        Err(_) => Err(Error::last_os_error()),
        // Up to 256 bytes are never returned in part (getrandom(2)).
        Ok(drawn) if drawn == COUNT => Ok(bytes),
        Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
    }
}
