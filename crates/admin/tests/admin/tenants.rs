//! A caller of one tenant sees that alone, and one that nobody knows sees nothing.

use crate::site::{Site, viewer_of};

#[tokio::test]
async fn a_tenant_sees_its_own_alone() {
    let site = Site::filled().await;
    for path in [
        "keys",
        "keys/find?key=pay-1",
        "dead-letters",
        "quarantine",
        "audit",
    ] {
        let path = format!("/v1/{path}");
        let all = site.good(&path).await;
        assert_eq!(
            all["items"].as_array().map(Vec::len),
            Some(2),
            "{path}: {all}"
        );
        let (status, own) = site.ask(&path, Some(viewer_of("acme"))).await;
        assert_eq!(status, 200, "{path}: {own}");
        let items = own["items"].as_array().expect("a list");
        assert_eq!(items.len(), 1, "{path}: {own}");
        assert_eq!(items[0]["tenant"], "acme", "{path}: {own}");
    }
    for path in ["keys/show", "keys/explain"] {
        let path = format!("/v1/{path}?key=pay-1");
        let (status, own) = site.ask(&path, Some(viewer_of("acme"))).await;
        assert_eq!((status, &own["tenant"]), (200, &"acme".into()), "{own}");
        let (status, _) = site.ask(&path, Some(viewer_of("nobody"))).await;
        assert_eq!(status, 404, "{path}");
        let other = format!("{path}&tenant=other");
        let (status, refused) = site.ask(&other, Some(viewer_of("acme"))).await;
        assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
    }
    for path in [
        "/v1/status",
        "/v1/pipelines",
        "/v1/series",
        "/v1/events",
        "/v1/store",
        "/v1/config",
    ] {
        let (status, refused) = site.ask(path, Some(viewer_of("acme"))).await;
        assert_eq!((status, &refused["code"]), (403, &"forbidden".into()));
    }
}

#[tokio::test]
async fn a_cursor_of_one_tenant_is_of_no_use_to_another() {
    let site = Site::filled().await;
    let first = site.good("/v1/keys?limit=1").await;
    let next = first["next"].as_str().expect("more");
    let path = format!("/v1/keys?limit=1&cursor={next}");
    let second = site.good(&path).await;
    assert_eq!(
        second["items"].as_array().map(Vec::len),
        Some(1),
        "{second}"
    );
    assert_ne!(first["items"], second["items"]);
    let (status, refused) = site.ask(&path, Some(viewer_of("acme"))).await;
    assert_eq!((status, &refused["pointer"]), (400, &"/cursor".into()));
}

#[tokio::test]
async fn a_caller_that_nobody_knows_sees_nothing() {
    let site = Site::filled().await;
    for path in [
        "keys",
        "status",
        "openapi.json",
        "store",
        "config",
        "pipelines",
    ] {
        let (status, refused) = site.ask(&format!("/v1/{path}"), None).await;
        assert_eq!(
            (status, &refused["code"]),
            (401, &"unauthorized".into()),
            "{path}"
        );
    }
}
