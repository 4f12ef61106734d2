//! Text that never stays in the code: unfinished macros, silenced lints, tests switched off without
//! a reason, messages with a hole of blanks.

use crate::rust::{Source, is_word};

use super::Finding;

const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Reads every Rust source.
pub(super) fn check(sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    sources
        .iter()
        .flat_map(|(path, source)| check_file(path, source))
        .collect()
}

fn check_file(path: &str, source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = source.code();
    for name in MACROS {
        for at in words(code, name) {
            if code[at + name.len()..].starts_with('!') {
                let message = format!("`{name}!` does not stay in the code");
                findings.push(Finding::error(path, source.line(at), message));
            }
        }
    }
    for range in source.attributes() {
        let line = source.line(range.start);
        let attribute = &code[range.clone()];
        if calls(attribute, "allow") {
            let message = "exceptions are `#[expect(…, reason = \"…\")]`, never `allow`";
            findings.push(Finding::error(path, line, message));
        }
        if calls(attribute, "expect") && !has_text(source, range.start, attribute, "reason") {
            findings.push(Finding::error(path, line, "an `expect` without a reason"));
        }
        let inside = attribute.trim_start_matches(['#', '!', '[']).trim_start();
        let ignores = words(inside, "ignore").first() == Some(&0);
        if ignores && !has_text(source, range.start, attribute, "ignore") {
            findings.push(Finding::error(path, line, "an `ignore` without a reason"));
        }
    }
    if !is_test(path) {
        let end = code.find("#[cfg(test)]").unwrap_or(code.len());
        for (start, text) in source.strings(0..end) {
            if let Some(at) = hole(text) {
                let message = "two blanks within a message: a line was joined without its `\\`?";
                findings.push(Finding::error(path, source.line(start + at), message));
            }
        }
    }
    findings
}

/// Tests compare text in columns.
fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("/tests/")
}

/// The place of blanks between two words of a text that is no table.
fn hole(text: &str) -> Option<usize> {
    // A text of several lines is a layout; one that continues after a backslash is still one line.
    if text.replace("\\\n", "").contains('\n') {
        return None;
    }
    text.match_indices("  ").map(|(at, _)| at).find(|&at| {
        let (before, after) = (&text[..at], text[at..].trim_start_matches(' '));
        let is_word = |text: &[u8]| {
            text.len() == 2
                && text
                    .iter()
                    .all(|byte| byte.is_ascii_lowercase() || *byte == b',' || *byte == b';')
        };
        let last = before.as_bytes().last_chunk::<2>();
        let first = after.as_bytes().first_chunk::<2>();
        // Behind an escaped line feed, blanks are an indent.
        !before.ends_with("\\n")
            && last.is_some_and(|last| is_word(last))
            && first.is_some_and(|first| is_word(first))
    })
}

/// The places where `word` stands alone in `code`.
fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| {
            !at.checked_sub(1)
                .is_some_and(|before| is_word(bytes[before]))
        })
        .filter(|at| {
            !bytes
                .get(at + word.len())
                .is_some_and(|after| is_word(*after))
        })
        .collect()
}

fn calls(attribute: &str, name: &str) -> bool {
    words(attribute, name)
        .into_iter()
        .any(|at| attribute[at + name.len()..].trim_start().starts_with('('))
}

/// Returns whether the attribute that begins at `start` contains `name = "some text"`.
fn has_text(source: &Source<'_>, start: usize, attribute: &str, name: &str) -> bool {
    words(attribute, name).into_iter().any(|at| {
        let value = start + at + name.len();
        let end = start + attribute.len();
        let between = |string: usize| source.code()[value..string].trim_matches(['"', ' ', '\n']);
        source
            .strings(value..end)
            .next()
            .is_some_and(|(string, text)| between(string) == "=" && !text.trim().is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check(&[("a.rs", Source::new(text))]).len()
    }

    #[test]
    fn unfinished_macros_are_found_in_code_only() {
        for name in MACROS {
            assert_eq!(found(&format!("fn a() {{ {name}!(\"b\") }}")), 1, "{name}");
            assert_eq!(
                found(&format!("// {name}!()\nconst A: &str = \"{name}!()\";")),
                0,
                "{name}"
            );
            assert_eq!(found(&format!("my_{name}!()")), 0, "{name}");
        }
    }

    #[test]
    fn lints_are_expected_with_a_reason() {
        assert_eq!(found("#![allow(dead_code)]"), 1);
        assert_eq!(found("#[cfg_attr(test, allow(dead_code))]\nfn a() {}"), 1);
        assert_eq!(found("#[expect(dead_code)]\nfn a() {}"), 1);
        assert_eq!(found("#[expect(dead_code, reason = \" \")]\nfn a() {}"), 1);
        assert_eq!(
            found("#[expect(\n    dead_code,\n    reason = \"b\"\n)]\nfn a() {}"),
            0
        );
        assert_eq!(found("fn allow() { allow([1]) }"), 0);
    }

    #[test]
    fn a_message_has_no_hole() {
        assert_eq!(found("const A: &str = \"bring it      forward\";"), 1);
        assert_eq!(found("const A: &str = \"bring it;  forward\";"), 1);
        assert_eq!(found("const A: &str = \"bring it \\\n     forward\";"), 0);
        assert_eq!(found("const A: &str = \"Example:\\n  semel run\";"), 0);
        assert_eq!(found("const A: &str = \"{label}  {text}\";"), 0);
        assert_eq!(found("// bring it    forward"), 0);
        assert_eq!(found("const A: &str = \"verb    what\nother   does\";"), 0);
        assert_eq!(found("#[cfg(test)]\nconst A: &str = \"key    value\";"), 0);
        let source = Source::new("const A: &str = \"key    value\";");
        assert_eq!(check(&[("a/tests.rs", source)]).len(), 0);
    }

    #[test]
    fn a_test_is_ignored_with_a_reason() {
        assert_eq!(found("#[ignore]\nfn a() {}"), 1);
        assert_eq!(found("#[ignore = \"\"]\nfn a() {}"), 1);
        assert_eq!(found("#[ignore = \"needs a server\"]\nfn a() {}"), 0);
        assert_eq!(found("#[serde(ignore)]\nfn a() {}"), 0);
    }
}
