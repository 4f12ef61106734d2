//! `cargo xtask examples`: real webhook bodies, published as an npm package, for tests and examples
//! that need input from the outside world.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

const PACKAGE: &str = "@octokit/webhooks-examples";
const VERSION: &str = "7.6.1";
/// The file of the package that holds the examples.
const INDEX: &str = "api.github.com/index.json";

/// Fetches the pinned version, unless it is there.
pub(crate) fn run(workspace: &Workspace) -> Result {
    if fetched(workspace).is_none() {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-save",
        ])
        .arg("--prefix")
        .arg(workspace.target.join("npm"))
        .arg(format!("{PACKAGE}@{VERSION}"));
        std::fs::create_dir_all(workspace.target.join("npm"))?;
        process::log(&mut npm, &workspace.scratch().join("npm.log"))?;
    }
    let Some(folder) = fetched(workspace) else {
        return Err(Failure::environment(format!(
            "{PACKAGE} {VERSION} holds no {INDEX}"
        )));
    };
    println!("{PACKAGE} {VERSION} is in {}", workspace.relative(&folder));
    Ok(())
}

/// The folder of the package, if the pinned version is there.
pub(crate) fn fetched(workspace: &Workspace) -> Option<PathBuf> {
    let folder = workspace
        .target
        .join("npm")
        .join("node_modules")
        .join(PACKAGE);
    let manifest = std::fs::read_to_string(folder.join("package.json")).ok()?;
    let manifest: serde_json::Value = serde_json::from_str(&manifest).ok()?;
    (manifest["version"] == VERSION && folder.join(INDEX).is_file()).then_some(folder)
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
        let folder = target.join("npm/node_modules").join(PACKAGE);
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            std::fs::write(path, text).expect("written");
        };
        assert_eq!(fetched(&workspace), None);
        write("package.json", &format!("{{\"version\":\"{VERSION}\"}}"));
        assert_eq!(fetched(&workspace), None);
        write(INDEX, "[]");
        assert_eq!(fetched(&workspace), Some(folder.clone()));
        write("package.json", "{\"version\":\"0.0.1\"}");
        assert_eq!(fetched(&workspace), None);
        std::fs::remove_dir_all(target).expect("removed");
    }
}
