//! `JsonSchema` while the feature `schema` of hairpin-model is off, so that its types derive it without a condition each.

use proc_macro::TokenStream;

/// Derives nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn no_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
