//! The names in `deploy/`: every metric is a family that the book lists, and every rule that is used is recorded and
//! tested.

use std::collections::BTreeSet;

use crate::tree::Tree;

use super::super::Finding;
use super::{DEPLOYED, TESTS};

const RULES: &str = "deploy/prometheus/rules.yml";
const FAMILIES: &str = "docs/book/src/operations/status.md";

/// Compares the names with what there is.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let families = families(tree.text(FAMILIES).unwrap_or_default());
    let mut findings = Vec::new();
    let is_known = |name: &str| {
        let parts = ["_bucket", "_count", "_sum"];
        let whole = parts.into_iter().find_map(|part| name.strip_suffix(part));
        [Some(name), whole]
            .into_iter()
            .flatten()
            .any(|name| families.contains(name))
    };
    let rules = tree.text(RULES).unwrap_or_default();
    let recorded: BTreeSet<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .collect();
    let deployed = tree
        .texts(DEPLOYED, ".yml")
        .chain(tree.texts(DEPLOYED, ".json"));
    for (path, text) in deployed {
        for (number, line) in text.lines().enumerate() {
            for name in names(line) {
                let is_rule = name.contains(':');
                let is_there = if is_rule {
                    recorded.contains(name)
                } else {
                    is_known(name)
                };
                if !is_there {
                    let place = if is_rule { RULES } else { FAMILIES };
                    let message = format!("`{name}` is not in {place}");
                    findings.push(Finding::error(path, number + 1, message));
                }
            }
        }
    }
    let tests = tree.texts(TESTS, ".yml").flat_map(|(_, text)| names(text));
    let tested: BTreeSet<&str> = tests.collect();
    for rule in recorded.difference(&tested) {
        let message = format!("`{rule}` is in no test of {TESTS}");
        findings.push(Finding::error(RULES, 0, message));
    }
    findings
}

/// The names of families in the first column of the book's tables.
fn families(text: &str) -> BTreeSet<&str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells.flat_map(names).collect()
}

/// The names of Semel's families and of recording rules; what begins otherwise is somebody else's, or no name.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
    text.split(move |it| !is_part(it))
        .map(|name| name.trim_matches(':'))
        .filter(|name| name.starts_with("semel_") || name.contains(':') && name.contains("semel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(deployed: &str) -> Vec<String> {
        let rules = "groups:\n  - record: pipeline:semel_busy:ratio\n    expr: semel_busy_total\n";
        let tree = Tree::of(&[
            (
                FAMILIES,
                "| `semel_busy_total`, `semel_seconds` | `pipeline` | semel_else |\n",
            ),
            (RULES, rules),
            (
                "deploy/prometheus/tests/a.yml",
                "expr: pipeline:semel_busy:ratio\n",
            ),
            ("deploy/grafana/a.json", deployed),
        ]);
        let found = check(&tree);
        found.into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn a_name_is_a_family_or_a_rule() {
        assert_eq!(found("rate(semel_seconds_bucket[5m])"), [""; 0]);
        assert_eq!(
            found("max(pipeline:semel_busy:ratio) or semel-on-call"),
            [""; 0]
        );
        let unknown = format!("`semel_else` is not in {FAMILIES}");
        assert_eq!(found("max(semel_else)"), [unknown]);
        let unrecorded = format!("`store:semel_busy:ratio` is not in {RULES}");
        assert_eq!(found("store:semel_busy:ratio"), [unrecorded]);
    }

    #[test]
    fn a_rule_without_a_test_is_an_error() {
        let tree = Tree::of(&[
            (FAMILIES, "| `semel_storm` | `pipeline` | |\n"),
            (
                RULES,
                "  - record: pipeline:semel_storm:max\n    expr: semel_storm\n",
            ),
        ]);
        let found = check(&tree);
        let found: Vec<String> = found.into_iter().map(|it| it.message).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("is in no test"), "{found:?}");
    }
}
