//! The description says what the service does: paths, methods, members and words.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use semel_core::StateKind;
use semel_core::{Duplicate, Outcome, Timestamp};
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;
use serde::Serialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::OPENAPI;
use crate::answer::{Decision, Granted, Instant, Stepped};
use crate::claims::{self, MOST_ITEMS};
use crate::outcome::Remembered;
use crate::router::{paths, router};
use crate::settings::Settings;
use crate::settlements::{self, Verb};

fn document() -> Value {
    serde_json::from_str(OPENAPI).expect("JSON")
}

fn schema(name: &str) -> Value {
    document()["components"]["schemas"][name].clone()
}

fn names(object: &Value) -> BTreeSet<&str> {
    let members = object.as_object().into_iter().flatten();
    members.map(|(name, _)| name.as_str()).collect()
}

fn words(list: &Value) -> Vec<&str> {
    let words = list.as_array().into_iter().flatten();
    words.map(|word| word.as_str().expect("a word")).collect()
}

fn set<'n>(names: &[&'n str]) -> BTreeSet<&'n str> {
    names.iter().copied().collect()
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

#[test]
fn it_has_the_paths_of_the_service_and_no_other() {
    let document = document();
    let paths = paths::<Arc<MemoryStore>>();
    let paths: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    assert_eq!(names(&document["paths"]), paths);
}

#[tokio::test]
async fn it_has_the_methods_that_each_path_takes() {
    let router = router(store(), Settings::default());
    for (path, item) in document()["paths"].as_object().expect("paths") {
        let request = Request::patch(path.replace("{claim}", "x")).body(Body::empty());
        let answer = router.clone().oneshot(request.expect("a request")).await;
        let answer = answer.expect("the router never fails");
        let allow = answer.headers()["allow"]
            .to_str()
            .expect("ASCII")
            .to_lowercase();
        let methods: BTreeSet<&str> = allow.split(',').filter(|it| *it != "head").collect();
        assert_eq!(names(item), methods, "{path}");
    }
}

#[test]
fn it_has_the_members_that_requests_may_have() {
    let all = set(&claims::request::MEMBERS);
    assert_eq!(names(&schema("Claim")["properties"]), all);
    let mut without_wait = all;
    without_wait.remove("wait");
    assert_eq!(names(&schema("ClaimItem")["properties"]), without_wait);
    for (verb, (name, _)) in Verb::ALL.into_iter().map(|it| (it.1, it)) {
        let title = name[..1].to_uppercase() + &name[1..];
        assert_eq!(
            names(&schema(&title)["properties"]),
            set(verb.members()),
            "{name}"
        );
        let settlement = schema("Settlement");
        let items = settlement["oneOf"].as_array().expect("a list");
        let item = items.iter().find(|it| it["title"] == name).expect("a step");
        let mut members = set(verb.members());
        members.extend(["claim", "step"]);
        assert_eq!(names(&item["properties"]), members, "{name}");
        assert_eq!(item["properties"]["step"]["const"], name);
    }
    assert_eq!(
        schema("Settlement")["oneOf"].as_array().map(Vec::len),
        Some(Verb::ALL.len())
    );
    for (name, members) in [
        ("ClaimBatch", claims::BATCH_MEMBERS),
        ("SettlementBatch", settlements::BATCH_MEMBERS),
    ] {
        let schema = schema(name);
        assert_eq!(names(&schema["properties"]), set(&members));
        assert_eq!(schema["properties"][members[0]]["maxItems"], MOST_ITEMS);
    }
    for name in [
        "Claim",
        "ClaimItem",
        "ClaimBatch",
        "Renew",
        "Start",
        "Complete",
        "Release",
        "Fail",
        "SettlementBatch",
    ] {
        assert_eq!(schema(name)["additionalProperties"], false, "{name}");
    }
}

