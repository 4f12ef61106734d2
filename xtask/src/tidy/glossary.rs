//! One word, one meaning: no text uses a phrase that the glossary's last column has in code type.
//!
//! A phrase may still be quoted (`"…"`, `` `…` ``) or denied earlier in its sentence ("never
//! exactly-once delivery").

use crate::rust::{Source, is_word, line};
use crate::tree::Tree;

use super::Finding;

/// The page of the glossary.
pub(super) const GLOSSARY: &str = "docs/book/src/reference/glossary.md";

/// Reads the pages, and the comments of the sources.
pub(super) fn check(tree: &Tree, sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let refused = refused(tree.text(GLOSSARY).unwrap_or_default());
    if refused.is_empty() {
        return vec![Finding::error(
            GLOSSARY,
            0,
            "refuses no word: no `code` in its last column",
        )];
    }
    let mut findings = Vec::new();
    for (path, text) in tree.markdown().filter(|(path, _)| *path != GLOSSARY) {
        findings.extend(look(path, text, &refused));
    }
    for (path, source) in sources
        .iter()
        .filter(|(path, _)| path.starts_with("crates/"))
    {
        // Few sources have such a phrase anywhere.
        let plain = normal(source.text());
        if refused.iter().any(|(phrase, _)| plain.contains(phrase)) {
            findings.extend(look(path, &comments(source), &refused));
        }
    }
    findings
}

/// The rows of its table: a term, its meaning, and the words not to use for it.
pub(super) fn rows(page: &str) -> impl Iterator<Item = [&str; 3]> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells = row.trim().trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>().try_into().ok()
    })
}

/// The phrases in code type of the last column, and the terms to use instead.
fn refused(page: &str) -> Vec<(String, &str)> {
    let mut refused = Vec::new();
    for [term, _, not] in rows(page) {
        refused.extend(
            not.split('`')
                .skip(1)
                .step_by(2)
                .map(|word| (normal(word), term)),
        );
    }
    refused
}

fn look(path: &str, text: &str, refused: &[(String, &str)]) -> Vec<Finding> {
    let plain = normal(text);
    let mut findings = Vec::new();
    for (phrase, term) in refused {
        for (at, _) in plain.match_indices(phrase.as_str()) {
            let bytes = plain.as_bytes();
            let end = at + phrase.len();
            // A plural is the same word.
            let end = end + usize::from(bytes.get(end) == Some(&b's'));
            let alone = !at
                .checked_sub(1)
                .is_some_and(|before| is_word(bytes[before]))
                && !bytes.get(end).is_some_and(|after| is_word(*after));
            if alone && !quoted_or_denied(&plain, at) {
                let message = format!("say {term}, not `{phrase}`");
                findings.push(Finding::error(path, line(text, at), message));
            }
        }
    }
    findings
}

/// Lower case, with every separator a space; byte for byte, so that places stay the same. The end
/// of a paragraph stays, as two full stops.
fn normal(text: &str) -> String {
    let text = text.to_ascii_lowercase().replace("\n\n", "..");
    text.replace(['-', '_', '\n', '\t'], " ")
}

/// Looks back over the sentence in which `at` stands.
fn quoted_or_denied(plain: &str, at: usize) -> bool {
    let before = &plain[..at];
    let start = before
        .match_indices(['.', '!', '?', '|', ':', ';'])
        .map(|(at, mark)| at + mark.len())
        .rfind(|end| before[*end..].starts_with([' ', '.']))
        .unwrap_or(0);
    let sentence = &before[start..];
    let open = |mark: char| sentence.matches(mark).count() % 2 == 1;
    let opened = sentence.rfind('“') > sentence.rfind('”');
    let denied = sentence.split(|c: char| !c.is_alphanumeric()).any(|word| {
        [
            "never", "no", "not", "nobody", "cannot", "nothing", "without",
        ]
        .contains(&word)
    });
    open('"') || open('`') || opened || denied
}

/// The comments of a source, everything else blank; byte for byte.
fn comments(source: &Source<'_>) -> String {
    let text = source.text();
    let mut bytes: Vec<u8> = text
        .bytes()
        .zip(source.code().bytes())
        .map(|(original, code)| {
            if code == original && original != b'\n' {
                b' '
            } else {
                original
            }
        })
        .collect();
    for (at, string) in source.strings(0..text.len()) {
        bytes[at..at + string.len()].fill(b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::sources;
    use super::*;

    const PAGE: &str = "| Term | Meaning | Not |\n|---|---|---|\n\
        | takeover | claiming a key whose lease ran out | `steal` |\n\
        | effectively once | the whole | `exactly-once delivery`, job |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(GLOSSARY, PAGE), (path, text)]);
        let findings = check(&tree, &sources(&tree));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_refused_phrase_is_found_however_it_is_written() {
        let one = ["error: README.md:3: say effectively once, not `exactly once delivery`"];
        assert_eq!(found("README.md", "# A\n\nExactly-once delivery."), one);
        assert_eq!(
            found("README.md", "# A\n\nIt is exactly\nonce delivery."),
            one
        );
        assert_eq!(
            found("README.md", "Workers steal keys, and a job runs.").len(),
            1
        );
        assert_eq!(
            found("crates/a/src/lib.rs", "/// Two steals.\nfn steal() {}").len(),
            1
        );
        assert_eq!(
            found("README.md", "It never sleeps. Two steals follow.").len(),
            1
        );
    }

    #[test]
    fn a_quoted_or_denied_phrase_passes() {
        for text in [
            "We never write exactly-once delivery.",
            "They say \"exactly-once delivery\".",
            "The word `steal` is taken.",
            "They say “steal”.",
            "There is no exactly-once\ndelivery.",
            "A stealthy worker.",
        ] {
            assert_eq!(found("README.md", text), [""; 0], "{text}");
        }
        assert_eq!(
            found("crates/a/src/lib.rs", "fn a() { \"steal\"; steal() }"),
            [""; 0]
        );
    }

    #[test]
    fn a_glossary_without_refused_words_proves_nothing() {
        assert_eq!(
            check(&Tree::of(&[(GLOSSARY, "| a | b | c |")]), &[]).len(),
            1
        );
        assert_eq!(check(&Tree::of(&[]), &[]).len(), 1);
    }
}
