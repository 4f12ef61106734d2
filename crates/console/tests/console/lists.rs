//! Pages of lists that are longer than what is read at once, and of keys that can be taken for others.

use semel_core::Reason;

use crate::markup;
use crate::site::{Site, key, scope};

/// More than the API goes through for one page.
const MANY: usize = 10_001;

#[tokio::test]
async fn a_list_that_was_not_read_to_its_end_is_not_told_as_empty() {
    let site = Site::new();
    let pay = scope("", "pay");
    let many: Vec<_> = (0..MANY).map(|at| key(&format!("a-{at:05}"))).collect();
    for keys in many.chunks(1_000) {
        site.hold_all(&pay, keys).await;
    }
    site.hold_all(&pay, &[key("zz-1")]).await;
    for (path, none) in [
        ("/key?key=zz", "none begins so"),
        ("/key?key=zy", "none begins so"),
    ] {
        let (mut page, mut pages) = (site.get(path).await, 1);
        let is_there = path.contains("zz");
        while !page.text.contains("<bdi>zz-1</bdi>") {
            page.has("Nothing was found in this part of a longer list.")
                .lacks(none);
            markup::check(&page.text);
            let start = format!("{}?", path.split('?').next().unwrap_or_default());
            let Some(next) = page.find_link(&start).filter(|it| it.contains("cursor=")) else {
                break;
            };
            (page, pages) = (site.get(&next).await, pages + 1);
        }
        assert_eq!(
            page.text.contains("<bdi>zz-1</bdi>"),
            is_there,
            "{path}: {}",
            page.text
        );
        // Records come in the order of their operation ids: only of what is nowhere it is certain that it takes two pages.
        assert!(is_there || pages == 2, "{path}: {pages}");
    }
    let page = site.get("/key?key=zy&pipeline=mail").await;
    page.has("none begins so");
}

#[tokio::test]
async fn messages_beyond_those_that_were_read_are_behind_a_link() {
    let site = Site::new();
    for at in 0..2_001 {
        let key = key(&format!("a-{at}"));
        site.park(&scope("", "pay"), &key, Reason::Dead, "HTTP 422")
            .await;
    }
    let page = site.get("/dead-letters").await;
    page.has("Of a longer list, <b>2\u{202f}000</b> messages");
    let rest = site.get(&page.link("/dead-letters?cursor=")).await;
    rest.has("Of a longer list, <b>1</b> message")
        .lacks("Read on");
}

#[tokio::test]
async fn a_key_is_found_by_itself_and_no_scan_of_its_pipeline() {
    let site = Site::new();
    site.doubt(&scope("acme", "pay"), &[key("pay-1")], "no answer")
        .await;
    site.doubt(&scope("", "mail"), &[key("mail-1")], "no answer")
        .await;
    for (name, pipeline, tenant) in [("pay-1", "pay", "acme"), ("mail-1", "mail", "")] {
        let page = site.get("/in-doubt").await;
        let start = format!("/key?key={name}&amp;pipeline={pipeline}");
        let link = page.link(&start);
        let page = site.get(&link).await;
        page.has("What a duplicate meets now: parked");
        // Its links and its forms name the key; the operation id is only compared.
        assert!(
            link.ends_with(&format!("&id={}", page.operation_id())),
            "{link}"
        );
        for (member, value) in [("keys", name), ("pipeline", pipeline), ("tenant", tenant)] {
            assert_eq!(page.hidden(member), value);
        }
        page.lacks("name=\"ids\"");
        let form = [("keys", name), ("pipeline", pipeline), ("tenant", tenant)];
        let plan = site.post("/orders/plan/keys/hold", &form).await;
        plan.has("Hold one change");
        let back = plan.link("/key?");
        assert_eq!(back, link);
        site.get(&back)
            .await
            .has("What a duplicate meets now: parked");
    }
}

#[tokio::test]
async fn a_key_that_is_an_operation_id_hides_nobody() {
    for (site, tenant) in [(Site::new(), "acme"), (Site::configured(), "")] {
        let pay = scope(tenant, "pay");
        site.doubt(&pay, &[key("pay-1")], "mine").await;
        let id = site.get("/key?key=pay-1").await.operation_id().to_owned();
        // A stranger computes the id and sends a message with it as its key.
        site.doubt(&pay, &[key(&id)], "of a stranger").await;
        let within = format!("pipeline=pay&tenant={tenant}");
        for path in [
            "/key?key=pay-1".to_owned(),
            format!("/key?key=pay-1&{within}"),
            format!("/key?key=pay-1&{within}&id={id}"),
        ] {
            let page = site.get(&path).await;
            assert_eq!(page.operation_id(), id, "{path}");
            assert_eq!(page.hidden("keys"), "pay-1", "{path}");
            page.lacks("of a stranger");
        }
        // Asked for by its id, it is not the other one that is shown and acted on.
        for path in [format!("/key?key={id}"), format!("/key?key={id}&{within}")] {
            let page = site.get(&path).await;
            page.has("Which one?").lacks("/orders/plan/");
        }
        let page = site.get(&format!("/key?key={id}&{within}")).await;
        page.has("The operation that has it as its id is another one");
        // An address whose parts do not belong together shows nothing.
        let page = site.get(&format!("/key?key={id}&{within}&id={id}")).await;
        page.has("not that of the operation that was asked for")
            .lacks("/orders/plan/");
        let page = site.get(&format!("/key?key=pay-2&{within}&id={id}")).await;
        page.has("Nothing is on record under this key.");
    }
}

#[tokio::test]
async fn an_operation_id_and_its_beginning_are_found() {
    let site = Site::new();
    site.doubt(&scope("acme", "pay"), &[key("pay-1")], "mine")
        .await;
    let id = site.get("/key?key=pay-1").await.operation_id().to_owned();
    for typed in [&id[..], &id[..8], &id.to_uppercase()] {
        let page = site.get(&format!("/key?key={typed}")).await;
        assert_eq!(page.operation_id(), id, "{typed}");
    }
}

#[tokio::test]
async fn letters_that_turn_the_order_are_kept_apart_from_what_is_beside_them() {
    let site = Site::new();
    let turned = "\u{202e}exe.txt";
    let pay = scope("", "pay");
    site.doubt(&pay, &[key(turned)], "no answer").await;
    site.park(&pay, &key("a"), Reason::Dead, turned).await;
    let query = form_urlencoded::byte_serialize(turned.as_bytes()).collect::<String>();
    for path in ["/in-doubt", "/dead-letters", &format!("/key?key={query}")] {
        site.get(path).await.has(&format!("<bdi>{turned}</bdi>"));
    }
}
