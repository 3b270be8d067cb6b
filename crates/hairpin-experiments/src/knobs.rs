//! Parsed values of all knobs, set by the user or by default.

use hairpin_model::{Refused, names};

use crate::knob::{Knob, KnobKind};
use crate::value::{OfKnob, Value};

/// The knobs of one experiment with their values, in the experiment's order.
#[derive(Clone, Debug)]
pub struct Knobs {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    knob: &'static Knob,
    given: bool,
    texts: Vec<String>,
    /// Parsed texts.
    values: Vec<Value>,
}

impl Knobs {
    /// Parses the given values and fills in defaults.
    ///
    /// A list may be one comma-separated text or several texts. A switch needs no value.
    ///
    /// # Errors
    /// [`Refused`] for an unknown or repeated name, a missing or invalid value, or too many values.
    pub fn from_given<N: AsRef<str>>(
        knobs: &'static [Knob],
        given: impl IntoIterator<Item = (N, Vec<String>)>,
    ) -> Result<Self, Refused> {
        let mut entries: Vec<Entry> = knobs.iter().map(Entry::with_defaults).collect();
        let known: Vec<&str> = knobs.iter().map(|knob| knob.name).collect();
        for (name, texts) in given {
            let name = names::find("knob", name.as_ref(), &known)?;
            let entry = entries.iter_mut().find(|entry| entry.knob.name == name).expect("a known name");
            entry.set(texts).map_err(|refused| refused.while_reading(&format!("--{name}")))?;
        }
        Ok(Self { entries })
    }

    /// Returns the same values with another one for a knob.
    pub fn with(&self, name: &str, text: String) -> Result<Self, Refused> {
        let mut changed = self.clone();
        for entry in changed.entries.iter_mut().filter(|entry| entry.knob.name == name) {
            entry.given = false;
            entry.set(vec![text.clone()])?;
        }
        Ok(changed)
    }

    pub fn is_given(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.given)
    }

    /// Returns the knob's values, without `all` and `auto`; empty if the knob does not exist.
    ///
    /// # Panics
    /// If the knob's kind does not convert to `T`, which is a bug in the experiment.
    pub fn values<T: OfKnob>(&self, name: &str) -> Vec<T> {
        let own = self.values_of(name).iter().filter(|value| !matches!(value, Value::Every | Value::Chosen));
        own.map(|value| convert(name, value)).collect()
    }

    pub fn value<T: OfKnob>(&self, name: &str) -> Option<T> {
        self.values(name).into_iter().next()
    }

    /// Returns the knob's values in the order given, without duplicates; replaces the word `all` by the argument.
    pub fn choices<T: OfKnob>(&self, name: &str, all: &[T]) -> Vec<T> {
        let of_value = |value: &Value| if *value == Value::Every { all.to_vec() } else { vec![convert(name, value)] };
        names::distinct(self.values_of(name).iter().flat_map(of_value))
    }

    /// Whether `all` is among the knob's values.
    pub fn has_every(&self, name: &str) -> bool {
        self.values_of(name).contains(&Value::Every)
    }

    /// Whether one value is the knob's word for an automatic choice, such as `auto`.
    pub fn has_chosen(&self, name: &str) -> bool {
        self.values_of(name).contains(&Value::Chosen)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name).unwrap_or(false)
    }

    /// Returns the seed of all random choices.
    ///
    /// # Errors
    /// [`Refused`] without a seed, because every random choice must be reproducible.
    pub fn seed(&self) -> Result<u64, Refused> {
        self.value("seed").ok_or_else(|| Refused::new("no seed was given", "give one with --seed NUMBER"))
    }

    /// Returns the names and values of all knobs that have a value, for the saved run.
    pub fn pairs(&self) -> Vec<(String, Vec<String>)> {
        let with_values = self.entries.iter().filter(|entry| !entry.texts.is_empty());
        with_values.map(|entry| (entry.knob.name.to_owned(), entry.texts.clone())).collect()
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.knob.name == name)
    }

    fn values_of(&self, name: &str) -> &[Value] {
        self.entry(name).map_or(&[], |entry| &entry.values)
    }
}

fn convert<T: OfKnob>(name: &str, value: &Value) -> T {
    T::of(value).unwrap_or_else(|| panic!("the experiment expects another kind of value for --{name} than {value:?}"))
}

impl Entry {
    fn with_defaults(knob: &'static Knob) -> Self {
        let values = knob.default.iter().map(|text| knob.kind.read(text).expect("defaults are valid values"));
        let texts = knob.default.iter().map(|text| (*text).to_owned()).collect();
        Self { knob, given: false, texts, values: values.collect() }
    }

    fn set(&mut self, texts: Vec<String>) -> Result<(), Refused> {
        if self.given && !self.knob.repeat {
            return Err(Refused::new("the flag is given twice", "give it once"));
        }
        let mut texts = if self.knob.many {
            texts.iter().flat_map(|text| text.split(',')).map(|text| text.trim().to_owned()).collect()
        } else {
            texts
        };
        if texts.is_empty() {
            if self.knob.kind != KnobKind::Switch {
                return Err(Refused::new(
                    "the flag needs a value",
                    format!("--{} {}", self.knob.name, self.knob.value_name),
                ));
            }
            texts.push("on".to_owned());
        }
        if texts.len() > 1 && !self.knob.many && !self.knob.repeat {
            return Err(Refused::new("the flag takes one value", "run it once per value"));
        }
        let values: Vec<Value> = texts.iter().map(|text| self.knob.kind.read(text)).collect::<Result<_, _>>()?;
        if !self.given {
            (self.texts, self.values) = (Vec::new(), Vec::new());
        }
        self.texts.extend(texts);
        self.values.extend(values);
        self.given = true;
        Ok(())
    }
}
