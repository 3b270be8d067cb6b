use hairpin_model::finding::Key;
use hairpin_model::finding_keys as keys;
use hairpin_model::finding_keys::check::NODELAY;
use hairpin_model::names;
use hairpin_model::quantities::{duration, duration_figure, rounded};

use super::{Told, Words, always};

pub(super) const WORDS: Words = Words { summary, advice, checks: WITHOUT_NAGLE };

pub(super) const WITHOUT_NAGLE: &[(&str, &str, &str)] = &[(
    NODELAY,
    "set TCP_NODELAY",
    "set TCP_NODELAY at both ends; if the time stays the same, Nagle's algorithm is not the cause",
)];

/// An end at which bytes were held.
struct Held<'r> {
    end: &'r str,
    /// Which part of its bytes.
    part: &'r str,
    /// The positions of the requests in a window of those in flight, from 1.
    places: Vec<usize>,
    time: String,
    ack_delay: String,
}

fn held<'r>(told: &'r Told<'_>) -> Option<Vec<Held<'r>>> {
    let pieces = told.finding.evidence.iter().filter(|piece| piece.key == keys::HELD_AT.name);
    let of = |end: &'r str| -> Option<Held<'r>> {
        let (part, places): (Key, Key) = if end == "client" {
            (keys::HELD_OF_CLIENT, keys::PLACES_OF_CLIENT)
        } else {
            (keys::HELD_OF_SERVER, keys::PLACES_OF_SERVER)
        };
        Some(Held {
            end,
            part: told.word(part)?,
            places: told.word(places)?.split(',').filter_map(|place| place.parse().ok()).collect(),
            time: duration_figure(told.finding.figure_of(keys::HELD_AT, end)?),
            ack_delay: duration(told.finding.figure_of(keys::RELEASING_ACK, end)?.value),
        })
    };
    pieces.map(|piece| of(&piece.of)).collect()
}

fn summary(told: &Told<'_>) -> Option<String> {
    let ends = held(told)?;
    let each = ends.iter().map(|at| match told.value(keys::PIPELINE) {
        Some(in_flight) => of_exchanges(told, at, in_flight),
        None => Some(of_messages(told, at)),
    });
    let each = each.enumerate().map(|(place, text)| Some(if place == 0 { text? } else { capitalised(&text?) }));
    let unknown = if ends.iter().any(|at| at.end == "client") { unknown_delay(told) } else { "" };
    Some(format!(
        "{}: {}{unknown} {}{}",
        told.label(),
        each.collect::<Option<Vec<_>>>()?.join(" "),
        told.seen()?,
        told.others()
    ))
}

/// What delays an acknowledgment that the client sees late.
pub(super) fn late_for_the_client(told: &Told<'_>) -> &'static str {
    if told.has(keys::TWO_HOSTS) { "the server or the network" } else { "the server" }
}

/// The unknown part of a delayed server acknowledgment between two hosts, after a sentence; empty on one host.
pub(super) fn unknown_delay(told: &Told<'_>) -> &'static str {
    if !told.has(keys::TWO_HOSTS) {
        return "";
    }
    " The delay is what the ACK took beyond the shortest round trip; cannot tell how much of it the network took: nothing \
     bounds how far the clocks of the two hosts are apart."
}

/// What delays the acknowledgments of data from that end.
fn delayed_by(told: &Told<'_>, at: &Held<'_>) -> &'static str {
    if at.end == "client" { late_for_the_client(told) } else { "the client" }
}

fn of_exchanges(told: &Told<'_>, at: &Held<'_>, in_flight: f64) -> Option<String> {
    let Held { end, time, ack_delay, .. } = at;
    let other = delayed_by(told, at);
    if in_flight == 1.0 && *end == "client" && at.part == "all-but-the-first-write" {
        return Some(format!(
            "of the {} writes of a request Nagle's algorithm holds all but the first for {time}, until it is \
             acknowledged, and {other} delays that ACK by {ack_delay}.",
            told.show(keys::WRITES, rounded)?
        ));
    }
    let several = in_flight > 1.0 && at.places.len() > 1;
    let (verb, them) = if several { ("wait", "them") } else { ("waits", "it") };
    Some(format!(
        "{} {verb} at the {end} for {time}: Nagle's algorithm holds {them} until earlier data is acknowledged, and \
         {other} delays that ACK by {ack_delay}.",
        at.ones(in_flight)
    ))
}

/// The same for an open loop.
fn of_messages(told: &Told<'_>, at: &Held<'_>) -> String {
    let (what, until) = if at.end == "client" {
        ("messages", "")
    } else {
        ("answers", ", mostly until its next message is due")
    };
    format!(
        "{what} wait at the {} for {}: Nagle's algorithm holds each until the one before is acknowledged, and {} delays \
         that ACK by {}{until}.",
        at.end,
        at.time,
        delayed_by(told, at),
        at.ack_delay
    )
}

impl Held<'_> {
    /// `requests 2 to 4 of each 4 in flight`; `requests 1 to 4 of each 4 in flight, whole or in part,`.
    fn ones(&self, in_flight: f64) -> String {
        let what = if self.end == "client" { "request" } else { "answer" };
        let whole = self.part == "all";
        let numbers: Vec<String> = self.places.iter().map(usize::to_string).collect();
        let ones = match &numbers[..] {
            _ if in_flight == 1.0 => {
                return if whole { format!("each {what}") } else { format!("a part of each {what}") };
            }
            [one] => format!("{what} {one}"),
            [first, .., last] if numbers.len() > 2 && self.without_gaps() => format!("{what}s {first} to {last}"),
            _ => format!("{what}s {}", names::shortened(&numbers, 2)),
        };
        format!("{ones} of each {in_flight} in flight{}", if whole { "" } else { ", whole or in part," })
    }

    fn without_gaps(&self) -> bool {
        self.places.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(1))
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn advice(told: &Told<'_>) -> Option<String> {
    let Some(in_flight) = told.value(keys::PIPELINE) else {
        return always(
            "Set TCP_NODELAY at both ends: messages and answers are small and should leave at once. Send those \
             that are ready together in one write.",
        );
    };
    let nodelay = "set TCP_NODELAY, which ends the wait but sends a segment for each write";
    let server = held(told)?.iter().any(|at| at.end == "server");
    Some(match (in_flight > 1.0, server) {
        (false, false) => format!(
            "Send a request in one write: collect its parts and use write or writev, or MSG_MORE, or TCP_CORK \
             released after the last part. If that is not possible, {nodelay}. Quick ACKs (TCP_QUICKACK) help only if \
             you own the server."
        ),
        (true, false) => format!("With several requests in flight {nodelay}. Send each request in one write."),
        (_, true) => format!(
            "Answers wait as requests do: {nodelay}, at both ends. Send each request and each answer in one \
             write, or several of them together."
        ),
    })
}
