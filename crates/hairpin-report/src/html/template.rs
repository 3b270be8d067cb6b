//! What all pages share: layout, style, script, and template rendering.

use hairpin_model::printable;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value, context};

const BASE: &str = include_str!("base.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

pub(super) fn render_template(name: &'static str, page: &'static str, view: Value) -> String {
    let mut environment = Environment::new();
    let blocks = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(blocks.expect("default delimiters are valid"));
    for (name, template) in [("base.html", BASE), (name, page)] {
        environment.add_template(name, template).expect("the template is part of this crate");
    }
    let template = environment.get_template(name).expect("the template added above");
    let view = context! { style_html => STYLE, script_html => SCRIPT, ..view };
    let page = template.render(view).expect("the template knows its view");
    // Replace all control characters except line feeds.
    page.replace(|letter| printable::steers(letter) && letter != '\n', "\u{fffd}")
}
