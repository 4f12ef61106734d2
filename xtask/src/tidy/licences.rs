//! Every dependency of Semel has a licence that `deny.toml` accepts.

use std::collections::BTreeSet;

use crate::failure::Result;
use crate::process;
use crate::tree::Tree;
use crate::workspace::Workspace;

use super::Finding;

const DENY: &str = "deny.toml";

/// Asks cargo for the licence of every package that the default members are built from.
pub(super) fn check(workspace: &Workspace, tree: &Tree) -> Result<Vec<Finding>> {
    let mut command = workspace.cargo(["tree", "--edges", "normal,build", "--prefix", "none"]);
    let packages = process::capture(command.args(["--format", "{l}\t{p}"]))?;
    Ok(find(&packages, tree.text(DENY).unwrap_or_default()))
}

fn find(packages: &str, deny: &str) -> Vec<Finding> {
    let accepted = accepted(deny);
    let packages: BTreeSet<(&str, &str)> = packages
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    if accepted.is_empty() || packages.is_empty() {
        return vec![Finding::error(
            DENY,
            0,
            "accepts no licence, or nothing is built",
        )];
    }
    packages
        .into_iter()
        .filter(|(licence, _)| !Expression::accepts(licence, &accepted))
        .map(|(licence, package)| {
            let name = package.split(" (").next().unwrap_or(package);
            Finding::error(DENY, 0, format!("{name} is licensed `{licence}`"))
        })
        .collect()
}

/// The strings of `allow = […]`.
fn accepted(deny: &str) -> BTreeSet<&str> {
    let list = deny
        .split_once("\nallow = [")
        .and_then(|(_, rest)| rest.split_once(']'));
    list.map_or_else(BTreeSet::new, |(list, _)| {
        list.split('"').skip(1).step_by(2).collect()
    })
}

/// A licence expression, read from left to right; `AND` binds tighter than `OR`.
struct Expression<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
    accepted: &'a BTreeSet<&'a str>,
}

impl Expression<'_> {
    fn accepts(text: &str, accepted: &BTreeSet<&str>) -> bool {
        let text = text
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut expression = Expression {
            words: words.into_iter().peekable(),
            accepted,
        };
        expression.any() && expression.words.next().is_none()
    }

    fn any(&mut self) -> bool {
        let mut accepted = self.all();
        while self.words.next_if_eq(&"OR").is_some() {
            accepted |= self.all();
        }
        accepted
    }

    fn all(&mut self) -> bool {
        let mut accepted = self.one();
        while self.words.next_if_eq(&"AND").is_some() {
            accepted &= self.one();
        }
        accepted
    }

    fn one(&mut self) -> bool {
        if self.words.next_if_eq(&"(").is_some() {
            return self.any() & self.words.next_if_eq(&")").is_some();
        }
        let Some(name) = self.words.next() else {
            return false;
        };
        match self
            .words
            .next_if_eq(&"WITH")
            .and_then(|_| self.words.next())
        {
            Some(exception) => self
                .accepted
                .contains(format!("{name} WITH {exception}").as_str()),
            None => self.accepted.contains(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTING: &str = "[licenses]\nallow = [\n    \"MIT\",\n    \"ISC\", \"A WITH e\",\n]\n";

    fn accepts(licence: &str) -> bool {
        find(&format!("{licence}\tsome v1.0.0 (dir)\n"), ACCEPTING).is_empty()
    }

    #[test]
    fn one_accepted_choice_is_enough() {
        for licence in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "(GPL-3.0 OR MIT) AND ISC",
            "A WITH e",
        ] {
            assert!(accepts(licence), "{licence}");
        }
    }

    #[test]
    fn anything_else_is_an_error() {
        for licence in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR B)",
            "A",
            "(MIT",
            "MIT)",
        ] {
            assert!(!accepts(licence), "{licence}");
        }
        let found = find("B\tsome v1.0.0 (dir)\n", ACCEPTING);
        assert_eq!(found[0].message, "some v1.0.0 is licensed `B`");
        assert_eq!(find("", ACCEPTING).len(), 1);
        assert_eq!(find("MIT\ta v1.0.0", "").len(), 1);
    }
}
