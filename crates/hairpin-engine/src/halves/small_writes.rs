//! The client half in a closed loop of exchanges: a request in several writes, its answer, the next request.

use hairpin_model::round::Failure;
use hairpin_transports::Wire;

use super::{Client, Journey};
use crate::clock::Clock;

/// Runs the warm-up and the round.
///
/// # Errors
/// As [`super::run_client`].
pub fn run<C: Clock>(_client: &Client<'_, C>, _wire: &mut dyn Wire) -> Result<Journey, Failure> {
    Err(Failure { cause: "small writes are not built yet".to_owned(), hint: String::new() })
}
