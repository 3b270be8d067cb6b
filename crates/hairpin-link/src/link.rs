//! A link: two paths, built from a profile and a seed.

use hairpin_model::link::Direction;
use hairpin_model::{Hint, LateBoundsNs, LatenessNs, LinkRecord};

use crate::packet::{Outcome, Packet};
use crate::path::Path;
use crate::profile::Profile;
use crate::stage::Site;
use crate::stages;
use crate::trace::Trace;

/// Two paths: `up` from the client to the server, and `down` back.
pub struct Link {
    profile: Profile,
    seed: u64,
    /// The paths of [`Direction::Up`] and of [`Direction::Down`].
    paths: [Path; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The figures contradict each other. This never happens with a parsed profile.
    #[error("the link profile `{line}` is impossible: {problem}{}", Hint(.hint))]
    Contradiction { line: String, problem: String, hint: String },
    #[error(
        "the link profile replays the trace `{name}`, which was not given (hint: read that file and pass its text)"
    )]
    MissingTrace { name: String },
}

impl Link {
    /// Creates a link at time 0. `traces` contains the traces that [`Profile::traces`] lists, by name.
    pub fn new(profile: &Profile, seed: u64, traces: &[(String, Trace)]) -> Result<Self, LinkError> {
        if let Some((_, contradiction)) = profile.contradiction() {
            let (problem, hint) = (contradiction.problem, contradiction.hint);
            return Err(LinkError::Contradiction { line: profile.to_string(), problem, hint });
        }
        let path = |direction| {
            let figures = profile.path(direction);
            let trace = match &figures.bottleneck.replay {
                None => None,
                Some(name) => match traces.iter().find(|(given, _)| given == name) {
                    Some((_, trace)) => Some(trace),
                    None => return Err(LinkError::MissingTrace { name: name.clone() }),
                },
            };
            Ok(Path::new(figures, &Site { mtu_bytes: profile.mtu_bytes, trace, seed, direction }))
        };
        Ok(Self { profile: profile.clone(), seed, paths: [path(Direction::Up)?, path(Direction::Down)?] })
    }

    pub fn path(&self, direction: Direction) -> &Path {
        &self.paths[direction as usize]
    }

    pub fn path_mut(&mut self, direction: Direction) -> &mut Path {
        &mut self.paths[direction as usize]
    }

    /// See [`Path::arrive`].
    pub fn arrive(&mut self, direction: Direction, packet: Packet, now_ns: u64) {
        self.path_mut(direction).arrive(packet, now_ns);
    }

    pub fn round_trip_ns(&self) -> u64 {
        self.profile.round_trip_ns()
    }

    /// When to call [`Link::advance`] next: at the earliest event of both directions; `None` if the link is empty.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.paths.iter().filter_map(Path::next_event_ns).min()
    }

    /// Advances both directions. Appends first the outcomes of `up`, then those of `down`, each in order of time.
    pub fn advance(&mut self, now_ns: u64, out: &mut Vec<Outcome>) {
        self.paths.iter_mut().for_each(|path| path.advance(now_ns, out));
    }

    /// Appends each packet and copy inside the link: first those of `up`, then those of `down`.
    pub fn each_inside(&self, out: &mut Vec<Outcome>) {
        self.paths.iter().for_each(|path| path.each_inside(out));
    }

    pub fn record(&self, lateness_ns: Option<LatenessNs>) -> LinkRecord {
        let [up, down] = &self.paths;
        let with_codel = self.profile.with_codel().map(|profile| profile.to_string());
        let direction = |path: &Path, direction: Direction| {
            let has_codel = self.profile.path(direction).bottleneck.codel.is_some();
            let mut record = path.record();
            for stage in &mut record.stages {
                let is_without = stage.stage == stages::queue::CARD.name && !has_codel;
                stage.line_with_codel = with_codel.clone().filter(|_| is_without);
                stage.line_without = self.profile.without(&stage.stage).map(|profile| profile.to_string());
            }
            record
        };
        LinkRecord {
            seed: self.seed,
            lateness_ns,
            late_bounds_ns: LateBoundsNs::of(self.profile.round_trip_ns()),
            packets: up.packets().plus(&down.packets()),
            up: direction(up, Direction::Up),
            down: direction(down, Direction::Down),
            ..LinkRecord::default()
        }
    }
}
