//! The common parts of all JSON objects that commands print.

use serde::Serialize;

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
