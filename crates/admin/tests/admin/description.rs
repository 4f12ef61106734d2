//! The description has the members that answers have.

use std::collections::BTreeSet;

use semel_admin::OPENAPI;
use serde_json::Value;

use crate::site::Site;

fn schema(name: &str) -> Value {
    let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
    document["components"]["schemas"][name].clone()
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
    store["records"]["total"] = Value::Null;
    assert_eq!(names(&store["parked"]).len(), 2, "{store}");
}
