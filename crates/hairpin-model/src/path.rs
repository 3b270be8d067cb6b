//! The path between the ends of a case, in words.

use crate::case::Case;
use crate::summary::CaseSummary;

/// Name of a case's link, or its line of figures if the link has no name; between two hosts, the server's host.
pub fn name(case: &Case) -> &str {
    case.host().unwrap_or_else(|| case.path.name.as_ref().unwrap_or(&case.path.link))
}

/// Whether two cases have the same path; ignores fallback transports.
pub fn alike(one: &Case, other: &Case) -> bool {
    one.path.link == other.path.link && one.host() == other.host()
}

pub fn several(cases: &[CaseSummary]) -> bool {
    cases.windows(2).any(|pair| !alike(&pair[0].case, &pair[1].case))
}

/// `over home-uplink`, `over delay=2ms`, `to lab.example.org`; `None` on the loopback.
pub fn over(case: &Case) -> Option<String> {
    case.host().map_or_else(|| case.path_in_words(), |host| Some(format!("to {host}")))
}

/// Argument of `--to` for printed commands. `@FILE` replaces a ticket, because runs save only its address.
pub fn server_in_command(to: &str) -> &str {
    if to.starts_with('@') || to.contains("://") { to } else { "@FILE" }
}

/// [`over`] for a headline: shortens a long line of figures, unless another link begins with the same words.
pub fn over_in_short(case: &Case, cases: &[CaseSummary]) -> Option<String> {
    const MAX_CHARS: usize = 30;
    let begin = |case: &Case| {
        let mut begin = String::new();
        for word in name(case).split(' ') {
            if !begin.is_empty() && begin.chars().count() + word.chars().count() >= MAX_CHARS {
                return format!("{begin}and more");
            }
            begin.push_str(&format!("{word} "));
        }
        begin.trim_end().to_owned()
    };
    let unique = !cases.iter().any(|row| begin(&row.case) == begin(case) && row.case.path.link != case.path.link);
    over(case).map(|over| if unique { over.replacen(name(case), &begin(case), 1) } else { over })
}
