//! Orders about wholes: relays, whose orders may stand in another store, and producers.

use std::sync::Arc;
use std::time::Duration;

use semel_admin::{Lent, OrderStore, RelayPlace};
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::port::store::Page;
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::producer::{Batch, Opening, ProducerName};
use semel_core::{AnyStore, Code, Error, ErrorKind, Result, Timestamp};
use semel_http::{Caller, Role};
use semel_operate::producers::Producers;
use semel_store_memory::MemoryProducers;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::description::is_described;
use crate::site::{Site, viewer_of};

/// Plans an order; returns the status and the answer.
async fn plan(site: &Site, action: &str, order: &Value) -> (u16, Value) {
    let path = format!("/v1/{action}/plan");
    site.post(&path, order, Some(Caller::loopback())).await
}

/// Plans an order and carries it out; returns both answers.
async fn done(site: &Site, action: &str, order: &Value) -> (Value, Value) {
    let (status, plan) = plan(site, action, order).await;
    assert_eq!(status, 200, "{plan}");
    is_described(&plan, "Plan");
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let path = format!("/v1/{action}/do");
    let (status, done) = site.post(&path, &order, Some(Caller::loopback())).await;
    assert_eq!(status, 200, "{done}");
    (plan, done)
}

fn lend(site: &Site) {
    let memory = site.memory();
    site.store.send_replace(Some(Lent {
        store: AnyStore::new(Arc::clone(&memory)),
        trail: Some(AnyTransferStore::new(memory)),
        runner: None,
    }));
}

#[tokio::test]
async fn relays_follow_the_pipelines_in_one_list() {
    let listed = Site::new().good("/v1/pipelines").await;
    let items = listed["items"].as_array().cloned().unwrap_or_default();
    let told: Vec<_> = items
        .iter()
        .map(|it| (it["pipeline"].as_str(), it["relay"] == true))
        .collect();
    assert_eq!(told, [(Some("pay"), false), (Some("out"), true)]);
}

