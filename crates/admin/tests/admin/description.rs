//! The description has the members that answers have.

use std::collections::BTreeSet;

use semel_admin::OPENAPI;
use semel_http::Caller;
use serde_json::{Value, json};

use crate::orders::{Doubtful, numbered};
use crate::site::Site;

fn schema(name: &str) -> Value {
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    document["components"]["schemas"][name].clone()
}

/// Checks that an answer has the members that a schema requires, and no others than it has.
#[track_caller]
pub(crate) fn is_described(answer: &Value, name: &str) {
    let schema = schema(name);
    let (found, described) = (names(answer), names(&schema["properties"]));
    assert!(found.is_subset(&described), "{found:?} {described:?}");
    for member in schema["required"].as_array().into_iter().flatten() {
        let member = member.as_str().expect("a name");
        assert!(found.contains(member), "no {member}: {answer}");
    }
}

fn names(object: &Value) -> BTreeSet<String> {
    let members = object.as_object().into_iter().flatten();
    members.map(|(name, _)| name.clone()).collect()
}

#[tokio::test]
async fn it_has_the_members_of_each_list_and_each_object() {
    let site = Site::filled().await;
    let mut store = site.good("/v1/store").await;
    for (path, name, may_have_more) in [
        ("keys", "KeyEntry", false),
        ("keys/find?key=pay-1", "KeyEntry", false),
        ("dead-letters", "DeadLetter", false),
        ("quarantine", "Quarantined", false),
        ("audit", "AuditLine", false),
        ("keys/show?key=pay-1&tenant=acme", "Record", true),
        ("keys/explain?key=pay-1&tenant=acme", "Explanation", true),
    ] {
        let answer = site.good(&format!("/v1/{path}")).await;
        let (answer, list) = match answer.get("items") {
            Some(items) => (items[0].clone(), Some(answer)),
            None => (answer, None),
        };
        let (found, described) = (names(&answer), names(&schema(name)["properties"]));
        let required = schema(name)["required"].clone();
        for member in required.as_array().into_iter().flatten() {
            let member = member.as_str().expect("a name");
            assert!(found.contains(member), "{path} has no {member}: {answer}");
        }
        assert!(
            may_have_more || found.is_subset(&described),
            "{path}: {found:?} {described:?}"
        );
        if let Some(list) = list {
            let described = names(&schema("List")["properties"]);
            assert!(names(&list).is_subset(&described), "{path}: {list}");
        }
    }
    assert_eq!(names(&store), names(&schema("Statistics")["properties"]));
    let series = site.good("/v1/series?family=a&pipeline=b").await;
    assert_eq!(names(&series), names(&schema("Series")["properties"]));
    let plot = &series["items"][0];
    assert_eq!(names(plot), names(&schema("Plot")["properties"]));
    assert_eq!(
        plot["values"],
        json!([null, 1.5]),
        "nothing is known of the first"
    );
    assert_eq!(
        (&plot["family"], &plot["labels"]["pipeline"]),
        (&json!("a"), &json!("b"))
    );
    store["records"]["total"] = Value::Null;
    assert_eq!(names(&store["parked"]).len(), 2, "{store}");
}

#[tokio::test]
async fn it_has_the_members_of_plans_and_of_what_was_done() {
    let doubtful = Doubtful::of(&numbered(0, 3)).await;
    let anybody = Caller::loopback();
    let described = names(&schema("Change")["properties"]);
    for (action, order, is_done) in [
        (
            "in-doubt/resolve",
            json!({ "keys": ["pay-0", "no"], "verdict": "abandon" }),
            true,
        ),
        (
            "in-doubt/resolve",
            json!({ "keys": ["pay-1"], "verdict": "applied" }),
            true,
        ),
        ("keys/hold", json!({ "keys": ["pay-1"] }), true),
        ("keys/forget", json!({ "keys": ["pay-1", "pay-2"] }), true),
        ("dead-letters/drop", json!({ "all": true }), true),
        ("quarantine/drop", json!({ "keys": ["no"] }), true),
        ("store/sweep", json!({}), true),
    ] {
        let plan = doubtful.plan(action, &order, &anybody).await;
        is_described(&plan, "Plan");
        for left in plan["left"].as_array().expect("a list") {
            is_described(left, "Left");
        }
        let mut changes = plan["changes"].as_array().cloned().expect("a list");
        if is_done {
            let mut done = doubtful.done(action, &plan, &anybody).await;
            is_described(&done, "Done");
            for mut change in std::mem::take(done["changes"].as_array_mut().expect("a list")) {
                let change = change.as_object_mut().expect("a change");
                assert_eq!(change.remove("result"), Some("done".into()), "{action}");
                changes.push(change.clone().into());
            }
        }
        for change in changes {
            // A message has the members of its list.
            let mut described = described.clone();
            if action.ends_with("drop") {
                described.extend(names(&schema("DeadLetter")["properties"]));
                described.extend(names(&schema("Quarantined")["properties"]));
            }
            assert!(names(&change).is_subset(&described), "{action}: {change}");
        }
    }
}
