//! All integration tests in one binary, because linking one binary per file takes longer than running the tests.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[macro_use]
extern crate hairpin_testing;

mod answer;
mod chromium;
mod claim_reasons;
mod claims;
mod claims_page;
mod comparison;
mod csv;
mod explanation;
mod findings;
mod hosts;
mod html;
mod invalid;
mod json_contract;
mod latency_budget;
mod links;
mod observer;
mod one_way;
mod page_layout;
mod rare_events;
mod shown;
mod support;
mod terminal;
mod time_sequence;
mod under_load;
mod waiting;

fn main() -> std::process::ExitCode {
    hairpin_testing::run_tests()
}
