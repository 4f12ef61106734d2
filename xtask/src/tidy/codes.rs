//! Every code that an operator can meet, as an error or as a reason for which a message was set
//! aside, has a page in the book, and no page explains a code that does not exist.

use std::collections::BTreeSet;

use crate::rust::Source;
use crate::tree::Tree;

use super::Finding;

const CODES: &str = "crates/core/src/code.rs";
const UNUSABLE: &str = "crates/core/src/key/unusable.rs";
const PARKED: &str = "crates/core/src/parked.rs";
const PAGES: &str = "docs/book/src/errors/";

/// Compares the codes in core with the pages.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let source = Source::new(tree.text(CODES).unwrap_or_default());
    let mut codes: BTreeSet<&str> = match source.body("as_str") {
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
    let unusable = tree.text(UNUSABLE).unwrap_or_default();
    let unusable_source = Source::new(unusable);
    if let Some(start) = unusable.find("const CODES") {
        let end = start + unusable[start..].find("];").unwrap_or_default();
        codes.extend(unusable_source.strings(start..end).map(|(_, code)| code));
    }
    let parked = Source::new(tree.text(PARKED).unwrap_or_default());
    if let Some(body) = parked.body("code") {
        codes.extend(parked.strings(body).map(|(_, code)| code));
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
                format!("`{page}` is no code of {CODES}, {UNUSABLE} or {PARKED}"),
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

    #[test]
    fn reasons_of_parked_messages_have_pages_too() {
        let tree = Tree::of(&[
            (CODES, "fn as_str(self) -> &'static str { \"store-full\" }"),
            (
                UNUSABLE,
                "const CODES: [&str; 1] = [\"key-null\"];\nconst OTHER: &str = \"x\";",
            ),
            (PARKED, "fn code(&self) -> &'static str { \"dead\" }"),
            ("docs/book/src/errors/store-full.md", "# `store-full`"),
            ("docs/book/src/errors/key-null.md", "# `key-null`"),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.starts_with("`dead` has no page"));
    }
}
