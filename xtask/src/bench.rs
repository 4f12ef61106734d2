//! `cargo xtask bench`: the benchmarks bring their rivals along, so nothing else builds them.

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// Builds package `bench` in release mode, and the binary that some of it measures, and runs it with
/// `args`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result {
    if args.is_empty() || args.contains(&"dedup") {
        let mut build = workspace.cargo(["build", "--release", "--package", "semel-cli"]);
        if !build.status()?.success() {
            return Err(Failure::no("the release binary does not build"));
        }
    }
    let mut command = workspace.cargo(["run", "--release", "--package", "bench", "--"]);
    command.args(args).env("SEMEL_BIN", workspace.semel());
    // Not merged into one stream: a benchmark's stdout is data.
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::no(format!("bench: {status}")))
    }
}
