//! A changelog fragment has its kind in its name: `<slug>.<kind>.md`.

use crate::tree::Tree;

use super::Finding;

const FOLDER: &str = "changelog.d/";
const KINDS: [&str; 7] = [
    "guarantee",
    "breaking",
    "security",
    "added",
    "changed",
    "fixed",
    "performance",
];

/// Looks at every file of the folder.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(FOLDER, "") {
        let name = &path[FOLDER.len()..];
        if name == "README.md" {
            continue;
        }
        let parts: Vec<&str> = name.split('.').collect();
        let well_named = match parts.as_slice() {
            [slug, kind, "md"] => is_slug(slug) && KINDS.contains(kind),
            _ => false,
        };
        if !well_named {
            let message = format!(
                "a fragment is named SLUG.KIND.md, KIND one of {}",
                KINDS.join(", ")
            );
            findings.push(Finding::error(path, 0, message));
        }
        if text.trim().is_empty() {
            findings.push(Finding::error(
                path,
                0,
                "an empty fragment tells nobody anything",
            ));
        }
    }
    findings
}

fn is_slug(slug: &str) -> bool {
    !slug.is_empty()
        && slug
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_named_fragments_with_a_text_pass() {
        let found = |name: &str, text: &str| {
            check(&Tree::of(&[(&format!("changelog.d/{name}"), text)])).len()
        };
        assert_eq!(found("README.md", ""), 0);
        assert_eq!(found("engine.added.md", "text"), 0);
        assert_eq!(found("engine.added.md", " \n"), 1);
        for bad in [
            "engine.md",
            "engine.new.md",
            "Engine.added.md",
            ".added.md",
            "a.b.added.md",
        ] {
            assert_eq!(found(bad, "text"), 1, "{bad}");
        }
    }
}
