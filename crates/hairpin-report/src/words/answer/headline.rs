//! The headline: the first sentence of an answer without its details. The whole sentence follows the headline.

/// Maximum length of a headline, in characters.
pub(super) const MAX_CHARS: usize = 100;

/// Shortens a text to one sentence of at most [`MAX_CHARS`]: first without intervals, then without any parentheses,
/// then up to the last part that fits, with an ellipsis.
pub(super) fn headline(text: &str) -> String {
    let invalid = if text.contains(super::figures::DO_NOT_USE) { "Do not use: " } else { "" };
    let first = format!("{invalid}{}", text.split(". ").next().unwrap_or_default().trim_end_matches('.'));
    let fits = |text: &String| text.chars().count() < MAX_CHARS;
    let intervals = |part: &str| part.contains("interval");
    let steps = [first.clone(), without(&first, intervals), without(&first, |_| true)];
    if let Some(text) = steps.iter().find(|text| fits(text)) {
        return format!("{text}.");
    }
    let shortest = &steps[2];
    let ends = [", ", "; ", " and "].iter().flat_map(|separator| shortest.match_indices(separator));
    let fitting = ends.map(|(at, _)| format!("{} ...", &shortest[..at])).filter(|text| fits(text));
    let cut = fitting.max_by_key(String::len);
    cut.unwrap_or_else(|| shortest.chars().take(MAX_CHARS - 4).chain(" ...".chars()).collect())
}

/// Returns the text without the parentheses that are to be dropped, each with the space before it.
fn without(text: &str, is_dropped: impl Fn(&str) -> bool) -> String {
    let (mut rest, mut kept) = (text, String::new());
    while let Some((before, after)) = rest.split_once(" (") {
        let Some((inside, beyond)) = after.split_once(')') else { break };
        kept += before;
        if !is_dropped(inside) {
            kept += &format!(" ({inside})");
        }
        rest = beyond;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_is_one_short_sentence() {
        let interval = "Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50 314 ns \
                        (95 % interval 310-320).";
        let expected = "Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50 314 ns.";
        assert_eq!(headline(interval), expected);
        let several = "Highest message rate, not separated in this run: tcp up 64 B batch 64 (blocking, two CPUs) at 23.3 M \
                       messages/s (95 % interval 22.0-24.0 M) and unix-stream up 64 B batch 64 (blocking, two CPUs) at 22.1 M.";
        let expected =
            "Highest message rate, not separated in this run: tcp up 64 B batch 64 at 23.3 M messages/s ...";
        assert_eq!(headline(several), expected);
        let invalid = "tcp: goodput 12.0 MB/s, 8 rounds. Do not use these figures: see below.";
        assert_eq!(headline(invalid), "Do not use: tcp: goodput 12.0 MB/s, 8 rounds.");
        assert_eq!(headline(&"x".repeat(200)).chars().count(), MAX_CHARS);
    }
}
