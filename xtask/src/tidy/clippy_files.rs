//! A `clippy.toml` further down replaces the one at the root, so it has to repeat it.

use crate::tree::Tree;

use super::Finding;

const ROOT: &str = "clippy.toml";
/// Both must exist: they also ban randomly seeded maps.
const STRICTER: [&str; 2] = ["crates/core/clippy.toml", "crates/engine/clippy.toml"];

/// Compares every other `clippy.toml` with the root's, entry by entry.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let bans: Vec<&str> = bans(tree.text(ROOT).unwrap_or_default()).collect();
    if bans.is_empty() {
        return vec![Finding::error(ROOT, 0, "bans nothing")];
    }
    let mut findings = Vec::new();
    for path in STRICTER.into_iter().filter(|path| !tree.exists(path)) {
        findings.push(Finding::error(path, 0, "is missing"));
    }
    for (path, text) in tree.texts("", "/clippy.toml") {
        for ban in bans.iter().filter(|ban| !bans_of(text, ban)) {
            findings.push(Finding::error(
                path,
                0,
                format!("does not repeat `{ban}` of the root's"),
            ));
        }
    }
    findings
}

fn bans(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with("{ path = "))
}

fn bans_of(text: &str, ban: &str) -> bool {
    bans(text).any(|other| other == ban)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_that_is_not_repeated_is_an_error() {
        let one = "disallowed-methods = [\n  { path = \"a\", reason = \"b\" },\n]\n";
        let none = "disallowed-methods = []\n";
        let with = |root, core, engine| {
            let files = [(ROOT, root), (STRICTER[0], core), (STRICTER[1], engine)];
            check(&Tree::of(&files)).len()
        };
        assert_eq!(with(one, one, one), 0);
        assert_eq!(with(one, none, one), 1);
        assert_eq!(with(none, one, one), 1);
        assert_eq!(check(&Tree::of(&[(ROOT, one)])).len(), 2);
    }
}
