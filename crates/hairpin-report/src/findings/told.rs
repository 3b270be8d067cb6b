//! A finding as its words see it: its figures and facts, and the labels of its cases.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{Finding, Key};
use hairpin_model::finding_keys as keys;
use hairpin_model::quantities;
use hairpin_model::run::Run;

pub(super) struct Told<'r> {
    pub(super) run: &'r Run,
    pub(super) finding: &'r Finding,
}

impl Told<'_> {
    /// The label of the finding's first case.
    pub(super) fn label(&self) -> &str {
        self.finding.cases.first().map_or("", |id| self.label_of(id))
    }

    pub(super) fn label_of<'s>(&'s self, id: &'s str) -> &'s str {
        self.run.case(id).map_or(id, |case| case.label.as_str())
    }

    pub(super) fn value(&self, key: Key) -> Option<f64> {
        self.finding.figure(key).map(|figure| figure.value)
    }

    pub(super) fn show(&self, key: Key, how: fn(f64) -> String) -> Option<String> {
        self.value(key).map(how)
    }

    pub(super) fn show_figure(&self, key: Key, how: fn(Figure) -> String) -> Option<String> {
        self.finding.figure(key).map(how)
    }

    pub(super) fn word(&self, key: Key) -> Option<&str> {
        self.finding.word(key)
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.finding.has(key)
    }

    /// The share that it explains of its first case.
    pub(super) fn share(&self) -> String {
        self.finding.shares.first().map_or(quantities::DASH.to_owned(), |share| quantities::share(*share))
    }

    /// ` Found in 3 cases.`, or empty if there is only one.
    pub(super) fn in_all(&self) -> String {
        let cases = self.finding.cases.len();
        if cases > 1 { format!(" Found in {cases} cases.") } else { String::new() }
    }

    /// ` Also 3 other cases: 61 % to 88 %.`, or empty if there is only one.
    pub(super) fn others(&self) -> String {
        let others: Vec<_> = self.finding.cases.iter().zip(&self.finding.shares).skip(1).collect();
        match others.as_slice() {
            [] => String::new(),
            [(id, share)] => format!(" Also {}: {}.", self.label_of(id), quantities::share(**share)),
            [(_, most), .., (_, least)] => {
                let (least, most) = (quantities::share(**least), quantities::share(**most));
                let range = if least == most { most } else { format!("{least} to {most}") };
                format!(" Also {} other cases: {range}.", others.len())
            }
        }
    }

    /// `Seen in 6 of 12 traced exchanges, 98 % of their time (71 % of the time of untraced ones).`
    pub(super) fn seen(&self) -> Option<String> {
        let (some, all) = (self.value(keys::SEEN)?, self.value(keys::TRACED)?);
        let seen = if some == all { format!("all {all}") } else { format!("{some} of {all}") };
        let of_some = self.show(keys::SHARE_OF_SEEN, quantities::share)?;
        let of_untraced = self.show(keys::SHARE_OF_UNTRACED, quantities::share)?;
        Some(format!(
            "Seen in {seen} traced exchanges, {of_some} of their time ({of_untraced} of the time of untraced ones)."
        ))
    }

    /// `text` with each `{KEY}` replaced by the fact of that name.
    pub(super) fn filled(&self, text: &str) -> String {
        [keys::PACING, keys::OTHER_CONTROL, keys::STAGE].into_iter().fold(text.to_owned(), |text, key| {
            text.replace(&format!("{{{}}}", key.name), self.word(key).unwrap_or_default())
        })
    }
}
