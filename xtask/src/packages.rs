//! Debian packages: which are missing, and their installation.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;
use crate::workspace::Workspace;

/// Installs Debian packages, if there are any to install and this process may do so.
pub(crate) fn install(workspace: &Workspace, packages: &[&str]) -> Result {
    if packages.is_empty() {
        return Ok(());
    }
    let wanted = packages.join(" ");
    if !process::on_path("apt-get") || !is_root() {
        return Err(Failure::environment(format!(
            "missing: {wanted}; install them, or run this as root on Debian"
        )));
    }
    println!("installing {wanted}");
    let mut update = Command::new("apt-get");
    process::log(
        update.args(["-qq", "update"]),
        &workspace.scratch().join("apt-update.log"),
    )?;
    let _quiet = Unstarted::until_dropped(Path::new("/usr/sbin/policy-rc.d"))?;
    let mut install = Command::new("apt-get");
    install
        .args(["-qq", "--yes", "--no-install-recommends"])
        // Another installation may be under way.
        .args(["-o", "DPkg::Lock::Timeout=300", "install"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    process::log(&mut install, &workspace.scratch().join("apt-install.log"))
}

/// The rule by which Debian starts no service that a package brings; removed when dropped.
struct Unstarted(Option<PathBuf>);

impl Unstarted {
    /// Writes the rule, unless the machine has one of its own, which stays.
    fn until_dropped(rule: &Path) -> Result<Self> {
        let mut open = OpenOptions::new();
        open.write(true).create_new(true).mode(0o755);
        match open.open(rule) {
            Ok(mut file) => {
                let written = Self(Some(rule.to_owned()));
                file.write_all(b"#!/bin/sh\nexit 101\n")?;
                Ok(written)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self(None)),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        if let Some(rule) = &self.0 {
            // Whoever removed it already wanted the same.
            let _ = fs::remove_file(rule);
        }
    }
}

/// The packages of the missing programs.
pub(crate) fn missing<'a>(
    needed: &[(&str, &'a str)],
    there: impl Fn(&str) -> bool,
) -> Vec<&'a str> {
    needed
        .iter()
        .filter(|(program, _)| !there(program))
        .map(|(_, package)| *package)
        .collect()
}

/// Returns whether this process may install packages and change users.
pub(crate) fn is_root() -> bool {
    process::capture(Command::new("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_package_starts_a_service_and_the_rule_of_the_machine_stays() {
        let rule = std::env::temp_dir().join(format!("xtask-policy-{}", std::process::id()));
        drop(Unstarted::until_dropped(&rule).expect("written"));
        assert!(!rule.exists());
        let ours = Unstarted::until_dropped(&rule).expect("written");
        let answered = Command::new("sh").arg(&rule).status().expect("it runs");
        assert_eq!(answered.code(), Some(101));
        drop(Unstarted::until_dropped(&rule).expect("there is one"));
        assert!(rule.exists());
        drop(ours);
        assert!(!rule.exists());
    }
}
