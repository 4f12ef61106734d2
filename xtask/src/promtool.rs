//! The rules of Prometheus in `deploy/prometheus/`, checked and played by Prometheus's own tool.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;
use crate::scratch::Scratch;
use crate::workspace::Workspace;

/// The program, and the Debian package that contains it.
pub(crate) const PROMTOOL: (&str, &str) = ("promtool", "prometheus");
const RULES: &str = "deploy/prometheus";
const TESTS: &str = "deploy/prometheus/tests";

/// Checks the rules and plays their tests; returns a short summary. Without the tool it fails.
pub(crate) fn run(workspace: &Workspace) -> Result<String> {
    let (program, package) = PROMTOOL;
    if !process::on_path(program) {
        return Err(Failure::environment(format!(
            "{program} of the package {package} is not installed; `cargo xtask ci` installs it"
        )));
    }
    let rules = yaml(workspace, RULES)?;
    let tests = yaml(workspace, TESTS)?;
    // Each test has a database of its own, which takes longer on a disk than to be asked.
    let scratch = Scratch::new();
    let check = ["check", "rules", "--lint=all", "--lint-fatal"];
    for (verb, files) in [(&check[..], &rules), (&["test", "rules"], &tests)] {
        let mut command = Command::new(program);
        command.args(verb).args(files);
        scratch.lend(&mut command);
        if !process::stream(command, |_| ())?.success() {
            let message = format!("`{program} {}` finds faults", verb[..2].join(" "));
            return Err(Failure::no(message));
        }
    }
    let (rules, tests) = (rules.len(), tests.len());
    Ok(format!("{rules} files of rules, {tests} of tests"))
}

/// The YAML files in a folder. None at all is a failure: nothing would have been checked.
fn yaml(workspace: &Workspace, folder: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(workspace.root.join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "yml") {
            files.push(path);
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(Failure::no(format!("{folder} has no rules")));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_rules_is_a_failure() {
        let root = std::env::temp_dir().join(format!("xtask-promtool-{}", std::process::id()));
        let workspace = Workspace {
            root: root.clone(),
            target: root.join("target"),
            metadata: serde_json::Value::Null,
        };
        std::fs::create_dir_all(root.join(RULES)).expect("created");
        assert!(yaml(&workspace, RULES).is_err());
        for name in ["b.yml", "a.yml", "README.md"] {
            std::fs::write(root.join(RULES).join(name), "").expect("written");
        }
        let found = yaml(&workspace, RULES).expect("two");
        assert_eq!(
            found,
            ["a.yml", "b.yml"].map(|it| root.join(RULES).join(it))
        );
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
