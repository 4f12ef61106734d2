//! A line of a page in `docs/` has at most 120 characters, tables and blocks of code apart.

use std::collections::BTreeMap;

use crate::tree::Tree;

use super::Finding;
use super::exceptions::List;

const EXCEPTIONS: &str = "xtask/src/tidy/exceptions/long_lines.txt";
const LIMIT: usize = 120;

/// Compares how many lines of each page are longer with the list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let long: BTreeMap<&str, Vec<usize>> = tree
        .texts("docs/", ".md")
        .map(|(path, text)| (path, long(text)))
        .collect();
    let counts = long
        .iter()
        .map(|(path, lines)| (*path, lines.len()))
        .collect();
    List::read(tree, EXCEPTIONS).of_counts(counts, |path, allowed, now| {
        let lines: Vec<String> = long[path].iter().map(ToString::to_string).collect();
        let message = format!(
            "{now} lines are longer than {LIMIT} characters, and {allowed} may be: {}",
            lines.join(", ")
        );
        Finding::error(path, 0, message)
    })
}

/// The numbers of the lines that are too long.
fn long(page: &str) -> Vec<usize> {
    let mut is_code = false;
    let mut long = Vec::new();
    for (number, line) in page.lines().enumerate() {
        let words = line.trim_start();
        if words.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !words.starts_with('|') && line.chars().count() > LIMIT {
            long.push(number + 1);
        }
    }
    long
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(list: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(EXCEPTIONS, list), ("docs/a.md", text), ("b.md", text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_line_is_short() {
        let (fits, long) = ("é".repeat(LIMIT), "e".repeat(LIMIT + 1));
        let error = "error: docs/a.md: 2 lines are longer than 120 characters, and 0 may be: 2, 6";
        let text = format!("{fits}\n{long}\n```\n{long}\n```\n{long}\n| {long} |\n");
        assert_eq!(found("", &text), [error]);
        assert_eq!(found("docs/a.md 2\n", &text), [""; 0]);
        assert_eq!(found("docs/a.md 3\n", &text).len(), 1);
        assert_eq!(found("docs/a.md 1\n", &fits).len(), 1);
        assert_eq!(found("", &fits), [""; 0]);
    }
}
