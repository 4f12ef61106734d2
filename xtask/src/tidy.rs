//! `cargo xtask tidy`: the rules of the house that no compiler knows. Each rule is a module with a
//! function from its input to its findings, and tests that show it finding something.

mod alerts;
mod architecture;
mod arrows;
mod book;
mod changelog;
mod circles;
mod clippy_files;
mod code;
mod codes;
mod counts;
mod doc_openings;
mod exceptions;
mod file_names;
mod glossary;
mod graph;
mod imports;
mod laws;
mod length;
mod licences;
mod links;
mod long_lines;
mod proof;
mod terms;

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, fs};

use self::exceptions::Repair;
use crate::failure::{Failure, Result};
use crate::rust::Source;
use crate::tree::Tree;
use crate::workspace::Workspace;

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    fatal: bool,
    path: String,
    line: usize,
    message: String,
    /// The lines that correct an error of a list.
    repair: Option<Repair>,
}

impl Finding {
    /// A broken rule. Line 0 means the whole file.
    fn error(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            fatal: true,
            path: path.to_owned(),
            line,
            message: message.into(),
            repair: None,
        }
    }

    /// A finding to look at that fails nothing.
    fn warning(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            fatal: false,
            ..Self::error(path, line, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}",
            if self.fatal { "error" } else { "warning" },
            self.path
        )?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Runs every check, prints the findings, and returns a short summary.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    report(&find(workspace)?)
}

/// Removes entries from the lists of exceptions that no longer hold, and reports the rest.
pub(crate) fn shrink(workspace: &Workspace) -> Result {
    let (mut repaired, rest): (Vec<_>, Vec<_>) = find(workspace)?
        .into_iter()
        .partition(|finding| finding.repair.is_some());
    // From the end, so that the lines in front stay in place.
    repaired.sort_by_key(|finding| std::cmp::Reverse(finding.line));
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in &repaired {
        let path = finding.path.as_str();
        if !texts.contains_key(path) {
            let text = fs::read_to_string(workspace.root.join(path))?;
            texts.insert(path, text.lines().map(ToOwned::to_owned).collect());
        }
        if let (Some(repair), Some(lines)) = (&finding.repair, texts.get_mut(path)) {
            repair.make(lines);
        }
    }
    for (path, lines) in texts {
        fs::write(workspace.root.join(path), lines.join("\n") + "\n")?;
        println!("{path}: shrunk");
    }
    report(&rest).map(drop)
}

fn find(workspace: &Workspace) -> Result<Vec<Finding>> {
    let tree = Tree::read(&workspace.root)?;
    let sources = sources(&tree);
    Ok([
        architecture::check(&tree, &sources),
        arrows::check(&workspace.metadata),
        graph::check(workspace)?,
        licences::check(workspace, &tree)?,
        laws::check(&tree),
        codes::check(&tree),
        glossary::check(&tree, &sources),
        terms::check(&tree, &sources),
        book::check(&tree),
        proof::check(&tree),
        counts::check(&tree),
        links::check(&tree),
        long_lines::check(&tree),
        changelog::check(&tree),
        clippy_files::check(&tree),
        code::check(&sources),
        length::check(&sources),
        circles::check(&tree, &sources),
        file_names::check(&tree),
        doc_openings::check(&tree, &sources),
        alerts::check(&tree),
    ]
    .concat())
}

fn report(findings: &[Finding]) -> Result<String> {
    for finding in findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.fatal).count();
    let warnings = findings.len() - errors;
    let summary = format!("{errors} errors, {warnings} warnings");
    if errors > 0 {
        return Err(Failure::no(format!("tidy: {summary}")));
    }
    println!("tidy: {summary}");
    Ok(summary)
}

/// Every Rust source by its path, read once.
fn sources(tree: &Tree) -> Vec<(&str, Source<'_>)> {
    let sources = tree.rust();
    sources
        .map(|(path, text)| (path, Source::new(text)))
        .collect()
}

/// The folders of the packages.
fn packages(tree: &Tree) -> BTreeSet<&str> {
    tree.texts("", "/Cargo.toml")
        .map(|(path, _)| path.trim_end_matches("/Cargo.toml"))
        .collect()
}

/// The one of `packages` that a file belongs to.
fn package<'a>(packages: &BTreeSet<&'a str>, path: &str) -> Option<&'a str> {
    let mut folders = path.match_indices('/').rev();
    folders.find_map(|(end, _)| packages.get(&path[..end]).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_like_a_compiler_message() {
        let finding = Finding::error("a/b.rs", 3, "no such thing");
        assert_eq!(finding.to_string(), "error: a/b.rs:3: no such thing");
        let finding = Finding::warning("a/b.rs", 0, "too long");
        assert_eq!(finding.to_string(), "warning: a/b.rs: too long");
    }
}
