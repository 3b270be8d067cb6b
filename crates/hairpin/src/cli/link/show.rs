//! `hairpin link show PROFILE`: shows the content of a profile.

use clap::ArgMatches;
use hairpin_link::trace::Trace;
use hairpin_model::link::Direction;
use hairpin_model::quantities;

use super::super::exit::{Exit, Stopped};
use super::super::lines::Lines;
use super::super::output;
use super::request::{LinkRequest, as_json, figures};

pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let words: Vec<&str> = matches.get_many::<String>("PROFILE").unwrap_or_default().map(String::as_str).collect();
    let asked = LinkRequest::read(&words.join(" "))?;
    if matches.get_flag("json") {
        output::json(&as_json(asked.builtin, &asked.profile));
        return Ok(Exit::Fine);
    }
    let mut list = Lines::new();
    if let Some(builtin) = asked.builtin {
        list.item(builtin.name, builtin.summary);
    }
    list.item("line", &asked.profile.to_string());
    let [up, down] = [&asked.profile.up, &asked.profile.down].map(|way| way.delay.base_ns);
    let round_trip = quantities::round_duration(up.saturating_add(down) as f64);
    list.item("delay alone", &format!("a round trip takes {round_trip}"));
    for (name, text) in &asked.traces {
        list.item("trace", &format!("{name}: {}", trace(text)));
    }
    for (direction, title) in [(Direction::Up, "Up: from near to far"), (Direction::Down, "Down: from far to near")] {
        let figures = figures(&asked.profile, direction);
        if figures.is_empty() {
            continue;
        }
        list.heading(title);
        for (stage, figures) in figures {
            list.item(stage, &figures);
        }
    }
    if let Some(builtin) = asked.builtin {
        list.heading("Sources of its figures");
        list.whole(builtin.because);
    }
    output::text(&list.text);
    Ok(Exit::Fine)
}

fn trace(text: &str) -> String {
    match Trace::parse(text) {
        Ok(trace) => format!(
            "{} Mbit/s on average, repeats after {}",
            quantities::number(trace.mean_bits_per_s() as f64 / 1e6),
            quantities::round_duration(trace.period_ms() as f64 * 1e6),
        ),
        Err(bad) => bad.to_string(),
    }
}
