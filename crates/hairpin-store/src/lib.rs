//! The run folder: `run.json`, `rounds.jsonl`, `latency.hlog` and `samples/*.parquet`; for traced rounds
//! `traces/*.json` and `captures/*.pcapng`, and for stamped rounds `budgets/*.json`. All are written after every round.
//! At the end of a run the samples are merged into `samples.parquet`.
//!
//! docs/run-format.md describes each file. A crash loses at most the current round: files grow only by whole lines,
//! folders only by whole files, and `run.json` is replaced atomically.
//!
//! A run folder may be untrusted: `folder` opens only files inside it, and `limits` bounds their sizes.

mod columns;
mod error;
mod evidence;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod histograms;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
mod listing;
mod pages;
mod removal;
mod rounds;
mod run_folder;
mod samples;
#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use evidence::Evidence;
pub use limits::Memory;
#[cfg(target_os = "linux")]
use linux::folder;
#[cfg(target_os = "linux")]
pub use linux::folder::{Folder, write_named};
pub use listing::{Listing, SavedRun};
pub use removal::NotRemoved;
pub use run_folder::RunFolder;
