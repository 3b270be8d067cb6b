//! Unpredictable random bytes.

use std::io::Result;

use rustix::rand::{GetRandomFlags, getrandom};

/// `getrandom(2)` of up to 256 bytes, which the kernel fills completely.
pub(crate) fn bytes<const COUNT: usize>() -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}
