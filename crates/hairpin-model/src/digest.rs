//! A short name for a text, the same on every machine and in every build.

/// 64-bit FNV-1a of the bytes (Fowler, Noll, Vo; draft-eastlake-fnv). `std`'s hasher is not stable across builds.
pub fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

pub fn digest(text: &str) -> String {
    format!("{:016x}", fnv1a(text.bytes()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_published_function() {
        // The test vectors of the draft.
        assert_eq!(super::digest(""), "cbf29ce484222325");
        assert_eq!(super::digest("a"), "af63dc4c8601ec8c");
        assert_eq!(super::digest("foobar"), "85944171f73967e8");
    }
}
