//! Templates of findings: one text file per finding, with sections for its summary, its advice and its checks. `[title]`
//! is what a finding about the run says, as a part of a sentence.
//!
//! `[check KIND]` says what to do and what to expect. `[done KIND]` says what was done (default: the first clause of
//! the check).

macro_rules! texts {
    ($($code:literal)+) => {
        &[$(($code, include_str!(concat!("words/", $code, ".txt")))),+]
    };
}

const ALL: &[(&str, &str)] = texts![
    "aa-differs" "autocorking" "bufferbloat" "cold-start" "congestion-control" "cork-not-released"
    "cpu-contention" "cpu-quota" "datagrams-over-mtu" "deadline-misses" "delayed-ack" "drift" "echo-stalled" "generator-late" "head-of-line-blocking" "limited-cpu" "link-drops" "link-late"
    "link-saturated" "machine-states" "many-small-segments" "nagle-meets-delayed-ack" "nagle-waits"
    "noisy-machine" "own-send-queue" "placement-lottery" "rate-not-reached" "retransmission" "rounds-left-out"
    "run-queue" "sender-bursts" "server-work" "shared-connection" "stack-dominated" "strays" "timer-slack" "udp-receive-overrun" "udp-send-overrun" "unexplained-loss"
    "wake-up-dominated"
];

/// Names of figures whose keys are not clear enough, one per line.
const FIGURES: &str = include_str!("words/figures.txt");

pub(super) fn section(code: &str, name: &str) -> Option<&'static str> {
    let (_, text) = ALL.iter().find(|(known, _)| *known == code)?;
    let (_, rest) = text.split_once(&format!("[{name}]\n"))?;
    Some(rest.split_once("\n[").map_or(rest, |(section, _)| section))
}

/// Returns the template of a figure's name; `None` if the key serves as the name.
pub(super) fn figure(key: &str) -> Option<&'static str> {
    FIGURES.lines().filter_map(|line| line.split_once(": ")).find(|(known, _)| *known == key).map(|(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_figure_has_a_known_key() {
        let names = FIGURES.lines().map(|line| line.split_once(": ").unwrap().0);
        let unknown: Vec<&str> = names
            .filter(|name| {
                !name.starts_with("of ") && !hairpin_model::finding_keys::ALL.iter().any(|key| key.name == *name)
            })
            .collect();
        assert_eq!(unknown, [""; 0]);
    }
}
