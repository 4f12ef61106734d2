//! `cargo xtask ci`: installs on a fresh machine first what the tests need.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use crate::{examples, process, promtool, services, test};

/// A program, and the Debian package that contains it.
const NEEDED: [(&str, &str); 10] = [
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("git", "git"),
    // The shell that checks completions and manual pages.
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("groff", "groff"),
    // The program that finds the headers below.
    ("pkg-config", "pkg-config"),
    promtool::PROMTOOL,
];

/// A header, and the Debian package that contains it: librdkafka uses the system's TLS.
const HEADERS: [(&str, &str); 1] = [("/usr/include/openssl/ssl.h", "libssl-dev")];

/// Installs, fetches, tests.
pub(crate) fn run(workspace: &Workspace) -> Result {
    let mut packages = missing(&NEEDED, process::on_path);
    packages.extend(missing(&HEADERS, |header| Path::new(header).exists()));
    packages.extend(services::packages());
    install(workspace, &packages)?;
    examples::run(workspace)?;
    test::run(workspace, test::Extent::Whole)
}

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
    let mut install = Command::new("apt-get");
    install
        .args(["-qq", "--yes", "--no-install-recommends"])
        // Another installation may be under way.
        .args(["-o", "DPkg::Lock::Timeout=300", "install"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    process::log(&mut install, &workspace.scratch().join("apt-install.log"))
}

/// The packages of the missing programs.
fn missing<'a>(needed: &[(&str, &'a str)], there: impl Fn(&str) -> bool) -> Vec<&'a str> {
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
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing(&NEEDED, |program| program != "node"), ["nodejs"]);
        assert_eq!(missing(&NEEDED, |_| true), [""; 0]);
    }
}
