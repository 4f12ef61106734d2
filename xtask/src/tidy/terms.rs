//! One word, one type: a term of the glossary names at most one public type of the workspace.

use std::collections::BTreeMap;

use crate::rust::{Source, is_word};
use crate::tree::Tree;

use super::Finding;
use super::exceptions::{Entry, List};
use super::glossary::{GLOSSARY, rows};
use super::imports::{is_test, without_tests};

const EXCEPTIONS: &str = "xtask/src/tidy/exceptions/terms.txt";
const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Compares the public types that are named by a term with the list.
pub(super) fn check(tree: &Tree, sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let terms = rows(tree.text(GLOSSARY).unwrap_or_default())
        .flat_map(|[term, ..]| term.split(','))
        .map(type_name);
    let mut types: BTreeMap<String, Vec<(&str, usize)>> =
        terms.map(|term| (term, Vec::new())).collect();
    let products = sources
        .iter()
        .filter(|(path, _)| path.contains("/src/") && !is_test(path));
    for (path, source) in products {
        let code = without_tests(source.code());
        for (at, name) in public_types(&code) {
            if let Some(there) = types.get_mut(name) {
                there.push((*path, source.line(at)));
            }
        }
    }
    let list = List::read(tree, EXCEPTIONS);
    let mut findings = Vec::new();
    for (term, there) in types.iter().filter(|(_, there)| there.len() > 1) {
        let entry = list.entries().find(|entry| entry.name == term.as_str());
        findings.extend(refuse(term, there, entry));
    }
    for entry in list.entries() {
        let there = types.get(entry.name).map_or(&[][..], Vec::as_slice);
        findings.extend(shrink(&list, entry, there));
    }
    findings
}

/// The name of a type for a term: `idempotency key`, `IdempotencyKey`.
fn type_name(term: &str) -> String {
    let words = term.split_whitespace();
    words
        .map(|word| word[..1].to_ascii_uppercase() + &word[1..])
        .collect()
}

/// The types that `code` makes public, with their places.
fn public_types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    code.match_indices("pub ").filter_map(move |(at, _)| {
        let is_inside = at
            .checked_sub(1)
            .is_some_and(|before| is_word(bytes[before]));
        let mut words = code[at..]
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .skip(1)
            .filter(|word| !word.is_empty());
        let kind = words.find(|word| *word != "unsafe")?;
        let name = words.next()?;
        (!is_inside && KINDS.contains(&kind)).then_some((at, name))
    })
}

/// The error of a term that names more types than the list allows it.
fn refuse(term: &str, there: &[(&str, usize)], entry: Option<&Entry<'_>>) -> Option<Finding> {
    let mut allowed = entry.map_or_else(Vec::new, |entry| entry.members.clone());
    let mut is_new = |path: &str| match allowed.iter().position(|it| *it == path) {
        Some(at) => {
            allowed.swap_remove(at);
            false
        }
        None => true,
    };
    let new: Vec<_> = there.iter().filter(|(path, _)| is_new(path)).collect();
    let (path, line) = new.last()?;
    let others = there.iter().filter(|it| *it != &(*path, *line));
    let others: Vec<&str> = others.map(|(path, _)| *path).collect();
    let message = format!(
        "`{term}` is a term of the glossary, which names one public type, and is one of {} too",
        others.join(", ")
    );
    Some(Finding::error(path, *line, message))
}

/// The error of an entry that allows more types than there are.
fn shrink(list: &List<'_>, entry: &Entry<'_>, there: &[(&str, usize)]) -> Option<Finding> {
    let is_there = |path: &&&str| there.iter().any(|(it, _)| it == *path);
    let members: Vec<&&str> = entry.members.iter().filter(is_there).collect();
    let now = match members.len() {
        now if now == entry.members.len() && now > 1 => return None,
        0 | 1 => Vec::new(),
        _ => {
            let members = members.iter().map(|path| format!("  {path}"));
            std::iter::once(entry.name.to_owned())
                .chain(members)
                .collect()
        }
    };
    Some(list.shrunk(entry, "names fewer public types", now))
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;

    const PAGE: &str = "| Term | Meaning | Not |\n|---|---|---|\n| claim id | x | y |\n\
        | source, sink | x | y |\n";

    fn found(list: &str, files: &[(&str, &str)]) -> Vec<String> {
        let files = [&[(GLOSSARY, PAGE), (EXCEPTIONS, list)], files].concat();
        let tree = Tree::of(&files);
        let findings = check(&tree, &sources(&tree));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_term_names_one_public_type() {
        let one = (
            "a/src/lib.rs",
            "/// x\npub struct ClaimId;\npub use a::Sink;",
        );
        let two = ("b/src/b.rs", "fn a() {}\n\npub  enum ClaimId {}");
        let error = "error: b/src/b.rs:3: `ClaimId` is a term of the glossary, which names one public \
                     type, and is one of a/src/lib.rs too";
        assert_eq!(found("", &[one, two]), [error]);
        assert_eq!(
            found("ClaimId\n  a/src/lib.rs\n  b/src/b.rs\n", &[one, two]),
            [""; 0]
        );
        for text in [
            "pub(crate) struct ClaimId;",
            "struct ClaimId;",
            "// pub struct ClaimId;",
            "pub fn a(ClaimId: X) {}",
            "pub struct ClaimIds;",
            "#[cfg(test)]\nmod tests { pub struct ClaimId; }",
        ] {
            assert_eq!(found("", &[one, ("b/src/b.rs", text)]), [""; 0], "{text}");
        }
        for path in ["b/tests/b.rs", "b/src/b/tests.rs", "b/examples/b.rs"] {
            assert_eq!(found("", &[one, (path, one.1)]), [""; 0], "{path}");
        }
        let third = (
            "c/src/lib.rs",
            "pub unsafe trait Sink {}\npub type Sink = u8;",
        );
        assert_eq!(found("", &[third]).len(), 1);
    }

    #[test]
    fn an_entry_allows_what_there_is() {
        let one = ("a/src/lib.rs", "pub struct Sink;");
        let two = ("b/src/lib.rs", "pub struct Sink;");
        let gone = "error: xtask/src/tidy/exceptions/terms.txt:1: `Sink` names fewer public types";
        let list = "Sink\n  a/src/lib.rs\n  b/src/lib.rs\n  c/src/lib.rs\n";
        assert!(found(list, &[one, two])[0].contains(&format!("{gone}: shrink it here")));
        assert!(found(list, &[one])[0].contains(&format!("{gone}: remove it here")));
        assert_eq!(found("Sinks\n  a/src/lib.rs\n", &[one]).len(), 1);
    }
}
