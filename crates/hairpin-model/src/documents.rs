//! All documents, with the name and the version of the schema of each.

use crate::comparison::ComparisonReport;
use crate::document::Document;
use crate::explanation::Explanation;
use crate::judged_claim::ClaimsReport;
use crate::listed::{Catalog, LinkRun, Links, ListedLink, Runs};
use crate::run::{FORMAT, Run};
use crate::served::{Check, Event, Servers};
use crate::tuning::Tuning;

macro_rules! documents {
    ($($document:ty, $schema:literal, $version:expr;)+) => {
        $(impl Document for $document {
            const SCHEMA: &'static str = $schema;
            const VERSION: u32 = $version;
        })+

        /// The schema of each document, by the document's name.
        #[cfg(feature = "schema")]
        pub fn schemas() -> serde_json::Map<String, serde_json::Value> {
            [$(crate::schema::of::<$document>()),+].into_iter().collect()
        }
    };
}

documents! {
    Run, "hairpin:run", FORMAT;
    ClaimsReport, "hairpin:claims", 2;
    // 2: intervals of ratios are those that decide, so rows have no verdict from another one; a budget may have a limit
    // instead of a share.
    ComparisonReport, "hairpin:comparison", 2;
    Explanation, "hairpin:explain", 1;
    Tuning, "hairpin:tune", 1;
    Catalog, "hairpin:list", 1;
    Runs, "hairpin:runs", 1;
    Check, "hairpin:check", 1;
    Event, "hairpin:serve", 1;
    Servers<'_>, "hairpin:serve-list", 1;
    Links, "hairpin:link-list", 1;
    ListedLink, "hairpin:link-show", 1;
    LinkRun<'_>, "hairpin:link-run", 1;
}
