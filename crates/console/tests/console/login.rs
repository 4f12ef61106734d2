//! Logging in: a token becomes a cookie that no script reads and no other page sends.

use semel_http::Role;

use crate::site::Site;

fn site() -> (Site, String) {
    let tokens = [("ada", Role::Operator, None)];
    let (site, mut secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    (site, secrets.remove(0))
}

#[tokio::test]
async fn whoever_has_no_token_is_sent_to_log_in_and_back() {
    let (site, secret) = site();
    let page = site.get("/key?key=a%20b").await;
    assert_eq!(
        (page.status, page.header("location")),
        (303, "/login?next=%2Fkey%3Fkey%3Da%2520b")
    );
    let page = site.get(page.header("location")).await;
    page.has("type=\"password\"")
        .has("value=\"/key?key=a%20b\"");
    let form = [("token", &*secret), ("next", "/key?key=a%20b")];
    let page = site.post("/login", &form).await;
    assert_eq!(
        (page.status, page.header("location")),
        (303, "/key?key=a%20b")
    );
    let cookie = page.header("set-cookie").to_owned();
    assert_eq!(
        cookie,
        format!("semel_token={secret}; Path=/; HttpOnly; SameSite=Strict")
    );
    let cookie = cookie.split(';').next().expect("a pair");
    let page = site.get_with("/", &[("cookie", cookie)]).await;
    assert_eq!(page.status, 200);
    page.has("ada, operator");
    let page = site.get_with("/v1/pipelines", &[("cookie", cookie)]).await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, "application/json")
    );
    let page = site.post("/logout", &[]).await;
    assert!(page.header("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn over_an_encrypted_way_the_cookie_stays_on_it() {
    let (site, secret) = site();
    let headers = [
        ("origin", "https://127.0.0.1:9464"),
        ("sec-fetch-site", "same-origin"),
    ];
    let page = site
        .post_with("/login", &[("token", &secret)], &headers)
        .await;
    assert!(
        page.header("set-cookie").ends_with("; Secure"),
        "{:?}",
        page.headers
    );
}

#[tokio::test]
async fn nobody_is_sent_elsewhere_after_logging_in() {
    let (site, secret) = site();
    for next in [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "",
    ] {
        let page = site
            .post("/login", &[("token", &secret), ("next", next)])
            .await;
        assert_eq!((page.status, page.header("location")), (303, "/"), "{next}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_token_is_told_and_many_of_them_are_slowed_down() {
    let (site, _) = site();
    for token in ["semel_00", "", "a b", "a;b", "ä"] {
        let page = site.post("/login", &[("token", token)]).await;
        assert_eq!(page.status, 401, "{token}");
        assert_eq!(page.header("set-cookie"), "", "{token}");
        page.has("This token is not known");
    }
    let mut last = 0;
    let begun = tokio::time::Instant::now();
    for _ in 0..40 {
        last = site.post("/login", &[("token", "semel_00")]).await.status;
    }
    assert!(
        last == 429 || begun.elapsed().as_secs() >= 5,
        "{last} after {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_token_that_is_gone_sends_back_to_log_in_and_orders_too() {
    let (site, _) = site();
    let gone = [
        ("cookie", "semel_token=semel_00"),
        ("sec-fetch-site", "same-origin"),
    ];
    let page = site.get_with("/in-doubt", &gone).await;
    assert_eq!(
        (page.status, page.header("location")),
        (303, "/login?next=%2Fin-doubt")
    );
    let page = site
        .post_with("/orders/plan/keys/forget", &[("ids", "a")], &gone)
        .await;
    assert_eq!((page.status, page.header("location")), (303, "/login"));
    let page = site.get_with("/v1/keys", &gone).await;
    assert_eq!(page.status, 401, "programs are told");
}

#[tokio::test]
async fn on_a_loopback_address_nobody_needs_a_token() {
    let site = Site::new();
    let page = site.get("/").await;
    assert_eq!(page.status, 200);
    page.has("loopback, admin");
    assert!(!page.text.contains("Log out"));
    let page = site.get_with("/", &[("host", "evil.example")]).await;
    assert_eq!(page.status, 403, "a name that was pointed here");
}

#[tokio::test]
async fn a_token_that_is_not_known_is_forgotten_and_nobody_is_locked_out() {
    let site = Site::new();
    // A cookie of another worker on this machine, or an old one.
    let stale = [("cookie", "theme=dark; semel_token=semel_00")];
    let page = site.get_with("/key?key=a", &stale).await;
    assert_eq!(
        (page.status, page.header("location")),
        (303, "/login?next=%2Fkey%3Fkey%3Da")
    );
    assert!(
        page.header("set-cookie")
            .starts_with("semel_token=; Path=/;"),
        "{:?}",
        page.headers
    );
    assert!(page.header("set-cookie").contains("Max-Age=0"));
    let login = site.get(page.header("location")).await;
    login
        .has("Nobody needs a token at this address.")
        .has("href=\"/key?key=a\"");
    assert_eq!(
        site.get("/key?key=a").await.status,
        200,
        "without the cookie"
    );
    let (guarded, _) = self::site();
    guarded.get("/login").await.lacks("Nobody needs a token");
    assert_eq!(
        guarded.get("/").await.header("set-cookie"),
        "",
        "there is nothing to forget"
    );
}

#[tokio::test]
async fn a_stranger_sends_little() {
    let (site, _) = site();
    let long = "a".repeat(9 << 10);
    let page = site.post("/login", &[("token", &long)]).await;
    assert_eq!(page.status, 413);
}
