use std::collections::BTreeSet;

use bytes::Bytes;
use semel_core::{Key, Scope};
use semel_store_memory::MemoryStore;

use super::*;
use crate::samples::{NOW, Stopped};

fn parked(pipeline: &str, key: Option<&str>, payload: &'static str) -> Parked {
    Parked {
        scope: Scope::new("", pipeline).expect("a scope"),
        key: key.map(|key| Key::parse(key).expect("a key")),
        reason: "too-old".into(),
        detail: "Came too late".into(),
        transport: None,
        coordinates: "in:1".into(),
        headers: Vec::new(),
        payload: Bytes::from_static(payload.as_bytes()),
        since: NOW,
    }
}

async fn store(messages: &[Parked]) -> AnyStore {
    let store = AnyStore::new(Arc::new(MemoryStore::new(Arc::new(Stopped))));
    store.park(messages.into()).await.expect("parked");
    store
}

fn search(names: &[&str]) -> Search {
    let names: Vec<_> = names.iter().copied().map(str::to_owned).collect();
    Search {
        kind: Kind::Quarantined,
        within: ListQuery::default(),
        names: Arc::new(Names::parse(&names).expect("names")),
        filter: Filter::default(),
    }
}

async fn payloads(search: &Search, store: &AnyStore) -> BTreeSet<Bytes> {
    let mut payloads = BTreeSet::new();
    let visit = async |found: Vec<Found>| {
        payloads.extend(found.into_iter().map(|it| it.message.payload));
        Ok(ControlFlow::Continue(()))
    };
    search.pages(store, visit).await.expect("pages");
    payloads
}

#[tokio::test]
async fn a_name_is_a_key_or_the_beginning_of_an_id() {
    let messages = [
        parked("a", Some("x"), "one"),
        parked("b", Some("x"), "two"),
        parked("a", Some("y"), "three"),
        parked("a", None, "four"),
    ];
    let store = store(&messages).await;
    let id = messages[3].id().to_string();
    let found = payloads(&search(&["y", &id[..8]]), &store).await;
    assert_eq!(found, ["four", "three"].map(Bytes::from).into());
    let looked_up = search(&["x", "y", "none", &id.to_uppercase()[..8]])
        .look_up(&store)
        .await
        .expect("a look-up");
    let meanings: Vec<_> = looked_up.names.into_iter().map(|(_, it)| it).collect();
    assert_eq!(
        meanings,
        [
            Meaning::ManyScopes(vec![messages[0].scope.clone(), messages[1].scope.clone()]),
            Meaning::One,
            Meaning::Nothing,
            Meaning::One
        ]
    );
    assert_eq!(looked_up.count, 4);
    let all = search(&[]);
    assert_eq!(payloads(&all, &store).await.len(), 4);
    let looked_up = all.look_up(&store).await.expect("a look-up");
    assert_eq!((looked_up.count, looked_up.names), (0, Vec::new()));
}

#[tokio::test]
async fn a_beginning_that_names_several_things_is_told() {
    let mut messages: Vec<_> = vec![parked("a", Some("x"), "one")];
    let id = messages[0].id().to_string();
    messages.push(parked("a", Some(&id[..8]), "two"));
    let store = store(&messages).await;
    let search = search(&[&id[..8]]);
    let looked_up = search.look_up(&store).await.expect("a look-up");
    assert_eq!(looked_up.names, [(id[..8].to_owned(), Meaning::KeyAndId)]);
}

#[test]
fn what_is_neither_a_key_nor_hexadecimal_is_no_name() {
    let names = ["x".to_owned(), "json:[".to_owned()];
    assert_eq!(Names::parse(&names).err(), Some(NotAName("json:[")));
}

#[test]
fn a_filter_goes_by_age_and_by_words_in_any_case() {
    let message = parked("a", Some("x"), "one");
    let second = Duration::from_secs(1);
    let has = |age, like| Filter::new(age, like, NOW.plus(second)).has(&message);
    assert!(has(None, None));
    assert!(has(Some(second), Some("TOO")));
    assert!(has(None, Some("came")), "the detail counts as well");
    assert!(!has(Some(second * 2), None));
    assert!(!has(None, Some("conflict")));
}

#[tokio::test]
async fn a_row_has_names_that_stay() {
    let store = store(&[parked("a", Some("x"), "one")]).await;
    let visit = async |found: Vec<Found>| {
        for it in found {
            let id = it.message.id();
            let operation_id = it.operation().expect("a key").id();
            let rows = [
                serde_json::to_string(&Quarantined::from(it.clone())).expect("JSON"),
                serde_json::to_string(&DeadLetter::from(it)).expect("JSON"),
            ];
            for (row, [state, detail]) in rows
                .iter()
                .zip([["quarantined", "detail"], ["absent", "error"]])
            {
                let expected = format!(
                    "{{\"id\":\"{id}\",\"key\":\"x\",\"operation_id\":\"{operation_id}\",\"pipeline\":\"a\",\
                     \"state\":\"{state}\",\"reason\":\"too-old\",\"since\":\"1970-01-01T00:16:40.000Z\",\
                     \"{detail}\":\"Came too late\",\"coordinates\":\"in:1\",\"size_bytes\":3}}"
                );
                assert_eq!(*row, expected);
            }
        }
        Ok(ControlFlow::Continue(()))
    };
    search(&[]).pages(&store, visit).await.expect("pages");
}
