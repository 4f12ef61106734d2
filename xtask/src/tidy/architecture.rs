//! `ARCHITECTURE.md` holds: every package has a place in its code map, and each step of its walk-throughs names what is
//! in the files of that step. That the files are there is the check of all links.

use std::collections::BTreeMap;

use crate::rust::{Source, is_word};
use crate::tree::Tree;

use super::links::{prose, targets};
use super::{Finding, packages};

const PAGE: &str = "ARCHITECTURE.md";
/// The end of the heading of a walk-through.
const WALK: &str = "step by step";

/// Compares the page with the packages and their sources.
pub(super) fn check(tree: &Tree, sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let sources: BTreeMap<&str, &Source<'_>> =
        sources.iter().map(|(path, it)| (*path, it)).collect();
    let page = tree.text(PAGE).unwrap_or_default();
    let mut findings = Vec::new();
    for package in packages(tree) {
        let above = package.match_indices('/').map(|(end, _)| &package[..end]);
        let mut folders = above.chain([package]);
        if !folders.any(|folder| page.contains(&format!("`{folder}`"))) {
            let message = format!("`{package}` has no place in the code map");
            findings.push(Finding::error(PAGE, 0, message));
        }
    }
    let (mut steps, mut walks) = (0, false);
    for (number, line) in (1..).zip(page.lines()) {
        if let Some(heading) = line.strip_prefix("## ") {
            walks = heading.ends_with(WALK);
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        if let [_, files, types] = cells[..]
            && walks
        {
            let missing = missing(&sources, files, types);
            steps += usize::from(missing.is_some());
            let names = missing.unwrap_or_else(|| spans(types).collect());
            findings.extend(names.into_iter().map(|name| {
                let message = format!("no file of this step names `{name}`");
                Finding::error(PAGE, number, message)
            }));
        }
    }
    if steps == 0 {
        let message = format!("has no walk-through: a heading that ends in `{WALK}`, and a table");
        findings.push(Finding::error(PAGE, 0, message));
    }
    findings
}

/// The types and functions that a row names and that the code of none of its files has; `None` for a row without files.
fn missing<'a>(
    sources: &BTreeMap<&str, &Source<'_>>,
    files: &'a str,
    types: &'a str,
) -> Option<Vec<&'a str>> {
    let linked = prose(files);
    let codes: Vec<&str> = targets(&linked)
        .into_iter()
        .filter_map(|(_, target)| sources.get(target).map(|it| it.code()))
        .collect();
    let functions = spans(files).filter(|span| !span.contains(['.', '/']));
    let has = |name: &&str| codes.iter().any(|code| has_word(code, name));
    let names = functions.chain(spans(types)).filter(|name| !has(name));
    (!codes.is_empty()).then(|| names.collect())
}

/// Tells whether `text` has `word`, and not only as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_free = |byte: Option<&u8>| byte.is_none_or(|byte| !is_word(*byte));
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        is_free(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && is_free(bytes.get(at + word.len()))
    })
}

/// The code spans of a text.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;

    const CODE: (&str, &str) = (
        "crates/a/src/b.rs",
        "pub struct Claim; fn take() { mistook(\"Held\") } // Word",
    );

    fn found(page: &str) -> Vec<String> {
        let package = ("crates/a/Cargo.toml", "");
        let tree = Tree::of(&[(PAGE, page), package, CODE]);
        let findings = check(&tree, &sources(&tree));
        findings.iter().map(ToString::to_string).collect()
    }

    fn page(row: &str) -> String {
        format!(
            "### `crates/a`\n\n## A call, step by step\n\n| Step | Where | Type |\n|---|---|---|\n{row}\n"
        )
    }

    #[test]
    fn a_step_names_what_its_files_have() {
        let good = page("| It `x` | [`a/b.rs`](crates/a/src/b.rs) (`take`) | `Claim` |");
        assert_eq!(found(&good), [""; 0]);
        let renamed = page("| It | [`a/b.rs`](crates/a/src/b.rs) (`took`) | `Claims` |");
        assert_eq!(
            found(&renamed),
            ["took", "Claims"]
                .map(|it| format!("error: {PAGE}:7: no file of this step names `{it}`"))
        );
        let spoken_of = page("| It | [`a/b.rs`](crates/a/src/b.rs) | `Word`, `Held` |");
        assert_eq!(found(&spoken_of).len(), 2, "neither comments nor strings");
        let without_files = format!("{good}| It | nowhere | `Claim` |\n");
        let error = format!("error: {PAGE}:8: no file of this step names `Claim`");
        assert_eq!(found(&without_files), [error]);
        let elsewhere = good.replace("A call, step by step", "Words");
        assert!(found(&elsewhere)[0].contains("has no walk-through"));
        assert!(found(&page("")).concat().contains("has no walk-through"));
    }

    #[test]
    fn every_package_has_a_place() {
        let good = page("| It | [`a/b.rs`](crates/a/src/b.rs) | `Claim` |");
        let error = format!("error: {PAGE}: `crates/a` has no place in the code map");
        assert_eq!(found(&good.replace("`crates/a`", "`crates/b`")), [error]);
        assert_eq!(
            found(&good.replace("### `crates/a`", "In `crates/a`, x")),
            [""; 0]
        );
        assert_eq!(found(&good.replace("`crates/a`", "`crates`")), [""; 0]);
    }
}
