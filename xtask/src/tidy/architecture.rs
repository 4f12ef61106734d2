//! `ARCHITECTURE.md` holds: every package has a place in its code map, and each step of its walk-throughs names what is
//! in the files of that step. That the files are there is the check of all links.

use crate::rust::is_word;
use crate::tree::Tree;

use super::links::{prose, targets};
use super::{Finding, packages};

const PAGE: &str = "ARCHITECTURE.md";
/// The end of the heading of a walk-through.
const WALK: &str = "step by step";

/// Compares the page with the packages and their sources.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
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
            let missing = missing(tree, files, types);
            steps += usize::from(missing.is_some());
            findings.extend(missing.into_iter().flatten().map(|name| {
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

/// The types and functions that a row names and that none of its files has; `None` for a row without files.
fn missing<'a>(tree: &Tree, files: &'a str, types: &'a str) -> Option<Vec<&'a str>> {
    let linked = prose(files);
    let texts: Vec<&str> = targets(&linked)
        .into_iter()
        .filter_map(|(_, target)| tree.text(target))
        .collect();
    let functions = spans(files).filter(|span| !span.contains(['.', '/']));
    let has = |name: &&str| texts.iter().any(|text| has_word(text, name));
    let names = functions.chain(spans(types)).filter(|name| !has(name));
    (!texts.is_empty()).then(|| names.collect())
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
    use super::*;

    const CODE: (&str, &str) = (
        "crates/a/src/b.rs",
        "pub struct Claim; fn take() { mistook() }",
    );

    fn found(page: &str) -> Vec<String> {
        let package = ("crates/a/Cargo.toml", "");
        let tree = Tree::of(&[(PAGE, page), package, CODE]);
        check(&tree).iter().map(ToString::to_string).collect()
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
