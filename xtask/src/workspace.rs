//! The places of the workspace, and the commands that run its parts.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::process;

/// The workspace that this xtask belongs to.
pub(crate) struct Workspace {
    /// Its root folder.
    pub(crate) root: PathBuf,
    /// The folder in which cargo builds, which `CARGO_TARGET_DIR` may have moved.
    pub(crate) target: PathBuf,
    /// `cargo metadata`, packages of the workspace only.
    pub(crate) metadata: Value,
}

impl Workspace {
    /// Asks cargo, starting from the folder of this package.
    pub(crate) fn find() -> Result<Self> {
        let mut locate = Command::new(cargo_program());
        if let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR") {
            locate.current_dir(folder);
        }
        locate.args(["locate-project", "--workspace", "--message-format=plain"]);
        let manifest = PathBuf::from(process::capture(&mut locate)?.trim_end());
        // Seen from a package, that package alone would be the default member.
        let mut command = Command::new(cargo_program());
        command.args([
            "metadata",
            "--format-version=1",
            "--no-deps",
            "--manifest-path",
        ]);
        let text = process::capture(command.arg(manifest))?;
        let metadata: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::environment(format!("cargo metadata is no JSON: {error}")))?;
        let folder = |name: &str| metadata[name].as_str().map(PathBuf::from);
        match (folder("workspace_root"), folder("target_directory")) {
            (Some(root), Some(target)) => Ok(Self {
                root,
                target,
                metadata,
            }),
            _ => Err(Failure::environment("cargo metadata names no workspace")),
        }
    }

    /// `cargo` at the root.
    pub(crate) fn cargo<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root).args(args);
        command
    }

    /// The names of the packages that a plain `cargo test` covers.
    pub(crate) fn default_members(&self) -> Vec<&str> {
        let ids = self.metadata["workspace_default_members"].as_array();
        let packages = self.metadata["packages"].as_array();
        packages
            .into_iter()
            .flatten()
            .filter(|package| ids.is_some_and(|ids| ids.contains(&package["id"])))
            .filter_map(|package| package["name"].as_str())
            .collect()
    }

    /// The name of the package with this id.
    pub(crate) fn package(&self, id: &str) -> Option<&str> {
        let packages = self.metadata["packages"].as_array()?;
        let package = packages.iter().find(|package| package["id"] == id)?;
        package["name"].as_str()
    }

    /// The folder for files that automations leave behind.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.target.join("xtask")
    }

    /// `path` as seen from the root.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_more_than_this_package() {
        let workspace = Workspace::find().expect("cargo runs");
        let members = workspace.default_members();
        assert!(
            members.contains(&"xtask") && members.len() > 1,
            "{members:?}"
        );
        assert!(workspace.root.join("Cargo.lock").is_file());
    }

    #[test]
    fn only_default_members_are_tested() {
        let metadata = serde_json::json!({
            "workspace_default_members": ["a 1"],
            "packages": [{ "id": "a 1", "name": "a" }, { "id": "bench 1", "name": "bench" }],
        });
        let workspace = Workspace {
            root: "/w".into(),
            target: "/w/target".into(),
            metadata,
        };
        assert_eq!(workspace.default_members(), ["a"]);
        assert_eq!(workspace.package("bench 1"), Some("bench"));
        assert_eq!(workspace.package("c 1"), None);
        assert_eq!(workspace.relative(Path::new("/w/target/env")), "target/env");
    }
}
