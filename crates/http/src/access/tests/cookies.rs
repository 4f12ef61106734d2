use super::*;

const OPEN: (&str, &str) = ("host", "semel.example:9464");
const OWN: (&str, &str) = ("origin", "http://semel.example:9464");

fn with_pages() -> (Door, String) {
    let tokens: Known<'_> = &[("ada", Role::Operator, None, None)];
    let door = door_with("0.0.0.0:9464", &[], tokens, true);
    let cookie = format!("theme=dark; {TOKEN_COOKIE}={}", door.secrets[0].as_str());
    (door, cookie)
}

#[tokio::test]
async fn a_browser_shows_its_token_in_a_cookie() {
    let (door, cookie) = with_pages();
    let answer = door.asked(&[OPEN, OWN, ("cookie", &cookie)], "{}").await;
    assert_eq!(text(answer).await, "ada operator 2");
    let site = ("sec-fetch-site", "same-origin");
    let answer = door.asked(&[OPEN, site, ("cookie", &cookie)], "{}").await;
    assert_eq!(text(answer).await, "ada operator 2");
    for cookie in ["semel_token=semel_00", "semel_tokens=1; semel_token=x"] {
        assert_eq!(door.status(&[OPEN, OWN, ("cookie", cookie)]).await, 401);
    }
    for cookie in ["semel_token=", "other=1"] {
        let answer = door.asked(&[OPEN, OWN, ("cookie", cookie)], "{}").await;
        let problem = problem(answer).await;
        assert_eq!(problem["detail"], "send a token", "{cookie}");
    }
}

#[tokio::test]
async fn a_header_stands_over_a_cookie() {
    let (door, cookie) = with_pages();
    let wrong = ("authorization", "Bearer semel_00");
    let headers = [OPEN, OWN, wrong, ("cookie", &cookie)];
    assert_eq!(door.status(&headers).await, 401);
}

#[tokio::test]
async fn what_is_more_than_reading_comes_from_a_page_of_the_listener() {
    let (door, cookie) = with_pages();
    let cookie = ("cookie", &*cookie);
    for headers in [
        &[OPEN, cookie][..],
        &[OPEN, cookie, ("sec-fetch-site", "cross-site")],
        &[OPEN, cookie, ("sec-fetch-site", "same-site"), OWN],
        &[OPEN, cookie, ("sec-fetch-site", "none")],
        &[OPEN, cookie, ("origin", "http://evil.example")],
        &[OPEN, cookie, ("origin", "null")],
    ] {
        let answer = door.asked(headers, "{}").await;
        assert_eq!(answer.status(), 403, "{headers:?}");
        assert_eq!(code(answer).await, "origin-refused", "{headers:?}");
    }
}

#[tokio::test]
async fn a_listener_without_pages_takes_no_cookie() {
    let tokens: Known<'_> = &[("ada", Role::Operator, None, None)];
    let door = door("0.0.0.0:9464", &[], tokens);
    let cookie = format!("{TOKEN_COOKIE}={}", door.secrets[0].as_str());
    assert_eq!(door.status(&[OPEN, OWN, ("cookie", &cookie)]).await, 401);
}

#[tokio::test]
async fn a_page_of_another_origin_reads_nothing_and_may_lead_here() {
    let door = door_with("127.0.0.1:9464", &[], &[], true);
    let host = ("host", "127.0.0.1:9464");
    let image = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];
    let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    let link = [
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    for (site, how, status) in [
        ("cross-site", image, 403),
        ("same-site", image, 403),
        ("cross-site", frame, 403),
        ("cross-site", link, 200),
        ("same-origin", image, 200),
        ("none", link, 200),
    ] {
        let headers = [host, ("sec-fetch-site", site), how[0], how[1]];
        assert_eq!(door.status(&headers).await, status, "{headers:?}");
    }
    let bare = [host, ("sec-fetch-site", "cross-site")];
    assert_eq!(door.status(&bare).await, 403);
    assert_eq!(door.status(&[host]).await, 200, "a program");
    let without = door_with("127.0.0.1:9464", &[], &[], false);
    assert_eq!(without.status(&bare).await, 200, "there are no pages");
}

#[tokio::test]
async fn an_old_cookie_is_not_in_the_way_of_a_certificate() {
    let (mut door, cookie) = with_pages();
    let subject = "CN=billing,O=Acme";
    let clock = door.clock.clone();
    let of_subject = |end| Token::of_subject("billing", Role::Viewer, None, end, &clock, subject);
    door.learns(of_subject(None));
    let certificate = ClientCertificate::named(subject, "billing");
    door.router = door.router.clone().layer(Extension(certificate));
    for (cookie, expected) in [
        ("semel_token=semel_00", "billing viewer 2"),
        (&cookie, "ada operator 2"),
    ] {
        let answer = door.asked(&[OPEN, OWN, ("cookie", cookie)], "{}").await;
        assert_eq!(text(answer).await, expected, "{cookie}");
    }
}
