//! The contents of each page.

use semel_core::Reason;
use semel_http::Role;

use crate::markup;
use crate::site::{Site, key, scope};

const PAGES: [&str; 8] = [
    "/",
    "/key",
    "/in-doubt",
    "/dead-letters",
    "/quarantine",
    "/window",
    "/store",
    "/audit",
];

#[tokio::test]
async fn every_page_keeps_others_out_and_says_where_it_is() {
    let site = Site::new();
    for path in PAGES.into_iter().chain(["/login", "/nothing"]) {
        let page = site.get(path).await;
        let status = if path == "/nothing" { 404 } else { 200 };
        assert_eq!(page.status, status, "{path}");
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            // With `no-referrer`, forms would come from nowhere.
            ("referrer-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), value, "{path}");
        }
        markup::check(&page.text);
        page.has("<html lang=\"en\">").has("<h1>").has("<title>");
        let here = format!("href=\"{path}\" aria-current=\"page\"");
        assert_eq!(page.text.contains(&here), PAGES.contains(&path), "{path}");
    }
}

#[tokio::test]
async fn all_of_it_is_small_and_nothing_is_from_elsewhere() {
    // Four pipelines, each with a full hour of all its lines.
    let pipelines: Vec<_> = (0..4).map(|at| format!("busy-{at}")).collect();
    let (site, _) = Site::with("127.0.0.1:9464", &pipelines, &[]);
    let mut bytes = 0;
    for path in PAGES {
        bytes = bytes.max(site.get(path).await.text.len());
    }
    assert!(bytes > 100 << 10, "the plots are drawn: {bytes} bytes");
    let page = site.get("/").await;
    for (start, kind) in [
        ("href=\"/console/icon.svg", "image/svg+xml"),
        ("href=\"/console/console.css?", "text/css; charset=utf-8"),
        (
            "src=\"/console/console.js?",
            "text/javascript; charset=utf-8",
        ),
    ] {
        let (_, rest) = page.text.split_once(start).expect("named");
        let rest = format!(
            "{}{}",
            start.split_once('"').expect("a quote").1,
            rest.split('"').next().expect("an end")
        );
        let asset = site.get(&rest).await;
        assert_eq!((asset.status, asset.header("content-type")), (200, kind));
        assert!(asset.header("cache-control").contains("immutable"));
        let is_own = !asset.text.contains("http://") || kind == "image/svg+xml";
        assert!(is_own && !asset.text.contains("https://"), "{rest}");
        bytes += asset.text.len();
    }
    assert!(bytes < 200 << 10, "{bytes} bytes");
}

#[tokio::test]
async fn the_overview_has_what_a_pipeline_does_and_what_waits() {
    let site = Site::new();
    let page = site.get("/").await;
    page.has("<span class=\"state warn\">store away</span>")
        .has("store away: <bdi>pay</bdi>")
        .has("20\u{202f}000")
        .has("1\u{202f}234")
        .has("2.50/s")
        .has(", 24h needed");
    // Numbers and reasons are drawn anew with the plots.
    let (_, live) = page
        .text
        .split_once("data-refresh=\"facts-")
        .expect("a part");
    let (live, _) = live
        .split_once("data-refresh=\"plots-")
        .expect("the next part");
    for text in [
        "store away: ",
        "Ordered: drain",
        "<dt>Rate</dt>",
        "Added, p50 and p99",
    ] {
        assert!(live.contains(text), "{text}: {live}");
    }
    page.has("href=\"/in-doubt?pipeline=pay\"")
        .has("data-live=\"yes\"")
        .has("aria-label=\"Messages, by what");
}

#[tokio::test]
async fn a_key_has_its_story_and_what_a_duplicate_meets() {
    let site = Site::new();
    let scope = scope("", "pay");
    site.doubt(&scope, &[key("pay-1"), key("pay-2")], "no answer")
        .await;
    let page = site.get("/key?key=pay-1").await;
    assert_eq!(page.status, 200);
    page.has("in doubt")
        .has("What a duplicate meets now: parked")
        .has("What happened")
        .has("its message was kept, in doubt");
    page.has("Release…")
        .has("It did not happen. It may run again.");
    let id = page.operation_id().to_owned();
    let by_id = site.get(&format!("/key?key={id}")).await;
    by_id.has("What a duplicate meets now: parked");
    let begin = site.get("/key?key=pay-").await;
    begin.has("Which one?").has("pay-1").has("pay-2");
    site.get("/key?key=nobody")
        .await
        .has("Nothing is on record under this key");
}

