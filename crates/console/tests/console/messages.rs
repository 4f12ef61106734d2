//! The page of one message: its payload for those who may see it, without what is hidden.

use semel_core::Reason;
use semel_http::Role;

use crate::markup;
use crate::site::{Site, scope};

#[tokio::test]
async fn a_message_has_a_page_that_its_list_leads_to() {
    let site = Site::new();
    let payload = r#"{"amount":1.10,"IBAN":"DE1"}"#;
    for (reason, list) in [
        (Reason::Dead, "/dead-letters"),
        (Reason::Conflict, "/quarantine"),
    ] {
        site.park_payload(&scope("", "pay"), reason, payload).await;
        let page = site.get(list).await;
        let page = site.get(&page.link(&format!("{list}/message?id="))).await;
        markup::check(&page.text);
        page.has("<bdi>pay</bdi>")
            .has("a payload")
            .has("28 bytes. Members are hidden, as the configuration says.")
            .has("{&quot;amount&quot;:1.10,&quot;IBAN&quot;:&quot;***&quot;}")
            .has(&format!("href=\"{list}\""));
    }
}

#[tokio::test]
async fn a_payload_that_cannot_be_shown_says_why() {
    let tokens = [("eve", Role::Viewer, None), ("bob", Role::Operator, None)];
    let (site, secrets) = Site::with("0.0.0.0:9464", &["pay".to_owned()], &tokens);
    let cookies = secrets.iter().map(|it| format!("semel_token={it}"));
    let [viewer, operator] = <[String; 2]>::try_from(cookies.collect::<Vec<_>>()).expect("two");
    let text = site
        .park_payload(&scope("", "pay"), Reason::Dead, "iban=DE1")
        .await;
    let json = site
        .park_payload(&scope("", "pay"), Reason::Dead, r#"{"a":"b1"}"#)
        .await;
    let page = site.get_with(&text, &[("cookie", &operator)]).await;
    page.has("It is no JSON.").lacks("<pre");
    let page = site.get_with(&json, &[("cookie", &operator)]).await;
    page.has("<pre").has("b1");
    let page = site.get_with(&json, &[("cookie", &viewer)]).await;
    page.has("Your role does not see payloads.").lacks("<pre");
}

#[tokio::test]
async fn a_long_payload_is_shown_in_part() {
    let site = Site::new();
    let payload = format!("{{\"a\":\"{}\"}}", "\u{e4}".repeat(30_000));
    let page = site
        .park_payload(&scope("", "pay"), Reason::Dead, &payload)
        .await;
    let page = site.get(&page).await;
    page.has("characters are shown.");
    assert!(page.text.len() < 200_000, "{}", page.text.len());
}

#[tokio::test]
async fn a_message_that_is_gone_is_told() {
    let site = Site::new();
    let page = site
        .get("/dead-letters/message?id=00112233445566778899aabbccddeeff")
        .await;
    assert_eq!(page.status, 200);
    page.has("no message of this kind has this id");
    site.get("/dead-letters/message?id=x")
        .await
        .has("name the id of a message");
}
