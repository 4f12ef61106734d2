//! Settings of servers that weaken the promises of a store.

use semel_core::port::store::Durability;
use semel_core::{Code, ErrorKind, Store};
use semel_store_redis::{Options, RedisStore, inspect};

use crate::lab::{connect, grant, refused, request};
use crate::server::Server;

#[tokio::test]
async fn a_server_that_evicts_is_refused_unless_that_is_allowed_by_name() {
    for policy in ["allkeys-lru", "volatile-ttl", "volatile-lru"] {
        let server = Server::start(&["--appendonly", "yes", "--maxmemory-policy", policy]);
        let error = refused(&server.url()).await;
        assert_eq!(
            (error.kind(), error.code()),
            (ErrorKind::InvalidConfig, Code::StoreUnavailable)
        );
        assert!(error.to_string().contains(policy), "{error}");
        assert_eq!(server.ask(&["DBSIZE"]), [":0"], "a refusal changes nothing");

        let mut options = Options::default();
        options.allow_eviction = true;
        let store = RedisStore::connect(&server.url(), options)
            .await
            .expect("allowed");
        let _ = grant(&store, &request("pay-1", 1)).await;
        let found = store.preflight().await.expect("settings");
        assert!(
            found.warnings.iter().any(|it| it.contains(policy)),
            "{found:?}"
        );
    }
}

#[tokio::test]
async fn a_policy_that_changes_later_is_found_by_the_next_preflight() {
    let server = Server::durable();
    let store = connect(&server).await;
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"]);
    let error = store.preflight().await.expect_err("it evicts now");
    assert!(error.to_string().contains("allkeys-lfu"), "{error}");
}

#[tokio::test]
async fn durability_is_what_the_log_is_set_to() {
    let log = |sync| vec!["--appendonly", "yes", "--appendfsync", sync];
    let rewriting = [log("always"), vec!["--no-appendfsync-on-rewrite", "yes"]].concat();
    for (arguments, expected, warnings) in [
        (log("always"), Durability::PowerCut, 0),
        (log("everysec"), Durability::Kill, 1),
        (log("no"), Durability::Kill, 1),
        (rewriting, Durability::Kill, 1),
        (vec!["--appendonly", "no"], Durability::Process, 1),
    ] {
        let server = Server::start(&arguments);
        let found = connect(&server).await.preflight().await.expect("settings");
        assert_eq!(
            (found.durability, found.warnings.len()),
            (expected, warnings),
            "{found:?}"
        );
    }
}

/// If `CONFIG` is blocked, `INFO` gives the rest, and the store claims nothing that neither shows.
#[tokio::test]
async fn a_server_that_hides_its_settings_is_read_by_other_means() {
    let hidden = |more: &[&'static str]| {
        let mut arguments = vec!["--rename-command", "CONFIG", "", "--appendfsync", "always"];
        arguments.extend_from_slice(more);
        Server::start(&arguments)
    };
    let server = hidden(&["--appendonly", "yes"]);
    let found = connect(&server).await.preflight().await.expect("settings");
    assert_eq!(found.durability, Durability::Kill, "{found:?}");
    assert!(
        found.warnings.iter().any(|it| it.contains("CONFIG")),
        "{found:?}"
    );
    let server = hidden(&["--appendonly", "no"]);
    let found = connect(&server).await.preflight().await.expect("settings");
    assert_eq!(found.durability, Durability::Process, "{found:?}");
    let server = hidden(&["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"]);
    assert!(
        refused(&server.url())
            .await
            .to_string()
            .contains("allkeys-lru")
    );
}

#[tokio::test]
async fn a_look_changes_nothing() {
    let server = Server::durable();
    let inspection = inspect(&server.url(), Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(
        (inspection.format, inspection.capabilities.durability),
        (None, Durability::PowerCut)
    );
    assert_eq!(server.ask(&["DBSIZE"]), [":0"]);
    connect(&server).await;
    let before = server.ask(&["DBSIZE"]);
    let inspection = inspect(&server.url(), Options::default(), &[])
        .await
        .expect("an inspection");
    assert_eq!(inspection.format, Some(semel_store_redis::FORMAT));
    assert_eq!(server.ask(&["DBSIZE"]), before);
}
