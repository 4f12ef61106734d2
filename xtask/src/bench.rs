//! `cargo xtask bench`: the benchmarks bring their rivals along, so nothing else builds them.

use crate::builds::{EVERYTHING, Profile};
use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::workspace::Workspace;

/// Builds package `bench` in release mode, and the binary that some of it measures, and runs it with
/// `args`.
pub(crate) fn run(workspace: &Workspace, args: &[&str]) -> Result {
    if args.is_empty() || args.iter().any(|name| OF_THE_BINARY.contains(name)) {
        let package = ["build", "--release", "--package", "semel-cli", EVERYTHING];
        let mut build = workspace.cargo(package);
        if !build.status()?.success() {
            return Err(Failure::no("the release binary does not build"));
        }
    }
    if args.is_empty() || args.iter().any(|name| ON_SERVERS.contains(name)) {
        Borrowed::beside(workspace, &[], |servers| {
            measure(workspace, args, Some(servers))
        })
    } else {
        measure(workspace, args, None)
    }
}

fn measure(workspace: &Workspace, args: &[&str], servers: Option<&Borrowed>) -> Result {
    let mut command = workspace.cargo(["run", "--release", "--package", "bench", "--"]);
    command
        .args(args)
        .env("SEMEL_BIN", Profile::Release.semel(workspace));
    if let Some(servers) = servers {
        servers.lend(&mut command);
    }
    // Not merged into one stream: a benchmark's stdout is data.
    let status = command.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::no(format!("bench: {status}")))
    }
}

/// Benchmarks of the binary.
const OF_THE_BINARY: [&str; 15] = [
    "console",
    "dedup",
    "operate",
    "sql",
    "kafka",
    "kafka-streams",
    "nats",
    "rabbitmq",
    "telemetry-sql",
    "telemetry-redis",
    "telemetry-kafka",
    "gateway",
    "claims",
    "publish",
    "ingest",
];
/// Benchmarks that need servers.
const ON_SERVERS: [&str; 11] = [
    "postgres",
    "redis",
    "mysql",
    "kafka",
    "kafka-streams",
    "nats",
    "rabbitmq",
    "restore",
    "publish",
    "telemetry-redis",
    "telemetry-kafka",
];
