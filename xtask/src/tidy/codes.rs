//! Every code that an operator can meet has a page in the book, and no page explains a code that
//! does not exist.

use std::collections::BTreeSet;

use crate::rust::Source;
use crate::tree::Tree;

use super::Finding;

const CODES: &str = "crates/core/src/code.rs";
const PAGES: &str = "docs/book/src/errors/";

/// Compares the codes in core with the pages.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let source = Source::new(tree.text(CODES).unwrap_or_default());
    let codes: BTreeSet<&str> = match source.body("as_str") {
        Some(body) => source.strings(body).map(|(_, code)| code).collect(),
        None => BTreeSet::new(),
    };
    if codes.is_empty() {
        return vec![Finding::error(
            CODES,
            0,
            "no code found: `fn as_str` should list them",
        )];
    }
    let mut findings = Vec::new();
    let mut pages = BTreeSet::new();
    for (path, text) in tree.texts(PAGES, ".md") {
        let page = path.trim_start_matches(PAGES).trim_end_matches(".md");
        if page == "README" {
            continue;
        }
        pages.insert(page);
        if !codes.contains(page) {
            findings.push(Finding::error(
                path,
                0,
                format!("`{page}` is no code of {CODES}"),
            ));
        }
        if !text
            .lines()
            .next()
            .is_some_and(|title| title.starts_with("# ") && title.contains(page))
        {
            findings.push(Finding::error(
                path,
                1,
                format!("the title should name `{page}`"),
            ));
        }
    }
    for code in codes.difference(&pages) {
        findings.push(Finding::error(
            CODES,
            0,
            format!("`{code}` has no page {PAGES}{code}.md"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(page: &str, text: &str) -> Vec<String> {
        let core =
            "fn as_str(self) -> &'static str { match self { Self::Full => \"store-full\" } }";
        let tree = Tree::of(&[(CODES, core), (&format!("{PAGES}{page}.md"), text)]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn codes_and_pages_come_in_pairs() {
        assert_eq!(with("store-full", "# `store-full`"), [""; 0]);
        let found = with("store-fool", "# `store-fool`");
        assert!(found[0].contains("`store-fool` is no code"), "{found:?}");
        assert!(found[1].contains("`store-full` has no page"), "{found:?}");
        assert_eq!(
            with("store-full", "# Full"),
            ["the title should name `store-full`"]
        );
        assert_eq!(check(&Tree::of(&[(CODES, "enum Code {}")])).len(), 1);
    }
}
