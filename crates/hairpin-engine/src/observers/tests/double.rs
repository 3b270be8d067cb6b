//! An observer for tests, which reports its marks as a fact. Like every observer, it is one file and one line in
//! `observers::ALL`.

use hairpin_model::Fact;

use crate::observer::{Context, Mark, Observations, Observer};

pub(crate) const MARKS: &str = "double.marks";

pub(crate) struct Double(Vec<&'static str>);

impl Observer for Double {
    fn begin(_: Context<'_>) -> Option<Self> {
        Some(Self(Vec::new()))
    }

    fn mark(&mut self, mark: Mark<'_>) {
        self.0.push(match mark {
            Mark::Opening { .. } => "opening",
            Mark::Load(_) => "load",
            Mark::First => "first",
            Mark::Running(_) | Mark::Latest => "running",
            Mark::Last => "last",
            Mark::Connected(_) => "connected",
            Mark::Phase => "phase",
        });
    }

    fn end(&mut self) {
        self.0.push("end");
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.report.facts.push(Fact::word(MARKS, self.0.join(" ")));
    }
}
