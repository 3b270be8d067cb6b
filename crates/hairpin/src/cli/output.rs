//! Writing to the terminal. A reader that has gone (a closed pipe) is no error of ours; a full disk is.
//!
//! All that is printed passes through here, and nothing that a saved run says can steer a terminal from here on.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_model::printable;
use hairpin_report::terminal::{Look, render_item};

/// The narrowest and the widest report, in columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;
/// The width where there is no terminal to ask.
const DEFAULT_WIDTH: usize = 100;

/// Whether something printed did not arrive.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a text on standard output. Where that cannot be written it says so.
pub fn text(text: &str) {
    let safe = if look().colour { printable::styled(text) } else { printable::lines(text) };
    write(&safe);
}

/// Prints JSON on standard output.
pub fn json(text: &str) {
    write(&printable::json(text));
}

fn write(text: &str) {
    let mut output = std::io::stdout().lock();
    if let Err(why) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        lost(&why);
    }
}

/// Says that something could not be printed.
pub fn lost(why: &std::io::Error) {
    if why.kind() != ErrorKind::BrokenPipe {
        LOST.store(true, Ordering::Relaxed);
        let hint = match why.kind() {
            ErrorKind::FileTooLarge => "raise the limit on the size of files (ulimit -f)",
            _ => "is the disk full?",
        };
        error(&format!("cannot write to standard output: {why} (hint: {hint})"));
    }
}

/// Whether a text could not be printed.
pub fn is_incomplete() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a line on standard error.
pub fn note(line: &str) {
    let safe = printable::lines(line);
    let is_warning = safe.starts_with(WARNING);
    let text = if is_warning { on_standard_error(&safe) } else { safe.to_string() };
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Prints a line of a log on standard error; it is broken between words where a terminal is narrower.
pub fn log(line: &str) {
    drop(writeln!(std::io::stderr(), "{}", on_standard_error(&printable::lines(line))));
}

/// Prints a warning on standard error.
pub fn warning(line: &str) {
    note(&format!("{WARNING}{line}"));
}

/// Asks a question on standard error; the answer is given on the same line.
pub fn ask(question: &str) {
    drop(write!(std::io::stderr(), "{}", printable::lines(question)));
}

/// Prints an error on standard error, once.
pub fn error(message: &str) {
    use anstyle::{AnsiColor, Style};
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text = on_standard_error(&format!("{ERROR}{}", printable::lines(message)));
    drop(writeln!(anstream::stderr(), "{red}error:{red:#}{}", text.trim_start_matches("error:")));
}

const ERROR: &str = "error: ";
const WARNING: &str = "warning: ";

/// The text as standard error shows it: in lines of the terminal's width, or as it is where that is no terminal.
fn on_standard_error(text: &str) -> String {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, _)) => folded(text, usize::from(width.0)),
        None => text.to_owned(),
    }
}

/// Lines that are wider than `width` are broken between words, and what follows hangs below what follows the label.
fn folded(text: &str, width: usize) -> String {
    let fold = |line: &str| {
        if line.chars().count() <= width {
            return line.to_owned();
        }
        let (head, rest) = line.split_at(line.len() - line.trim_start().len());
        let label = [ERROR, WARNING].into_iter().find(|label| rest.starts_with(label)).unwrap_or_default();
        let look = Look { width, colour: false };
        render_item(&format!("{head}{label}"), &rest[label.len()..], &look).trim_end().to_owned()
    };
    text.lines().map(fold).collect::<Vec<_>>().join("\n")
}

/// Prints what the command line's library says: help and the version on standard output, errors on standard error.
pub fn usage(said: &clap::Error) {
    let styled = said.render().ansi().to_string();
    if !said.use_stderr() {
        return if look().colour { text(&styled) } else { text(&said.render().to_string()) };
    }
    let plain = said.render().to_string();
    let narrow = on_standard_error(&plain);
    let fits = narrow.lines().eq(plain.lines());
    let text = if fits { printable::styled(&styled).to_string() } else { format!("{}\n", printable::lines(&narrow)) };
    drop(write!(anstream::stderr(), "{text}"));
}

/// How a report should look on standard output: colour on a terminal that wants it, and its width.
#[must_use]
pub fn look() -> Look {
    let colour = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let width = terminal_width().or(columns).unwrap_or(DEFAULT_WIDTH);
    Look { width: width.clamp(*WIDTHS.start(), *WIDTHS.end()), colour }
}

fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_error_is_broken_between_words_and_hangs_below_its_label() {
        let text = "error: cannot bind 127.0.0.1:7777: address already in use (hint: choose another --port)";
        let lines =
            "error: cannot bind 127.0.0.1:7777: address\n       already in use (hint: choose another\n       --port)";
        assert_eq!(folded(text, 44), lines);
        assert_eq!(folded(text, 200), text);
        assert_eq!(folded("warning: short\n    ^^^", 44), "warning: short\n    ^^^", "what fits stays as it is");
    }
}
