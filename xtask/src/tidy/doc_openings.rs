//! A doc comment opens with a verb in the third person, or with a noun phrase that names the thing: not with a
//! question word.

use std::collections::BTreeMap;

use crate::rust::Source;
use crate::tree::Tree;

use super::exceptions::List;
use super::{Finding, package, packages};

const EXCEPTIONS: &str = "xtask/src/tidy/exceptions/doc_openings.txt";
const REFUSED: [&str; 13] = [
    "How", "What", "Whatever", "When", "Whenever", "Where", "Wherever", "Whether", "Who",
    "Whoever", "Whom", "Whose", "Why",
];

/// Compares how many doc comments of each crate open with a question word with the list.
pub(super) fn check(tree: &Tree, sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let packages = packages(tree);
    let mut counts = BTreeMap::new();
    for (path, source) in sources {
        if let Some(package) = package(&packages, path) {
            *counts.entry(package).or_default() += refused(source);
        }
    }
    List::read(tree, EXCEPTIONS).of_counts(counts, |package, allowed, now| {
        let message = format!(
            "{now} doc comments of this crate open with a question word (What, Whether, Where, …), and {allowed} may: \
             open with a verb in the third person, or name the thing; `git diff main -- {package} | grep -E '^\\+ *//[/!] (W|How)'` \
             shows yours"
        );
        Finding::error(&format!("{package}/Cargo.toml"), 0, message)
    })
}

/// The doc comments of one source that open with a question word.
fn refused(source: &Source<'_>) -> usize {
    let mut count = 0;
    let mut at = 0;
    let mut before = None;
    for line in source.text().split_inclusive('\n') {
        let comment = line.trim_start();
        let start = at + line.len() - comment.len();
        at += line.len();
        let kind = ["///", "//!"]
            .into_iter()
            .find(|kind| comment.starts_with(kind));
        let is_first = kind.is_some() && kind != before;
        before = kind;
        let words = comment.get(3..).unwrap_or_default();
        let word = words
            .trim_start()
            .split(|c: char| !c.is_alphanumeric())
            .next();
        if is_first && word.is_some_and(|word| REFUSED.contains(&word)) && !in_string(source, start)
        {
            count += 1;
        }
    }
    count
}

/// Tells whether `at` is inside a string of several lines.
fn in_string(source: &Source<'_>, at: usize) -> bool {
    let last = source
        .strings(0..source.text().len())
        .take_while(|(start, _)| *start <= at)
        .last();
    last.is_some_and(|(start, string)| at < start + string.len())
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;

    fn found(list: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (EXCEPTIONS, list),
            ("a/Cargo.toml", ""),
            ("a/src/b.rs", text),
        ]);
        let findings = check(&tree, &sources(&tree));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_line_is_no_question() {
        for text in [
            "//! What is.",
            "fn a() {\n    /// Whether\n    b();\n}",
            "//! A.\n/// How it is.\nx();",
        ] {
            let found = found("", text);
            assert!(
                found[0].starts_with("error: a/Cargo.toml: 1 doc comments"),
                "{found:?}"
            );
        }
        for text in [
            "//! Returns it.\n//! What else.",
            "/// `What`, whatever.",
            "/// Whatsoever.",
            "// What.",
            "//// What.",
            "const A: &str = \"\n/// What.\n\";",
            "/// A.\n///\n/// What.",
        ] {
            assert_eq!(found("", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_crate_has_as_many_as_the_list_says() {
        let two = "/// What.\nfn a() {}\n\n/// Who.\nfn b() {}\n";
        assert_eq!(found("a 2\n", two), [""; 0]);
        assert_eq!(found("a 1\n", two).len(), 1);
        let shrink = "error: xtask/src/tidy/exceptions/doc_openings.txt:1: `a 3` has come to 2: make it `a 2` here";
        assert!(found("a 3\n", two)[0].starts_with(shrink));
    }
}
