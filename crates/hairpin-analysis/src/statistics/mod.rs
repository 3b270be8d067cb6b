//! Statistics on slices: locations, intervals over rounds, trends.
//!
//! The round is the unit of replication. Samples in one round are neighbours in time and not independent, so Hairpin
//! never computes an interval from the samples of one round.

pub mod distribution;
pub mod interval;
pub mod location;
pub mod trend;
