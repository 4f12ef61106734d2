//! A source file reads in one sitting.

use crate::rust::Source;

use super::Finding;

const HABIT: usize = 400;
const LIMIT: usize = 700;

/// Measures every source file, without its tests.
pub(super) fn check(sources: &[(&str, Source<'_>)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in sources {
        if is_test(path) {
            continue;
        }
        let lines = lines(source);
        let message = format!("{lines} lines without its tests; about {HABIT} is the habit");
        if lines > LIMIT {
            findings.push(Finding::error(path, 0, message));
        } else if lines > HABIT {
            findings.push(Finding::warning(path, 0, message));
        }
    }
    findings
}

fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests") || path.ends_with("/tests.rs")
}

/// The lines before the test module that ends the file.
fn lines(source: &Source<'_>) -> usize {
    let (text, code) = (source.text(), source.code());
    let end = code
        .match_indices("#[cfg(test)]")
        .find(|(at, attribute)| {
            code[at + attribute.len()..]
                .trim_start()
                .starts_with("mod ")
        })
        .map_or(text.len(), |(at, _)| at);
    text[..end].lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<bool> {
        check(&[(path, Source::new(text))])
            .iter()
            .map(|finding| finding.fatal)
            .collect()
    }

    #[test]
    fn length_is_measured_without_tests() {
        let long = "x();\n".repeat(LIMIT + 1);
        assert_eq!(found("crates/a/src/lib.rs", &long), [true]);
        assert_eq!(
            found("crates/a/src/lib.rs", &"x();\n".repeat(HABIT + 1)),
            [false]
        );
        assert_eq!(
            found("crates/a/src/lib.rs", &"x();\n".repeat(HABIT)),
            [false; 0]
        );
        assert_eq!(found("crates/a/src/lib/tests.rs", &long), [false; 0]);
        assert_eq!(found("crates/a/tests/conformance.rs", &long), [false; 0]);
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(found("crates/a/src/lib.rs", &tested), [false; 0]);
        let helper = format!("#[cfg(test)]\nfn a() {{}}\n{long}");
        assert_eq!(found("crates/a/src/lib.rs", &helper), [true]);
    }
}
