//! Prints the JSON schema of `run.json`; `cargo xtask schema` runs it.
#![expect(clippy::print_stdout, reason = "a program that prints its result")]

fn main() {
    println!("{:#}", hairpin_model::schema::of_run());
}
