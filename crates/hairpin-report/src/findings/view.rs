//! The context in which the templates of a finding are rendered: figures and facts by key, and cases.

use std::collections::{BTreeMap, HashMap};

use hairpin_model::held_up::HeldUp;
use hairpin_model::names::shortened;
use hairpin_model::quantities::{self, byte_rate, bytes, duration, duration_figure, rounded, share, share_figure};
use hairpin_model::{CaseSummary, Evidence, FactValue, Figure, Finding, finding_keys as keys};
use minijinja::{Environment, UndefinedBehavior, Value, context};

use crate::words::held_up_by;

/// Returns an environment in which a missing figure is an error.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.add_filter("duration", duration);
    environment.add_filter("share", share);
    environment.add_filter("factor", quantities::factor);
    environment.add_filter("rounded", rounded);
    environment.add_filter("ratio", |ratio: f64| format!("{ratio:.2}"));
    environment.add_filter("places", places);
    environment
}

pub(super) type Cases<'r> = HashMap<&'r str, &'r CaseSummary>;

pub(super) struct View<'r> {
    cases: &'r Cases<'r>,
    pub(super) finding: &'r Finding,
    environment: &'r Environment<'static>,
    context: Value,
}

impl<'r> View<'r> {
    pub(super) fn new(cases: &'r Cases<'r>, finding: &'r Finding, environment: &'r Environment<'static>) -> Self {
        let mut view = Self { cases, finding, environment, context: Value::UNDEFINED };
        view.context = Value::from(view.names());
        view
    }

    /// Renders the template on one line; `None` if a figure is missing, as in a damaged run.
    pub(super) fn render(&self, template: &str) -> Option<String> {
        let text = self.environment.render_str(template, &self.context).ok()?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    pub(super) fn label_of<'s>(&'s self, id: &'s str) -> &'s str {
        self.cases.get(id).map_or(id, |case| case.label.as_str())
    }

    /// Returns each figure and fact by key, with `_` in place of `-`. `KEY_of` maps each subject of KEY to its
    /// figure.
    fn names(&self) -> BTreeMap<String, Value> {
        let mut names = BTreeMap::new();
        for (key, fact) in self.finding.facts.iter().flatten() {
            let value = match fact {
                FactValue::Word(word) => Value::from(word.as_str()),
                FactValue::Number(number) => figure_value((*number).into(), unit(key)),
            };
            names.insert(name(key), value);
        }
        let mut several: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
        for piece in self.finding.evidence.iter().rev() {
            names.insert(name(&piece.key), self.piece(piece));
            several.entry(name(&piece.key) + "_of").or_default().insert(&piece.of, self.piece(piece));
        }
        names.extend(several.into_iter().map(|(name, values)| (name, Value::from(values))));
        let pieces: Vec<Value> = self.finding.evidence.iter().map(|piece| self.piece(piece)).collect();
        let mut put = |name: &str, value: Value| names.insert(name.to_owned(), value);
        put("pieces", pieces.into());
        put("label", self.finding.cases.first().map_or("", |id| self.label_of(id)).into());
        put("cases", self.finding.cases.len().into());
        put("others", self.others().into());
        put("share", self.finding.shares.first().map_or(Value::UNDEFINED, |part| share(*part).into()));
        if let Some(id) = self.finding.word(keys::WORST_CASE) {
            put("worst", self.left_out(id));
        }
        if let Some(limit) = self.finding.word(keys::HELD_UP).and_then(|word| word.parse::<HeldUp>().ok()) {
            let (cause, remedy) = held_up_by(limit);
            put("limit", context! { cause, remedy });
        }
        names
    }

    fn piece(&self, piece: &Evidence) -> Value {
        let label = piece.case.as_ref().map(|id| self.label_of(id));
        context! { key => &piece.key, of => &piece.of, label, ..figure_value(piece.value, &piece.unit) }
    }

    fn left_out(&self, id: &str) -> Value {
        let case = self.cases.get(id);
        let reasons = case.and_then(|case| Some(&case.path.relay.as_ref()?.rounds_left_out));
        context! { label => self.label_of(id), valid => case.is_some_and(|case| case.valid), reasons }
    }

    /// Summarizes all cases after the first: `Also 3 other cases: 61 % to 88 %.`; empty if there are none.
    pub(super) fn others(&self) -> String {
        let others: Vec<_> = self.finding.cases.iter().zip(&self.finding.shares).skip(1).collect();
        match others.as_slice() {
            [] => String::new(),
            [(id, part)] => format!("Also {}: {}.", self.label_of(id), share(**part)),
            [(_, most), .., (_, least)] => {
                let (least, most) = (share(**least), share(**most));
                let range = if least == most { most } else { format!("{least} to {most}") };
                format!("Also {} other cases: {range}.", others.len())
            }
        }
    }
}

fn name(key: &str) -> String {
    key.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

fn unit(key: &str) -> &'static str {
    keys::ALL.iter().find(|known| known.name == key).map_or("", |known| known.unit)
}

/// Returns a figure as `value` (a number), `text` (with its unit) and `full` (with its interval).
fn figure_value(figure: Figure, unit: &str) -> Value {
    let Figure { value, .. } = figure;
    let text = match unit {
        "ns" => duration(value),
        "share" => share(value),
        "bytes" => bytes(value),
        "bytes/s" => byte_rate(value),
        "ratio" => format!("{value:.2}"),
        _ => rounded(value),
    };
    let full = match unit {
        "ns" => duration_figure(figure),
        "share" => share_figure(figure),
        _ => text.clone(),
    };
    context! { value, text, full }
}

/// Formats `2,3,4` as `2 to 4`, and other lists as `1, 3 and 5`.
fn places(places: &str) -> String {
    let numbers: Vec<usize> = places.split(',').filter_map(|place| place.parse().ok()).collect();
    let is_range = numbers.len() > 2 && numbers.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(1));
    match numbers.as_slice() {
        [first, .., last] if is_range => format!("{first} to {last}"),
        _ => shortened(&numbers.iter().map(usize::to_string).collect::<Vec<_>>(), 2),
    }
}
