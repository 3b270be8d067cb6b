//! Helpers for markup: escaped text, positions, and the shapes of marks.

use std::fmt::Display;

use hairpin_model::printable;

pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\t' | '\n' => safe.push(' '),
            steering if printable::steers(steering) => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Formats a position, 0 to 1, as a percentage of the plot: `37.25%`.
pub(crate) fn percent(place: f64) -> String {
    let text = format!("{:.2}", place * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Converts a position, 0 to 1 from the bottom, to pixels from the top.
pub(crate) fn down(place: f64, height: f64) -> String {
    trimmed((1.0 - place) * height)
}

pub(crate) fn trimmed(number: f64) -> String {
    let text = format!("{number:.1}");
    text.trim_end_matches(".0").to_owned()
}

pub(crate) fn level(class: &str, y: &str) -> String {
    format!("<line class=\"{class}\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>")
}

pub(crate) fn upright(class: &str, x: &str, height: impl Display) -> String {
    format!("<line class=\"{class}\" x1=\"{x}\" x2=\"{x}\" y1=\"0\" y2=\"{height}\"/>")
}

pub(crate) fn text(class: &str, x: impl Display, y: impl Display, text: &str) -> String {
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>", escape(text))
}

pub(crate) fn mark(classes: &str, shape: usize, [x, y]: [&str; 2], title: &str) -> String {
    let title = escape(title);
    format!("<g class=\"{classes}\"><title>{title}</title><use href=\"#m{shape}\" x=\"{x}\" y=\"{y}\"/></g>")
}

/// A part of a bar, from `from` on, both as shares of the bar. A negative part has no width.
pub(crate) fn part(class: &str, from: f64, share: f64) -> String {
    let (x, width) = (percent(from.clamp(0.0, 1.0)), percent(share.clamp(0.0, 1.0)));
    format!("<rect class=\"part {class}\" x=\"{x}\" width=\"{width}\" y=\"4\" height=\"15\"/>")
}

/// A row with a name, a lane and a value, marked if it is invalid. All but `words`, which say what the lane shows, is markup.
pub(crate) fn lane_row(valid: bool, name: &str, class: &str, words: &str, shapes: &str, value: &str) -> String {
    let (invalid, bang) =
        if valid { ("", "") } else { (" invalid", "<b class=\"bang\" title=\"invalid: do not use\">!</b> ") };
    let words = escape(words);
    format!(
        "<div class=\"lane-row{invalid}\" role=\"listitem\"><span class=\"lane-name\">{bang}{name}</span><span class=\"lane-cell\">\
         <svg class=\"{class}\" width=\"100%\" height=\"100%\" role=\"img\" aria-label=\"{words}\"><title>{words}</title>{shapes}\
         </svg></span><span class=\"lane-value\">{value}</span></div>"
    )
}

/// Returns the sample of a legend's entry that style.css draws for this class.
pub(crate) fn sample(class: &str) -> String {
    format!("<i class=\"{class}\" aria-hidden=\"true\"></i>")
}

/// The shapes of marks, about 9 pixels wide, with the origin in the middle. Each series colour has its own shape, so
/// that colour is never the only difference.
const SHAPES: [&str; 8] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.6 -3.6h7.2v7.2h-7.2z",
    "M0 -5L5 0L0 5L-5 0z",
    "M0 -4.8L4.7 3.6H-4.7z",
    "M0 4.8L4.7 -3.6H-4.7z",
    "M-1.6 -4.8h3.2v3.2h3.2v3.2h-3.2v3.2h-3.2v-3.2h-3.2v-3.2h3.2z",
    "M-4.4 -2.5L0 -5L4.4 -2.5V2.5L0 5L-4.4 2.5z",
    "M0 -5.2L1.5 -1.7L5 -1.6L2.3 0.8L3.1 4.4L0 2.4L-3.1 4.4L-2.3 0.8L-5 -1.6L-1.5 -1.7z",
];

/// Arrow heads in both directions, with the tip at the origin.
const HEADS: [(&str, &str); 2] = [("right", "M0 0L-9 -4V4z"), ("left", "M0 0L9 -4V4z")];

/// The marks of rounds with lost messages (a cross) and of failed rounds (a barred square).
const EVENTS: [(&str, &str); 2] =
    [("lost", "M-4 -4L4 4M-4 4L4 -4"), ("failed", "M-4.5 -4.5h9v9h-9zM-4.5 4.5L4.5 -4.5")];

/// Returns all shapes as symbols for `<use href="#m0">`. A page needs them once.
pub(crate) fn symbols() -> String {
    let mut text = String::from("<svg class=\"symbols\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>");
    for (number, path) in SHAPES.iter().enumerate() {
        text.push_str(&format!("<path id=\"m{number}\" d=\"{path}\"/>"));
    }
    for (name, path) in HEADS.into_iter().chain(EVENTS) {
        text.push_str(&format!("<path id=\"m-{name}\" d=\"{path}\"/>"));
    }
    text.push_str("</defs></svg>");
    text
}

pub(crate) fn invalid_not_drawn(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.map(|name| escape(&name)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("<p class=\"caption left-out\">Invalid, not drawn: {}.</p>", names.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        assert_eq!(
            escape("</script><b a=\"1\" c='2'>&"),
            "&lt;/script&gt;&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;"
        );
        assert_eq!(escape("a\u{0}b\nc\u{202e}d"), "a\u{fffd}b c\u{fffd}d");
    }

    #[test]
    fn positions_have_no_trailing_zeros() {
        assert_eq!([percent(0.5), percent(1.0 / 3.0), percent(0.0)], ["50%", "33.33%", "0%"]);
        assert_eq!(down(0.25, 100.0), "75");
    }
}
