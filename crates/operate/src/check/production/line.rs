//! One line of the list, and the findings that belong to it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::check::finding::{Finding, Place, Severity};

/// One line of the list, with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The stable name of the line.
    pub line: Cow<'static, str>,
    /// Its verdict.
    pub verdict: Standing,
    /// The reason, one clause.
    pub why: String,
    /// The next step; nothing if it passes.
    pub advice: Option<String>,
    /// The codes of the findings that it rests on.
    pub findings: Vec<Cow<'static, str>>,
}

/// The verdict of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It holds.
    Pass,
    /// Nobody can see it from here, or only a person can say whether it is meant.
    Unknown,
    /// It does not hold.
    Fail,
}

impl Standing {
    /// Returns the name for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

impl Line {
    pub(super) fn pass(line: &'static str, why: impl Into<String>) -> Self {
        Self {
            line: Cow::Borrowed(line),
            verdict: Standing::Pass,
            why: why.into(),
            advice: None,
            findings: Vec::new(),
        }
    }

    pub(super) fn unknown(
        line: &'static str,
        why: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Standing::Unknown,
            advice: Some(advice.into()),
            ..Self::pass(line, why)
        }
    }

    pub(super) fn fail(
        line: &'static str,
        why: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Standing::Fail,
            ..Self::unknown(line, why, advice)
        }
    }

    /// Makes the line of the findings that belong to it; nothing if there are none. The worst comes first.
    pub(super) fn of_findings<'f>(
        line: &'static str,
        findings: impl Iterator<Item = &'f Finding>,
    ) -> Option<Self> {
        let mut findings: Vec<_> = findings.collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(standing(finding)));
        let verdict = standing(findings.first()?);
        let why: Vec<_> = findings.iter().map(|it| &*it.message).collect();
        let mut advice: Vec<_> = findings.iter().map(|it| &*it.advice).collect();
        advice.dedup();
        Some(Self {
            line: Cow::Borrowed(line),
            verdict,
            why: why.join("; "),
            advice: Some(advice.join("; ")),
            findings: findings.iter().map(|it| it.code.clone()).collect(),
        })
    }

    /// Adds to the reason what the line would have said without its findings.
    pub(super) fn after(mut self, why: &str) -> Self {
        self.why = format!("{why}; {}", self.why);
        self
    }
}

/// The verdict of a line on which this finding is: what warns may be intended, which only a person knows, unless
/// it contradicts the line itself.
fn standing(finding: &Finding) -> Standing {
    match finding.severity {
        Severity::Fail => Standing::Fail,
        Severity::Warn if UNMET.contains(&&*finding.code) => Standing::Fail,
        Severity::Warn | Severity::Ok => Standing::Unknown,
    }
}

/// Returns the line that a finding belongs to: for an error its place decides, else its code.
pub(super) fn line_of(finding: &Finding) -> Option<&'static str> {
    match finding.place {
        Some(Place::Store) => Some("store"),
        Some(Place::Source) => Some("source"),
        None => line_of_code(&finding.code),
    }
}

fn line_of_code(code: &str) -> Option<&'static str> {
    let mut lines = LINES.iter();
    lines.find_map(|(line, codes)| codes.contains(&code).then_some(*line))
}

/// The findings of each line.
const LINES: &[(&str, &[&str])] = &[
    ("owner", &["owner-missing"]),
    (
        "key",
        &[
            "fingerprint-off",
            "key-is-coordinates",
            "key-is-transport",
            "sample-conflicts",
            "sample-empty",
            "sample-unusable",
            "sample-without-key",
            "sample-without-tenant",
        ],
    ),
    (
        "class",
        &[
            "fails-open",
            "kafka-transactions-end-here",
            "provider-window-short",
            "store-approximate",
        ],
    ),
    (
        "window",
        &["window-sets-aside", "window-too-short", "window-unknown"],
    ),
    (
        "producers",
        &[
            "age-gate-off",
            "first-any",
            "hold-short",
            "producers-forgotten",
        ],
    ),
    (
        "retry",
        &[
            "consumer-timeout-short",
            "delivery-limit-short",
            "lease-shorter-than-timeout",
            "provider-window-shorter-than-retries",
            "window-shorter-than-retries",
        ],
    ),
    (
        "store",
        &[
            "store-durability",
            "store-exposed",
            "store-read-only",
            "store-unavailable",
            "store-volatile",
            "store-weak",
        ],
    ),
    ("room", &["disk-short"]),
    (
        "source",
        &[
            "pipeline-paused",
            "secret-exposed",
            "source-unavailable",
            "source-weak",
            "webhook-unverified",
        ],
    ),
    (
        "target",
        &[
            "output-of-one-machine",
            "statement-refused",
            "statements-unchecked",
            "target-unavailable",
        ],
    ),
];

/// The findings that only warn, and contradict their line.
const UNMET: &[&str] = &[
    "consumer-timeout-short",
    "delivery-limit-short",
    "disk-short",
    "key-is-coordinates",
    "key-is-transport",
    "lease-shorter-than-timeout",
    "owner-missing",
    "provider-window-shorter-than-retries",
    "sample-conflicts",
    "sample-unusable",
    "secret-exposed",
    "store-exposed",
    "store-volatile",
    "window-shorter-than-retries",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::check::finding::{fail, warn};

    #[test]
    fn every_finding_belongs_to_one_line() {
        let book = include_str!("../../../../../docs/book/src/reference/check.md");
        let (_, book) = book.split_once("\n## Findings\n").expect("the section");
        let rows = book.lines().filter_map(|line| line.strip_prefix("| `"));
        let codes: BTreeSet<_> = rows
            .filter_map(|row| Some(row.split_once('`')?.0))
            .collect();
        let listed: Vec<_> = LINES
            .iter()
            .flat_map(|(_, codes)| *codes)
            .copied()
            .collect();
        let listed_once: BTreeSet<_> = listed.iter().copied().collect();
        assert_eq!(listed.len(), listed_once.len(), "none is listed twice");
        assert_eq!(listed_once, codes);
        assert!(UNMET.iter().all(|code| line_of_code(code).is_some()));
    }

    #[test]
    fn the_worst_finding_decides_and_what_may_be_intended_is_not_known() {
        let of = |findings: &[Finding]| Line::of_findings("store", findings.iter());
        assert_eq!(of(&[]), None);
        let weak = warn("store-weak", "weak", "mend it");
        let exposed = warn("store-exposed", "exposed", "hide it");
        let absent = fail("store-unavailable", "absent", "make it");
        let line = of(std::slice::from_ref(&weak)).expect("a line");
        assert_eq!((line.verdict, &*line.why), (Standing::Unknown, "weak"));
        let line = of(&[weak.clone(), exposed]).expect("a line");
        assert_eq!(
            (line.verdict, &*line.why),
            (Standing::Fail, "exposed; weak")
        );
        assert_eq!(line.advice.as_deref(), Some("hide it; mend it"));
        let line = of(&[weak, absent]).expect("a line");
        assert_eq!(line.findings, ["store-unavailable", "store-weak"]);
        assert_eq!(line.verdict, Standing::Fail);
    }
}
