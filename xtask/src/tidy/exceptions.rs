//! Lists of exceptions to the rules that the workspace still has. A list may only shrink: a finding that it does
//! not name is an error, and so is an entry that no longer holds, with its [`Repair`], which
//! `cargo xtask tidy --shrink` makes.
//!
//! A list is a text file. Lines that begin with `#` are comments; every other line is an entry, and indented lines
//! below it are its members.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::tree::Tree;

use super::Finding;

/// The lines of a list that no longer hold, and those that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repair {
    lines: RangeInclusive<usize>,
    with: Vec<String>,
}

impl Repair {
    /// Replaces its lines in `lines`, the lines of a list.
    pub(super) fn make(&self, lines: &mut Vec<String>) {
        let range = self.lines.start() - 1..*self.lines.end();
        if range.end <= lines.len() {
            lines.splice(range, self.with.iter().cloned());
        }
    }
}

/// One list.
pub(super) struct List<'a> {
    path: &'static str,
    entries: Vec<Entry<'a>>,
}

/// One entry of a list.
pub(super) struct Entry<'a> {
    line: usize,
    /// Its unindented line.
    pub(super) name: &'a str,
    /// The indented lines below.
    pub(super) members: Vec<&'a str>,
}

impl<'a> List<'a> {
    /// Reads the list at `path`; one that is missing allows nothing.
    pub(super) fn read(tree: &'a Tree, path: &'static str) -> Self {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for (number, line) in tree.text(path).unwrap_or_default().lines().enumerate() {
            let name = line.trim();
            if name.is_empty() || name.starts_with('#') {
                continue;
            }
            match entries.last_mut() {
                Some(entry) if line.starts_with(' ') => entry.members.push(name),
                _ => entries.push(Entry {
                    line: number + 1,
                    name,
                    members: Vec::new(),
                }),
            }
        }
        Self { path, entries }
    }

    /// Its entries, in the order of the file.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<'a>> {
        self.entries.iter()
    }

    /// The error of an entry that no longer holds, or no longer whole: `now` are the lines that do.
    pub(super) fn shrunk(&self, entry: &Entry<'_>, why: &str, now: Vec<String>) -> Finding {
        let what = match now.as_slice() {
            [] => "remove it".to_owned(),
            [line] => format!("make it `{line}`"),
            [..] => "shrink it".to_owned(),
        };
        let name = entry.name;
        let message =
            format!("`{name}` {why}: {what} here; `cargo xtask tidy --shrink` does it for you");
        Finding {
            repair: Some(Repair {
                lines: entry.line..=entry.line + entry.members.len(),
                with: now,
            }),
            ..Finding::error(self.path, entry.line, message)
        }
    }

    /// Compares the findings, by name, with a list of names.
    pub(super) fn of_names(&self, mut found: BTreeMap<&str, Finding>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for entry in &self.entries {
            if found.remove(entry.name).is_none() {
                findings.push(self.shrunk(entry, "is no exception any more", Vec::new()));
            }
        }
        findings.extend(found.into_values());
        findings
    }

    /// Compares the counts, by name, with a list of names and counts: `docs/a.md 3`. `over` makes the error of a
    /// name, the allowed count, and the actual one.
    pub(super) fn of_counts(
        &self,
        mut found: BTreeMap<&str, usize>,
        over: impl Fn(&str, usize, usize) -> Finding,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for entry in &self.entries {
            let count = |(name, count): (&'a str, &str)| Some((name, count.parse::<usize>().ok()?));
            let Some((name, allowed)) = entry.name.rsplit_once(' ').and_then(count) else {
                let message = format!("`{}` is no name and number", entry.name);
                findings.push(Finding::error(self.path, entry.line, message));
                continue;
            };
            match found.remove(name).unwrap_or_default() {
                0 => findings.push(self.shrunk(entry, "has come to 0", Vec::new())),
                now if now < allowed => {
                    let line = vec![format!("{name} {now}")];
                    findings.push(self.shrunk(entry, &format!("has come to {now}"), line));
                }
                now if now > allowed => findings.push(over(name, allowed, now)),
                _ => {}
            }
        }
        let rest = found.into_iter().filter(|(_, now)| *now > 0);
        findings.extend(rest.map(|(name, now)| over(name, 0, now)));
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "a.txt";
    const LIST: &str = "# Why.\n# More.\nfirst\n  one\n  two\nsecond\n";

    fn messages(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn entries_have_members() {
        let tree = Tree::of(&[(PATH, LIST)]);
        let list = List::read(&tree, PATH);
        let entries: Vec<_> = list.entries().map(|it| (it.name, &it.members)).collect();
        assert_eq!(
            entries,
            [("first", &vec!["one", "two"]), ("second", &Vec::new())]
        );
        assert_eq!(List::read(&tree, "b.txt").entries().count(), 0);
    }

    #[test]
    fn an_entry_that_holds_no_longer_is_an_error_with_its_repair() {
        let tree = Tree::of(&[(PATH, LIST)]);
        let list = List::read(&tree, PATH);
        let known = Finding::error("x.rs", 0, "is refused");
        let found = list.of_names(BTreeMap::from([("second", known.clone())]));
        let gone = "error: a.txt:3: `first` is no exception any more: remove it here; \
                    `cargo xtask tidy --shrink` does it for you";
        assert_eq!(messages(&found), [gone]);
        let mut lines: Vec<String> = LIST.lines().map(ToOwned::to_owned).collect();
        found[0]
            .repair
            .as_ref()
            .expect("it has one")
            .make(&mut lines);
        assert_eq!(lines, ["# Why.", "# More.", "second"]);

        let new = BTreeMap::from([
            ("first", known.clone()),
            ("second", known.clone()),
            ("third", known),
        ]);
        assert_eq!(messages(&list.of_names(new)), ["error: x.rs: is refused"]);
    }

    #[test]
    fn counts_only_go_down() {
        let tree = Tree::of(&[(PATH, "a 2\nb 3\nc 4\nd\n")]);
        let list = List::read(&tree, PATH);
        let over = |name: &str, allowed, now| Finding::error(name, 0, format!("{now} > {allowed}"));
        let found = list.of_counts(
            BTreeMap::from([("a", 3), ("b", 2), ("e", 1), ("f", 0)]),
            over,
        );
        let shrink = "here; `cargo xtask tidy --shrink` does it for you";
        assert_eq!(
            messages(&found),
            [
                "error: a: 3 > 2".to_owned(),
                format!("error: a.txt:2: `b 3` has come to 2: make it `b 2` {shrink}"),
                format!("error: a.txt:3: `c 4` has come to 0: remove it {shrink}"),
                "error: a.txt:4: `d` is no name and number".to_owned(),
                "error: e: 1 > 0".to_owned(),
            ]
        );
        let mut lines = vec!["a 2".to_owned(), "b 3".to_owned()];
        found[1]
            .repair
            .as_ref()
            .expect("it has one")
            .make(&mut lines);
        assert_eq!(lines, ["a 2", "b 2"]);
        assert_eq!(
            list.of_counts(BTreeMap::from([("a", 2), ("b", 3), ("c", 4)]), over)
                .len(),
            1
        );
    }
}
