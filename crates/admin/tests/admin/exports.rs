//! The export of the store: whole or visibly not, to one client at a time, and to those who may have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use semel_admin::Lent;
use semel_config::ConsoleSettings;
use semel_core::port::store::Page;
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{AnyStore, Error, ErrorKind, Parked, Reason, Result, Scope, Store, Timestamp};
use semel_http::{Caller, Leave, Role, Tenant};
use semel_store_memory::MemoryStore;
use semel_worker::transfer;
use serde_json::{Value, json};

use crate::site::Site;

const PATH: &str = "/v1/store/export";

fn request(body: &Value) -> Request<Body> {
    let request = Request::post(PATH).header(CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(body.to_string()));
    request.expect("a request")
}

/// Asks for an export as a program of this machine.
async fn asked(site: &Site) -> Response<Body> {
    let request = request(&json!({ "reason": "INC-7" }));
    site.answer(request, Some(Caller::loopback())).await
}

/// Everything of an answer up to its end, and how that failed.
async fn read(answer: Response<Body>) -> (Vec<u8>, Option<String>) {
    let (mut body, mut text) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => text.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(error) => return (text, Some(error.to_string())),
        }
    }
    (text, None)
}

fn message(payload: Bytes) -> Parked {
    Parked {
        scope: Scope::new("", "pay").expect("a scope"),
        key: None,
        reason: Reason::Conflict.code().into(),
        detail: "another request".into(),
        transport: None,
        coordinates: "in:1".into(),
        headers: Vec::new(),
        payload,
        since: Timestamp::EPOCH,
    }
}

/// Opens a store for a service; everything goes in and out of it by way of `transfer`.
fn lend(site: &Site, store: Arc<MemoryStore>, transfer: impl TransferStore) {
    site.store.send_replace(Some(Lent {
        store: AnyStore::new(store),
        trail: Some(AnyTransferStore::new(transfer)),
        runner: None,
    }));
}

/// A service over a store with a message.
async fn filled(site: &Site) -> Arc<MemoryStore> {
    let memory = site.memory();
    let parked = memory.park([message(Bytes::from_static(b"an amount"))].into());
    assert_eq!(parked.await.expect("parked"), [true]);
    lend(site, Arc::clone(&memory), Arc::clone(&memory));
    memory
}

/// A store without an end, which fails after so many pages.
struct Endless {
    entries: Arc<MemoryStore>,
    pages: Arc<AtomicUsize>,
    last: usize,
    /// It gives no answer instead.
    is_silent: bool,
}

impl TransferStore for Endless {
    async fn export(&self, _: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        assert!(limit <= 256, "the store is at work: {limit}");
        if self.pages.fetch_add(1, Ordering::Relaxed) >= self.last {
            if self.is_silent {
                std::future::pending::<()>().await;
            }
            return Err(Error::new(ErrorKind::Unavailable, "the disk is gone"));
        }
        let message = message(vec![b'x'; 100 << 10].into());
        Ok(Page {
            items: vec![Item::Parked(Box::new(message))],
            next: Some(Bytes::from_static(b"on")),
        })
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        self.entries.import(batch).await
    }
}

/// A service over a store without an end, and the number of pages that were asked of it.
fn endless(last: usize) -> (Site, Arc<AtomicUsize>) {
    answering(last, false)
}

/// The same over a store that says nothing after so many pages.
fn silent(last: usize) -> Site {
    answering(last, true).0
}

fn answering(last: usize, is_silent: bool) -> (Site, Arc<AtomicUsize>) {
    let site = Site::new();
    let (memory, pages) = (site.memory(), Arc::new(AtomicUsize::new(0)));
    let transfer = Endless {
        entries: Arc::clone(&memory),
        pages: Arc::clone(&pages),
        last,
        is_silent,
    };
    lend(&site, memory, transfer);
    (site, pages)
}

