//! The pages of the book behind codes, which the program has with it.

use semel_config::suggestion;
use semel_core::Result;
use serde::Serialize;

use crate::{self as output, Column, Entry, Output, Row};

/// A code in its normal form, however it was copied.
fn normal(typed: &str) -> String {
    let bare = typed.trim_matches(|c: char| c.is_whitespace() || "[]`:".contains(c));
    bare.to_lowercase().replace('_', "-")
}

/// A code and its page of the book.
pub struct Page {
    code: &'static str,
    text: String,
    /// The folder of the book from which the page's links start.
    folder: &'static str,
}

impl Page {
    /// Finds the page of a code, however it was copied; the failure says which code may be meant.
    ///
    /// # Errors
    ///
    /// The suggestion
    pub fn find(typed: &str) -> std::result::Result<Self, String> {
        let code = normal(typed);
        Self::of(&code).ok_or_else(|| {
            let codes = PAGES.iter().map(|(code, _)| *code);
            let known: Vec<_> = codes
                .chain(findings().map(|finding| finding.code))
                .collect();
            let suggested = suggestion(&code, &known);
            if suggested.starts_with("known are") {
                "`semel explain` lists all".to_owned()
            } else {
                suggested
            }
        })
    }

    /// Prints the page.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn print(&self, form: Output) -> Result<()> {
        match form {
            Output::Table => output::page(&self.text, self.folder),
            Output::Json | Output::Jsonl => output::object(&self.meaning()),
        }
    }

    fn of(code: &str) -> Option<Self> {
        let page = PAGES.iter().find(|(known, _)| *known == code);
        if let Some((code, page)) = page {
            return Some(Self::of_code(code, page));
        }
        let finding = findings().find(|finding| finding.code == code)?;
        Some(Self {
            code: finding.code,
            text: finding.page(),
            folder: "reference",
        })
    }

    fn of_code(code: &'static str, text: &str) -> Self {
        Self {
            code,
            text: text.to_owned(),
            folder: ERRORS,
        }
    }

    /// The first sentence about what happened, without its examples.
    fn gist(&self) -> String {
        let what_happened = self.part("What happened").unwrap_or_default();
        let paragraph = what_happened.split('\n').next().unwrap_or_default();
        let sentence = paragraph.split(". ").next().unwrap_or_default();
        let sentence = sentence.split(": ").next().unwrap_or_default();
        let mut gist = output::plain(sentence);
        while let Some((before, rest)) = gist.split_once(" (") {
            let Some((_, after)) = rest.split_once(')') else {
                break;
            };
            gist = format!("{before}{after}");
        }
        gist.trim_end_matches('.').to_owned()
    }

    fn meaning(&self) -> Meaning<'_> {
        Meaning {
            code: self.code,
            what_happened: self.part("What happened"),
            was_it_applied: self.part("Was it applied?"),
            what_to_do: self.part("What to do"),
        }
    }

    /// Returns the text under a heading, one line per paragraph.
    fn part(&self, heading: &str) -> Option<String> {
        let (_, rest) = self.text.split_once(&format!("## {heading}\n"))?;
        let part = rest.split("\n## ").next().unwrap_or_default();
        Some(unwrapped(part.trim()))
    }
}

/// The documented object.
#[derive(Serialize)]
struct Meaning<'a> {
    code: &'a str,
    what_happened: Option<String>,
    was_it_applied: Option<String>,
    what_to_do: Option<String>,
}

/// A code in the list of all.
#[derive(Serialize)]
pub struct CodeLine {
    code: &'static str,
    means: String,
}

/// Returns every code that has a page of its own, in alphabetical order.
pub fn codes() -> impl Iterator<Item = CodeLine> {
    let pages = PAGES.iter().map(|(code, text)| Page::of_code(code, text));
    pages.map(|page| CodeLine {
        means: page.gist(),
        code: page.code,
    })
}

impl Entry for CodeLine {
    const COLUMNS: &'static [Column] = &[Column::word("code"), Column::text("means")];
    const NONE: &'static str = "no codes";

    fn fill(&self, row: &mut Row) {
        row.text(self.code).text(&self.means);
    }
}

