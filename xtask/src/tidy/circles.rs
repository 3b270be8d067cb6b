//! The rule that imports between the files of a crate have no cycles, so that the files form layers.
//!
//! An import is a `use` or a path that begins with `crate`, `super`, `self` or a child module, except in tests and
//! re-exports.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{self, Source};

/// Path of a module in its crate; empty for the root file.
type Module = Vec<String>;
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Reports the import cycles of all crates, one per line.
pub(super) fn circles(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &Source>> = BTreeMap::new();
    for source in sources {
        if let Some((folder, module)) = module_of(&source.path) {
            crates.entry(folder).or_default().insert(module, source);
        }
    }
    let of_crate = |(folder, modules): (&str, BTreeMap<Module, &Source>)| {
        let known: BTreeSet<Module> = modules.keys().cloned().collect();
        let imports = modules.iter().map(|(module, source)| (module.clone(), imports(source, module, &known)));
        let circles = rings(&imports.collect());
        circles
            .into_iter()
            .map(move |ring| format!("{folder}: an import cycle: {}", ring.join(", ")))
            .collect::<Vec<_>>()
    };
    crates.into_iter().flat_map(of_crate).collect()
}

/// Returns the crate's folder and the module of a file in `src`; `None` for tests and other programs.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (folder, file) = path.split_once("/src/")?;
    let mut module: Module = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests" || part == "bin") {
        return None;
    }
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    Some((folder, module))
}

/// Returns the modules among `known` that the file imports.
fn imports(source: &Source, module: &Module, known: &BTreeSet<Module>) -> BTreeSet<Module> {
    let text = source::production(&source.text, true);
    let (mut paths, mut rest) = (Vec::new(), String::new());
    for statement in text.split_inclusive(';') {
        let found = source::words(statement, "use").last();
        match found.filter(|at| !statement[*at..].contains('=')) {
            Some(at) if is_reexport(&statement[..at]) => rest.push_str(&statement[..at]),
            Some(at) => {
                rest.push_str(&statement[..at]);
                expand(&[], statement[at + 3..].trim_end_matches(';'), &mut paths);
            }
            None => rest.push_str(statement),
        }
    }
    // `pub(in crate::findings)` imports nothing.
    let rest = rest.replace("pub(in crate::", "pub(in ");
    let parts = rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
    paths.extend(parts.filter(|part| part.contains("::")).map(|part| part.split("::").map(str::to_owned).collect()));
    let of_path = |path: &Module| resolve(path, module, known);
    paths.iter().filter_map(of_path).filter(|found| found != module && !found.is_empty()).collect()
}

fn is_reexport(before: &str) -> bool {
    let before = before.trim_end();
    before.ends_with("pub")
        || before.ends_with(')') && before.rsplit("pub(").next().is_some_and(|of| !of.contains('{'))
}

/// Appends the paths of a tree such as `crate::{a, b::{c, d as e}}` to `paths`.
fn expand(before: &[String], tree: &str, paths: &mut Vec<Module>) {
    let names =
        |text: &str| text.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let Some(open) = tree.find('{') else {
        let path: Module = names(tree.split(" as ").next().unwrap_or_default());
        paths.push([before, &path].concat());
        return;
    };
    let path: Module = names(&tree[..open]);
    let before = [before, &path].concat();
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &inside[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the deepest known module on a path in the code of `module`; `None` if the path leaves the crate.
fn resolve(path: &Module, module: &Module, known: &BTreeSet<Module>) -> Option<Module> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    let below = |name: &String| known.contains(&[&module[..], std::slice::from_ref(name)].concat());
    let whole = match path.first().map(String::as_str)? {
        "crate" => path[1..].to_vec(),
        "super" => [&module[..module.len().checked_sub(ups)?], &path[ups..]].concat(),
        "self" => [&module[..], &path[1..]].concat(),
        _ if below(&path[0]) => [&module[..], path].concat(),
        _ => return None,
    };
    // The crate's root re-exports the modules of its folder `linux`.
    let in_folder = |part: &[String]| [&["linux".to_owned()], part].concat();
    let places = (0..=whole.len()).rev().flat_map(|length| [whole[..length].to_vec(), in_folder(&whole[..length])]);
    places.filter(|place| *place != ["linux"]).find(|place| known.contains(place))
}

/// Returns the cycles, each as a list of modules, written with `/`.
fn rings(imports: &Imports) -> Vec<Vec<String>> {
    let reached: Imports = imports.keys().map(|module| (module.clone(), reach(module, imports))).collect();
    let mut rings: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, reaches) in &reached {
        let ring: Vec<String> = reaches
            .iter()
            .filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)))
            .map(|other| other.join("/"))
            .collect();
        if ring.len() > 1 {
            rings.insert(ring);
        }
    }
    rings.into_iter().collect()
}

fn reach(from: &Module, imports: &Imports) -> BTreeSet<Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for import in imports.get(module).into_iter().flatten() {
            if reached.insert(import.clone()) {
                next.push(import);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |(path, text): &(&str, &str)| Source { path: format!("crates/c/src/{path}"), text: (*text).to_owned() };
        circles(&files.iter().map(source).collect::<Vec<_>>())
    }

    #[test]
    fn cycles_over_several_files_and_with_all_kinds_of_paths_are_reported() {
        let circle = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("a/mod.rs", "mod inner;\nuse crate::{b::{self, B}, x as y};\n"),
            ("a/inner.rs", "fn f() { super::super::b::g() }\n"),
            ("b.rs", "use std::fmt;\nfn g() -> crate::a::inner::T { todo }\n"),
        ];
        assert_eq!(found(&circle), ["crates/c: an import cycle: a/inner, b"]);
        let shown = [
            ("lib.rs", "mod linux;\nmod b;\npub use linux::a;\n"),
            ("linux/mod.rs", "pub mod a;\n"),
            ("linux/a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&shown), ["crates/c: an import cycle: b, linux/a"]);
        let parent = [("a/mod.rs", "mod inner;\nuse inner::T;\n"), ("a/inner.rs", "use super::Shared;\n")];
        assert_eq!(found(&parent), ["crates/c: an import cycle: a, a/inner"]);
    }

    #[test]
    fn tests_reexports_visibilities_and_comments_are_not_imports() {
        let none = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "pub(crate) mod inner;\npub use inner::T;\npub(crate) use inner::U;\n"),
            ("a/inner.rs", "//! See [`super::x`].\nuse super::Shared; // crate::b\npub(in crate::b) struct T;\n"),
            ("b.rs", "use crate::a::Shared;\n#[cfg(test)]\nmod tests { use crate::a; use super::*; }\n"),
        ];
        assert_eq!(found(&none), [""; 0]);
    }
}
