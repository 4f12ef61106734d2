//! The book's table of contents lists every page; mdBook leaves out pages that it does not list.

use std::collections::BTreeSet;

use crate::tree::Tree;

use super::Finding;
use super::links::{prose, targets};

const PAGES: &str = "docs/book/src/";
const SUMMARY: &str = "docs/book/src/SUMMARY.md";

/// Compares the pages with the table of contents. Another check follows its links.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let summary = prose(tree.text(SUMMARY).unwrap_or_default());
    let listed: BTreeSet<&str> = targets(&summary)
        .into_iter()
        .map(|(_, target)| target.trim_start_matches("./"))
        .collect();
    if listed.is_empty() {
        return vec![Finding::error(SUMMARY, 0, "lists no page")];
    }
    tree.texts(PAGES, ".md")
        .map(|(path, _)| path)
        .filter(|path| *path != SUMMARY && !listed.contains(&path[PAGES.len()..]))
        .map(|path| Finding::error(path, 0, format!("is not listed in {SUMMARY}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_listed_is_an_error() {
        let with = |summary| {
            let page = ("docs/book/src/errors/conflict.md", "# `conflict`");
            check(&Tree::of(&[(SUMMARY, summary), page])).len()
        };
        assert_eq!(with("- [Conflict](errors/conflict.md)"), 0);
        assert_eq!(with("- [Conflict](./errors/conflict.md)"), 0);
        assert_eq!(with("- [Other](other.md)"), 1);
        assert_eq!(with("# Summary"), 1);
    }
}
