//! The links that a plan can ask for, read from what a user writes.

use hairpin_link::builtin;
use hairpin_link::profile::{PathProfile, Profile};
use hairpin_link::stages::loss::Loss;
use hairpin_model::card::{Receipt, WhyNot};
use hairpin_model::ground::{KnownLink, LinkGround};

use super::{namespace, netem};

/// What the experiments may plan with.
#[must_use]
pub fn ground() -> LinkGround {
    let relay =
        namespace::may_prepare().map(|()| Receipt { detail: "network namespaces and packet sockets".to_owned() });
    LinkGround { names: builtin::ALL.iter().map(|one| one.name).collect(), read, relay, netem: netem::can_run() }
}

/// Reads a link as a user writes it.
///
/// # Errors
/// The word that is wrong, and what would be right.
pub fn read(text: &str) -> Result<KnownLink, WhyNot> {
    let profile: Profile = text.parse().map_err(|error: hairpin_link::profile::error::ProfileError| {
        let word = error.text.get(error.range.clone()).unwrap_or_default();
        WhyNot { reason: format!("link `{text}`, at `{word}`: {}", error.problem), hint: error.hint.clone() }
    })?;
    let named = builtin::ALL.iter().find(|one| one.name == text.trim());
    Ok(KnownLink {
        name: named.map(|one| one.name.to_owned()),
        line: profile.to_string(),
        round_trip_ns: profile.up.delay.base_ns.saturating_add(profile.down.delay.base_ns),
        may_lose: may_lose(&profile.up) || may_lose(&profile.down),
    })
}

/// Whether packets of a legal size can be kept from their way.
fn may_lose(path: &PathProfile) -> bool {
    !path.outages.is_empty()
        || path.bottleneck.sends()
        || path.loss != Loss::default()
        || path.corrupt != PathProfile::default().corrupt
}
