//! Checks a run against docs/run.schema.json: the keywords of JSON Schema (draft 2020-12) that the file uses, and no
//! others.

use serde_json::Value;

/// Keywords without constraints.
const SILENT: &[&str] = &["$schema", "$defs", "title", "description", "default", "format"];

/// The checked-in schema of `run.json`.
///
/// # Panics
/// The file is no JSON.
#[must_use]
pub fn of_run() -> Value {
    serde_json::from_str(include_str!("../../../docs/run.schema.json")).expect("docs/run.schema.json is JSON")
}

/// Every break of the checked-in schema in a run, each with its place.
#[must_use]
pub fn run_faults(run: &Value) -> Vec<String> {
    faults(&of_run(), run)
}

/// Every break of a schema in a value, each with its place. Unknown keywords are faults too.
#[must_use]
pub fn faults(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Check { root: schema }.value(schema, value, "", &mut found);
    found
}

/// A check against one schema, the root of references.
struct Check<'s> {
    root: &'s Value,
}

impl Check<'_> {
    fn value(&self, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
        let Some(keywords) = schema.as_object() else {
            // `true` allows everything, `false` nothing.
            if schema != &Value::Bool(true) {
                found.push(format!("{place}: is not allowed"));
            }
            return;
        };
        for (keyword, wanted) in keywords {
            self.keyword((keyword, wanted), schema, value, place, found);
        }
    }

    fn keyword(
        &self,
        (keyword, wanted): (&String, &Value),
        schema: &Value,
        value: &Value,
        place: &str,
        found: &mut Vec<String>,
    ) {
        let holds = match keyword.as_str() {
            "$ref" => {
                let target = wanted.as_str().and_then(|path| self.root.pointer(path.strip_prefix('#')?));
                if let Some(target) = target {
                    self.value(target, value, place, found);
                }
                target.is_some()
            }
            "type" => either(wanted).iter().any(|name| is_of(value, name)),
            "const" => value == wanted,
            "enum" => either(wanted).contains(value),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
            "minItems" => value.as_array().is_none_or(|list| Some(list.len() as u64) >= wanted.as_u64()),
            "maxItems" => value.as_array().is_none_or(|list| Some(list.len() as u64) <= wanted.as_u64()),
            "anyOf" => self.fitting(wanted, value) > 0,
            "oneOf" => self.fitting(wanted, value) == 1,
            "required" => {
                let missing =
                    either(wanted).iter().filter_map(Value::as_str).filter(|name| value.get(name).is_none());
                found.extend(missing.filter(|_| value.is_object()).map(|name| format!("{place}.{name}: is missing")));
                true
            }
            "properties" | "additionalProperties" => {
                self.fields(keyword, schema, value, place, found);
                true
            }
            "items" | "prefixItems" => {
                self.elements(keyword, schema, value, place, found);
                true
            }
            other => SILENT.contains(&other),
        };
        if !holds {
            let shown: String = value.to_string().chars().take(60).collect();
            found.push(format!("{place}: {shown} breaks `{keyword}`"));
        }
    }

    /// Number of schemas that the value matches.
    fn fitting(&self, schemas: &Value, value: &Value) -> usize {
        let keeps = |schema: &&Value| {
            let mut found = Vec::new();
            self.value(schema, value, "", &mut found);
            found.is_empty()
        };
        either(schemas).iter().filter(keeps).count()
    }

    fn fields(&self, keyword: &str, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
        for (name, field) in value.as_object().into_iter().flatten() {
            let named = schema["properties"].get(name);
            let other = schema.get(keyword).filter(|_| named.is_none());
            if let Some(wanted) = if keyword == "properties" { named } else { other } {
                self.value(wanted, field, &format!("{place}.{name}"), found);
            }
        }
    }

    fn elements(&self, keyword: &str, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
        let prefix = schema["prefixItems"].as_array().map_or(0, Vec::len);
        for (number, element) in value.as_array().into_iter().flatten().enumerate() {
            let wanted = match keyword {
                "prefixItems" => schema[keyword].get(number),
                _ => Some(&schema[keyword]).filter(|_| number >= prefix),
            };
            if let Some(wanted) = wanted {
                self.value(wanted, element, &format!("{place}[{number}]"), found);
            }
        }
    }
}

/// The members of a list, or a single value as a list of one.
fn either(value: &Value) -> &[Value] {
    value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
}

fn is_of(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_keyword_refuses_what_breaks_it_and_allows_what_does_not() {
        let cases = [
            (json!({"type": "integer"}), json!(1), json!(1.5)),
            (json!({"type": ["string", "null"]}), json!(null), json!(1)),
            (json!({"const": "a"}), json!("a"), json!("b")),
            (json!({"enum": ["a", "b"]}), json!("b"), json!("c")),
            (json!({"minimum": 0}), json!(0), json!(-1)),
            (json!({"maximum": 255}), json!(255), json!(256)),
            (json!({"minItems": 2, "maxItems": 2}), json!([1, 2]), json!([1])),
            (json!({"minItems": 2, "maxItems": 2}), json!([1, 2]), json!([1, 2, 3])),
            (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), json!("a"), json!(1)),
            (json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}), json!(1.5), json!(1)),
            (json!({"required": ["a"]}), json!({"a": null}), json!({})),
            (json!({"properties": {"a": {"type": "null"}}}), json!({"a": null, "b": 1}), json!({"a": 1})),
            (
                json!({"properties": {"a": true}, "additionalProperties": false}),
                json!({"a": 1}),
                json!({"a": 1, "b": 1}),
            ),
            (json!({"additionalProperties": {"type": "string"}}), json!({"a": "b"}), json!({"a": 1})),
            (json!({"items": {"type": "string"}}), json!(["a"]), json!(["a", 1])),
            (json!({"prefixItems": [{"type": "string"}, {"type": "null"}]}), json!(["a", null]), json!(["a", 1])),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}), json!(null), json!(1)),
        ];
        for (schema, kept, broken) in cases {
            assert_eq!(faults(&schema, &kept), [""; 0], "{schema}");
            assert_eq!(faults(&schema, &broken).len(), 1, "{schema}");
        }
    }

    #[test]
    fn a_fault_names_its_place_and_an_unknown_keyword_is_one() {
        let schema = json!({"properties": {"a": {"items": {"type": "string"}}}});
        assert_eq!(faults(&schema, &json!({"a": ["b", 7]})), [".a[1]: 7 breaks `type`"]);
        assert_eq!(faults(&json!({"pattern": "a"}), &json!("a")), [": \"a\" breaks `pattern`"]);
        assert_eq!(faults(&json!({"$ref": "#/$defs/a"}), &json!(1)), [": 1 breaks `$ref`"]);
    }

    #[test]
    fn the_checked_in_schema_uses_no_other_keyword_and_is_of_a_run() {
        let found = run_faults(&json!({}));
        assert!(found.iter().all(|fault| fault.ends_with("is missing")), "{found:?}");
        assert!(found.contains(&".cases: is missing".to_owned()), "{found:?}");
    }
}