#[tokio::test]
async fn it_is_what_the_verb_writes_with_an_entry_that_has_the_name_of_the_caller() {
    let site = Site::new();
    let memory = filled(&site).await;
    let ada = Caller {
        name: "ada".into(),
        role: Role::Admin,
        tenant: None,
    };
    let mut order = request(&json!({ "reason": "INC-7" }));
    let leave = Leave::default();
    order.extensions_mut().insert(leave.clone());
    let answer = site.answer(order, Some(ada)).await;
    let header = |name: &str| {
        let value = answer.headers().get(name).and_then(|it| it.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    assert_eq!(answer.status(), 200);
    assert_eq!(header("content-type"), "application/jsonl");
    assert_eq!(header("cache-control"), "no-store");
    let disposition = header("content-disposition");
    assert!(
        disposition.starts_with("attachment; filename=\"semel-export-2026-11-21T100000"),
        "{disposition}"
    );
    assert!(leave.is_given(), "it may take longer than other answers");
    let (text, failure) = read(answer).await;
    assert_eq!(failure, None);
    let (_, counts) = transfer::check(&text[..], &unwatched()).expect("an export");
    assert_eq!((counts.parked, counts.audited), (1, 1));
    // The entry was there before the first page was read, so the verb finds the same now.
    let store = AnyTransferStore::new(memory);
    let of = ("memory", transfer::Use::Rest);
    let created = Timestamp::EPOCH;
    let (verb, _) = transfer::export(&store, of, created, Vec::new(), unwatched())
        .await
        .expect("an export");
    assert_eq!(bodies(&text), bodies(&verb));
    let audit = site.good("/v1/audit").await;
    let entry = &audit["items"][0];
    for (member, value) in [("by", "ada"), ("action", "export"), ("reason", "INC-7")] {
        assert_eq!(entry[member], value, "{audit}");
    }
    assert_eq!(audit["items"].as_array().map(Vec::len), Some(1));
}

/// The lines between the head and the end, without their checksums: those go back to the time in the head.
fn bodies(export: &[u8]) -> Vec<String> {
    let text = String::from_utf8(export.to_vec()).expect("text");
    let body = |line: &str| {
        let (body, _) = line.rsplit_once(",\"crc\":").expect("a checksum");
        body.to_owned()
    };
    text.lines().skip(1).map(body).collect()
}

fn unwatched() -> transfer::OnTransfer {
    Arc::new(|_, _| {})
}

#[tokio::test]
async fn whoever_may_not_have_all_of_it_gets_nothing_and_leaves_no_entry() {
    let site = Site::new();
    filled(&site).await;
    let caller = |role, tenant: Option<&str>| Caller {
        name: "eve".into(),
        role,
        tenant: tenant.map(Tenant::new),
    };
    let good = json!({ "reason": "INC-7" });
    for (caller, body, status, code) in [
        (None, &good, 401, "unauthorized"),
        (Some(caller(Role::Viewer, None)), &good, 403, "forbidden"),
        (Some(caller(Role::Operator, None)), &good, 403, "forbidden"),
        (
            Some(caller(Role::Admin, Some("acme"))),
            &good,
            403,
            "forbidden",
        ),
        (Some(Caller::loopback()), &json!({}), 400, "invalid-input"),
        (
            Some(Caller::loopback()),
            &json!({ "reason": " " }),
            400,
            "invalid-input",
        ),
        (
            Some(Caller::loopback()),
            &json!({ "reason": "INC-7", "pipeline": "pay" }),
            400,
            "invalid-input",
        ),
    ] {
        let (found, problem) = site.send(request(body), caller).await;
        assert_eq!(
            (found, &problem["code"]),
            (status, &json!(code)),
            "{problem}"
        );
    }
    let query = Request::post("/v1/store/export?pipeline=pay").body(Body::empty());
    let query = query.expect("a request");
    assert_eq!(site.send(query, Some(Caller::loopback())).await.0, 400);
    assert_eq!(site.refused(PATH).await.0, 405, "nobody exports by a link");
    let audit = site.good("/v1/audit").await;
    assert_eq!(audit["items"], json!([]));
}

#[tokio::test]
async fn what_is_hidden_from_everybody_is_not_exported() {
    let mask = ["iban"].map(|it| it.parse().expect("a member"));
    let console = ConsoleSettings {
        mask: mask.into_iter().collect(),
        viewers_see_payloads: false,
    };
    let site = Site::with(Vec::new(), console);
    filled(&site).await;
    let refused = site.send(
        request(&json!({ "reason": "INC-7" })),
        Some(Caller::loopback()),
    );
    let (status, problem) = refused.await;
    assert_eq!((status, &problem["code"]), (403, &json!("forbidden")));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("`[console] mask`"), "{problem}");
    let audit = site.good("/v1/audit").await;
    assert_eq!(audit["items"], json!([]));
}

#[tokio::test]
async fn a_store_that_takes_no_entry_is_not_exported() {
    let site = Site::filled().await;
    let answer = asked(&site).await;
    assert_eq!(answer.status(), 501);
    let closed = Site::new();
    assert_eq!(asked(&closed).await.status(), 503, "it is not open yet");
}

#[tokio::test]
async fn a_store_that_fails_half_way_breaks_the_answer_off() {
    let (site, _) = endless(8);
    let answer = asked(&site).await;
    assert_eq!(answer.status(), 200);
    let (text, failure) = read(answer).await;
    let failure = failure.expect("no proper end");
    assert!(failure.contains("the disk is gone"), "{failure}");
    assert!(!text.is_empty());
    let error = transfer::check(&text[..], &unwatched()).expect_err("a part of an export");
    assert_eq!(error.code(), semel_core::Code::ExportDamaged);
    assert_eq!(asked(&site).await.status(), 200, "its place is free");
}

#[tokio::test]
async fn one_client_at_a_time_is_waited_for_and_whoever_leaves_ends_it() {
    let (site, pages) = endless(usize::MAX);
    let mut body = asked(&site).await.into_body();
    body.frame().await.expect("a part").expect("no failure");
    let (status, problem) = site
        .send(
            request(&json!({ "reason": "INC-8" })),
            Some(Caller::loopback()),
        )
        .await;
    let code = &problem["code"];
    assert_eq!((status, code), (409, &json!("export-unfinished")));
    // A client that takes nothing more has nothing read for it but what is on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let read_ahead = pages.load(Ordering::Relaxed);
    assert!(read_ahead <= 24, "{read_ahead} pages of 100 KiB");
    drop(body);
    // The same at the same moment would be the same entry.
    site.clock.advance(Duration::from_secs(1));
    // The place is free as soon as the work has ended.
    while asked(&site).await.status() == 409 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let audit = site.good("/v1/audit").await;
    let entries = audit["items"].as_array().cloned().unwrap_or_default();
    let reasons: Vec<_> = entries.iter().map(|it| &it["reason"]).collect();
    assert_eq!(
        reasons,
        ["INC-7", "INC-7"],
        "not of the one that was refused"
    );
}

#[tokio::test(start_paused = true)]
async fn an_export_that_never_ends_gives_its_place_up() {
    let (site, _) = endless(usize::MAX);
    let mut body = asked(&site).await.into_body();
    let mut error = None;
    // A client that is always in time for the next part.
    for _ in 0..6 * 60 * 2 + 2 {
        match body.frame().await.expect("a part") {
            Ok(_) => tokio::time::advance(Duration::from_secs(30)).await,
            Err(failure) => {
                error = Some(failure.to_string());
                break;
            }
        }
    }
    let error = error.expect("an end after six hours");
    assert!(error.contains("longest time"), "{error}");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_little_now_and_then_is_let_go() {
    let (site, _) = endless(usize::MAX);
    let mut body = asked(&site).await.into_body();
    for _ in 0..3 {
        let part = body.frame().await.expect("a part").expect("no failure");
        assert!(part.is_data());
        tokio::time::advance(Duration::from_secs(59)).await;
    }
    body.frame().await.expect("a part").expect("no failure");
    tokio::time::advance(Duration::from_secs(61)).await;
    let error = body.frame().await.expect("an end").expect_err("a failure");
    assert!(error.to_string().contains("the client took"), "{error}");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_gives_no_answer_is_left() {
    let site = silent(0);
    let mut body = asked(&site).await.into_body();
    let passes = async {
        loop {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    };
    let ended = tokio::select! {
        ended = body.frame() => ended.expect("an end"),
        () = passes => unreachable!("it has no end"),
    };
    let error = ended.expect_err("a failure");
    assert!(
        error.to_string().contains("the store gave nothing"),
        "{error}"
    );
    assert!(body.frame().await.is_none());
    drop(body);
    site.clock.advance(Duration::from_secs(1));
    while asked(&site).await.status() == 409 {
        tokio::task::yield_now().await;
    }
}
