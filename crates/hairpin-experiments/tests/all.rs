//! All integration tests in one binary, because linking one binary per file takes longer than running the tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod budget;
mod bulk;
mod command;
mod common;
mod exchange_time;
mod hosts;
mod latency_budget;
mod links;
mod message_rate;
mod observer;
mod offered_load;
mod period_search;
mod proof;
mod properties;
mod registry;
mod round_trip;
mod small_writes;
mod survey;
mod waiting;
mod which;
