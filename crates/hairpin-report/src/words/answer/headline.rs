//! The headline: the first sentence of an answer without its details, which follow it.

/// Maximum length of a headline, in characters.
pub(super) const MAX_CHARS: usize = 100;

/// Shortens a text to one sentence of at most [`MAX_CHARS`]: without intervals, else without any parentheses, else up
/// to the last part that fits, with an ellipsis. Also returns what follows it: the intervals, or the whole text.
pub(super) fn headline(text: &str) -> (String, String) {
    let invalid = if text.contains(super::figures::DO_NOT_USE) { "Do not use: " } else { "" };
    let (first, more) = text.split_once(". ").unwrap_or((text.trim_end_matches('.'), ""));
    let first = format!("{invalid}{first}");
    let fits = |text: &str| text.chars().count() < MAX_CHARS;
    let (plain, intervals) = without(&first, |part| part.contains("interval"));
    let (shortest, _) = without(&first, |_| true);
    if fits(&plain) {
        let intervals = intervals.join(", ") + if intervals.is_empty() { "" } else { ". " };
        return (format!("{plain}."), (intervals + more).trim_end().to_owned());
    }
    let ends = [", ", "; ", " and "].iter().flat_map(|separator| shortest.match_indices(separator));
    let parts = ends.map(|(at, _)| format!("{} ...", &shortest[..at]));
    let cut = || shortest.chars().take(MAX_CHARS - 4).chain(" ...".chars()).collect();
    let whole = Some(format!("{shortest}.")).filter(|_| fits(&shortest));
    let part = || parts.filter(|part| fits(part)).max_by_key(String::len);
    (whole.or_else(part).unwrap_or_else(cut), text.to_owned())
}

/// Returns the text without the parentheses that are to be dropped and the space before each, and what was in them.
fn without(text: &str, is_dropped: impl Fn(&str) -> bool) -> (String, Vec<&str>) {
    let (mut rest, mut kept, mut dropped) = (text, String::new(), Vec::new());
    while let Some((before, after)) = rest.split_once(" (") {
        let Some((inside, beyond)) = after.split_once(')') else { break };
        kept += before;
        if is_dropped(inside) {
            dropped.push(inside)
        } else {
            kept += &format!(" ({inside})")
        }
        rest = beyond;
    }
    (kept + rest, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headline_is_one_short_sentence() {
        let interval = "Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50 314 ns \
                        (95 % interval 310-320).";
        let expected = "Fastest round trip between two processes here: shm (busy-polling, two CPUs) at p50 314 ns.";
        assert_eq!(headline(interval), (expected.to_owned(), "95 % interval 310-320.".to_owned()));
        let several = "Highest message rate, not separated in this run: tcp up 64 B batch 64 (blocking, two CPUs) at 23.3 M \
                       messages/s (95 % interval 22.0-24.0 M) and unix-stream up 64 B batch 64 (blocking, two CPUs) at 22.1 M.";
        let expected =
            "Highest message rate, not separated in this run: tcp up 64 B batch 64 at 23.3 M messages/s ...";
        assert_eq!(headline(several), (expected.to_owned(), several.to_owned()));
        let invalid = "tcp: goodput 12.0 MB/s, 8 rounds. Do not use these figures: see below.";
        let expected = ["Do not use: tcp: goodput 12.0 MB/s, 8 rounds.", "Do not use these figures: see below."];
        assert_eq!(headline(invalid), expected.map(str::to_owned).into());
        assert_eq!(headline(&"x".repeat(200)).0.chars().count(), MAX_CHARS);
    }
}
