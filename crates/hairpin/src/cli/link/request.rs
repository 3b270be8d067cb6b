//! A link profile as the user wrote it, and its JSON.

use hairpin_engine::links::traces;
use hairpin_link::builtin::{self, Builtin};
use hairpin_link::profile::Profile;
use hairpin_model::link::Direction;
use hairpin_model::{ListedLink, ListedStage};

use super::super::exit::Stopped;

pub(super) struct LinkRequest {
    /// The built-in profile, if unchanged.
    pub(super) builtin: Option<&'static Builtin>,
    pub(super) profile: Profile,
    /// Name and text of each trace that the profile replays.
    pub(super) traces: Vec<(String, String)>,
}

impl LinkRequest {
    pub(super) fn read(text: &str) -> Result<Self, Stopped> {
        let profile: Profile = text.parse().map_err(|error: hairpin_link::profile::error::ProfileError| {
            let pointed = error.pointed().replace('\n', "\n  ");
            let plain = |text: &String| text.replace(char::is_control, " ");
            let [problem, hint] = [&error.problem, &error.hint].map(plain);
            Stopped::usage(format!("link profile: {problem}\n  {pointed}\n(hint: {hint})"))
        })?;
        let traces = traces::read(&profile).map_err(Stopped::usage)?;
        Ok(Self { builtin: builtin::find(text.trim()), profile, traces })
    }
}

/// Stages of a direction with their figures in words; empty for the loopback.
pub(super) fn figures(profile: &Profile, direction: Direction) -> Vec<(&'static str, String)> {
    if profile.is_loopback() { Vec::new() } else { profile.figures(direction) }
}

/// A profile for JSON; fields that only built-in profiles have are null for others.
pub(super) fn as_json(builtin: Option<&Builtin>, profile: &Profile) -> ListedLink {
    let stages = |direction| {
        let figures = figures(profile, direction).into_iter();
        figures.map(|(stage, figures)| ListedStage { stage, figures }).collect()
    };
    ListedLink {
        name: builtin.map(|builtin| builtin.name),
        summary: builtin.map(|builtin| builtin.summary),
        line: profile.to_string(),
        because: builtin.map(|builtin| builtin.because),
        up: stages(Direction::Up),
        down: stages(Direction::Down),
    }
}
