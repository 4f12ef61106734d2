//! The bounds of forms: of their size, of their time, and of who may send one.

use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use futures_util::stream;
use semel_http::Role;
use tokio::time::{Duration, Instant};

use crate::site::{Site, key, scope};

#[tokio::test]
async fn a_form_has_as_many_members_as_an_order_may_name_and_no_more() {
    let site = Site::new();
    let body = |members: usize| {
        let request = Request::post("/orders/plan/keys/forget");
        let request = request
            .header("host", "127.0.0.1:9464")
            .header("sec-fetch-site", "same-origin");
        request
            .body(Body::from("a&".repeat(members)))
            .expect("a request")
    };
    let page = site.answer(body(2 << 20)).await;
    assert_eq!(page.status, 413, "{}", page.text);
    page.has("more than 2100 members");
    site.doubt(&scope("", "pay"), &[key("pay-1")], "no answer")
        .await;
    let names: Vec<_> = (0..semel_admin::MOST_CHANGES - 1)
        .map(|at| format!("pay-{at}"))
        .collect();
    let mut form: Vec<_> = names.iter().map(|it| ("keys", &**it)).collect();
    form.extend([("pipeline", "pay"), ("tenant", "")]);
    let page = site.post("/orders/plan/keys/forget", &form).await;
    assert_eq!(page.status, 200, "{}", page.text);
}

#[tokio::test]
async fn whoever_may_order_nothing_has_no_form_read() {
    let tokens = [("eve", Role::Viewer, None)];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    let cookie = format!("semel_token={}", secrets[0]);
    let form: Vec<_> = (0..3_000).map(|_| ("ids", "a")).collect();
    let headers = [("cookie", &*cookie), ("sec-fetch-site", "same-origin")];
    for path in ["/orders/plan/keys/forget", "/orders/do/keys/forget"] {
        let page = site.post_with(path, &form, &headers).await;
        assert_eq!(
            page.status, 403,
            "before its members are counted: {}",
            page.text
        );
        page.has("<h1>Not shown</h1>");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_who_sends_nothing_is_let_go() {
    let tokens = [("ada", Role::Operator, None)];
    let (site, _) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    for path in ["/login", "/logout"] {
        let request = Request::post(path).header("host", "127.0.0.1:9464");
        let request = request
            .header("sec-fetch-site", "same-origin")
            .header("content-length", "100");
        let endless = stream::pending::<Result<Bytes, std::io::Error>>();
        let begun = Instant::now();
        let page = site
            .answer(request.body(Body::from_stream(endless)).expect("a request"))
            .await;
        assert_eq!(page.status, 408, "{path}");
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test]
async fn a_page_of_another_origin_takes_no_place() {
    let site = Site::new();
    let image = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
    ];
    let link = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    for path in ["/", "/key?key=a", "/v1/store", "/v1/events"] {
        assert_eq!(site.get_with(path, &image).await.status, 403, "{path}");
    }
    assert_eq!(site.get_with("/key?key=a", &link).await.status, 200);
}
