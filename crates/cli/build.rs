//! Sets the text of `semel --version`: the version, the commit and the features of the build.
//!
//! `SEMEL_COMMIT` names the commit where there is no repository, or where a build is to be the same everywhere. A
//! build without optimisation names none, so that a commit does not compile this crate anew.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SEMEL_COMMIT");
    let version = env("CARGO_PKG_VERSION");
    let commit = match std::env::var("SEMEL_COMMIT") {
        Ok(commit) if !commit.trim().is_empty() => commit.trim().to_owned(),
        Ok(_) | Err(_) if env("PROFILE") == "debug" => "debug build".to_owned(),
        Ok(_) | Err(_) => commit().unwrap_or_else(|| "unknown commit".to_owned()),
    };
    let features = FEATURES.iter().filter(|name| {
        let name = name.to_uppercase().replace('-', "_");
        std::env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
    });
    let features: Vec<_> = features.copied().collect();
    let features = if features.is_empty() {
        "none".to_owned()
    } else {
        features.join(", ")
    };
    println!("cargo::rustc-env=SEMEL_VERSION={version} ({commit}) features: {features}");
    // Tests start a debug build thousands of times. At a fixed address it has nothing to relocate, which was half of
    // what a start costs.
    if env("PROFILE") == "debug" && env("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// The commit that is checked out, and its day.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // An unpacked package inside another repository does not belong to that repository's commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let commit = git(&["log", "-1", "--abbrev=7", "--format=%h %cs"])?;
    // This log grows with every commit and every checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    Some(commit)
}

/// The value of a variable that cargo sets for every build script.
fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Features that say what the program can do, in alphabetical order; features that only gather others are left
/// out.
const FEATURES: [&str; 8] = [
    "amqp",
    "jemalloc",
    "kafka",
    "kafka-tls",
    "mysql",
    "nats",
    "postgres",
    "redis",
];
