//! The numbers of tests: where a page says how many conformance cases or planted bugs there are, the number is
//! right.

use std::collections::BTreeSet;

use crate::prove::page::PAGE;
use crate::tree::Tree;

use super::Finding;

/// A kind of thing that pages count.
struct Counted {
    /// The words behind the number.
    what: &'static str,
    /// The function that counts for the page of the proof, which must have the number.
    count: fn(&Tree) -> usize,
}

const COUNTED: [Counted; 3] = [
    Counted {
        what: "conformance cases",
        count: cases,
    },
    Counted {
        what: "planted store bugs",
        count: store_bugs,
    },
    Counted {
        what: "bugs in the sources",
        count: bugs,
    },
];

/// Compares every such number on a page with the actual one.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Counted { what, count } in COUNTED {
        let there = count(tree);
        let pages = tree.texts("README.md", "README.md");
        let pages = pages.chain(tree.texts("docs/book/src/", ".md"));
        let mut is_said = false;
        for (path, text) in pages {
            for (number, line) in text.lines().enumerate() {
                for said in before(line, what) {
                    is_said |= path == PAGE;
                    if said != there {
                        let message = format!("says {said} {what}, and there are {there}");
                        findings.push(Finding::error(path, number + 1, message));
                    }
                }
            }
        }
        if !is_said {
            let message = format!("does not say that there are {there} {what}");
            findings.push(Finding::error(PAGE, 0, message));
        }
    }
    findings
}

/// The numbers right before `what` in a line.
fn before<'a>(line: &'a str, what: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(what).filter_map(|(at, _)| {
        let word = line[..at].split_whitespace().next_back()?;
        word.replace(',', "").parse().ok()
    })
}

/// Lines of the catalogue of the store's ports: `LawId::OneClaim => name;`.
fn cases(tree: &Tree) -> usize {
    let texts = CATALOGUE.iter().filter_map(|path| tree.text(path));
    let lines = texts.flat_map(str::lines).map(str::trim);
    let is_case = |line: &&str| line.starts_with("LawId::") && line.ends_with(';');
    lines.filter(is_case).count()
}

/// Lines of the list of bugs: `ClaimNotAtomic claims_that_are_not_atomic_are_caught OneClaim,`.
fn store_bugs(tree: &Tree) -> usize {
    let text = tree.text(STORE_BUGS).unwrap_or_default();
    let list = text.split("\nbugs! {\n").nth(1).unwrap_or_default();
    let list = list.split("\n}\n").next().unwrap_or_default();
    let lines = list.lines().map(str::trim);
    lines
        .filter(|line| !line.starts_with("///") && line.split(' ').count() == 3)
        .count()
}

/// The names in the tables of T14: `"M07"`.
fn bugs(tree: &Tree) -> usize {
    let tables = tree.texts(TABLES, ".rs");
    let tables = tables.filter(|(path, _)| !path.ends_with("/list.rs"));
    let words = tables.flat_map(|(_, text)| text.split('"').skip(1).step_by(2));
    let is_name = |word: &&str| {
        let (letter, number) = word.split_at_checked(1).unwrap_or_default();
        let is_number = number.len() == 2 && number.bytes().all(|it| it.is_ascii_digit());
        is_number && letter.bytes().all(|it| it.is_ascii_uppercase())
    };
    words.filter(is_name).collect::<BTreeSet<_>>().len()
}

const CATALOGUE: [&str; 2] = [
    "crates/conformance/src/catalogue.rs",
    "crates/conformance/src/catalogue/ports.rs",
];
const STORE_BUGS: &str = "crates/conformance/tests/planted.rs";
const TABLES: &str = "proof/src/planted/table/";

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, readme: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("README.md", readme),
            (PAGE, page),
            (CATALOGUE[0], "  LawId::A => a;\n  LawId::B => b;\n"),
            (CATALOGUE[1], "LawId::A => c;\nLawId::C,\n"),
            (
                STORE_BUGS,
                "x\nbugs! {\n    /// What it does.\n    One one_is_caught Law,\n}\nA b C,\n",
            ),
            (
                "proof/src/planted/table/once.rs",
                "bug(\"M01\", \"all\", \"M02\"), bug(\"M01\", \"m03\")",
            ),
            ("proof/src/planted/table/list.rs", "(\"M19\", \"K01\")"),
        ]);
        let findings = check(&tree).into_iter();
        findings
            .map(|it| format!("{}: {}", it.path, it.message))
            .collect()
    }

    #[test]
    fn a_page_says_as_many_as_there_are() {
        let page = "3 conformance cases, 1 planted store bugs;\n2 bugs in the sources";
        assert_eq!(found(page, "the conformance cases"), [""; 0]);
        let wrong = found(page, "\nof 1,398 conformance cases");
        assert_eq!(
            wrong,
            ["README.md: says 1398 conformance cases, and there are 3"]
        );
    }

    #[test]
    fn the_page_of_the_proof_says_each_of_them() {
        let page = "3 conformance cases, 2 bugs in the sources";
        let expected = format!("{PAGE}: does not say that there are 1 planted store bugs");
        assert_eq!(found(page, "1 planted store bugs"), [expected]);
    }
}
