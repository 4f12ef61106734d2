//! Payloads of messages, and the bytes of outcomes: for those who may see them, without what is hidden.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_config::ConsoleSettings;
use semel_core::port::store::{ListQuery, Page};
use semel_core::settle::{Settlement, Step};
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Key, Outcome, Parked, Reason, Recovery, Result, Scope, Start,
    Store, Timestamp, Window, forward_store,
};
use semel_http::Caller;
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};

use crate::site::{Site, viewer_of};

const PAYMENT: &[u8] = br#"{"amount":1.10,"card":{"number":"4111"},"iban":"DE1"}"#;
const MASKED: &str = r#"{"amount":1.10,"card":{"number":"***"},"iban":"***"}"#;

fn console(mask: &[&str], viewers_see_payloads: bool) -> ConsoleSettings {
    let members = mask.iter().map(|it| it.parse().expect("a member"));
    ConsoleSettings {
        mask: members.collect(),
        viewers_see_payloads,
    }
}

/// A service, with a key whose outcome is a payment, and the ids of its dead letters with these payloads.
async fn site(console: ConsoleSettings, payloads: &[&'static [u8]]) -> (Site, Vec<String>) {
    let site = Site::with(Vec::new(), console);
    let store = AnyStore::new(site.memory());
    let scope = Scope::new("acme", "pay").expect("a scope");
    let key = Key::parse("paid").expect("a key");
    let request = ClaimRequest::new(scope.clone(), key, ClaimId::from_u128(1));
    let settlement = Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::raw(Bytes::from_static(PAYMENT), 1_000),
            window: Window::DEFAULT,
        },
    };
    store.claim([request].into()).await.expect("a claim");
    store.settle([settlement].into()).await.expect("settled");
    let mut ids = Vec::new();
    for (at, payload) in payloads.iter().enumerate() {
        let message = Parked {
            scope: scope.clone(),
            key: None,
            reason: Reason::Dead.code().into(),
            detail: "declined".into(),
            transport: None,
            coordinates: format!("in:{at}").into(),
            headers: vec![("IBAN".into(), Bytes::from_static(b"DE2"))],
            payload: Bytes::from_static(payload),
            since: Timestamp::EPOCH,
        };
        ids.push(message.id().to_string());
        store.park([message].into()).await.expect("parked");
    }
    site.lend(store);
    (site, ids)
}

async fn shown(site: &Site, id: &str, caller: Caller) -> Value {
    let (status, shown) = site
        .ask(
            &format!("/v1/quarantine/show?id={id}"),
            Some(caller.clone()),
        )
        .await;
    assert_eq!((status, &shown["code"]), (404, &"message-unknown".into()));
    let path = format!("/v1/dead-letters/show?id={id}");
    let (status, shown) = site.ask(&path, Some(caller)).await;
    assert_eq!(status, 200, "{shown}");
    shown
}

#[tokio::test]
async fn an_operator_sees_a_payload_without_what_is_hidden() {
    let (site, ids) = site(console(&["/card/number", "iban"], false), &[PAYMENT]).await;
    let message = shown(&site, &ids[0], Caller::loopback()).await;
    assert_eq!(message["payload"], MASKED);
    assert_eq!(message["withheld"], "members");
    assert_eq!(
        message["headers"],
        json!([{ "name": "IBAN", "value": "***" }])
    );
    assert_eq!(message["size_bytes"], PAYMENT.len());
    let record = site.good("/v1/keys/show?key=paid").await;
    assert_eq!(record["outcome"]["value"], MASKED);
    assert_eq!(record["outcome"]["withheld"], "members");
}

#[tokio::test]
async fn where_nothing_is_hidden_a_payload_is_what_it_was() {
    let (site, ids) = site(console(&[], false), &[PAYMENT, b"\xff\xfe", b""]).await;
    let message = shown(&site, &ids[0], Caller::loopback()).await;
    assert_eq!(
        message["payload"].as_str().map(str::as_bytes),
        Some(PAYMENT)
    );
    assert_eq!(message["withheld"], Value::Null);
    let message = shown(&site, &ids[1], Caller::loopback()).await;
    assert_eq!(message["payload_base64"], "//4=");
    let message = shown(&site, &ids[2], Caller::loopback()).await;
    assert_eq!(message["payload"], "");
}

#[tokio::test]
async fn a_payload_in_which_no_member_can_be_told_is_not_shown() {
    let broken: &[u8] = br#"{"iban":"DE1""#;
    let (site, ids) = site(console(&["iban"], true), &[broken, b"\xff", b""]).await;
    for id in &ids[..2] {
        let message = shown(&site, id, Caller::loopback()).await;
        assert_eq!(message["withheld"], "no_json", "{message}");
        for member in ["payload", "payload_base64"] {
            assert_eq!(message[member], Value::Null, "{message}");
        }
    }
    // There is nothing that could be hidden.
    let message = shown(&site, &ids[2], Caller::loopback()).await;
    assert_eq!(message["withheld"], Value::Null, "{message}");
}

#[tokio::test]
async fn a_viewer_sees_a_payload_only_where_that_is_allowed() {
    let (site, ids) = site(console(&[], false), &[PAYMENT]).await;
    let message = shown(&site, &ids[0], viewer_of("acme")).await;
    assert_eq!(message["withheld"], "role");
    assert_eq!(message["headers"], json!([{ "name": "IBAN" }]));
    assert!(!message.to_string().contains("4111"), "{message}");
    let (status, other) = site
        .ask(
            &format!("/v1/dead-letters/show?id={}", ids[0]),
            Some(viewer_of("other")),
        )
        .await;
    assert_eq!((status, &other["code"]), (404, &"message-unknown".into()));
    let (status, record) = site
        .ask("/v1/keys/show?key=paid", Some(viewer_of("acme")))
        .await;
    assert_eq!(
        (status, &record["outcome"]["withheld"]),
        (200, &"role".into())
    );
}

