//! The plan of a verb that changes something: beside workers, of many keys, of no keys.

use rustix::process::Signal;
use serde_json::Value;

use crate::operator::{STORES, fresh, items, object, worked, worker};
use crate::site::{lines, wait_for};

#[test]
fn a_plan_is_made_beside_a_worker_and_opens_nothing() {
    let site = worked("embedded:data");
    let (mut child, stdin) = worker(&site);
    let stopped = format!(
        "process {} has the store open, and carries it out when you say --yes",
        child.id()
    );
    for (verb, key) in [
        (["keys", "release"], "dead-1"),
        (["keys", "forget"], "done-1"),
        (["keys", "hold"], "done-1"),
    ] {
        site.semel(&[verb[0], verb[1], key])
            .code(1)
            .says(&format!("plan: {} 1 key", verb[1]))
            .says(&stopped)
            .says("nothing was changed; to carry it out:");
    }
    site.semel(&["in-doubt", "resolve", "doubt-1", "--applied"])
        .code(1)
        .says("plan: resolve 1 doubt")
        .says(&stopped);
    drop(stdin);
    assert!(child.wait().expect("a child").success());
}

#[test]
fn a_plan_leaves_the_lease_of_a_worker_that_is_gone_as_it_is() {
    let site = fresh("embedded:data");
    site.write("in", "{\"id\":\"slow-1\"}\n");
    let run = site.start(&["run"]);
    wait_for("the call", || site.path("ran-slow-1").exists());
    run.signal(Signal::KILL);
    run.wait();
    for verb in ["release", "hold"] {
        site.semel(&["keys", verb, "slow-1"]);
    }
    site.semel(&["keys", "release", "slow-1"])
        .done()
        .says("nobody has the store open, so that its lease ends as soon as somebody opens it");
    let shown = site.semel(&["keys", "show", "slow-1", "--output", "json"]);
    let shown = object(&shown.done());
    assert_eq!(
        (&shown["state"], &shown["vanished"]),
        (&"started".into(), &0.into())
    );
}

#[test]
fn a_worker_that_was_killed_and_not_asked_after_has_no_store_open() {
    let site = fresh("embedded:data");
    site.write("in", "{\"id\":\"slow-1\"}\n");
    let run = site.start(&["run"]);
    wait_for("the call", || site.path("ran-slow-1").exists());
    run.signal(Signal::KILL);
    // The test has not reaped the process yet, so that it keeps its number.
    wait_for("word of its end", || {
        let told = site.semel(&["keys", "explain", "slow-1"]).done().stdout;
        told.contains("nobody is seen to have the store open")
    });
}

#[test]
fn a_plan_of_many_keys_finds_them_all_and_counts_who_is_missing() {
    for store in STORES {
        let site = worked(store);
        let keys = lines(0..200, |id| format!("nobody-{id}")) + "done-1\njson:7\n";
        site.write("keys.txt", keys);
        let ended = site
            .semel(&["keys", "forget", "--keys-from", "keys.txt"])
            .code(1);
        assert!(ended.stderr.contains("plan: forget 2 keys\n"), "{ended:#?}");
        assert_eq!(ended.stderr.matches("there is no record of").count(), 200);
        // The rest would say the same.
        assert_eq!(ended.stderr.matches("it was never claimed").count(), 20);
    }
}

#[test]
fn an_order_that_has_nothing_to_do_answers_with_an_empty_document() {
    for store in STORES {
        let site = worked(store);
        site.semel(&["keys", "hold", "done-1", "--yes"]).done();
        let again = ["keys", "hold", "done-1", "--yes", "--output", "json"];
        assert_eq!(items(&site.semel(&again).done()), Vec::<Value>::new());
        let plan = ["keys", "hold", "json:7", "--output", "json"];
        assert_eq!(site.semel(&plan).code(1).stdout, "", "nothing was done");
    }
}
