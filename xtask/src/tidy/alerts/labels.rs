//! The labels by which anything in `deploy/` is summed or joined: none of them can have a key in it.

use crate::tree::Tree;

use super::super::Finding;
use super::DEPLOYED;

/// The labels that have few values.
const LABELS: [&str; 27] = [
    "alertname",
    "call",
    "certainty",
    "class",
    "decision",
    "effect",
    "fate",
    "instance",
    "job",
    "kind",
    "layer",
    "le",
    "owner",
    "partition",
    "pipeline",
    "producer",
    "reason",
    "relay",
    "result",
    "runbook",
    "severity",
    "state",
    "store",
    "tenant",
    "verdict",
    "what",
    "why",
];
/// The words of an expression before a list of labels that its result has.
const WORDS: [&str; 4] = ["by", "on", "group_left", "group_right"];

/// Looks at the lists of labels in rules, alerts, their tests and dashboards.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let deployed = tree
        .texts(DEPLOYED, ".yml")
        .chain(tree.texts(DEPLOYED, ".json"));
    let mut findings = Vec::new();
    for (path, text) in deployed {
        // The words may be in capitals.
        let text = text.to_ascii_lowercase();
        for (at, label) in listed(&text) {
            if !LABELS.contains(&label) {
                let message = format!("`{label}` is a label that could have a key in it");
                findings.push(Finding::error(path, crate::rust::line(&text, at), message));
            }
        }
    }
    findings
}

/// The labels in each list after one of the words, with where the word stands.
fn listed(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let lists = WORDS.into_iter().flat_map(move |word| {
        text.match_indices(word).filter_map(move |(at, _)| {
            let is_whole = !text[..at].ends_with(is_part);
            let rest = text[at + word.len()..].trim_start().strip_prefix('(')?;
            let (labels, _) = rest.split_once(')')?;
            is_whole.then_some((at, labels))
        })
    });
    lists
        .flat_map(|(at, labels)| labels.split(',').map(move |label| (at, label.trim())))
        .filter(|(_, label)| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str) -> Vec<String> {
        let tree = Tree::of(&[("deploy/grafana/a.json", expression)]);
        let found = check(&tree);
        found.into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn a_label_that_could_have_a_key_in_it_is_found_however_it_is_written() {
        for good in [
            "sum by (pipeline, le) (rate(x[5m]))",
            "sum(x)by(store)",
            "x * on () group_left () y",
            "bunion (key) or sum_by (key)",
        ] {
            assert_eq!(found(good), [""; 0], "{good}");
        }
        for bad in [
            "sum by (pipeline, key) (x)",
            "sum by(key)(x)",
            "sum(x)by(key)",
            "SUM BY (key) (x)",
            "sum by\n  (key) (x)",
            "x and on(key) y",
            "x * on (pipeline) group_left(key) y",
        ] {
            let found = found(bad);
            assert_eq!(
                found,
                ["`key` is a label that could have a key in it"],
                "{bad}"
            );
        }
    }
}
