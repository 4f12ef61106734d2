//! The files of the workspace, read once, so that checks are functions over text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::failure::Result;

/// Every path of the workspace, and the text of those that checks read. Paths are relative to
/// the root and use `/`.
#[derive(Default)]
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the workspace below `root`, without built, fetched or hidden files.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    /// A tree of these files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.insert((*path).to_owned(), Some((*text).to_owned()));
        }
        tree
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// The texts whose path begins with `prefix` and ends with `suffix`.
    pub(crate) fn texts<'a>(
        &'a self,
        prefix: &'a str,
        suffix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.starts_with(prefix) && path.ends_with(suffix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust sources.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("", ".rs")
    }

    /// All Markdown pages.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("", ".md")
    }

    /// Returns whether there is a file or folder at `path`.
    pub(crate) fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path)
    }

    fn insert(&mut self, path: String, text: Option<String>) {
        for (at, _) in path.match_indices('/') {
            self.paths.insert(path[..at].to_owned());
        }
        self.paths.insert(path.clone());
        if let Some(text) = text {
            self.texts.insert(path, text);
        }
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !IGNORED_FOLDERS.contains(&name.as_str()) {
                    self.insert(path.clone(), None);
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else {
                let extension = Path::new(&name).extension().and_then(|e| e.to_str());
                let read = extension.is_some_and(|extension| READ.contains(&extension));
                let text = if read {
                    fs::read_to_string(entry.path()).ok()
                } else {
                    None
                };
                self.insert(path, text);
            }
        }
        Ok(())
    }
}

const IGNORED_FOLDERS: [&str; 4] = [".git", "target", "node_modules", "semel-data"];
const READ: [&str; 6] = ["rs", "md", "toml", "json", "txt", "yml"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_once_a_file_is_in_them() {
        let tree = Tree::of(&[("docs/spec/README.md", "# Spec")]);
        assert!(tree.exists("docs/spec"));
        assert!(tree.exists("docs/spec/README.md"));
        assert!(!tree.exists("docs/book"));
        assert_eq!(tree.markdown().count(), 1);
        assert_eq!(tree.texts("docs/", ".rs").count(), 0);
    }
}
