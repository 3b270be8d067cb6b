//! Style, script and rendering of all pages.

use hairpin_model::printable;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value};

pub(super) const STYLE: &str = include_str!("style.css");
pub(super) const SCRIPT: &str = include_str!("script.js");

/// Renders the page with this name and context.
///
/// # Panics
/// Never: each template is part of this crate and a test renders it.
pub(super) fn render_template(name: &'static str, page: &'static str, view: Value) -> String {
    let mut environment = Environment::new();
    let blocks = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(blocks.expect("the usual delimiters"));
    environment.add_template(name, page).expect("the template is part of this crate");
    let template = environment.get_template(name).expect("it was just added");
    let page = template.render(view).expect("the template knows its view");
    // Keep only line feeds of the page itself, no other control characters.
    page.replace(|letter| printable::steers(letter) && letter != '\n', "\u{fffd}")
}
