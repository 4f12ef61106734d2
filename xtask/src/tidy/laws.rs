//! Every law has an address: `LawId` in core, its sentence in docs/spec, a conformance case.

use crate::rust::{is_word, line};
use crate::tree::Tree;

use super::Finding;

const LAWS: &str = "crates/core/src/law.rs";
const SPEC: &str = "docs/spec/";
const CASES: &str = "crates/conformance/src/";

/// Prefixes of standards whose names look like law ids, unless laws of that prefix exist.
const NOTATIONS: [&str; 7] = ["AES", "CRC", "DUR", "ISO", "RFC", "SHA", "UTF"];

/// One law as core states it.
struct Law<'a> {
    variant: &'a str,
    id: &'a str,
    sentence: String,
}

/// Compares the laws in core with the specification and the conformance suite.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let laws = laws(tree.text(LAWS).unwrap_or_default());
    if laws.is_empty() {
        let message = "no law found: each should read `/// Sentence.` and `Name = \"ABC-1\",`";
        return vec![Finding::error(LAWS, 0, message)];
    }
    let mut findings = unknown(tree, &laws);
    let spec: Vec<&str> = tree
        .texts(SPEC, ".md")
        .flat_map(|(_, text)| text.lines())
        .collect();
    for Law {
        variant,
        id,
        sentence,
    } in &laws
    {
        let named = |line: &&&str| ids(line).iter().any(|(_, found)| found == id);
        let mut pages = spec.iter().filter(named).peekable();
        if pages.peek().is_none() {
            findings.push(Finding::error(
                LAWS,
                0,
                format!("{id} is on no page of {SPEC}"),
            ));
        } else if !pages.any(|line| line.contains(sentence.as_str())) {
            let message = format!("no line of {SPEC} says \"{id}\" and \"{sentence}\"");
            findings.push(Finding::error(LAWS, 0, message));
        }
        let path = format!("LawId::{variant}");
        let proved = tree.texts(CASES, ".rs").any(|(_, text)| {
            has_word(text, &path) || ids(text).iter().any(|(_, found)| found == id)
        });
        if !proved {
            findings.push(Finding::error(
                LAWS,
                0,
                format!("{id} is named by no conformance case"),
            ));
        }
    }
    findings
}

/// Ids of the specification that core does not know.
fn unknown(tree: &Tree, laws: &[Law<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(SPEC, ".md") {
        for (at, id) in ids(text) {
            let prefix = &id[..3];
            let used = laws.iter().any(|law| law.id.starts_with(prefix));
            let known = laws.iter().any(|law| law.id == id);
            if !known && (used || !NOTATIONS.contains(&prefix)) {
                let message = format!("{id} is no law: {LAWS} does not know it");
                findings.push(Finding::error(path, line(text, at), message));
            }
        }
    }
    findings
}

/// Everything of the form `/// Sentence.`, `Name = "ABC-1"`.
fn laws(text: &str) -> Vec<Law<'_>> {
    let mut laws = Vec::new();
    let mut sentence = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("/// ") {
            sentence.push_str(if sentence.is_empty() { "" } else { " " });
            sentence.push_str(doc);
            continue;
        }
        let sentence = std::mem::take(&mut sentence);
        if let Some((variant, literal)) = line.split_once(" = \"")
            && let Some(id) = literal.strip_suffix("\",")
            && ids(id).first().is_some_and(|(_, found)| *found == id)
        {
            laws.push(Law {
                variant,
                id,
                sentence,
            });
        }
    }
    laws
}

/// Everything of the shape `ABC-12`, with its place.
fn ids(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    text.match_indices('-')
        .filter_map(|(at, _)| {
            let start = at.checked_sub(3)?;
            let digits = bytes[at + 1..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let end = at + 1 + digits;
            let letters = bytes[start..at].iter().all(u8::is_ascii_uppercase);
            let alone =
                |byte: Option<&u8>| !byte.is_some_and(|byte| is_word(*byte) || *byte == b'-');
            let before = start.checked_sub(1).and_then(|before| bytes.get(before));
            (letters && (1..=3).contains(&digits) && alone(before) && alone(bytes.get(end)))
                .then(|| (start, &text[start..end]))
        })
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text
            .as_bytes()
            .get(at + word.len())
            .is_some_and(|byte| is_word(*byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "laws! {\n    /// One live claim\n    /// per operation.\n    OneClaim = \
        \"CLM-1\",\n    /// Tokens rise.\n    TokensRise = \"CLM-2\",\n}\nconst A: B = \"C\",\n";
    const SPEC_OF_BOTH: &str = "| CLM-1 | One live claim per operation. |\n- CLM-2: Tokens rise.\n";

    fn with(spec: &str, cases: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (LAWS, CORE),
            ("docs/spec/store.md", spec),
            ("crates/conformance/src/claims.rs", cases),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn a_law_with_all_its_addresses_passes() {
        let spec = format!("{SPEC_OF_BOTH}In UTF-8, see RFC-9112 and x-CLM-12.");
        assert_eq!(with(&spec, "LawId::OneClaim CLM-2"), [""; 0]);
    }

    #[test]
    fn a_missing_address_is_an_error() {
        let first = SPEC_OF_BOTH.lines().next().unwrap_or_default();
        assert_eq!(
            with(first, "CLM-1 CLM-2"),
            ["CLM-2 is on no page of docs/spec/"]
        );
        let cases = "LawId::OneClaimOnly CLM-2";
        assert_eq!(
            with(SPEC_OF_BOTH, cases),
            ["CLM-1 is named by no conformance case"]
        );
        let reworded = SPEC_OF_BOTH.replace("rise", "grow");
        assert!(with(&reworded, "CLM-1 CLM-2")[0].contains("says \"CLM-2\" and \"Tokens rise.\""));
        for id in ["CLM-3", "XYZ-1"] {
            let found = with(&format!("{SPEC_OF_BOTH}{id}"), "CLM-1 CLM-2");
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{id} is no law")));
        }
        assert_eq!(check(&Tree::of(&[(LAWS, "fn sentence() {}")])).len(), 1);
    }
}
