//! Dependencies inside the workspace point one way only (docs/decisions/0001).

use serde_json::Value;

use super::Finding;

/// One allowed arrow: from, to, and whether only tests may use it. A trailing `*` stands for any
/// package of that folder.
struct Arrow(&'static str, &'static str, Use);

#[derive(PartialEq)]
enum Use {
    Normal,
    Tests,
}

const ALLOWED: &[Arrow] = &[
    Arrow("crates/cli", "crates/supervisor", Use::Normal),
    Arrow("crates/cli", "crates/backends", Use::Normal),
    Arrow("crates/cli", "crates/gameday", Use::Normal),
    Arrow("crates/cli", "crates/operate", Use::Normal),
    // It starts the worker as a process, and knows it from outside alone.
    Arrow("crates/gameday", "crates/core", Use::Normal),
    Arrow("crates/gameday", "crates/free-port", Use::Normal),
    Arrow("crates/cli", "crates/config", Use::Normal),
    Arrow("crates/cli", "crates/worker", Use::Normal),
    Arrow("crates/cli", "crates/engine", Use::Normal),
    Arrow("crates/cli", "crates/core", Use::Normal),
    Arrow("crates/cli", "crates/brokers/*", Use::Normal),
    Arrow("crates/gateway", "crates/engine", Use::Normal),
    Arrow("crates/gateway", "crates/core", Use::Normal),
    Arrow("crates/gateway", "crates/http", Use::Normal),
    Arrow("crates/gateway", "crates/stores/memory", Use::Tests),
    // The other side of the same header: its intents are operations of the engine, their outcomes those of the gateway.
    Arrow("crates/client", "crates/gateway", Use::Normal),
    Arrow("crates/client", "crates/engine", Use::Normal),
    Arrow("crates/client", "crates/core", Use::Normal),
    Arrow("crates/client", "crates/stores/embedded", Use::Tests),
    Arrow("crates/client", "crates/stores/memory", Use::Tests),
    // Its tests are built with every feature.
    Arrow("crates/client", "crates/client", Use::Tests),
    // The same layer around what forwards to another server.
    Arrow("crates/proxy", "crates/gateway", Use::Normal),
    Arrow("crates/proxy", "crates/engine", Use::Normal),
    Arrow("crates/proxy", "crates/core", Use::Normal),
    Arrow("crates/proxy", "crates/http", Use::Normal),
    Arrow("crates/proxy", "crates/tls", Use::Normal),
    Arrow("crates/proxy", "crates/stores/memory", Use::Tests),
    Arrow("crates/proxy", "crates/conformance", Use::Tests),
    // Problems, callers and tokens, and the listener: what every API stands on.
    Arrow("crates/http", "crates/core", Use::Normal),
    Arrow("crates/http", "crates/conformance", Use::Tests),
    // The claim API: calls of the engine, answered as HTTP.
    Arrow("crates/claims", "crates/http", Use::Normal),
    Arrow("crates/claims", "crates/engine", Use::Normal),
    Arrow("crates/claims", "crates/core", Use::Normal),
    Arrow("crates/claims", "crates/stores/memory", Use::Tests),
    Arrow("crates/claims", "crates/conformance", Use::Tests),
    // The admin API: reports of the verbs, answered as HTTP.
    Arrow("crates/admin", "crates/http", Use::Normal),
    Arrow("crates/admin", "crates/operate", Use::Normal),
    Arrow("crates/admin", "crates/config", Use::Normal),
    Arrow("crates/admin", "crates/worker", Use::Normal),
    Arrow("crates/admin", "crates/core", Use::Normal),
    Arrow("crates/admin", "crates/engine", Use::Tests),
    Arrow("crates/admin", "crates/stores/memory", Use::Tests),
    Arrow("crates/admin", "crates/conformance", Use::Tests),
    // The console: pages over the admin API, which they ask as a router.
    Arrow("crates/console", "crates/http", Use::Normal),
    Arrow("crates/console", "crates/core", Use::Normal),
    Arrow("crates/console", "crates/admin", Use::Tests),
    Arrow("crates/console", "crates/config", Use::Tests),
    Arrow("crates/console", "crates/conformance", Use::Tests),
    Arrow("crates/console", "crates/stores/memory", Use::Tests),
    // The client of the admin API: its answers are the reports of the verbs.
    Arrow("crates/remote", "crates/operate", Use::Normal),
    Arrow("crates/remote", "crates/core", Use::Normal),
    Arrow("crates/remote", "crates/tls", Use::Normal),
    Arrow("crates/cli", "crates/remote", Use::Normal),
    // What was typed.
    Arrow("crates/cli", "crates/args", Use::Normal),
    Arrow("crates/args", "crates/config", Use::Normal),
    Arrow("crates/args", "crates/core", Use::Normal),
    Arrow("crates/args", "crates/gameday", Use::Normal),
    Arrow("crates/args", "crates/render", Use::Normal),
    Arrow("crates/args", "crates/supervisor", Use::Normal),
    Arrow("crates/args", "crates/worker", Use::Normal),
    // What a check looks at.
    Arrow("crates/cli", "crates/check", Use::Normal),
    // A worker checks itself, for its admin API.
    Arrow("crates/supervisor", "crates/check", Use::Normal),
    Arrow("crates/check", "crates/backends", Use::Normal),
    Arrow("crates/check", "crates/brokers/file", Use::Normal),
    Arrow("crates/check", "crates/config", Use::Normal),
    Arrow("crates/check", "crates/core", Use::Normal),
    Arrow("crates/check", "crates/engine", Use::Normal),
    Arrow("crates/check", "crates/http", Use::Normal),
    Arrow("crates/check", "crates/operate", Use::Normal),
    Arrow("crates/check", "crates/stores/memory", Use::Tests),
    Arrow("crates/check", "crates/worker", Use::Normal),
    // What an operator sees: reports, and the notices of a supervisor, in words.
    Arrow("crates/cli", "crates/render", Use::Normal),
    Arrow("crates/render", "crates/supervisor", Use::Normal),
    Arrow("crates/render", "crates/operate", Use::Normal),
    Arrow("crates/render", "crates/backends", Use::Normal),
    Arrow("crates/render", "crates/config", Use::Normal),
    Arrow("crates/render", "crates/gameday", Use::Normal),
    Arrow("crates/render", "crates/gateway", Use::Normal),
    Arrow("crates/render", "crates/http", Use::Normal),
    Arrow("crates/render", "crates/outbox", Use::Normal),
    Arrow("crates/render", "crates/worker", Use::Normal),
    Arrow("crates/render", "crates/engine", Use::Normal),
    Arrow("crates/render", "crates/core", Use::Normal),
    Arrow("crates/supervisor", "crates/console", Use::Normal),
    Arrow("crates/supervisor", "crates/admin", Use::Normal),
    Arrow("crates/supervisor", "crates/claims", Use::Normal),
    Arrow("crates/supervisor", "crates/http", Use::Normal),
    Arrow("crates/cli", "crates/http", Use::Normal),
    // The gateway of a worker, and the certificate that its clients see.
    Arrow("crates/supervisor", "crates/gateway", Use::Normal),
    Arrow("crates/supervisor", "crates/proxy", Use::Normal),
    Arrow("crates/supervisor", "crates/tls", Use::Normal),
    // The pipelines of a configuration in one process: what opens, checks and runs them.
    Arrow("crates/supervisor", "crates/backends", Use::Normal),
    Arrow("crates/supervisor", "crates/operate", Use::Normal),
    Arrow("crates/supervisor", "crates/config", Use::Normal),
    Arrow("crates/supervisor", "crates/worker", Use::Normal),
    Arrow("crates/supervisor", "crates/engine", Use::Normal),
    Arrow("crates/supervisor", "crates/core", Use::Normal),
    // Its clock for tests.
    Arrow("crates/supervisor", "crates/telemetry", Use::Normal),
    Arrow("crates/supervisor", "crates/conformance", Use::Tests),
    Arrow("crates/supervisor", "crates/stores/memory", Use::Tests),
    Arrow("crates/telemetry", "crates/core", Use::Normal),
    Arrow("crates/telemetry", "crates/engine", Use::Normal),
    Arrow("crates/telemetry", "crates/outbox", Use::Normal),
    Arrow("crates/telemetry", "crates/stores/memory", Use::Tests),
    // The one crate that knows every driver. What it finds of a store is what a check is told of it.
    Arrow("crates/backends", "crates/operate", Use::Normal),
    Arrow("crates/backends", "crates/config", Use::Normal),
    Arrow("crates/backends", "crates/worker", Use::Normal),
    Arrow("crates/backends", "crates/engine", Use::Normal),
    Arrow("crates/backends", "crates/core", Use::Normal),
    Arrow("crates/backends", "crates/stores/*", Use::Normal),
    Arrow("crates/backends", "crates/brokers/*", Use::Normal),
    // What is operated is a pipeline with its settings.
    Arrow("crates/operate", "crates/config", Use::Normal),
    // What a route promises is said of its settings.
    Arrow("crates/operate", "crates/gateway", Use::Normal),
    Arrow("crates/operate", "crates/worker", Use::Normal),
    Arrow("crates/operate", "crates/engine", Use::Normal),
    Arrow("crates/operate", "crates/core", Use::Normal),
    Arrow("crates/operate", "crates/stores/memory", Use::Tests),
    // Settings are those of the worker, of the engine's layers, of routes, of files and of connections.
    Arrow("crates/config", "crates/gateway", Use::Normal),
    Arrow("crates/config", "crates/worker", Use::Normal),
    Arrow("crates/config", "crates/engine", Use::Normal),
    Arrow("crates/config", "crates/core", Use::Normal),
    Arrow("crates/config", "crates/brokers/file", Use::Normal),
    Arrow("crates/config", "crates/brokers/webhook", Use::Normal),
    Arrow("crates/config", "crates/tls", Use::Normal),
    Arrow("crates/worker", "crates/engine", Use::Normal),
    Arrow("crates/worker", "crates/core", Use::Normal),
    Arrow("crates/worker", "crates/stores/memory", Use::Tests),
    // The relay: an outbox and a sink, both of them ports.
    Arrow("crates/outbox", "crates/core", Use::Normal),
    Arrow("crates/outbox", "crates/stores/memory", Use::Tests),
    Arrow("crates/config", "crates/outbox", Use::Normal),
    Arrow("crates/supervisor", "crates/outbox", Use::Normal),
    Arrow("crates/cli", "crates/outbox", Use::Normal),
    Arrow("crates/semel", "crates/engine", Use::Normal),
    Arrow("crates/semel", "crates/core", Use::Normal),
    Arrow("crates/semel", "crates/stores/*", Use::Normal),
    Arrow("crates/semel", "crates/brokers/*", Use::Normal),
    // The producer.
    Arrow("crates/semel", "crates/outbox", Use::Normal),
    Arrow("crates/semel", "crates/sqlx-rusqlite", Use::Normal),
    // Its layer for HTTP services.
    Arrow("crates/semel", "crates/gateway", Use::Normal),
    // Its keys for callers of HTTP.
    Arrow("crates/semel", "crates/client", Use::Normal),
    // Its tests and examples are built with the feature `testing`.
    Arrow("crates/semel", "crates/semel", Use::Tests),
    // The same examples as one program.
    Arrow("crates/semel-examples", "crates/semel", Use::Normal),
    // The metrics of a program's own handle.
    Arrow("crates/semel", "crates/telemetry", Use::Tests),
    Arrow("crates/semel-examples", "crates/telemetry", Use::Normal),
    // Its proxy cuts the connections of users' transactions.
    Arrow("crates/semel", "crates/conformance", Use::Tests),
    Arrow("crates/engine", "crates/core", Use::Normal),
    Arrow("crates/engine", "crates/stores/memory", Use::Tests),
    // Its layers over a store keep the laws of the store, or say which they do not (decision 0040).
    Arrow("crates/cli", "crates/conformance", Use::Tests),
    Arrow("crates/engine", "crates/conformance", Use::Tests),
    Arrow("crates/conformance", "crates/core", Use::Normal),
    Arrow("crates/stores/*", "crates/core", Use::Normal),
    Arrow("crates/stores/*", "crates/conformance", Use::Tests),
    Arrow("crates/stores/*", "crates/stores/memory", Use::Tests),
    Arrow("crates/brokers/*", "crates/core", Use::Normal),
    Arrow("crates/brokers/*", "crates/conformance", Use::Tests),
    // The encryption of connections, and the meaning of its failures, is the same for every broker.
    Arrow("crates/brokers/*", "crates/tls", Use::Normal),
    Arrow("crates/brokers/kafka", "crates/rdkafka-batch", Use::Normal),
    // Its requests come to a listener, and their answers are problems.
    Arrow("crates/brokers/webhook", "crates/stores/memory", Use::Tests),
    Arrow("crates/brokers/webhook", "crates/http", Use::Normal),
    Arrow("crates/cli", "crates/tls", Use::Tests),
    Arrow("crates/tls", "crates/core", Use::Normal),
    Arrow("crates/tls", "crates/conformance", Use::Tests),
    Arrow("torture", "crates/core", Use::Normal),
    // The proxy that cuts connections.
    Arrow("torture", "crates/conformance", Use::Normal),
    Arrow("proof", "crates/core", Use::Normal),
    // The part that a fuzzer builds too, and so without the rest of the proof.
    Arrow("proof", "proof/inputs", Use::Normal),
    Arrow("proof/inputs", "crates/core", Use::Normal),
    Arrow("proof/inputs", "crates/engine", Use::Normal),
    Arrow("proof/inputs", "crates/worker", Use::Normal),
    Arrow("proof/inputs", "crates/stores/embedded", Use::Normal),
    Arrow("proof/inputs", "crates/claims", Use::Normal),
    Arrow("proof/inputs", "crates/http", Use::Normal),
    Arrow("proof/inputs", "crates/gateway", Use::Normal),
    Arrow("proof/inputs", "crates/proxy", Use::Normal),
    Arrow("proof/inputs", "crates/stores/memory", Use::Normal),
    // The same sources, built with the locks of a scheduler.
    Arrow("proof", "proof/scheduled/*", Use::Normal),
    Arrow("proof/scheduled/*", "crates/core", Use::Normal),
    Arrow("proof", "crates/engine", Use::Normal),
    Arrow("proof", "crates/worker", Use::Normal),
    Arrow("proof", "crates/simulation", Use::Normal),
    Arrow("proof", "crates/stores/*", Use::Normal),
    Arrow("proof", "crates/conformance", Use::Normal),
    // The seeded world in which the tests of the engine and the proof play.
    Arrow("crates/simulation", "crates/claims", Use::Normal),
    Arrow("crates/simulation", "crates/core", Use::Normal),
    Arrow("crates/simulation", "crates/engine", Use::Normal),
    Arrow("crates/simulation", "crates/gateway", Use::Normal),
    Arrow("crates/simulation", "crates/http", Use::Normal),
    Arrow("crates/simulation", "crates/outbox", Use::Normal),
    Arrow("crates/simulation", "crates/stores/memory", Use::Normal),
    Arrow("crates/engine", "crates/simulation", Use::Tests),
    // The ports of the servers that a test or a measurement starts.
    Arrow("crates/stores/*", "crates/free-port", Use::Tests),
    Arrow("crates/brokers/*", "crates/free-port", Use::Tests),
    Arrow("crates/worker", "crates/free-port", Use::Tests),
    Arrow("crates/proxy", "crates/free-port", Use::Tests),
    Arrow("crates/supervisor", "crates/free-port", Use::Tests),
    Arrow("crates/cli", "crates/free-port", Use::Tests),
    Arrow("torture", "crates/free-port", Use::Normal),
    Arrow("proof", "crates/free-port", Use::Normal),
    Arrow("bench", "crates/free-port", Use::Normal),
    Arrow("xtask", "crates/free-port", Use::Normal),
    Arrow("bench", "crates/worker", Use::Normal),
    Arrow("bench", "crates/engine", Use::Normal),
    Arrow("bench", "crates/core", Use::Normal),
    Arrow("bench", "crates/stores/*", Use::Normal),
    Arrow("bench", "crates/brokers/*", Use::Normal),
];

