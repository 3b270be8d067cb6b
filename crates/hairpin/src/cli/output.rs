//! Writes to the terminal. Ignores a closed pipe, and reports other errors, such as a full disk.
//!
//! All output passes through this module, so that the content of a saved run cannot control the terminal.

use std::io::{BufRead, ErrorKind, IsTerminal, Write, stdin};
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_hosts::ticket::redacted;
use hairpin_model::{Document, printable};
use hairpin_report::terminal::{Look, render_item};

/// Minimum and maximum width of a report, in columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;
const DEFAULT_WIDTH: usize = 100;

static LOST: AtomicBool = AtomicBool::new(false);

pub fn text(text: &str) {
    let safe = if look().colour { printable::styled(text) } else { printable::lines(text) };
    write(&safe);
}

pub fn json(document: &impl Document) {
    write(&printable::json(&document.to_json()));
}

/// Prints the document as JSON, or as text in the style of standard output.
pub fn result(is_json: bool, document: &impl Document, as_text: impl FnOnce(Look) -> String) {
    if is_json { json(document) } else { text(&as_text(look())) }
}

pub fn json_line(document: &impl Document) {
    write(&printable::json(&document.to_json_line()));
}

fn write(text: &str) {
    let mut output = std::io::stdout().lock();
    if let Err(why) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        lost(&why);
    }
}

/// Reports that output was lost, unless the reader closed the pipe.
pub fn lost(why: &std::io::Error) {
    if why.kind() != ErrorKind::BrokenPipe {
        LOST.store(true, Ordering::Relaxed);
        let hint = match why.kind() {
            ErrorKind::FileTooLarge => "raise the file size limit (ulimit -f)",
            _ => "is the disk full?",
        };
        error(&format!("cannot write to standard output: {why} (hint: {hint})"));
    }
}

pub fn is_incomplete() -> bool {
    LOST.load(Ordering::Relaxed)
}

pub fn note(line: &str) {
    let safe = printable::lines(line);
    let is_warning = safe.starts_with(WARNING);
    let text = if is_warning { on_standard_error(&safe) } else { safe.to_string() };
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Prints a log line on standard error, wrapped between words on a narrow terminal.
pub fn log(line: &str) {
    drop(writeln!(std::io::stderr(), "{}", on_standard_error(&printable::lines(line))));
}

pub fn warning(line: &str) {
    note(&format!("{WARNING}{line}"));
}

/// Asks a question on the terminal, and returns whether the answer is yes; `None` without a terminal.
pub fn ask(question: &str) -> std::io::Result<Option<bool>> {
    if !stdin().is_terminal() {
        return Ok(None);
    }
    drop(write!(std::io::stderr(), "{} [y/N] ", printable::lines(question)));
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")))
}

pub fn error(message: &str) {
    use anstyle::{AnsiColor, Style};
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    let text = on_standard_error(&format!("{ERROR}{}", printable::lines(&without_tickets(message))));
    drop(writeln!(anstream::stderr(), "{red}error:{red:#}{}", text.trim_start_matches("error:")));
}

const ERROR: &str = "error: ";
const WARNING: &str = "warning: ";

/// Wraps the text to the terminal's width; unchanged if standard error is not a terminal.
fn on_standard_error(text: &str) -> String {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((width, _)) => folded(text, usize::from(width.0)),
        None => text.to_owned(),
    }
}

/// Wraps lines wider than `width` between words; continuation lines are indented by the width of the label.
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

/// The text without the secrets of tickets that this program's arguments contain: an error may quote a misplaced one.
fn without_tickets(text: &str) -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let secret = |(word, safe): (&String, String)| {
        let before = safe.strip_suffix("...")?;
        let (address, letters) = (before.rsplit('=').next()?, word.trim().strip_prefix(before)?);
        Some((format!("{address}{letters}"), format!("{address}...")))
    };
    let secrets = words.iter().zip(redacted(&words)).filter_map(secret);
    secrets.fold(text.to_owned(), |text, (ticket, safe)| text.replace(&ticket, &safe))
}

/// Prints clap's text: help and version on standard output, errors on standard error.
pub fn usage(said: &clap::Error) {
    let styled = said.render().ansi().to_string();
    if !said.use_stderr() {
        return if look().colour { text(&styled) } else { text(&said.render().to_string()) };
    }
    let (styled, plain) = (without_tickets(&styled), without_tickets(&said.render().to_string()));
    let narrow = on_standard_error(&plain);
    let fits = narrow.lines().eq(plain.lines());
    let text = if fits { printable::styled(&styled).to_string() } else { format!("{}\n", printable::lines(&narrow)) };
    drop(write!(anstream::stderr(), "{text}"));
}

/// Style of a report on standard output: its width, and colour on a terminal that supports it.
pub fn look() -> Look {
    let colour = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    let width = of_terminal.or(columns).unwrap_or(DEFAULT_WIDTH);
    Look { width: width.clamp(*WIDTHS.start(), *WIDTHS.end()), colour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_error_is_wrapped_between_words_and_indented_by_its_label() {
        let text = "error: cannot bind 127.0.0.1:7777: address already in use (hint: choose another --port)";
        let lines =
            "error: cannot bind 127.0.0.1:7777: address\n       already in use (hint: choose another\n       --port)";
        assert_eq!(folded(text, 44), lines);
        assert_eq!(folded(text, 200), text);
        assert_eq!(folded("warning: short\n    ^^^", 44), "warning: short\n    ^^^", "short lines do not change");
    }
}
