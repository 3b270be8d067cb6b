//! Prints the JSON schemas of all documents as one object, for `cargo xtask schema`.
#![expect(clippy::print_stdout, reason = "a program that prints its result")]

fn main() {
    println!("{}", serde_json::Value::from(hairpin_model::documents::schemas()));
}
