//! `cargo xtask examples`: what tests take from npm. Real webhook bodies, for tests and examples that need input from the
//! outside world, and the rules by which a page of the console is judged that everybody is to use.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

/// A package of npm in its pinned version, and a file that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    name: &'static str,
    version: &'static str,
    file: &'static str,
    /// The variable that tells tests where it is.
    pub(crate) variable: &'static str,
}

const WEBHOOKS: Package = Package {
    name: "@octokit/webhooks-examples",
    version: "7.6.1",
    file: "api.github.com/index.json",
    variable: "SEMEL_WEBHOOK_EXAMPLES",
};
const AXE: Package = Package {
    name: "axe-core",
    version: "4.11.0",
    file: "axe.min.js",
    variable: "SEMEL_TEST_AXE",
};
pub(crate) const PACKAGES: [Package; 2] = [WEBHOOKS, AXE];

/// Fetches the pinned versions, unless they are there.
pub(crate) fn run(workspace: &Workspace) -> Result {
    if PACKAGES.iter().any(|it| it.fetched(workspace).is_none()) {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-save",
        ])
        .arg("--prefix")
        .arg(workspace.target.join("npm"));
        // Together: npm removes what it was not asked for.
        for Package { name, version, .. } in PACKAGES {
            npm.arg(format!("{name}@{version}"));
        }
        std::fs::create_dir_all(workspace.target.join("npm"))?;
        process::log(&mut npm, &workspace.scratch().join("npm.log"))?;
    }
    for package in PACKAGES {
        let Package {
            name,
            version,
            file,
            variable,
        } = package;
        let Some(folder) = package.fetched(workspace) else {
            return Err(Failure::environment(format!(
                "{name} {version} holds no {file}"
            )));
        };
        let folder = workspace.relative(&folder);
        println!("{name} {version} is in {folder}, for {variable}");
    }
    Ok(())
}

/// The folder of the webhook bodies, if the pinned version is there.
pub(crate) fn fetched(workspace: &Workspace) -> Option<PathBuf> {
    WEBHOOKS.fetched(workspace)
}

impl Package {
    /// Its folder, if the pinned version is there.
    pub(crate) fn fetched(self, workspace: &Workspace) -> Option<PathBuf> {
        let folder = workspace.target.join("npm").join("node_modules");
        let folder = folder.join(self.name);
        let manifest = std::fs::read_to_string(folder.join("package.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_str(&manifest).ok()?;
        let is_whole = manifest["version"] == self.version && folder.join(self.file).is_file();
        is_whole.then_some(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_or_half_a_package_does_not_count() {
        let target = std::env::temp_dir().join(format!("xtask-examples-{}", std::process::id()));
        let workspace = Workspace {
            root: target.clone(),
            target: target.clone(),
            metadata: serde_json::Value::Null,
        };
        let folder = target.join("npm/node_modules").join(WEBHOOKS.name);
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        };
        assert_eq!(fetched(&workspace), None);
        let version = WEBHOOKS.version;
        write("package.json", &format!("{{\"version\":\"{version}\"}}"));
        assert_eq!(fetched(&workspace), None);
        write(WEBHOOKS.file, "[]");
        assert_eq!(fetched(&workspace), Some(folder.clone()));
        write("package.json", "{\"version\":\"0.0.1\"}");
        assert_eq!(fetched(&workspace), None);
        std::fs::remove_dir_all(target).expect("removed");
    }
}
