//! A server that is not Hairpin's, as rounds know it.

use std::path::PathBuf;
use std::sync::Arc;

use hairpin_model::{Card, Failure, FailureKind};
use hairpin_transports::foreign::ForeignServer;
use hairpin_transports::transports::find_foreign;
use serde::{Deserialize, Serialize};

/// A server that is not Hairpin's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForeignTarget {
    pub url: String,
    /// The file with the authority that signed the server's certificate; `None` for those of the system.
    pub roots: Option<PathBuf>,
}

impl ForeignTarget {
    /// Reads the authorities, for the connections of a round.
    pub(crate) fn open(&self) -> Result<Arc<ForeignServer>, Failure> {
        let opened = find_foreign(&self.url).and_then(|(url, _)| ForeignServer::new(url, self.roots.as_deref()));
        opened.map(Arc::new).map_err(|refused| Failure::new(FailureKind::Unsupported, refused.what, refused.hint))
    }
}

/// The failure of a transport that measures only servers of Hairpin.
pub(crate) fn not_foreign(card: &Card) -> Failure {
    let cause = format!("{} cannot measure a server that is not Hairpin's", card.name);
    Failure::new(FailureKind::Unsupported, cause, "use another --transport")
}
