//! `cargo xtask ci`: installs on a fresh machine first what the tests need.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::packages::{install, missing};
use crate::workspace::Workspace;
use crate::{builds, clients, examples, process, promtool, services, test};

/// A program, and the Debian package that contains it.
const NEEDED: [(&str, &str); 17] = [
    ("sqlite3", "sqlite3"),
    ("python3", "python3"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("git", "git"),
    // What the pages ask a worker with.
    ("curl", "curl"),
    ("jq", "jq"),
    // The shell that checks completions and manual pages.
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("groff", "groff"),
    // The program that finds the headers below, and the cache for what is compiled from C.
    ("pkg-config", "pkg-config"),
    ("ccache", "ccache"),
    promtool::PROMTOOL,
    // What looks at the console.
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    clients::GO,
    clients::JAVAC,
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

/// Installs the languages of the clients that are missing, builds the binary, and runs the tests of the clients.
pub(crate) fn clients(workspace: &Workspace) -> Result {
    install(workspace, &missing(&clients::NEEDED, process::on_path))?;
    // With the features of the tests, so that nothing is compiled for this alone.
    let mut build = workspace.cargo(["build", "--bin", "semel"]);
    build.args(builds::tested(workspace));
    if !process::stream(build, |_| ())?.success() {
        return Err(Failure::no("the binary does not build"));
    }
    clients::run(workspace, &workspace.target.join("debug/semel"))
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
