//! Dependencies that are banned: a runtime in `core`, a second crypto library or a C++ toolchain in
//! the default binary.

use crate::failure::Result;
use crate::process;
use crate::workspace::Workspace;

use super::Finding;

/// A package, the edges to follow, and the packages that must not be found.
struct Ban {
    package: &'static str,
    manifest: &'static str,
    edges: &'static str,
    banned: &'static [&'static str],
}

const BANS: &[Ban] = &[
    Ban {
        package: "semel-core",
        manifest: "crates/core/Cargo.toml",
        edges: "normal",
        banned: &["tokio", "async-std", "smol", "futures-executor"],
    },
    Ban {
        package: "semel-cli",
        manifest: "crates/cli/Cargo.toml",
        edges: "normal,build",
        banned: &["aws-lc-sys", "aws-lc-rs", "cmake", "bindgen", "openssl-sys"],
    },
];

/// Asks cargo for the graph of each package and looks for banned packages.
pub(super) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ban in BANS {
        let tree = process::capture(&mut workspace.cargo([
            "tree",
            "--package",
            ban.package,
            "--edges",
            ban.edges,
            "--prefix",
            "none",
            "--format",
            "{p}",
        ]))?;
        findings.extend(ban.find(&tree));
    }
    Ok(findings)
}

impl Ban {
    fn find(&self, tree: &str) -> Vec<Finding> {
        let names: Vec<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        if names.first() != Some(&self.package) {
            let message = format!("cargo tree does not begin with {}", self.package);
            return vec![Finding::error(self.manifest, 0, message)];
        }
        self.banned
            .iter()
            .filter(|banned| names.contains(banned))
            .map(|banned| {
                let message = format!(
                    "{} pulls in {banned}; `cargo tree -p {} -i {banned}` shows how",
                    self.package, self.package
                );
                Finding::error(self.manifest, 0, message)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_package_is_found_and_no_tree_is_no_proof() {
        let ban = &BANS[0];
        assert_eq!(ban.find("semel-core v0.1.0 (dir)\nbytes v1.12.1\n"), []);
        assert_eq!(
            ban.find("semel-core v0.1.0 (dir)\nbytes v1.12.1\ntokio v1.54.1 (*)\n")
                .len(),
            1
        );
        assert_eq!(ban.find("semel-core v0.1.0 (dir)\ntokio-util v0.7.0\n"), []);
        assert_eq!(ban.find("").len(), 1);
    }
}