/// Joins each paragraph to one line; tables, lists and code keep their lines.
fn unwrapped(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if paragraph.starts_with(['|', '-', '`']) && paragraph.contains('\n') {
            paragraph.to_owned()
        } else {
            paragraph.replace('\n', " ")
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// A row of the table of findings in the book: what `semel check` prints has no page of its own.
struct Finding {
    code: &'static str,
    severity: &'static str,
    because: &'static str,
}

impl Finding {
    fn page(&self) -> String {
        let Self {
            code,
            severity,
            because,
        } = self;
        format!(
            "# `{code}`\n\n## What happened\n\n`semel check` found ({severity}): {because}.\n\n\
             ## Was it applied?\n\nNo. A check changes nothing.\n\n\
             ## What to do\n\n`semel check` says so under `do:`, for the pipeline that it found it in.\n"
        )
    }
}

fn findings() -> impl Iterator<Item = Finding> {
    let rows = CHECK.lines().filter_map(|row| row.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (code, rest) = row.split_once("` | ")?;
        let (severity, because) = rest.split_once(" | ")?;
        matches!(severity, "warn" | "fail" | "fail, warn").then(|| Finding {
            code,
            severity,
            because: because.trim_end_matches([' ', '|']),
        })
    })
}

/// The folder of the pages of codes.
const ERRORS: &str = "errors";

const CHECK: &str = include_str!("../../../docs/book/src/reference/check.md");

macro_rules! pages {
    ($($code:literal,)+) => {
        &[$(($code, include_str!(concat!("../../../docs/book/src/errors/", $code, ".md"))),)+]
    };
}

/// Every code with its page, in alphabetical order.
const PAGES: &[(&str, &str)] = pages![
    "address-in-use",
    "answer-streamed",
    "answer-too-large",
    "birth-invalid",
    "birth-missing",
    "body-too-large",
    "claim-lost",
    "config-syntax",
    "config-unknown-key",
    "config-unreadable",
    "conflict",
    "dead",
    "drill-failed",
    "effect-failed",
    "entity-missing",
    "export-damaged",
    "export-unfinished",
    "fingerprint-conflict",
    "forbidden",
    "handler-broken",
    "host-refused",
    "in-doubt",
    "in-progress",
    "internal",
    "invalid-config",
    "invalid-input",
    "key-blank",
    "key-control-character",
    "key-invalid",
    "key-missing",
    "key-not-scalar",
    "key-null",
    "key-reused",
    "key-too-long",
    "key-unknown",
    "live-only",
    "member-duplicated",
    "message-too-large",
    "message-unknown",
    "method-not-allowed",
    "nested-too-deep",
    "no-usable-key",
    "not-json",
    "number-too-long",
    "origin-refused",
    "outcome-unreadable",
    "outcome-unrecorded",
    "path-unknown",
    "pipeline-unknown",
    "plan-stale",
    "producer-elsewhere",
    "producer-fenced",
    "producer-missing",
    "producer-unknown",
    "record-corrupt",
    "row-unpublishable",
    "run-unfinished",
    "run-unknown",
    "same-file",
    "sequence-gap",
    "signature-missing",
    "signature-wrong",
    "source-unavailable",
    "stale",
    "store-foreign",
    "store-full",
    "store-in-use",
    "store-newer",
    "store-poisoned",
    "store-read-only",
    "store-unavailable",
    "target-away",
    "target-failing",
    "target-in-use",
    "target-shortened",
    "target-unavailable",
    "tenant-missing",
    "throttled",
    "timeout",
    "too-old",
    "unauthorized",
    "unsupported",
    "unsupported-media-type",
    "upstream-broken",
    "upstream-timeout",
    "upstream-unreachable",
    "version-invalid",
    "worker-incompatible",
    "worker-unreachable",
];

#[cfg(test)]
mod tests {
    use semel_core::{Code, Unusable};

    use super::*;

    #[test]
    fn every_code_can_be_explained() {
        let codes = Code::ALL
            .iter()
            .map(|code| code.as_str())
            .chain(Unusable::CODES);
        for code in codes.chain([
            "dead",
            "drill-failed",
            "in-doubt",
            "too-old",
            "live-only",
            "fingerprint-conflict",
        ]) {
            let page = Page::of(code).expect(code);
            let meaning = page.meaning();
            for part in [
                meaning.what_happened,
                meaning.was_it_applied,
                meaning.what_to_do,
            ] {
                assert!(part.is_some_and(|part| part.len() >= 3), "{code}");
            }
        }
    }

    #[test]
    fn what_a_check_finds_can_be_explained_as_well() {
        let page = Page::of("age-gate-off").expect("a finding");
        assert!(
            page.text.contains("(warn): without `birth`"),
            "{}",
            page.text
        );
        assert!(findings().count() > 15);
    }

    #[test]
    fn a_code_is_known_however_it_was_copied() {
        for typed in [
            "store-in-use",
            "[store-in-use]",
            "STORE_IN_USE",
            "`store-in-use`:",
        ] {
            assert_eq!(normal(typed), "store-in-use");
        }
    }
}
