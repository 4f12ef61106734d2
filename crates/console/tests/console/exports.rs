//! The export of the store from its page.

use semel_core::Reason;
use semel_http::Role;

use crate::site::{Site, key, scope};

const WHY: [(&str, &str); 1] = [("reason", "a copy for the audit")];

#[tokio::test]
async fn the_page_of_the_store_hands_over_its_export_as_a_file() {
    let site = Site::without_mask();
    site.park(&scope("", "pay"), &key("pay-1"), Reason::Dead, "declined")
        .await;
    let page = site.get("/store").await;
    page.has("action=\"/store/export\"")
        .has("semel store import");
    let file = site.post("/store/export", &WHY).await;
    assert_eq!(file.status, 200, "{}", file.text);
    assert_eq!(file.header("content-type"), "application/jsonl");
    let disposition = file.header("content-disposition");
    assert!(disposition.starts_with("attachment; "), "{disposition}");
    file.has("{\"semel_export\":")
        .has("\n{\"end\":")
        .has("declined");
    site.get("/audit").await.has("a copy for the audit");
}

#[tokio::test]
async fn why_there_is_no_export_is_told_on_a_page() {
    // This one hides members of messages.
    let site = Site::new();
    let page = site.post("/store/export", &WHY).await;
    assert_eq!(page.status, 403);
    page.has("Not exported").has("mask");
    assert_eq!(page.header("content-disposition"), "");
    let site = Site::without_mask();
    let page = site.post("/store/export", &[]).await;
    assert_eq!(page.status, 400);
    page.has("Not exported").has("reason");
    let foreign = [("sec-fetch-site", "cross-site")];
    let page = site.post_with("/store/export", &WHY, &foreign).await;
    assert_eq!(page.status, 403);
    assert!(!page.text.contains("semel_export"), "{}", page.text);
    assert_eq!(site.get("/store/export").await.status, 405);
}

#[tokio::test]
async fn whoever_is_no_admin_of_all_tenants_exports_nothing() {
    let tokens = [
        ("eve", Role::Viewer, None),
        ("bob", Role::Operator, None),
        ("ann", Role::Admin, Some("acme")),
    ];
    let (site, secrets) = Site::with("0.0.0.0:9464", &[], &tokens);
    for secret in &secrets {
        let cookie = format!("semel_token={secret}");
        let headers = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
        let page = site.post_with("/store/export", &WHY, &headers).await;
        assert_eq!(page.status, 403);
        assert!(!page.text.contains("semel_export"), "{}", page.text);
        let page = site.get_with("/store", &[("cookie", &cookie)]).await;
        assert!(!page.text.contains("/store/export"), "{}", page.text);
    }
}
