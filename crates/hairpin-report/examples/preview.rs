//! Shows a fixture run: `cargo run -p hairpin-report --example preview -- terminal 80 plain small-writes`.
#![expect(clippy::print_stdout, reason = "prints its result")]

#[path = "../tests/support/mod.rs"]
mod support;

use hairpin_model::Document;
use hairpin_report::terminal::{self, Look, render_time_sequences};
use hairpin_report::{csv_table, html};

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "terminal".to_owned());
    let width = words.next().and_then(|word| word.parse().ok()).unwrap_or(100);
    let colour = words.next().is_some_and(|word| word == "colour");
    let run = match words.next().as_deref() {
        Some("small-writes") => support::small_writes::run(false),
        Some("captured") => support::small_writes::run(true),
        Some("bulk") => support::bulk::run(),
        Some("message-rate") => support::one_way::message_rate(),
        Some("write-sizes") => support::one_way::write_sizes(),
        Some("offered-load") => support::one_way::offered_load(),
        Some("under-load") => support::under_load::congestion(),
        Some("two-cpus") => support::under_load::two_cpus(),
        Some("links") => support::links::run(),
        Some("link") => support::links::run_over(&words.next().unwrap_or_else(|| "home-uplink".to_owned())),
        _ => support::survey(1),
    };
    if name == "ladder" {
        let which = words.next().unwrap_or_else(|| "all".to_owned());
        let drawn = render_time_sequences(&run, &which, &Look { width, colour });
        return print!("{}", drawn.unwrap_or_else(|error| format!("{error}\n")));
    }
    let shown = match name.as_str() {
        "html" => html::render(&run),
        "json" => run.to_json(),
        "csv" => csv_table::summary(&run),
        "all" => terminal::render(&run, &Look { width, colour }),
        _ => terminal::render_brief(&run, &Look { width, colour }),
    };
    print!("{shown}");
}
