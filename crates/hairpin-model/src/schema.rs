//! The JSON schemas of all documents, derived from their types. The feature `schema` enables this module for
//! `cargo xtask schema`, which writes docs/schemas.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Value, json};

use crate::document::Document;

#[doc(hidden)]
pub use schemars;

/// Schema of a document (JSON Schema, draft 2020-12). Allows unknown fields, because later versions may add some.
pub(crate) fn of<D: Document + JsonSchema>() -> (String, Value) {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.transforms.push(Box::new(RecursiveTransform(plain_description)));
    let mut schema = settings.into_generator().into_root_schema_for::<D>().to_value();
    let name = D::SCHEMA.trim_start_matches("hairpin:");
    schema["$id"] = json!(format!("urn:{}:{}", D::SCHEMA, D::VERSION));
    schema["title"] = json!(format!("{name} of Hairpin, version {}", D::VERSION));
    schema["properties"]["schema"] = json!({ "const": D::SCHEMA });
    schema["properties"]["version"] = json!({ "const": D::VERSION });
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    schema["required"] = [json!("schema"), json!("version")].into_iter().chain(required).collect();
    (name.to_owned(), schema)
}

/// Removes Rust documentation links from a description: [`FORMAT`] becomes `FORMAT`.
fn plain_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
}

#[doc(hidden)]
pub fn of_words(words: &[&str]) -> Schema {
    json_schema!({"type": "string", "enum": words})
}

/// The schema of an enum that `words!` declares.
#[doc(hidden)]
#[macro_export]
macro_rules! word_schema {
    ($name:ident) => {
        impl $crate::schema::schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($name)).into()
            }

            fn json_schema(_: &mut $crate::schema::schemars::SchemaGenerator) -> $crate::schema::schemars::Schema {
                $crate::schema::of_words(Self::WORDS)
            }
        }
    };
}
