//! The knobs as they are turned: checked values, given or by default.

use hairpin_model::case::Plant;
use hairpin_model::names;
use hairpin_model::round::Extent;

use crate::experiment::Experiment;
use crate::knob::{EVERY, Knob, KnobKind, switch};
use crate::quantity;
use crate::refused::Refused;

/// Every knob of one experiment with its values, in the experiment's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Knobs {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    knob: &'static Knob,
    given: bool,
    texts: Vec<String>,
}

impl Knobs {
    /// Takes the values as typed, fills in the defaults, and checks each value by itself.
    ///
    /// Comma lists may come whole or split. A switch may come without a value.
    ///
    /// # Errors
    /// [`Refused`] for an unknown name, a name given twice, a missing or unfit value, or two values where one is taken.
    pub fn from_given<N: AsRef<str>>(
        experiment: &dyn Experiment,
        given: impl IntoIterator<Item = (N, Vec<String>)>,
    ) -> Result<Self, Refused> {
        let mut entries: Vec<Entry> = experiment.knobs().iter().map(Entry::by_default).collect();
        let known: Vec<&str> = experiment.knobs().iter().map(|knob| knob.name).collect();
        for (name, texts) in given {
            let name = names::find("knob", name.as_ref(), &known)?;
            let entry = entries.iter_mut().find(|entry| entry.knob.name == name).expect("found among their names");
            entry.turn(texts).map_err(|refused| refused.while_reading(&format!("--{name}")))?;
        }
        Ok(Self { entries })
    }

    /// Whether the user gave it.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| entry.given)
    }

    /// Its values as texts, given or by default; none where it has neither, or where there is no such knob.
    #[must_use]
    pub fn texts(&self, name: &str) -> &[String] {
        self.entry(name).map_or(&[], |entry| &entry.texts)
    }

    /// Its first value as a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts(name).first().map(String::as_str)
    }

    /// Whether a switch is on.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| switch(text).unwrap_or(false))
    }

    /// Words as the values they stand for; `all` stands for every one of `all`. Each value once.
    ///
    /// # Errors
    /// [`Refused`] with the nearest word.
    pub fn words<W>(&self, name: &str, all: &[W]) -> Result<Vec<W>, Refused>
    where
        W: Clone + PartialEq + std::str::FromStr,
        Refused: From<W::Err>,
    {
        let mut values = Vec::new();
        for text in self.texts(name) {
            let stands_for = if text == EVERY { all.to_vec() } else { vec![text.parse()?] };
            for value in stands_for {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        Ok(values)
    }

    /// Numbers of bytes.
    ///
    /// # Errors
    /// [`Refused`] when one is out of the knob's range.
    pub fn bytes(&self, name: &str) -> Result<Vec<u64>, Refused> {
        self.each(name, |kind, text| match kind {
            KnobKind::Bytes { min, max } => quantity::bytes(text, min, max),
            _ => Err(not_that_kind(text)),
        })
    }

    /// Rates a second.
    ///
    /// # Errors
    /// [`Refused`] when one is out of the knob's range.
    pub fn rates_per_s(&self, name: &str) -> Result<Vec<f64>, Refused> {
        self.each(name, |kind, text| match kind {
            KnobKind::Rate { max_per_s } => quantity::rate_per_s(text, max_per_s),
            _ => Err(not_that_kind(text)),
        })
    }

    /// A whole number, where there is one.
    ///
    /// # Errors
    /// [`Refused`] when it is out of the knob's range.
    pub fn whole(&self, name: &str) -> Result<Option<u64>, Refused> {
        let numbers = self.each(name, |kind, text| match kind {
            KnobKind::Whole { min, max } => quantity::whole(text, min, max),
            _ => Err(not_that_kind(text)),
        })?;
        Ok(numbers.first().copied())
    }

    /// A duration in nanoseconds, where there is one.
    ///
    /// # Errors
    /// [`Refused`] when it is out of the knob's range.
    pub fn duration_ns(&self, name: &str) -> Result<Option<u64>, Refused> {
        let durations = self.each(name, |kind, text| match kind {
            KnobKind::Duration { min_ns, max_ns } => quantity::duration_ns(text, min_ns, max_ns),
            _ => Err(not_that_kind(text)),
        })?;
        Ok(durations.first().copied())
    }

    /// A share, where there is one.
    ///
    /// # Errors
    /// [`Refused`] when it is out of range.
    pub fn share(&self, name: &str) -> Result<Option<f64>, Refused> {
        Ok(self.each(name, |_, text| quantity::share(text))?.first().copied())
    }

    /// A number of messages or a duration, where there is one.
    ///
    /// # Errors
    /// [`Refused`] when it is neither.
    pub fn extent(&self, name: &str) -> Result<Option<Extent>, Refused> {
        Ok(self.each(name, |_, text| quantity::extent(text))?.first().copied())
    }

    /// A planted fault, where there is one.
    ///
    /// # Errors
    /// [`Refused`] when it is not of the form of one.
    pub fn plant(&self, name: &str) -> Result<Option<Plant>, Refused> {
        Ok(self.each(name, |_, text| quantity::plant(text))?.first().copied())
    }

    /// The seed.
    ///
    /// # Errors
    /// [`Refused`] when none was passed: no random choice is made without a recorded seed.
    pub fn seed(&self) -> Result<u64, Refused> {
        self.whole("seed")?.ok_or_else(|| Refused::new("no seed was passed", "pass one with --seed NUMBER"))
    }

    /// Every knob that has a value, as the saved run lists them.
    #[must_use]
    pub fn pairs(&self) -> Vec<(String, Vec<String>)> {
        let turned = self.entries.iter().filter(|entry| !entry.texts.is_empty());
        turned.map(|entry| (entry.knob.name.to_owned(), entry.texts.clone())).collect()
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.knob.name == name)
    }

    fn each<T>(&self, name: &str, read: impl Fn(KnobKind, &str) -> Result<T, Refused>) -> Result<Vec<T>, Refused> {
        let Some(entry) = self.entry(name) else { return Ok(Vec::new()) };
        let values = entry.texts.iter().map(|text| read(entry.knob.kind, text));
        values.collect::<Result<_, _>>().map_err(|refused| refused.while_reading(&format!("--{name}")))
    }
}

fn not_that_kind(text: &str) -> Refused {
    Refused::new(format!("`{text}` is of another kind"), "this is an error in the experiment; please report it")
}

impl Entry {
    fn by_default(knob: &'static Knob) -> Self {
        Self { knob, given: false, texts: knob.default.iter().map(|text| (*text).to_owned()).collect() }
    }

    fn turn(&mut self, texts: Vec<String>) -> Result<(), Refused> {
        if self.given && !self.knob.repeat {
            return Err(Refused::new("it is given twice", "give it once"));
        }
        let mut texts = if self.knob.many {
            texts.iter().flat_map(|text| text.split(',')).map(|text| text.trim().to_owned()).collect()
        } else {
            texts
        };
        if texts.is_empty() {
            if self.knob.kind != KnobKind::Switch {
                return Err(Refused::new(
                    "it has no value",
                    format!("--{} {}", self.knob.name, self.knob.value_name),
                ));
            }
            texts.push("on".to_owned());
        }
        if texts.len() > 1 && !self.knob.many && !self.knob.repeat {
            return Err(Refused::new("it takes one value", "run it once for each value"));
        }
        texts.iter().try_for_each(|text| self.knob.kind.check(text))?;
        if self.given {
            self.texts.append(&mut texts);
        } else {
            self.texts = texts;
        }
        self.given = true;
        Ok(())
    }
}
