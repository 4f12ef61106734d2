//! Every alert of `deploy/` has its runbook, its row in the book's table and its tests, and every metric there is one
//! that the book lists. Nothing there is summed by a label that could have a key in it.

mod labels;
mod names;

use std::collections::BTreeSet;

use crate::tree::Tree;

use super::Finding;

const DEPLOYED: &str = "deploy/";
pub(super) const ALERTS: &str = "deploy/prometheus/alerts.yml";
const TESTS: &str = "deploy/prometheus/tests/";
const RUNBOOKS: &str = "docs/book/src/runbooks/";
const TABLE: &str = "docs/book/src/operations/alerts.md";
/// The sections of a runbook.
const HEADINGS: [&str; 6] = ["Symptom", "Money", "First look", "Decide", "Act", "Verify"];

/// Compares the alerts with their runbooks, the book's table and their tests, and metrics with the book's list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let alerts: Vec<Alert<'_>> = read(tree.text(ALERTS).unwrap_or_default());
    if alerts.is_empty() {
        return vec![Finding::error(ALERTS, 0, "has no alert")];
    }
    let mut findings = Vec::new();
    for alert in &alerts {
        let faults = alert
            .faults()
            .into_iter()
            .chain(untold(tree, alert))
            .chain(untested(tree, alert.name))
            .chain(runbook(tree, alert));
        findings.extend(
            faults.map(|fault| {
                Finding::error(ALERTS, alert.line, format!("{}: {fault}", alert.name))
            }),
        );
    }
    let pages: BTreeSet<&str> = alerts.iter().filter_map(Alert::page).collect();
    for (path, _) in tree.texts(RUNBOOKS, ".md") {
        if !pages.contains(&path[RUNBOOKS.len()..]) {
            findings.push(Finding::error(path, 0, "is the runbook of no alert"));
        }
    }
    findings.extend(names::check(tree));
    findings.extend(labels::check(tree));
    findings
}

/// An alert, with its lines up to the next one.
struct Alert<'a> {
    name: &'a str,
    line: usize,
    text: &'a str,
}

fn read(text: &str) -> Vec<Alert<'_>> {
    let starts: Vec<usize> = text.match_indices(ALERT).map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let alert = |(start, end): (usize, usize)| Alert {
        name: value(&text[start..end], ALERT).unwrap_or_default(),
        line: crate::rust::line(text, start),
        text: &text[start..end],
    };
    starts.iter().copied().zip(ends).map(alert).collect()
}

impl<'a> Alert<'a> {
    /// The file name of its runbook.
    fn page(&self) -> Option<&'a str> {
        let url = value(self.text, "runbook_url:")?;
        let (_, page) = url.split_once(RUNBOOKS)?;
        Some(page)
    }

    fn severity(&self) -> Option<&'static str> {
        let (_, rest) = self.text.split_once("severity:")?;
        let mut words = rest.trim_start().split(|it: char| !it.is_alphanumeric());
        let word = words.next()?;
        ["page", "ticket"].into_iter().find(|it| *it == word)
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.severity().is_none() {
            faults.push("its severity is neither `page` nor `ticket`".to_owned());
        }
        for member in [
            "owner:",
            "summary:",
            "description:",
            "dashboard:",
            "runbook_url:",
        ] {
            if !self.text.contains(member) {
                faults.push(format!("has no `{}`", member.trim_end_matches(':')));
            }
        }
        if self.text.lines().any(takes_any) {
            let why =
                "takes the first of a result that has no order: `sortByLabel` comes before it";
            faults.push(why.to_owned());
        }
        faults
    }
}

/// Returns whether a template takes whichever element comes first. A label that changes from one evaluation to the
/// next is another alert each time, and none of them is ever as old as its `for`.
fn takes_any(line: &str) -> bool {
    line.contains("| first") && !line.contains("| sortByLabel")
}

/// Compares the alert with its runbook.
fn runbook(tree: &Tree, alert: &Alert<'_>) -> Vec<String> {
    let Some(page) = alert.page() else {
        return vec![format!(
            "its `runbook_url` leads to no page below {RUNBOOKS}"
        )];
    };
    let Some(text) = tree.text(&format!("{RUNBOOKS}{page}")) else {
        return vec![format!("there is no runbook {RUNBOOKS}{page}")];
    };
    let mut faults = Vec::new();
    if text.lines().next() != Some(format!("# {}", alert.name).as_str()) {
        faults.push(format!("the title of {page} should be its name"));
    }
    let headings: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    if headings != HEADINGS {
        faults.push(format!("{page} should have {}", HEADINGS.join(", ")));
    }
    if let Some(severity) = alert.severity() {
        let opening = format!("A {severity}. ");
        let first = text.lines().skip(1).find(|line| !line.is_empty());
        if first.is_none_or(|line| !line.starts_with(&opening)) {
            faults.push(format!("{page} should open with `{}`", opening.trim_end()));
        }
    }
    faults
}

/// Compares the alert with its row in the book's table, which ends with what it waits for.
fn untold(tree: &Tree, alert: &Alert<'_>) -> Option<String> {
    let table = tree.text(TABLE).unwrap_or_default();
    let start = format!("| [`{}`](", alert.name);
    let severity = format!(" | {} | ", alert.severity().unwrap_or_default());
    let end = format!(" | {} |", value(alert.text, "for:").unwrap_or("0m"));
    let is_told =
        |line: &str| line.starts_with(&start) && line.contains(&severity) && line.ends_with(&end);
    (!table.lines().any(is_told))
        .then(|| format!("{TABLE} should have a row with `{severity}` and `{end}`"))
}

/// Looks for a test in which the alert fires, and for one in which it does not.
fn untested(tree: &Tree, name: &str) -> Vec<String> {
    let (mut fires, mut is_silent) = (false, false);
    for (_, text) in tree.texts(TESTS, ".yml") {
        // What comes before the first time is no entry.
        for entry in text.split("eval_time:").skip(1) {
            let word = |it: char| !it.is_alphanumeric();
            let is_mine = entry
                .split_once("alertname:")
                .is_some_and(|(_, rest)| rest.trim_start().split(word).next() == Some(name));
            let Some((_, expected)) = entry.split_once("exp_alerts:") else {
                continue;
            };
            let is_none = expected.trim_start().starts_with("[]");
            is_silent |= is_mine && is_none;
            fires |= is_mine && !is_none;
        }
    }
    let missing = [(fires, "it fires"), (is_silent, "it is silent")];
    let missing = missing.into_iter().filter(|(is_there, _)| !is_there);
    missing
        .map(|(_, what)| format!("no test in {TESTS} in which {what}"))
        .collect()
}

/// The rest of the first line that begins with `word`.
fn value<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines
        .find_map(|line| line.strip_prefix(word))
        .map(str::trim)
}

const ALERT: &str = "- alert: ";

#[cfg(test)]
mod tests;
