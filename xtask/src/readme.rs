//! `cargo xtask readme`: checks that the binary prints what the README, the book and the
//! examples show on a console.
//!
//! A block counts when `<!-- check -->` stands on the line before its ```` ```console ````. The
//! blocks of a page run in order, in one fresh folder that holds a copy of `examples/` and `deploy/`,
//! with `semel` on the path. Each block is one shell session. A command must succeed, unless the next
//! one is `echo $?`.

mod block;
mod expected;
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::builds::{self, Profile};
use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::test_results::{Checks, Failed, Tail};
use crate::tree::Tree;
use crate::workspace::Workspace;
use crate::{examples, process, readme::block::Block, readme::session::Session};

/// Runs every checked block, with the addresses of `servers`, and says how many print what they show.
pub(crate) fn run(workspace: &Workspace, servers: &Borrowed) -> Result {
    let Checks { passed, failures } = blocks(workspace, servers)?;
    if failures.is_empty() {
        println!("readme: {passed} checked blocks print what they show");
        return Ok(());
    }
    let failed = failures.len();
    Err(Failure::no(format!(
        "{failed} checked blocks fail, {passed} print what they show"
    )))
}

/// Runs every checked block; prints what failed.
pub(crate) fn blocks(workspace: &Workspace, servers: &Borrowed) -> Result<Checks> {
    let tree = Tree::read(&workspace.root)?;
    let pages = pages(&tree)?;
    let mut build = builds::programs(workspace);
    build.arg("--quiet");
    if !process::stream(build, |_| ())?.success() {
        return Err(Failure::no("what the pages run does not build"));
    }
    let mut checks = Checks::default();
    for (path, blocks) in &pages {
        let folder = Folder::create(workspace, path)?;
        let mut session = Session::new(&folder.0, &Profile::Dev.folder(workspace));
        session.set("SEMEL_EXAMPLES", workspace.target.join("debug/examples"));
        for (variable, url) in servers.variables() {
            session.set(variable, url);
        }
        if let Some(fetched) = examples::fetched(workspace) {
            session.set("SEMEL_WEBHOOK_EXAMPLES", fetched);
        }
        for block in blocks {
            match session.run(block)? {
                None => checks.passed += 1,
                Some(fault) => {
                    let name = format!("{path}:{}", block.line);
                    println!("{name}: {fault}\n");
                    let mut said = Tail::default();
                    fault.lines().for_each(|line| said.push(line));
                    checks.failures.push(Failed { name, said });
                }
            }
        }
    }
    Ok(checks)
}

/// The pages with checked blocks. A README without any proves nothing.
fn pages(tree: &Tree) -> Result<Vec<(&str, Vec<Block>)>> {
    let readme = tree.texts("README.md", "README.md");
    let mut pages = Vec::new();
    let others = ["docs/book/src/", "examples/"].into_iter();
    for (path, text) in readme.chain(others.flat_map(|folder| tree.texts(folder, ".md"))) {
        let blocks = block::read(text)
            .map_err(|(line, fault)| Failure::no(format!("{path}:{line}: {fault}")))?;
        if !blocks.is_empty() {
            pages.push((path, blocks));
        }
    }
    if pages.first().is_none_or(|(path, _)| *path != "README.md") {
        return Err(Failure::no(
            "README.md has no block marked `<!-- check -->`",
        ));
    }
    Ok(pages)
}

/// A fresh folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn create(workspace: &Workspace, page: &str) -> Result<Self> {
        let name = format!(
            "semel-readme-{}-{}",
            std::process::id(),
            page.replace('/', "-")
        );
        let folder = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0)?;
        for file in example_files(workspace)? {
            let to = folder.0.join(&file);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(workspace.root.join(&file), to)?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// The tracked files below `examples/` and `deploy/` and of the library's examples, which a reader's
/// clone has too.
fn example_files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args([
        "ls-files",
        "-z",
        "--",
        "deploy",
        "examples",
        "crates/semel/examples",
    ]);
    let list = process::capture(&mut git)?;
    let files = list
        .split('\0')
        .filter(|file| !file.is_empty())
        .map(PathBuf::from);
    Ok(files
        .filter(|file| Path::new(&workspace.root).join(file).is_file())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_readme_without_checked_blocks_is_an_error() {
        let checked = "<!-- check -->\n```console\n$ true\n```\n";
        let page = ("docs/book/src/guide.md", checked);
        let faults = |files: &[(&str, &str)]| pages(&Tree::of(files)).is_err();
        assert!(!faults(&[("README.md", checked), page]));
        assert!(faults(&[("README.md", "```console\n$ true\n```\n"), page]));
        assert!(faults(&[page]));
        assert!(faults(&[
            ("README.md", checked),
            ("docs/book/src/a.md", "<!-- check -->\n")
        ]));
    }
}