/// Compares the arrows of `cargo metadata` with the allowed ones.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let Some(root) = metadata["workspace_root"].as_str() else {
        return vec![Finding::error(
            "Cargo.toml",
            0,
            "cargo metadata names no workspace",
        )];
    };
    let below = |path: &str| {
        path.strip_prefix(root)
            .map(|path| path.trim_matches('/').to_owned())
    };
    let packages: Vec<_> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let mut findings = Vec::new();
    for package in &packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some(manifest) = below(manifest) else {
            continue;
        };
        let from = manifest.trim_end_matches("/Cargo.toml");
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(to) = dependency["path"].as_str().and_then(below) else {
                continue;
            };
            let tests = dependency["kind"] == "dev";
            let allowed = ALLOWED.iter().any(|Arrow(a, b, kind)| {
                matches(a, from) && matches(b, &to) && (tests || *kind == Use::Normal)
            });
            if !allowed {
                let only = if tests { " (for tests)" } else { "" };
                let message = format!("{from} must not depend on {to}{only}: no such arrow");
                findings.push(Finding::error(&manifest, 0, message));
            }
        }
    }
    if packages.is_empty() {
        findings.push(Finding::error(
            "Cargo.toml",
            0,
            "cargo metadata lists no package",
        ));
    }
    findings
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(folder) => path
            .strip_prefix(folder)
            .is_some_and(|name| !name.contains('/')),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arrow(from: &str, to: &str, kind: Option<&str>) -> Vec<Finding> {
        check(&json!({
            "workspace_root": "/w",
            "packages": [{
                "manifest_path": format!("/w/{from}/Cargo.toml"),
                "dependencies": [
                    { "path": format!("/w/{to}"), "kind": kind },
                    { "name": "outside", "kind": null },
                ],
            }],
        }))
    }

    #[test]
    fn the_allowed_arrows_pass() {
        assert_eq!(arrow("crates/backends", "crates/stores/sqlite", None), []);
        assert_eq!(arrow("crates/stores/sqlite", "crates/core", None), []);
        assert_eq!(
            arrow("crates/stores/sqlite", "crates/conformance", Some("dev")),
            []
        );
    }

    #[test]
    fn any_other_arrow_is_an_error() {
        assert_eq!(arrow("crates/core", "crates/engine", None).len(), 1);
        assert_eq!(arrow("crates/core", "crates/engine", Some("dev")).len(), 1);
        assert_eq!(
            arrow("crates/stores/sqlite", "crates/engine", None).len(),
            1
        );
        assert_eq!(
            arrow(
                "crates/stores/sqlite",
                "crates/stores/embedded",
                Some("dev")
            )
            .len(),
            1
        );
        assert_eq!(
            arrow("crates/stores/sqlite", "crates/conformance", None).len(),
            1
        );
        assert_eq!(
            arrow("crates/worker", "crates/stores/memory", None).len(),
            1
        );
        assert_eq!(arrow("crates/new", "crates/core", None).len(), 1);
        assert_eq!(arrow("xtask", "crates/core", None).len(), 1);
        assert_eq!(check(&json!({ "workspace_root": "/w" })).len(), 1);
    }
}
