//! Imports between the files of one crate: the `use` declarations and paths of each source, tests left out, followed
//! to the file that defines what they name.

mod items;

use std::collections::{BTreeMap, BTreeSet};

use self::items::{Items, test_modules};

pub(super) use self::items::without_tests;

/// The sources of one crate and the imports between them.
#[derive(Default)]
pub(super) struct Imports {
    /// The path of each file that is a module, by the path of the module: `""`, `a`, `a::b`.
    files: BTreeMap<String, String>,
    /// The imports, importer first, with the byte of its text that begins the first one.
    edges: BTreeMap<(String, String), usize>,
}

impl Imports {
    /// Reads the sources of a crate: paths below its `src/`, and code without comments and literals.
    pub(super) fn read<'a>(sources: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let sources: Vec<(&str, String)> = sources
            .into_iter()
            .filter(|(path, _)| !is_test(path))
            .map(|(path, code)| (path, without_tests(code)))
            .collect();
        let mut modules: BTreeMap<String, Module<'_>> = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (path, code) in &sources {
            let module = module(path);
            tests.extend(test_modules(code).map(|name| join(&module, name)));
            let items = Items::read(code);
            modules.insert(module, Module { path, items });
        }
        modules.retain(|module, _| {
            !tests
                .iter()
                .any(|test| module == test || is_below(module, test))
        });
        let mut edges = BTreeMap::new();
        for (name, module) in &modules {
            for (at, path) in &module.items.paths {
                let Some(file) = defining(&modules, name, path, 0) else {
                    continue;
                };
                if file != module.path {
                    let edge = (module.path.to_owned(), file.to_owned());
                    edges.entry(edge).or_insert(*at);
                }
            }
        }
        let files = modules
            .into_iter()
            .map(|(name, module)| (name, module.path.to_owned()))
            .collect();
        Self { files, edges }
    }

    /// The files.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.values().map(String::as_str)
    }

    /// Each import: the importer, the imported file, and the place in the importer's text.
    pub(super) fn edges(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        self.edges
            .iter()
            .map(|((from, to), at)| (from.as_str(), to.as_str(), *at))
    }
}

/// Tells whether a file is the root of its crate.
pub(super) fn is_root(path: &str) -> bool {
    module(path).is_empty()
}

/// Tells whether the module of the file `child` lies within that of the file `parent`.
pub(super) fn is_within(child: &str, parent: &str) -> bool {
    let (child, parent) = (module(child), module(parent));
    child != parent && (parent.is_empty() || is_below(&child, &parent))
}

/// One module that is a file.
struct Module<'a> {
    path: &'a str,
    items: Items<'a>,
}

/// Tells from the name of a file whether it holds tests.
pub(super) fn is_test(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs")
}

/// The module of a file below `src/`.
fn module(path: &str) -> String {
    match path.trim_end_matches(".rs") {
        "lib" | "main" => String::new(),
        path => path.replace('/', "::"),
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() {
        name.to_owned()
    } else {
        format!("{module}::{name}")
    }
}

fn is_below(module: &str, above: &str) -> bool {
    module
        .strip_prefix(above)
        .is_some_and(|rest| rest.starts_with("::"))
}

/// The longest chain of re-exports; a longer one is taken for a circle.
const DEPTH: usize = 8;

/// The file that defines what `path` means in `module`; none if it is of another crate.
fn defining<'a>(
    modules: &BTreeMap<String, Module<'a>>,
    module: &str,
    path: &[&str],
    depth: usize,
) -> Option<&'a str> {
    let (first, rest) = path.split_first()?;
    match *first {
        // A path of another crate.
        "" => None,
        "crate" => walk(modules, "", rest, depth),
        "self" => walk(modules, module, rest, depth),
        "super" => {
            let above = module.rsplit_once("::").map_or("", |(above, _)| above);
            match rest.first() {
                Some(&"super") => defining(modules, above, rest, depth),
                _ => walk(modules, above, rest, depth),
            }
        }
        name if modules.contains_key(&join(module, name)) => walk(modules, module, path, depth),
        name => {
            let target = modules.get(module)?.items.names.get(name)?;
            // An external crate that is imported by its name.
            if depth == DEPTH || target.first() == Some(first) {
                return None;
            }
            let target = [target.as_slice(), rest].concat();
            defining(modules, module, &target, depth + 1)
        }
    }
}

/// Follows `path` from `module` on.
fn walk<'a>(
    modules: &BTreeMap<String, Module<'a>>,
    module: &str,
    mut path: &[&str],
    depth: usize,
) -> Option<&'a str> {
    let mut name = module.to_owned();
    while let Some((first, rest)) = path.split_first()
        && modules.contains_key(&join(&name, first))
    {
        name = join(&name, first);
        path = rest;
    }
    let Module { path: file, items } = modules.get(&name)?;
    let file = *file;
    let Some(item) = path.first().filter(|item| **item != "*") else {
        return Some(file);
    };
    if items.defined.contains(item) || depth == DEPTH {
        return Some(file);
    }
    if items.names.contains_key(item) {
        return Some(defining(modules, &name, path, depth + 1).unwrap_or(file));
    }
    let macros = || {
        let mut modules = modules.values();
        modules.find(|module| name.is_empty() && module.items.macros.contains(item))
    };
    items
        .globs
        .iter()
        .find_map(|glob| {
            let there = [glob.as_slice(), &[*item]].concat();
            let found = defining(modules, &name, &there, depth + 1)?;
            let by = |module: &&Module<'_>| module.path == found;
            let module = modules.values().find(by)?;
            module.items.defined.contains(item).then_some(found)
        })
        .or_else(|| macros().map(|module| module.path))
        .or(Some(file))
}

#[cfg(test)]
mod tests;