#[tokio::test]
async fn a_viewer_who_may_see_payloads_sees_what_an_operator_sees() {
    let (site, ids) = site(console(&["iban", "/card"], true), &[PAYMENT]).await;
    let message = shown(&site, &ids[0], viewer_of("acme")).await;
    assert_eq!(message, shown(&site, &ids[0], Caller::loopback()).await);
    assert_eq!(
        message["payload"],
        r#"{"amount":1.10,"card":"***","iban":"***"}"#
    );
}

#[tokio::test]
async fn what_is_no_id_is_refused() {
    let (site, _) = site(console(&[], false), &[]).await;
    for query in ["", "?id=", "?id=12", "?id=pay-1"] {
        let refused = site.refused(&format!("/v1/dead-letters/show{query}")).await;
        assert_eq!(refused, (400, "invalid-input".to_owned()), "{query}");
    }
}

/// A store that lists one page of messages, and no other.
#[derive(Clone)]
struct OnePage(Arc<MemoryStore>);

impl Store for OnePage {
    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        if query.after.is_some() {
            std::future::pending::<()>().await;
        }
        self.0.list_parked(query).await
    }

    forward_store!(self => self.0; but list_parked);
}

#[tokio::test(start_paused = true)]
async fn one_message_costs_no_more_pages_than_lead_to_it() {
    let site = Site::new();
    let memory = site.memory();
    let store = AnyStore::new(OnePage(Arc::clone(&memory)));
    let scope = Scope::new("acme", "pay").expect("a scope");
    let messages: Vec<_> = (0..200)
        .map(|at| Parked {
            scope: scope.clone(),
            key: None,
            reason: Reason::Conflict.code().into(),
            detail: "declined".into(),
            transport: None,
            coordinates: format!("in:{at}").into(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"{}"),
            since: Timestamp::EPOCH,
        })
        .collect();
    memory.park(messages.into()).await.expect("parked");
    let query = ListQuery {
        limit: 200,
        ..ListQuery::default()
    };
    let listed = memory.list_parked(&query).await.expect("a page").items;
    let id = |at: usize| listed[at].id().to_string();
    site.lend(store);
    let shown = site
        .good(&format!("/v1/quarantine/show?id={}", id(0)))
        .await;
    assert_eq!(shown["id"], id(0));
    let last = site
        .refused(&format!("/v1/quarantine/show?id={}", id(199)))
        .await;
    assert_eq!(last, (503, "timeout".to_owned()));
}

/// A service with a doubt whose message is a payment.
async fn doubtful(console: ConsoleSettings) -> Site {
    let (site, _) = site(console, &[]).await;
    let store = AnyStore::new(site.memory());
    let scope = Scope::new("acme", "pay").expect("a scope");
    let key = Key::parse("lost").expect("a key");
    let request = ClaimRequest {
        start: Start::Marked(Recovery::Park),
        lease: Duration::from_secs(1),
        ..ClaimRequest::new(scope.clone(), key.clone(), ClaimId::from_u128(2))
    };
    store.claim([request].into()).await.expect("a claim");
    site.clock.advance(Duration::from_secs(2));
    while store.sweep(10).await.expect("a sweep").more {}
    let done = ClaimRequest::new(
        scope.clone(),
        Key::parse("done").expect("a key"),
        ClaimId::from_u128(3),
    );
    store.claim([done].into()).await.expect("a claim");
    let message = Parked {
        scope,
        key: Some(key),
        reason: Reason::InDoubt.code().into(),
        detail: "no answer".into(),
        transport: None,
        coordinates: "in:1".into(),
        headers: Vec::new(),
        payload: Bytes::from_static(PAYMENT),
        since: Timestamp::EPOCH,
    };
    store.park([message].into()).await.expect("parked");
    site.lend(store);
    site
}

#[tokio::test]
async fn a_doubt_is_shown_with_its_message_as_far_as_its_caller_may_see_it() {
    let path = "/v1/in-doubt/show?key=lost";
    let site = doubtful(console(&["/card/number", "iban"], false)).await;
    let doubt = site.good(path).await;
    assert_eq!(
        (&doubt["state"], &doubt["arrival"]),
        (&"in_doubt".into(), &"delivery".into())
    );
    let message = &doubt["message"];
    assert_eq!(
        (&message["payload"], &message["withheld"]),
        (&MASKED.into(), &"members".into())
    );
    assert_eq!(
        (&message["coordinates"], &message["detail"]),
        (&"in:1".into(), &"no answer".into())
    );
    let (status, doubt) = site.ask(path, Some(viewer_of("acme"))).await;
    assert_eq!(
        (status, &doubt["message"]["withheld"]),
        (200, &"role".into())
    );
    assert!(!doubt.to_string().contains("4111"), "{doubt}");
    let (status, other) = site.ask(path, Some(viewer_of("other"))).await;
    assert_eq!((status, &other["code"]), (404, &"key-unknown".into()));
    for key in ["none", "done"] {
        let refused = site.refused(&format!("/v1/in-doubt/show?key={key}")).await;
        assert_eq!(refused, (404, "key-unknown".to_owned()), "{key}");
    }
    let open = doubtful(console(&[], false)).await.good(path).await;
    assert_eq!(
        open["message"]["payload"].as_str().map(str::as_bytes),
        Some(PAYMENT)
    );
}
