//! The common parts of all JSON objects that commands print.

use serde::Serialize;

use crate::comparison::ComparisonReport;
use crate::explanation::Explanation;
use crate::judged_claim::ClaimsReport;
use crate::listed::{Catalog, LinkRun, Links, ListedLink, Runs};
use crate::run::{FORMAT, Run};
use crate::served::{Check, Event, Servers};
use crate::tuning::Tuning;

/// A JSON object that a command prints. It begins with the name and the version of its schema.
pub trait Document: Serialize + Sized {
    /// `hairpin:NAME`; the schema is docs/schemas/NAME.json.
    const SCHEMA: &'static str;
    /// Incremented by every change other than a new field.
    const VERSION: u32;

    /// The object, indented, with a trailing newline. Numbers that are not finite become null.
    ///
    /// # Panics
    /// If the document has a map whose keys are not strings.
    fn to_json(&self) -> String {
        serde_json::to_string_pretty(&Named::new(self)).expect(KEYS) + "\n"
    }

    /// The object on one line, with a trailing newline.
    ///
    /// # Panics
    /// If the document has a map whose keys are not strings.
    fn to_json_line(&self) -> String {
        serde_json::to_string(&Named::new(self)).expect(KEYS) + "\n"
    }
}

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

const KEYS: &str = "documents have only string keys";

#[derive(Serialize)]
struct Named<'d, D> {
    schema: &'static str,
    version: u32,
    #[serde(flatten)]
    document: &'d D,
}

impl<'d, D: Document> Named<'d, D> {
    fn new(document: &'d D) -> Self {
        Self { schema: D::SCHEMA, version: D::VERSION, document }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_begins_with_the_name_and_the_version_of_its_schema() {
        #[derive(Serialize)]
        struct Example {
            value: f64,
        }
        impl Document for Example {
            const SCHEMA: &'static str = "hairpin:example";
            const VERSION: u32 = 1;
        }
        assert_eq!(
            Example { value: f64::NAN }.to_json_line(),
            "{\"schema\":\"hairpin:example\",\"version\":1,\"value\":null}\n"
        );
        let indented = "{\n  \"schema\": \"hairpin:example\",\n  \"version\": 1,\n  \"value\": 0.5\n}\n";
        assert_eq!(Example { value: 0.5 }.to_json(), indented);
    }
}
