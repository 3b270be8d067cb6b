//! The unsent parts of a gathering send.

use std::io::IoSlice;

/// Maximum parts per call (`UIO_MAXIOV`, linux/uio.h).
pub(crate) const MAX_PARTS: usize = libc::UIO_MAXIOV as usize;

/// Returns the parts that are not completely sent, and the bytes already sent of the first such part. `sent` < total.
pub(crate) fn rest_of<'p, 'b>(parts: &'p [IoSlice<'b>], sent: usize) -> (&'p [IoSlice<'b>], usize) {
    let mut before = 0;
    for (index, part) in parts.iter().enumerate() {
        if sent < before + part.len() {
            return (&parts[index..], sent - before);
        }
        before += part.len();
    }
    (&[], 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rest_is_the_unsent_bytes(
            sizes in proptest::collection::vec(0_usize..5, 0..20),
            last in 1_usize..5,
            gone: proptest::sample::Index,
        ) {
            let mut next = 0_u8;
            let parts: Vec<Vec<u8>> = sizes
                .iter()
                .chain([&last])
                .map(|size| (0..*size).map(|_| { next += 1; next }).collect())
                .collect();
            let all = parts.concat();
            let gone = gone.index(all.len());
            let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let (rest, within) = rest_of(&slices, gone);
            prop_assert!(within < rest[0].len(), "the first unsent part has bytes left");
            prop_assert_eq!(&rest.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>()[within..], &all[gone..]);
        }
    }
}