#[tokio::test]
async fn an_order_about_a_relay_goes_to_the_store_beside_its_outbox() {
    let (opened, elsewhere) = watch::channel(OrderStore::Unseen);
    let relay = |name: &str, elsewhere| RelayPlace {
        name: name.into(),
        stream: name.into(),
        outbox: None,
        elsewhere,
    };
    let relays = vec![relay("here", None), relay("there", Some(elsewhere))];
    let site = Site::of(|settings| settings.relays = relays);
    lend(&site);
    let order = json!({ "pipelines": ["here", "there", "nowhere"] });
    let names = |of: &Value| -> Vec<String> {
        let all = of.as_array().into_iter().flatten();
        all.map(|it| it["pipeline"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let away = Error::new(ErrorKind::Unavailable, "no connection");
    let newer = Error::new(ErrorKind::InvalidConfig, "format 99").with_code(Code::StoreNewer);
    // Nothing is planned where the store of one of them is not open, and why it is not is told.
    for (found, status, code) in [
        (OrderStore::Unseen, 503, "store-unavailable"),
        (OrderStore::Failed(away), 503, "store-unavailable"),
        (OrderStore::Failed(newer), 500, "store-newer"),
        (OrderStore::Absent, 501, "store-unavailable"),
    ] {
        opened.send_replace(found);
        let (refused, problem) = plan(&site, "pipelines/pause", &order).await;
        let told = (refused, &problem["code"], &problem["certainty"]);
        assert_eq!(told, (status, &json!(code), &json!("not_applied")));
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with("relay there: "), "{problem}");
        is_described(&problem, "Problem");
    }
    // The others can be planned without it.
    let (_, planned) = plan(&site, "pipelines/pause", &json!({ "pipelines": ["here"] })).await;
    assert_eq!(names(&planned["changes"]), ["here"]);

    let memory = site.memory();
    let there = AnyStore::new(memory);
    opened.send_replace(OrderStore::Open(there.clone()));
    let (planned, _) = done(&site, "pipelines/pause", &order).await;
    assert_eq!(names(&planned["changes"]), ["here", "there"]);
    assert_eq!(names(&planned["left"]), ["nowhere"]);
    is_described(&planned["changes"][1], "Change");
    let own = site.good("/v1/audit").await;
    assert_eq!(names(&own["items"]), ["here"]);
    let orders = semel_operate::pipelines::ordered_pauses(&there, &["there", "here"]);
    let orders = orders.await.expect("orders");
    let stands: Vec<_> = orders.iter().map(Option::is_some).collect();
    assert_eq!(stands, [true, false]);
}

async fn with_producers(names: &[&str]) -> (Site, AnyProducerJournal) {
    let journal = AnyProducerJournal::new(MemoryProducers::default());
    for name in names {
        let opening = Opening {
            name: name.parse::<ProducerName>().expect("a name"),
            stream: "orders".into(),
            target: "nats orders".into(),
            chance: [7; 8],
        };
        journal.open(&opening).await.expect("opened");
    }
    let producers = Producers {
        own: journal.clone(),
        others: None,
    };
    let site = Site::of(|settings| settings.producers = Some(producers));
    lend(&site);
    (site, journal)
}

#[tokio::test]
async fn a_producer_is_listed_frozen_released_and_thawed() {
    let (site, journal) = with_producers(&["billing", "till"]).await;
    let listed = site.good("/v1/producers").await;
    is_described(&listed["items"][0], "Producer");
    assert_eq!(listed["items"][0]["producer"], "billing");
    assert_eq!(listed["items"][0]["frozen"], false);
    let frozen = async || {
        let all = journal.list().await.expect("a list");
        all.iter().map(|it| it.is_frozen).collect::<Vec<_>>()
    };
    let order = json!({ "producers": ["billing", "none"], "side": "publisher" });
    for (action, before, after, is_frozen) in [
        ("freeze", "open", "frozen", true),
        ("release", "frozen", "frozen", true),
        ("thaw", "frozen", "open", false),
    ] {
        let (plan, done) = done(&site, &format!("producers/{action}"), &order).await;
        let change = json!({
            "producer": "billing", "side": "publisher", "action": action, "before": before, "after": after,
            "waiting": 0
        });
        assert_eq!(plan["changes"], json!([change]), "{plan}");
        is_described(&plan["changes"][0], "Change");
        assert_eq!(plan["left"][0]["producer"], "none", "{plan}");
        is_described(&plan["left"][0], "Left");
        assert_eq!(done["changes"][0]["result"], "done", "{done}");
        assert_eq!(frozen().await, [is_frozen, false]);
    }
    let trail = site.good("/v1/audit").await;
    let entries: Vec<_> = trail["items"].as_array().into_iter().flatten().collect();
    let actions: Vec<_> = entries.iter().map(|it| &it["action"]).collect();
    assert_eq!(
        actions,
        ["producer-freeze", "producer-release", "producer-thaw"]
    );
    assert_eq!(entries[0]["before"], "billing: open");
    assert_eq!(entries[0]["reason"], "INC-7");
}

/// Sends an order of a plan that was carried out a second time.
async fn again(site: &Site, action: &str, plan: &Value) -> (u16, Value) {
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let path = format!("/v1/{action}/do");
    site.post(&path, &order, Some(Caller::loopback())).await
}

#[tokio::test]
async fn a_release_that_is_sent_twice_releases_nothing_that_no_plan_showed() {
    let (site, journal) = with_producers(&["billing"]).await;
    let opening = Opening {
        name: "billing".parse::<ProducerName>().expect("a name"),
        stream: "orders".into(),
        target: "nats orders".into(),
        chance: [7; 8],
    };
    let opened = journal.open(&opening).await.expect("opened");
    let append = async |first: u64| {
        let batch = Batch {
            first,
            count: 1,
            body: "order".into(),
            input: None,
            confirmed: 0,
            at: Timestamp::from_millis(1_000),
        };
        let appended = journal.append(&opened.incarnation, "orders", &batch);
        appended.await.expect("appended");
    };
    let order = json!({ "producers": ["billing"] });
    let released = async || journal.list().await.expect("a list")[0].streams[0].released;
    done(&site, "producers/freeze", &order).await;
    append(1).await;
    let (plan, _) = done(&site, "producers/release", &order).await;
    assert_eq!(
        (&plan["changes"][0]["waiting"], released().await),
        (&json!(1), 1)
    );
    append(2).await;
    site.clock.advance(Duration::from_secs(1));
    let (status, stale) = again(&site, "producers/release", &plan).await;
    assert_eq!((status, &stale["code"]), (409, &json!("plan-stale")));
    assert_eq!(
        (&stale["changes"][0]["waiting"], released().await),
        (&json!(2), 1)
    );
    // The new plan shows it, and is good.
    assert_eq!(again(&site, "producers/release", &stale).await.0, 200);
    assert_eq!(released().await, 2);
}

#[tokio::test]
async fn an_order_that_was_undone_is_not_given_again_by_its_token() {
    let (site, _) = with_producers(&["billing"]).await;
    let order = json!({ "producers": ["billing"] });
    let (plan, _) = done(&site, "producers/freeze", &order).await;
    done(&site, "producers/thaw", &order).await;
    let (status, stale) = again(&site, "producers/freeze", &plan).await;
    assert_eq!((status, &stale["code"]), (409, &json!("plan-stale")));
    let trail = site.good("/v1/audit").await;
    assert_eq!(trail["items"].as_array().map(Vec::len), Some(2), "{trail}");
}

#[tokio::test]
async fn a_producer_of_two_names_is_planned_once() {
    let (site, journal) = with_producers(&["billing"]).await;
    let id = journal.list().await.expect("a list").remove(0).id;
    let order = json!({ "producers": ["billing", id] });
    let (plan, done) = done(&site, "producers/freeze", &order).await;
    assert_eq!(plan["changes"].as_array().map(Vec::len), Some(1), "{plan}");
    assert_eq!(done["done"], 1, "{done}");
}

#[tokio::test]
async fn producers_are_listed_page_by_page() {
    let (site, _) = with_producers(&["till", "billing", "stock"]).await;
    let mut path = "/v1/producers?limit=2".to_owned();
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        let page = site.good(&path).await;
        let items = page["items"].as_array().into_iter().flatten();
        names.extend(items.map(|it| it["producer"].clone()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/producers?limit=2&cursor={next}"),
            None => break,
        }
        assert_eq!(page["complete"], false, "{page}");
    }
    assert_eq!(
        (pages, names),
        (2, ["billing", "stock", "till"].map(Value::from).to_vec())
    );
    assert_eq!(site.refused("/v1/producers?limit=0").await.0, 400);
}

#[tokio::test]
async fn an_order_about_a_producer_that_no_trail_could_tell_of_is_not_given() {
    let (site, journal) = with_producers(&["billing"]).await;
    site.store.send_replace(Some(Lent {
        store: AnyStore::new(site.memory()),
        trail: None,
        runner: None,
    }));
    let order = json!({ "producers": ["billing"] });
    let (status, refused) = plan(&site, "producers/freeze", &order).await;
    assert_eq!(status, 501, "{refused}");
    // A plan of a worker whose store takes entries is of no use here, either.
    lend(&site);
    let (_, plan) = plan(&site, "producers/freeze", &order).await;
    site.store.send_replace(Some(Lent {
        store: AnyStore::new(site.memory()),
        trail: None,
        runner: None,
    }));
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let caller = Some(Caller::loopback());
    let (status, body) = site.post("/v1/producers/freeze/do", &order, caller).await;
    assert_eq!(status, 501, "{body}");
    assert_eq!(body["certainty"], "not_applied", "{body}");
    let all = journal.list().await.expect("a list");
    assert!(!all[0].is_frozen, "{all:?}");
}

/// A trail that takes nothing.
struct Full;

impl TransferStore for Full {
    async fn export(&self, _: Option<&[u8]>, _: usize) -> Result<Page<Item>> {
        Ok(Page {
            items: Vec::new(),
            next: None,
        })
    }

    async fn import(&self, _: Arc<[Item]>) -> Result<Vec<bool>> {
        Err(Error::new(ErrorKind::Unavailable, "the disk is full"))
    }
}

#[tokio::test]
async fn an_order_about_a_producer_that_the_trail_does_not_take_is_not_given() {
    let (site, journal) = with_producers(&["billing"]).await;
    site.store.send_replace(Some(Lent {
        store: AnyStore::new(site.memory()),
        trail: Some(AnyTransferStore::new(Full)),
        runner: None,
    }));
    let order = json!({ "producers": ["billing"] });
    let (_, plan) = plan(&site, "producers/freeze", &order).await;
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let caller = Some(Caller::loopback());
    let (_, body) = site.post("/v1/producers/freeze/do", &order, caller).await;
    assert_eq!(body["certainty"], "not_applied", "{body}");
    let all = journal.list().await.expect("a list");
    assert!(!all[0].is_frozen, "{all:?}");
}

#[tokio::test]
async fn a_producer_that_is_as_the_order_would_make_it_is_told_so() {
    let (site, journal) = with_producers(&["billing"]).await;
    let order = json!({ "producers": ["billing", "none"] });
    let told = async |action: &str| {
        let (status, plan) = plan(&site, &format!("producers/{action}"), &order).await;
        assert_eq!(status, 200, "{plan}");
        let left = plan["left"].as_array().cloned().unwrap_or_default();
        let already: Vec<_> = left.iter().map(|it| it["already"] == true).collect();
        (plan["changes"].as_array().map_or(0, Vec::len), already)
    };
    // What is not frozen has nothing that could be released: that is no state to be in already.
    assert_eq!(told("thaw").await, (0, vec![true, false]));
    assert_eq!(told("release").await, (0, vec![false, false]));
    assert_eq!(told("freeze").await, (1, vec![false]));
    let name = "billing".parse().expect("a name");
    let freeze = semel_core::producer::ProducerOrder::Freeze;
    assert!(journal.order(&name, freeze).await.expect("frozen"));
    assert_eq!(told("freeze").await, (0, vec![true, false]));
    assert_eq!(told("thaw").await, (1, vec![false]));
}

#[tokio::test]
async fn a_plan_about_a_producer_is_stale_once_somebody_else_gave_the_order() {
    let (site, journal) = with_producers(&["billing"]).await;
    let order = json!({ "producers": ["billing"] });
    let (_, plan) = plan(&site, "producers/freeze", &order).await;
    let name = "billing".parse().expect("a name");
    let freeze = semel_core::producer::ProducerOrder::Freeze;
    assert!(journal.order(&name, freeze).await.expect("frozen"));
    let order = json!({ "token": plan["token"], "reason": "INC-7" });
    let caller = Some(Caller::loopback());
    let (status, stale) = site.post("/v1/producers/freeze/do", &order, caller).await;
    assert_eq!((status, &stale["code"]), (409, &json!("plan-stale")));
    assert_eq!(stale["left"][0]["why"], "it is frozen already", "{stale}");
}

#[tokio::test]
async fn an_order_about_producers_is_refused_by_role_by_tenant_and_by_what_it_says() {
    let (site, _) = with_producers(&["billing"]).await;
    let path = "/v1/producers/freeze/plan";
    let good = json!({ "producers": ["billing"] });
    let viewer = Caller {
        name: "watcher".into(),
        role: Role::Viewer,
        tenant: None,
    };
    for caller in [viewer, viewer_of("acme")] {
        let (status, body) = site.post(path, &good, Some(caller)).await;
        assert_eq!(status, 403, "{body}");
    }
    let of_tenant = Some(viewer_of("acme"));
    let (status, body) = site.ask("/v1/producers", of_tenant).await;
    assert_eq!(status, 403, "{body}");
    for bad in [
        json!({}),
        json!({ "producers": [] }),
        json!({ "producers": ["a b"] }),
        json!({ "producers": ["billing"], "side": "left" }),
        json!({ "producers": ["billing"], "all": true }),
    ] {
        let (status, body) = plan(&site, "producers/freeze", &bad).await;
        assert_eq!(status, 400, "{body}");
    }
    let none = Site::new();
    lend(&none);
    assert_eq!(none.refused("/v1/producers").await.0, 501);
    let (status, body) = plan(&none, "producers/freeze", &good).await;
    assert_eq!(status, 501, "{body}");
}
