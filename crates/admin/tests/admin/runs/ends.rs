//! The end of runs: with their messages, with the worker, or with a failure.

use std::time::Duration;

use semel_core::Reason;
use semel_http::{Caller, Role};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{REPLAY, Running};
use crate::description::is_described;
use crate::orders::{each, operator, operator_of};

#[tokio::test]
async fn a_worker_that_ends_finishes_what_is_in_hand_and_leaves_the_rest_set_aside() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a", "b", "c"]).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    running.site.orders.stop();
    let (site, orders) = (&running.site, &running.site.orders);
    let ended = orders.ended(Duration::from_secs(60));
    let opened = async {
        let (status, refused) = running.carry_out(REPLAY, &plan, &operator("bob")).await;
        assert_eq!(status, 403, "{refused}");
        running.open();
    };
    tokio::join!(ended, opened);
    let (status, run) = request.await.expect("no panic");
    assert_eq!((status, &run["state"]), (200, &"stopped".into()), "{run}");
    let mut results = each(&run, "result");
    results.sort_unstable();
    assert_eq!(results, ["applied", "left", "left"]);
    assert_eq!(
        (&run["complete"], &run["differ"]),
        (&false.into(), &2.into())
    );
    assert_eq!(
        (running.effects().len(), running.left().await.len()),
        (1, 2)
    );
    // The next worker goes on with the rest, and an order to this one is refused.
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    assert_eq!(each(&plan, "predicted"), ["runs"; 2]);
    let (status, refused) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!(status, 503, "{refused}");
    assert_eq!(
        site.good("/v1/runs").await["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_run_whose_last_message_is_in_hand_when_the_worker_ends_is_complete() {
    let running = Running::waiting("");
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a"]).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    running.site.orders.stop();
    running.open();
    let (status, run) = request.await.expect("no panic");
    assert_eq!((status, &run["state"]), (200, &"ended".into()), "{run}");
    assert_eq!((&run["done"], &run["complete"]), (&1.into(), &true.into()));
}

#[tokio::test]
async fn a_run_that_somebody_stops_finishes_what_is_in_hand_and_says_who_and_why() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let (ada, bob) = (operator("ada"), operator("bob"));
    let keys: Vec<_> = (0..30).map(|at| format!("k{at}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    running.set_aside(&Reason::Dead, &keys).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    let site = &running.site;
    let listed = site.good("/v1/runs").await;
    let id = listed["items"][0]["id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/runs/{id}/stop");
    let because = json!({ "reason": "wrong amounts" });
    // Not by a viewer, nor without a reason, nor by somebody of a tenant, nor another one.
    let viewer = Caller {
        role: Role::Viewer,
        ..ada.clone()
    };
    for (path, body, caller, expected) in [
        (&*path, &because, viewer, 403),
        (&*path, &json!({}), bob.clone(), 400),
        (&*path, &because, operator_of("eve", "acme"), 404),
        ("/v1/runs/0000000000000000/stop", &because, bob.clone(), 404),
    ] {
        let (status, refused) = site.post(path, body, Some(caller)).await;
        assert_eq!(status, expected, "{refused}");
    }
    let stopping = site.post(&path, &because, Some(bob.clone()));
    let opened = async {
        loop {
            let run = site.good(&format!("/v1/runs/{id}")).await;
            if run["stopped"].is_object() {
                break running.open();
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let ((status, stopped), ()) = tokio::join!(stopping, opened);
    assert_eq!(
        (status, &stopped["state"]),
        (200, &"stopped".into()),
        "{stopped}"
    );
    is_described(&stopped, "Run");
    assert_eq!(stopped["by"], "ada");
    assert_eq!(stopped["stopped"]["by"], "bob");
    assert_eq!(stopped["stopped"]["reason"], "wrong amounts");
    let (status, run) = request.await.expect("no panic");
    assert_eq!((status, &run), (200, &stopped));
    let came = |result: &str| run["came"][result].as_u64().unwrap_or_default();
    assert_eq!(came("applied") + came("left"), 30, "{run}");
    assert!(came("applied") >= 1 && came("left") >= 10, "{run}");
    assert_eq!(running.left().await.len() as u64, came("left"), "{run}");
    // The first order counts, and one about a run that has ended changes nothing.
    let other = json!({ "reason": "another" });
    let (status, again) = site.post(&path, &other, Some(ada)).await;
    assert_eq!((status, &again), (200, &stopped));
    let trail = site.good("/v1/audit?limit=1000").await;
    let trail = trail["items"].as_array().cloned().unwrap_or_default();
    let of_run: Vec<_> = trail.iter().filter(|it| it["action"] == REPLAY).collect();
    let [begun, ended] = &of_run[..] else {
        panic!("{of_run:?}")
    };
    assert_eq!(
        (&begun["by"], &begun["after"]),
        (&json!("ada"), &json!(format!("begun {id}")))
    );
    assert_eq!(begun["before"], "30 of pay");
    assert_eq!(
        (&ended["by"], &ended["reason"]),
        (&json!("bob"), &json!("wrong amounts"))
    );
    let after = ended["after"].as_str().unwrap_or_default();
    let expected = format!(
        "stopped {id}, {} applied, {} left",
        came("applied"),
        came("left")
    );
    assert_eq!(after, expected);
}

#[tokio::test]
async fn a_run_begins_nothing_more_once_its_pipeline_is_paused() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let ada = operator("ada");
    let keys: Vec<_> = (0..30).map(|at| format!("k{at}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    running.set_aside(&Reason::Dead, &keys).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    running.pause.send_replace(true);
    running.open();
    let (status, run) = request.await.expect("no panic");
    assert_eq!((status, &run["state"]), (200, &"stopped".into()), "{run}");
    let came = |result: &str| run["came"][result].as_u64().unwrap_or_default();
    assert_eq!(came("applied") + came("left"), 30, "{run}");
    assert!(came("applied") >= 1 && came("left") >= 10, "{run}");
    assert_eq!(running.left().await.len() as u64, came("left"), "{run}");
}

#[tokio::test]
async fn a_run_that_outlasts_the_end_of_its_worker_is_broken_off() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let ada = operator("ada");
    let keys: Vec<_> = (0..30).map(|at| format!("k{at}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    running.set_aside(&Reason::Dead, &keys).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let request = running.begun(REPLAY, &plan, &ada, 1).await;
    running.site.orders.ended(Duration::from_millis(50)).await;
    let (status, run) = request.await.expect("no panic");
    assert_eq!((status, &run["state"]), (200, &"failed".into()), "{run}");
    assert_eq!(run["problem"]["code"], "store-unavailable");
    assert_eq!(
        running.left().await.len(),
        30,
        "the messages are still there"
    );
    // What was handed over may have happened, and the rest was not even looked at.
    let effects = running.effects();
    let changes = run["changes"].as_array().expect("changes");
    for change in changes {
        let was_called = effects
            .iter()
            .any(|it| it.contains(&*change["key"].to_string()));
        assert!(!was_called || change["result"] == "unknown", "{run}");
    }
    let came = |result: &str| run["came"][result].as_u64().unwrap_or_default();
    assert_eq!(came("unknown") + came("left"), 30, "{run}");
    assert!(came("unknown") >= 1 && came("left") >= 1, "{run}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_waited_for_and_ends_after_an_hour() {
    let running = Running::waiting("batch = 1\nconcurrency = 1\n");
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a", "b"]).await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &run["state"]), (202, &"running".into()), "{run}");
    assert_eq!(each(&run, "result"), ["waiting"; 2]);
    assert_eq!(
        (&run["ended"], &run["complete"]),
        (&Value::Null, &false.into())
    );
    let (status, again) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &again["id"]), (202, &run["id"]));
    // Real time, in which the command begins; then an hour of the other.
    while running.effects().is_empty() {
        let slept = spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)));
        slept.await.expect("no panic");
    }
    sleep(Duration::from_secs(3_600)).await;
    running.open();
    let run = loop {
        let slept = spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)));
        slept.await.expect("no panic");
        let runs = running.site.good("/v1/runs").await;
        if runs["items"][0]["state"] != "running" {
            break running.ended().await;
        }
    };
    assert_eq!(run["state"], "stopped", "{run}");
    let mut results = each(&run, "result");
    results.sort_unstable();
    assert_eq!(results, ["applied", "left"]);
    assert_eq!(
        (running.effects().len(), running.left().await.len()),
        (1, 1)
    );
}

#[tokio::test]
async fn a_run_without_its_program_fails_and_says_so() {
    let running = Running::new();
    let ada = operator("ada");
    running.park("", "gone", &Reason::Dead, "a").await;
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &run["state"]), (200, &"failed".into()), "{run}");
    assert_eq!(run["problem"]["code"], "target-unavailable", "{run}");
    assert_eq!(each(&run, "result"), ["left"]);
    assert_eq!(running.left().await, ["a"]);
}

#[tokio::test]
async fn a_message_that_fails_again_differs_from_what_was_foretold() {
    let running = Running::new();
    let ada = operator("ada");
    running.set_aside(&Reason::Dead, &["a"]).await;
    // It cannot append to a folder.
    std::fs::create_dir(running.path("out")).expect("a folder");
    let plan = running.plan(REPLAY, &json!({ "all": true }), &ada).await;
    let (status, run) = running.carry_out(REPLAY, &plan, &ada).await;
    assert_eq!((status, &run["state"]), (200, &"ended".into()), "{run}");
    assert_eq!(run["differ"], 1, "{run}");
    assert_eq!((&run["done"], &run["complete"]), (&0.into(), &false.into()));
    assert_eq!(running.left().await, ["a"]);
}
