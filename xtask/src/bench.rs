//! `cargo xtask bench`: the benchmarks bring their rivals along, so nothing else builds them.

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;

/// Builds package `bench` in release mode and runs its binary with `args`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result {
    let mut command = workspace.cargo(["run", "--release", "--package", "bench", "--"]);
    command.args(args);
    // Not merged into one stream: a benchmark's stdout is data.
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::no(format!("bench: {status}")))
    }
}
