//! Statistics on slices: locations, intervals over rounds, trends.
//!
//! The round is the unit of replication. Samples of one round are neighbours in time and not independent, so no
//! interval in Hairpin is ever computed from the samples of one round.

pub mod distribution;
pub mod interval;
pub mod location;
pub mod trend;

/// The generator of every resampling: seeded, so that the same rounds give the same interval.
#[must_use]
pub(crate) fn generator(seed: u64, about: &str) -> rand_xoshiro::Xoshiro256PlusPlus {
    use rand_xoshiro::rand_core::SeedableRng;
    // FNV-1a, as `Case::id` uses: stable across builds, which the standard library's hasher is not.
    let hash = about
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed ^ hash)
}
