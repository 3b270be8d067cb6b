//! Checks documents against their schemas in docs/schemas.

use serde_json::Value;

/// Whether documents are checked completely. Otherwise only the schema's name and version are checked.
pub const IS_CHECKED: bool = cfg!(feature = "schema");

/// Checks a document against the schema that the document names. Returns all faults, each with its place.
pub fn faults(document: &Value) -> Vec<String> {
    let name = document["schema"].as_str().and_then(|name| name.strip_prefix("hairpin:")).unwrap_or_default();
    let path = format!("{}/../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    match std::fs::read_to_string(path) {
        Ok(schema) => breaks(&serde_json::from_str(&schema).expect("docs/schemas has JSON"), document),
        Err(_) => vec![format!("/schema: {} is not a schema", document["schema"])],
    }
}

#[cfg(feature = "schema")]
fn breaks(schema: &Value, document: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).expect("docs/schemas has schemas");
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[cfg(not(feature = "schema"))]
fn breaks(schema: &Value, document: &Value) -> Vec<String> {
    let (version, known) = (&document["version"], &schema["properties"]["version"]["const"]);
    if version == known { Vec::new() } else { vec![format!("/version: {version} is not {known}")] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_must_name_a_schema_and_its_version() {
        assert_eq!(faults(&json!({})), ["/schema: null is not a schema"]);
        assert_eq!(faults(&json!({"schema": "hairpin:nothing"})), ["/schema: \"hairpin:nothing\" is not a schema"]);
        let runs = |version: u64| {
            faults(
                &json!({"schema": "hairpin:runs", "version": version, "folder": "a", "runs": [], "claims": [], "skipped": []}),
            )
        };
        assert_eq!(runs(1), [""; 0]);
        assert!(runs(0)[0].starts_with("/version: "));
    }
}