#[tokio::test]
async fn a_key_of_several_tenants_is_asked_about() {
    let site = Site::new();
    for tenant in ["acme", "other"] {
        site.doubt(&scope(tenant, "pay"), &[key("pay-1")], "no answer")
            .await;
    }
    let page = site.get("/key?key=pay-1").await;
    page.has("Which one?")
        .has("tenant=acme")
        .has("tenant=other");
    site.get("/key?key=pay-1&tenant=other")
        .await
        .has("What a duplicate meets now");
}

#[tokio::test]
async fn doubts_come_oldest_first_and_at_most_so_many() {
    let site = Site::new();
    for name in ["third", "first", "second"] {
        site.doubt(&scope("", "pay"), &[key(name)], "no answer")
            .await;
    }
    let page = site.get("/in-doubt").await;
    let place = |name: &str| {
        page.text
            .find(&format!("<bdi>{name}</bdi></a>"))
            .expect("listed")
    };
    assert!(place("third") < place("first") && place("first") < place("second"));
    let many: Vec<_> = (0..2_100).map(|at| key(&format!("many-{at}"))).collect();
    site.doubt(&scope("", "mail"), &many, "no answer").await;
    let page = site.get("/in-doubt").await;
    page.has("<b>2\u{202f}000</b> in doubt were read of a longer list")
        .has("the oldest 200");
    // The rest of them is behind a link.
    let rest = site.get(&page.link("/in-doubt?cursor=")).await;
    rest.has("<b>103</b> in doubt were read of a longer list");
    assert_eq!(page.text.matches("type=\"checkbox\"").count(), 200);
    let page = site.get("/in-doubt?pipeline=pay").await;
    page.has("<b>3</b> in doubt");
}

#[tokio::test]
async fn messages_are_in_groups_of_the_same_reason() {
    let site = Site::new();
    for at in 0..5 {
        let detail = if at < 3 { "HTTP 422" } else { "HTTP 410" };
        site.park(
            &scope("", "pay"),
            &key(&format!("dead-{at}")),
            Reason::Dead,
            detail,
        )
        .await;
    }
    site.park(
        &scope("", "pay"),
        &key("q"),
        Reason::Conflict,
        "another amount",
    )
    .await;
    let page = site.get("/dead-letters").await;
    page.has("<b>5</b> messages, in 2 groups.")
        .has("<b>3</b> × <bdi>dead</bdi> in <bdi>pay</bdi>: ")
        .has("HTTP 410");
    let larger = page.text.find("HTTP 422").expect("a group");
    assert!(larger < page.text.find("HTTP 410").expect("a group"));
    site.get("/quarantine")
        .await
        .has("<b>1</b> message, in 1 group.")
        .has("another amount");
}

#[tokio::test]
async fn a_viewer_sees_no_forms_that_change_something_and_a_tenant_its_own() {
    let tokens = [
        ("eve", Role::Viewer, None),
        ("bob", Role::Operator, Some("acme")),
    ];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    for tenant in ["acme", "other"] {
        let keys = [key(&format!("pay-{tenant}"))];
        site.doubt(&scope(tenant, "pay"), &keys, "no answer").await;
        site.park(
            &scope(tenant, "pay"),
            &key("d"),
            Reason::Dead,
            &format!("of {tenant}"),
        )
        .await;
    }
    let cookies = secrets.iter().map(|it| format!("semel_token={it}"));
    let [viewer, tenant] = <[String; 2]>::try_from(cookies.collect::<Vec<_>>()).expect("two");
    for path in PAGES.into_iter().chain(["/key?key=pay-acme"]) {
        let page = site.get_with(path, &[("cookie", &viewer)]).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.text.contains("/orders/"), "{path}: {}", page.text);
        page.has("eve, viewer").has("Log out");
        let page = site.get_with(path, &[("cookie", &tenant)]).await;
        let is_about_all = ["/window", "/store"].contains(&path);
        assert_eq!(page.status, if is_about_all { 403 } else { 200 }, "{path}");
        assert!(
            !page.text.contains("pay-other") && !page.text.contains("of other"),
            "{path}: {}",
            page.text
        );
        assert!(
            !page.text.contains("data-live=\"yes\""),
            "{path}: it could not listen"
        );
    }
    let page = site.get_with("/in-doubt", &[("cookie", &tenant)]).await;
    page.has("pay-acme").has("/orders/plan/in-doubt/resolve");
}

#[tokio::test]
async fn the_page_of_the_store_is_drawn_anew_without_a_count() {
    let site = Site::new();
    site.get("/store")
        .await
        .has("Durability")
        .has("plots-store");
    let page = site.get("/store?part=plots").await;
    page.has("data-refresh=\"plots-store\"");
    assert!(!page.text.contains("Durability"), "{}", page.text);
}
