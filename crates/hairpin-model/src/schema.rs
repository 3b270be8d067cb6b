//! The JSON schema of `run.json`, derived from the types that are saved. Only with the feature `schema`, for
//! `cargo xtask schema`, which writes docs/run.schema.json.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{Schema, json_schema};
use serde_json::{Value, json};

use crate::run::Run;

#[doc(hidden)]
pub use schemars;

/// The schema of a saved run: JSON Schema, draft 2020-12. Unknown fields are allowed, as a format may gain some.
#[must_use]
pub fn of_run() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.transforms.push(Box::new(RecursiveTransform(plain_description)));
    let mut schema = settings.into_generator().into_root_schema_for::<Run>();
    schema.insert("title".to_owned(), json!(format!("run.json of Hairpin, format {}", crate::run::FORMAT)));
    schema.to_value()
}

/// Removes Rust documentation links from a description: [`FORMAT`] becomes `FORMAT`.
fn plain_description(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace("[`", "`").replace("`]", "`");
    }
}

/// The schema of an enum of words.
#[doc(hidden)]
#[must_use]
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
