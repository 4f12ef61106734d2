//! Every relative link of a Markdown page leads somewhere, down to the heading.

use crate::rust::line;
use crate::tree::Tree;

use super::Finding;

/// Follows the links of every page.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.markdown() {
        let prose = prose(text);
        for (at, target) in targets(&prose) {
            if let Some(fault) = follow(tree, path, target) {
                findings.push(Finding::error(path, line(&prose, at), fault));
            }
        }
    }
    findings
}

fn follow(tree: &Tree, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() {
        Some(page.to_owned())
    } else {
        resolve(page, file)
    };
    let Some(file) = file.filter(|file| tree.exists(file)) else {
        return Some(format!("`{target}` leads nowhere"));
    };
    let text = tree.text(&file)?;
    let headings: Vec<String> = prose(text).lines().filter_map(slug).collect();
    (!heading.is_empty() && !headings.iter().any(|slug| slug == heading))
        .then(|| format!("`{target}`: no such heading in {file}"))
}

/// `target` as seen from the page at `page`, or nothing above the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The page with its code blocks and code spans blank; byte for byte, except for headings.
pub(super) fn prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if fence || fenced {
            prose.extend(
                line.bytes()
                    .map(|byte| if byte == b'\n' { '\n' } else { ' ' }),
            );
            fenced ^= fence;
        } else if line.starts_with('#') {
            prose.push_str(line);
        } else {
            for (index, part) in line.split('`').enumerate() {
                prose.push_str(if index == 0 { "" } else { "`" });
                if index % 2 == 0 {
                    prose.push_str(part);
                } else {
                    prose.extend(
                        part.bytes()
                            .map(|byte| if byte == b'\n' { '\n' } else { ' ' }),
                    );
                }
            }
        }
    }
    prose
}

/// The text between `](` and `)`, and after `[name]: ` at the start of a line.
pub(super) fn targets(prose: &str) -> Vec<(usize, &str)> {
    let inline = prose.match_indices("](").filter_map(|(at, mark)| {
        let rest = &prose[at + mark.len()..];
        let target = rest[..rest.find(')')?].split_whitespace().next()?;
        Some((at, target))
    });
    let mut start = 0;
    let definitions = prose.split_inclusive('\n').filter_map(|line| {
        let at = start;
        start += line.len();
        let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
        (!name.contains(']')).then(|| (at, target.trim()))
    });
    inline.chain(definitions.collect::<Vec<_>>()).collect()
}

/// The anchor of a heading.
fn slug(line: &str) -> Option<String> {
    let title = line
        .strip_prefix('#')?
        .trim_start_matches('#')
        .strip_prefix(' ')?;
    let kept = title.trim().chars().filter_map(|c| match c {
        ' ' | '-' => Some('-'),
        '_' => Some('_'),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    Some(kept.flat_map(char::to_lowercase).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/spec/page.md", text),
            (
                "docs/spec/store.md",
                "# The store\n\n## `claim`: who, when?\n",
            ),
            ("LICENSE", ""),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for text in [
            "[a](store.md) [b](./store.md#the-store) [c](../spec/) [d](../../LICENSE)",
            "[a](store.md#claim-who-when \"title\")",
            "# Here\n[a](#here) [b](https://example.org/x) [c](mailto:a@example.org)",
            "`[a](nowhere.md)`\n```\n[a](nowhere.md)\n```\n",
            "[a]: store.md\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_broken_link_is_an_error_with_its_line() {
        let nowhere = "error: docs/spec/page.md:2: `nowhere.md` leads nowhere";
        assert_eq!(found("\n[a](nowhere.md)"), [nowhere]);
        assert_eq!(found("`a`\n[a]: nowhere.md\n"), [nowhere]);
        assert_eq!(found("[a](../../../above.md)").len(), 1);
        assert_eq!(found("[a](store.md#nothing)").len(), 1);
        assert_eq!(found("[a](#nothing)").len(), 1);
    }
}
