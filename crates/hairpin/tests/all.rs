//! End to end: runs the real program as a user does, and checks it from outside.
//!
//! No test depends on how fast the machine is: the tests run in parallel, on a machine that may be busy. They assert
//! counts, order, ledgers, exit codes, texts and leftovers, and of times only minimums that an emulated delay
//! guarantees and generous time-outs.

#[macro_use]
extern crate hairpin_testing;

mod budget;
mod bulk;
mod canary;
mod claims;
mod claims_between_hosts;
mod claims_files;
mod claims_ledger;
mod cli;
mod comparing;
mod experiment_double;
mod explain;
mod faults;
mod foreign;
mod foreign_echo;
mod foreign_frames;
mod formats;
mod gate;
mod json_contract;
mod leftovers;
mod link_process;
mod link_run;
mod links;
mod links_rounds;
mod lists;
mod memory;
mod observer;
mod one_way_contract;
mod one_way_loss;
mod ordinary_user;
mod periodic;
mod protocols;
mod runs;
mod samples;
mod saved;
mod small_writes;
mod support;
mod sysctls;
mod three_flows;
mod tune;
mod two_hosts;
mod two_hosts_limits;
mod two_hosts_serving;
mod two_hosts_words;
mod under_load;

fn main() -> std::process::ExitCode {
    if ordinary_user::run_part() { std::process::ExitCode::SUCCESS } else { hairpin_testing::run_tests() }
}
