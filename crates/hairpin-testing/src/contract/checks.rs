//! Faults against the contract, and the checks that all parts of it share.

use serde_json::Value;

pub(super) const ROLES: &[&str] = &["client", "server"];

/// Figures of a latency in ascending order, and the samples that each needs.
const LATENCIES: &[(&str, u64)] = &[("p50", 1), ("p90", 1), ("p99", 1_000), ("p999", 10_000), ("max", 1)];

/// Collects faults, each with the place in the object.
#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<String>);

impl Faults {
    pub(super) fn unless(&mut self, fine: bool, place: &str, what: &str) {
        if !fine {
            self.0.push(format!("{place}: {what}"));
        }
    }

    /// Requires one of these words.
    pub(super) fn word(&mut self, parent: &Value, place: &str, name: &str, words: &[&str]) {
        let word = self.need(parent, place, name, Kind::Text).as_str().unwrap_or_default();
        self.unless(words.contains(&word), &join(place, name), &format!("`{word}` is not one of the words"));
    }

    /// The value at a place, checked for its kind; Null if it has another.
    pub(super) fn need<'v>(&mut self, parent: &'v Value, place: &str, name: &str, kind: Kind) -> &'v Value {
        let value = &parent[name];
        self.unless(kind.holds(value), &join(place, name), &format!("is not {}", kind.in_words()));
        value
    }
}

/// Kind of a value.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Count,
    Number,
    Switch,
    List,
    Object,
}

impl Kind {
    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Text => value.as_str().is_some_and(|text| !text.is_empty()),
            Self::Count => value.is_u64(),
            Self::Number => value.as_f64().is_some_and(f64::is_finite),
            Self::Switch => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Count => "a count",
            Self::Number => "a number",
            Self::Switch => "true or false",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }
}

/// Appends a field to a place.
pub(super) fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// Checks `{value, low, high}`, with `why` if there is no interval; null if it may be missing.
pub(super) fn figure_faults(faults: &mut Faults, place: &str, figure: Option<&Value>, needed: bool) {
    match figure {
        Some(Value::Null) => faults.unless(!needed, place, "is null although there are samples enough"),
        Some(figure @ Value::Object(fields)) => {
            let known = |name: &String| ["value", "low", "high", "why"].contains(&name.as_str());
            faults.unless(fields.keys().all(known), place, "has a field that no figure has");
            let has_reason = figure["why"].is_null() || figure["low"].is_null();
            faults.unless(has_reason, place, "has an interval, and a reason why it has none");
            let value = faults.need(figure, place, "value", Kind::Number).as_f64().unwrap_or(0.0);
            let bound = |name: &str, none: f64| match figure.get(name) {
                Some(Value::Null) => Some(none),
                bound => bound.and_then(Value::as_f64),
            };
            match (bound("low", f64::NEG_INFINITY), bound("high", f64::INFINITY)) {
                (Some(low), Some(high)) => {
                    faults.unless(low <= value && value <= high, place, "its interval does not hold its value");
                }
                _ => faults.unless(false, place, "has no `low` or no `high`"),
            }
        }
        _ => faults.unless(false, place, "is neither {value, low, high} nor null"),
    }
}

/// `one_state` is `None` if figures may be missing.
pub(super) fn latency_faults(
    faults: &mut Faults,
    place: &str,
    latency: &Value,
    samples: u64,
    one_state: Option<bool>,
) {
    let mut smaller = ("", 0.0);
    for (name, needs) in LATENCIES {
        let place = join(place, name);
        let figure = latency.get(name);
        // A state has at least one round, and each round some samples.
        figure_faults(faults, &place, figure, samples >= *needs && one_state.is_some_and(|one| one || *needs <= 1));
        let Some(value) = figure.and_then(|figure| figure["value"].as_f64()) else { continue };
        faults.unless(
            samples >= *needs,
            &place,
            &format!("is shown, but {samples} samples do not suffice ({needs})"),
        );
        faults.unless(value >= smaller.1, &place, &format!("is less than {}", smaller.0));
        smaller = (name, value);
    }
    figure_faults(faults, &join(place, "mean"), latency.get("mean"), samples > 0 && one_state.is_some());
}

/// Checks that a ledger closes and has `samples`; with `in_part`, these are of a part of its messages.
pub(super) fn ledger_faults(faults: &mut Faults, place: &str, ledger: &Value, (samples, in_part): (u64, bool)) {
    let mut count = |name: &str| {
        let value = faults.need(ledger, place, name, Kind::Count);
        i128::from(value.as_u64().unwrap_or(0))
    };
    let (sent, received, late) = (count("sent"), count("received"), count("late"));
    count("duplicated");
    let lost = by_cause(faults, ledger, place, "lost");
    let unexplained = faults.need(ledger, place, "unexplained", Kind::Number).as_i64().unwrap_or(0);
    let rest = sent - received - lost - late;
    faults.unless(
        rest == i128::from(unexplained),
        place,
        &format!("does not close: {rest} are left, not {unexplained}"),
    );
    // If the warm-up lost messages, the ledger includes it.
    let samples_fit = i128::from(samples) >= received || lost > 0 || in_part;
    let fine = samples_fit && i128::from(samples) <= received + late;
    faults.unless(fine, place, &format!("{samples} samples, but {received} received and {late} late"));
}

/// The sum of the counts by cause of an object at that name.
pub(super) fn by_cause(faults: &mut Faults, parent: &Value, place: &str, name: &str) -> i128 {
    let causes = faults.need(parent, place, name, Kind::Object).as_object();
    let counts: Vec<Option<u64>> = causes.into_iter().flat_map(|causes| causes.values().map(Value::as_u64)).collect();
    faults.unless(counts.iter().all(Option::is_some), &join(place, name), "has a cause without a count");
    counts.into_iter().flatten().map(i128::from).sum()
}