#[test]
fn it_has_the_words_that_requests_may_have() {
    let claim = schema("Claim");
    let of = |name: &str| claim["properties"][name]["enum"].clone();
    assert_eq!(
        words(&of("class")),
        claims::request::CLASSES.map(|(word, _)| word)
    );
    assert_eq!(
        words(&of("on_doubt")),
        claims::request::ON_DOUBT.map(|(word, _)| word)
    );
    for name in ["Release", "Fail"] {
        let certainties = schema(name)["properties"]["certainty"]["enum"].clone();
        assert_eq!(
            words(&certainties),
            settlements::request::CERTAINTIES.map(|(word, _)| word)
        );
    }
    assert_eq!(
        words(&schema("State")["enum"]),
        StateKind::ALL.map(StateKind::as_str)
    );
    let duplicates = [
        Duplicate::Own,
        Duplicate::Redelivery,
        Duplicate::Republish,
        Duplicate::Unknown,
    ];
    let replay = schema("Replay");
    let words = words(&replay["properties"]["duplicate"]["enum"]);
    assert_eq!(words, duplicates.map(Duplicate::as_str));
}

fn decisions() -> [Decision; 7] {
    let now = Instant(Timestamp::EPOCH);
    let operation_id = String::new;
    [
        Decision::Granted(Box::new(Granted {
            claim: String::new(),
            idempotency_key: String::new(),
            operation_id: operation_id(),
            token: 1,
            attempt: 1,
            lease_until: now,
            takeover: false,
            resumed: false,
            possible_repeat: false,
        })),
        Decision::Replay {
            operation_id: operation_id(),
            outcome: Remembered::of(&Outcome::empty()).expect("readable"),
            completed_at: Some(now),
            duplicate: "own",
        },
        Decision::Busy {
            operation_id: operation_id(),
            until: now,
            retry_after_ms: 1,
        },
        Decision::Conflict {
            operation_id: operation_id(),
        },
        Decision::Stale {
            operation_id: operation_id(),
            applied: 1,
        },
        Decision::TooOld {
            operation_id: operation_id(),
        },
        Decision::Parked {
            operation_id: operation_id(),
            state: "dead",
            certainty: "not_applied",
        },
    ]
}

fn written(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).expect("JSON")
}

/// The members of all kinds of outcomes.
fn remembered() -> BTreeSet<String> {
    let outcomes = [
        Outcome::raw(bytes::Bytes::from_static(b"1"), 1),
        Outcome::raw(bytes::Bytes::from_static(b"1"), 0),
        Outcome::media("a", bytes::Bytes::new(), 1).expect("short enough"),
    ];
    let members = outcomes.iter().flat_map(|outcome| {
        let remembered = Remembered::of(outcome).ok();
        let remembered = written(&remembered.expect("readable"));
        names(&remembered)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    members.collect()
}

#[test]
fn it_has_the_decisions_and_their_members() {
    let mut described = schema("Decision")["discriminator"]["mapping"].clone();
    let mapping = described.as_object_mut().expect("a mapping");
    // Reserved until there is a guard of states.
    assert!(mapping.remove("illegal").is_some());
    assert_eq!(mapping.len(), decisions().len());
    let remembered = remembered();
    for decision in decisions() {
        let decision = written(&decision);
        let name = decision["decision"].as_str().expect("a name");
        let path = mapping[name].as_str().expect("a schema");
        let schema = schema(path.rsplit('/').next().expect("a name"));
        assert_eq!(schema["properties"]["decision"]["const"], name);
        let mut members = names(&decision);
        if name == "replay" {
            members.extend(remembered.iter().map(String::as_str));
        }
        assert_eq!(names(&schema["properties"]), members, "{name}");
        for required in words(&schema["required"]) {
            assert!(members.contains(required), "{name}: {required}");
        }
    }
    let stepped = written(&Stepped {
        state: StateKind::Claimed,
        lease_until: Some(Instant(Timestamp::EPOCH)),
    });
    assert_eq!(names(&schema("Stepped")["properties"]), names(&stepped));
}

#[test]
fn it_has_the_parameters_of_a_look_up() {
    let document = document();
    let parameters = document["paths"]["/v1/operations"]["get"]["parameters"].as_array();
    let names = parameters.expect("parameters").iter();
    let names: Vec<_> = names
        .map(|it| it["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, crate::operations::PARAMETERS);
}

/// Every `$ref` leads somewhere.
#[test]
fn its_references_lead_somewhere() {
    fn each<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    found.push(reference);
                }
                members.values().for_each(|it| each(it, found));
            }
            Value::Array(items) => items.iter().for_each(|it| each(it, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    each(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    assert_eq!(document["openapi"], json!("3.1.0"));
}
