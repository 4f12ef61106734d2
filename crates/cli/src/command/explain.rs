//! `semel explain CODE`: the page of the book behind a code.

use semel_core::Result;

use crate::config::suggestion;
use crate::{Exit, output};

/// Prints the page of `code`.
pub(crate) fn explain(code: &str) -> Result<Exit> {
    if let Some((_, page)) = PAGES.iter().find(|(known, _)| *known == code) {
        output::data(page.trim_end()).map_err(output::cannot_print)?;
        return Ok(Exit::Done);
    }
    let known: Vec<_> = PAGES.iter().map(|(known, _)| *known).collect();
    output::note(format!(
        "error: there is no code `{code}`; {}",
        suggestion(code, &known)
    ));
    Ok(Exit::No)
}

macro_rules! pages {
    ($($code:literal,)+) => {
        &[$(($code, include_str!(concat!("../../../../docs/book/src/errors/", $code, ".md"))),)+]
    };
}

/// Every code with its page, in alphabetical order.
const PAGES: &[(&str, &str)] = pages![
    "birth-invalid",
    "birth-missing",
    "claim-lost",
    "config-syntax",
    "config-unknown-key",
    "config-unreadable",
    "conflict",
    "dead",
    "entity-missing",
    "fingerprint-conflict",
    "in-doubt",
    "internal",
    "invalid-config",
    "invalid-input",
    "key-blank",
    "key-control-character",
    "key-missing",
    "key-not-scalar",
    "key-null",
    "key-too-long",
    "member-duplicated",
    "message-too-large",
    "nested-too-deep",
    "not-json",
    "number-too-long",
    "record-corrupt",
    "source-unavailable",
    "store-foreign",
    "store-full",
    "store-in-use",
    "store-newer",
    "store-poisoned",
    "store-read-only",
    "store-unavailable",
    "target-in-use",
    "target-shortened",
    "target-unavailable",
    "throttled",
    "timeout",
    "too-old",
    "unsupported",
    "version-invalid",
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
        for code in codes.chain(["dead", "in-doubt", "too-old", "fingerprint-conflict"]) {
            assert!(PAGES.iter().any(|(known, _)| *known == code), "{code}");
        }
    }
}
