//! `#[test]` for test binaries with the harness of `hairpin-testing`.

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Registers a test function with the harness. `#[ignore = "child of TEST"]` marks a function that only the test TEST
/// starts, in a separate process.
#[proc_macro_attribute]
pub fn test(_: TokenStream, function: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = function.into_iter().collect();
    let is_word =
        |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
    let name = tokens.iter().skip_while(|token| !is_word(token, "fn")).nth(1).expect("a test is a function");
    let is_child = tokens.iter().any(|token| is_ignore(token, is_word));
    let registration = format!(
        "::hairpin_testing::inventory::submit! {{ ::hairpin_testing::Test {{ \
             path: concat!(module_path!(), \"::{name}\"), package: env!(\"CARGO_PKG_NAME\"), \
             run: {name}, is_child: {is_child} }} }}"
    );
    let registration: TokenStream = registration.parse().expect("a valid item");
    let kept = without_ignore(tokens, is_word);
    kept.into_iter().chain(registration).collect()
}

/// Whether the token is the bracketed part of `#[ignore ...]`.
fn is_ignore(token: &TokenTree, is_word: impl Fn(&TokenTree, &str) -> bool) -> bool {
    let TokenTree::Group(group) = token else { return false };
    group.delimiter() == Delimiter::Bracket
        && group.stream().into_iter().next().is_some_and(|first| is_word(&first, "ignore"))
}

/// Removes `#[ignore ...]`: the compiler warns about it on functions that are not libtest tests.
fn without_ignore(tokens: Vec<TokenTree>, is_word: impl Fn(&TokenTree, &str) -> bool + Copy) -> Vec<TokenTree> {
    let mut kept: Vec<TokenTree> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if is_ignore(&token, is_word) {
            kept.pop();
        } else {
            kept.push(token);
        }
    }
    kept
}
