//! The description says what the service takes: paths, methods, and the members of queries.

use std::collections::BTreeSet;

use semel_core::{StateKind, units};
use serde_json::Value;

use super::OPENAPI;
use crate::orders::{Action, MOST_CHANGES, MOST_REASON_BYTES};
use crate::page::MOST_ITEMS;
use crate::router::{EXPORT, STOP, Step, described};

fn document() -> Value {
    serde_json::from_str(OPENAPI).expect("JSON")
}

fn parameters(operation: &Value) -> Vec<Value> {
    operation["parameters"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

#[test]
fn it_has_the_paths_of_the_service_and_the_members_of_their_queries() {
    let document = document();
    let paths = document["paths"].as_object().expect("paths");
    let all: BTreeSet<&str> = paths.keys().map(String::as_str).collect();
    let steps = Action::ALL
        .into_iter()
        .flat_map(|action| [Step::Plan, Step::Do].map(|it| it.path(action)));
    let steps: Vec<String> = steps.collect();
    let served = described().into_iter().map(|(path, _)| path);
    let served = served.chain(steps.iter().map(String::as_str));
    let served: BTreeSet<&str> = served.chain([STOP, EXPORT]).collect();
    assert_eq!(all, served);
    for path in &steps {
        let methods: Vec<_> = paths[path].as_object().expect("methods").keys().collect();
        assert_eq!(methods, ["post"], "{path}");
        let is_stale = paths[path]["post"]["responses"].get("409").is_some();
        assert_eq!(is_stale, path.ends_with("/do"), "{path}");
    }
    for (path, members) in described() {
        let methods: Vec<_> = paths[path].as_object().expect("methods").keys().collect();
        assert_eq!(methods, ["get"], "{path}");
        let parameters = parameters(&paths[path]["get"]);
        let queried = parameters.iter().filter(|it| it["in"] == "query");
        let names: BTreeSet<_> = queried.map(|it| it["name"].as_str()).collect();
        let members: BTreeSet<_> = members.iter().map(|it| Some(*it)).collect();
        assert_eq!(names, members, "{path}");
    }
}

#[test]
fn it_has_the_words_and_the_bounds_of_queries() {
    let document = document();
    let keys = parameters(&document["paths"]["/v1/keys"]["get"]);
    let of = |name: &str| {
        let found = keys.iter().find(|it| it["name"] == name);
        found.expect("a parameter")["schema"].clone()
    };
    let states = StateKind::ALL.map(|it| Value::from(it.as_str()));
    assert_eq!(of("state")["enum"], Value::from(states.to_vec()));
    assert_eq!(of("limit")["maximum"], MOST_ITEMS);
    let of = |name: &str| document["components"]["schemas"][name]["properties"].clone();
    for schema in [
        "Resolve",
        "DropDeadLetters",
        "DropQuarantined",
        "Retry",
        "ReplayDeadLetters",
        "ReleaseQuarantined",
        "Keys",
        "Hold",
        "Extend",
    ] {
        for names in ["keys", "ids"] {
            assert_eq!(of(schema)[names]["maxItems"], MOST_CHANGES, "{schema}");
        }
    }
    assert_eq!(of("Pipelines")["pipelines"]["maxItems"], MOST_CHANGES);
    for schema in ["Do", "Stop", "Export"] {
        assert_eq!(of(schema)["reason"]["maxLength"], MOST_REASON_BYTES);
    }
    let windows = of("Extend")["window"]["pattern"]
        .as_str()
        .expect("a pattern")
        .to_owned();
    for (name, _) in units::WINDOWS {
        assert!(windows.contains(name), "{name}: {windows}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(value: &Value, document: &Value, count: &mut usize) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                    *count += 1;
                }
                members.values().for_each(|it| visit(it, document, count));
            }
            Value::Array(items) => items.iter().for_each(|it| visit(it, document, count)),
            _ => {}
        }
    }
    let (document, mut count) = (document(), 0);
    visit(&document, &document, &mut count);
    assert!(count > 50, "{count}");
}
