//! Runs of every format that was ever written, checked in: they must load, report and analyse for as long as Hairpin
//! lives. A new format adds a folder to `tests/formats`.
