//! Verbs beside a worker that has the embedded store open: the worker carries them out.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::process::{Child, ChildStdin};

use rustix::process::{Pid, Signal, kill_process};

use crate::operator::{fresh, items, member, object, worked, worker};
use crate::site::{Site, lines, wait_for};

const SOCKET: &str = "data/control.sock";

/// Starts the worker that writes the store's folder while verbs run beside it.
fn beside(site: &Site) -> (Child, ChildStdin) {
    let worker = worker(site);
    let is_socket = || std::fs::metadata(site.path(SOCKET)).is_ok();
    wait_for("the socket", is_socket);
    worker
}

/// Checks that the worker ends as if it had got no orders, and removes its socket.
#[track_caller]
fn ends_well(site: &Site, (mut child, stdin): (Child, ChildStdin)) {
    drop(stdin);
    assert!(child.wait().expect("a child").success());
    assert!(!site.path(SOCKET).exists(), "the socket is removed");
}

#[test]
fn every_order_is_carried_out_by_the_worker_with_its_plan_and_its_entry() {
    let site = worked("embedded:data");
    let worker = beside(&site);
    let told = format!(
        "process {} has the store open and carries this out",
        worker.0.id()
    );
    let found = std::fs::symlink_metadata(site.path(SOCKET)).expect("a socket");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    for (verb, plan) in [
        (&["keys", "release", "dead-1"][..], "plan: release 1 key"),
        (&["keys", "hold", "done-1"], "plan: hold 1 key"),
        (
            &["keys", "hold", "--off", "done-1"],
            "plan: let go of 1 key",
        ),
        (
            &["keys", "extend", "done-1", "--window", "30d"],
            "plan: extend 1 key",
        ),
        (&["keys", "forget", "json:7"], "plan: forget 1 key"),
        (
            &["in-doubt", "resolve", "doubt-1", "--applied"],
            "plan: resolve 1 doubt",
        ),
        (
            &["dead-letters", "drop", "dead-1"],
            "plan: drop 1 dead letter",
        ),
        (
            &["quarantine", "drop", "done-1"],
            "plan: drop 1 message in quarantine",
        ),
        (&["store", "sweep"], "plan: sweep 1 store"),
    ] {
        let words = ["--by", "ada", "--reason", "why", "--yes"];
        site.semel(&[verb, &words].concat())
            .done()
            .says(&told)
            .says(plan);
    }
    let actions = site.trail().into_iter().map(|[by, action, .., reason]| {
        assert_eq!((by.as_str(), reason.as_str()), ("ada", "why"));
        action
    });
    let actions: Vec<_> = actions.collect();
    let expected = [
        "requeue",
        "hold",
        "let-go",
        "extend",
        "forget",
        "resolve-applied",
        "drop",
        "drop",
        "drop",
        "sweep",
    ];
    assert_eq!(actions, expected);
    assert_eq!(site.state("doubt-1").as_deref(), Some("completed"));
    assert_eq!(site.state("json:7"), None);
    site.semel(&["store", "migrate"]).done();
    ends_well(&site, worker);
    assert_eq!(
        site.state("doubt-1").as_deref(),
        Some("completed"),
        "it is durable"
    );
    assert_eq!(site.trail().len(), expected.len());
}

#[test]
fn kept_messages_run_beside_the_worker_under_claims_of_its_store() {
    let site = worked("embedded:data");
    let worker = beside(&site);
    site.write(
        "handler.sh",
        "cat >/dev/null; touch \"again-$SEMEL_KEY\"; printf better",
    );
    let replayed = site.semel(&[
        "dead-letters",
        "replay",
        "--all",
        "--yes",
        "--by",
        "ada",
        "--output",
        "json",
    ]);
    let replayed = object(&replayed.done());
    assert_eq!(
        (&replayed["applied"], &replayed["dropped"]),
        (&1.into(), &1.into())
    );
    assert!(site.path("again-dead-1").exists());
    site.semel(&["quarantine", "release", "--all", "--yes"])
        .done();
    site.write("more", "{\"id\":\"new-1\"}\n{\"id\":\"done-1\"}\n");
    let again = [
        "replay",
        "--id",
        "r1",
        "--from",
        "more",
        "--allow-expired",
        "--yes",
    ];
    let again = site
        .semel(&[&again[..], &["--output", "json"]].concat())
        .done();
    let again = object(&again);
    assert_eq!(
        (&again["applied"], &again["replayed"]),
        (&1.into(), &1.into())
    );
    ends_well(&site, worker);
    let shown = site.semel(&["keys", "show", "dead-1", "--outcome"]).done();
    assert_eq!(shown.stdout, "better");
}

#[test]
fn two_who_resolve_the_same_doubts_do_each_once() {
    let site = fresh("embedded:data");
    let many = 300;
    site.write(
        "handler.sh",
        "cat >/dev/null; case $SEMEL_KEY in doubt-*) kill -9 $$;; esac; touch \"ran-$SEMEL_KEY\"",
    );
    site.write(
        "in",
        lines(0..many, |id| format!("{{\"id\":\"doubt-{id}\"}}")),
    );
    site.run().is(&[("in_doubt", many)]);
    let worker = beside(&site);
    let start = |by: &str| {
        site.start(&[
            "in-doubt",
            "resolve",
            "--all",
            "--applied",
            "--by",
            by,
            "--yes",
            "--output",
            "json",
        ])
    };
    let (ann, bob) = (start("ann"), start("bob"));
    let (ann, bob) = (ann.wait(), bob.wait());
    let by_ann = member(&items(&ann), "key");
    let by_bob = member(&items(&bob), "key");
    let mut all = [by_ann.clone(), by_bob.clone()].concat();
    all.sort_unstable();
    all.dedup();
    let count = usize::try_from(many).expect("few");
    assert_eq!(
        (all.len(), by_ann.len() + by_bob.len()),
        (count, count),
        "each exactly once"
    );
    for (ended, done) in [(&ann, by_ann.len()), (&bob, by_bob.len())] {
        match ended.status.code() {
            Some(0) => assert!(
                done == count || ended.stderr.contains("no doubts"),
                "{ended:#?}"
            ),
            Some(1) => assert!(
                ended.stderr.contains("it is completed meanwhile"),
                "{ended:#?}"
            ),
            code => panic!("{code:?}: {ended:#?}"),
        }
    }
    let resolved = site.trail();
    let resolved = resolved
        .iter()
        .filter(|entry| entry[1] == "resolve-applied");
    assert_eq!(resolved.count(), count);
    ends_well(&site, worker);
}

#[test]
fn the_reason_of_an_export_beside_the_worker_is_in_its_trail() {
    let site = worked("embedded:data");
    let export = |options: &[&str]| site.semel(&[&["store", "export", "--to"], options].concat());
    export(&["at-rest.jsonl", "--reason", "INC-7"])
        .code(2)
        .says("with a worker that has the store open");
    assert!(!site.path("at-rest.jsonl").exists());
    let worker = beside(&site);
    export(&["beside.jsonl", "--reason", "INC-8"]).done();
    let store = ["--store", "embedded:data"];
    export(&[&["named.jsonl", "--reason", "INC-9"], &store[..]].concat()).done();
    export(&["unasked.jsonl"]).done();
    let trail = site.trail().into_iter();
    let exports = trail.filter(|it| it[1] == "export");
    let reasons: Vec<_> = exports.map(|[.., reason]| reason).collect();
    let unasked = format!("beside process {}, which works on the store", worker.0.id());
    assert_eq!(reasons, ["INC-8", "INC-9", &unasked]);
    assert!(site.text("beside.jsonl").contains("INC-8"));
    ends_well(&site, worker);
}

#[test]
fn what_only_the_worker_can_do_is_refused_with_the_way_out() {
    let site = worked("embedded:data");
    site.semel(&["store", "export", "--to", "a.jsonl"]).done();
    let worker = beside(&site);
    for verb in [
        &["store", "import", "a.jsonl", "--yes"][..],
        &["run"],
        &["dedup", "in", "--store", "embedded:data"],
    ] {
        let ended = site.semel(verb).code(3).says("[store-in-use]");
        assert_eq!(ended.stdout, "", "{verb:?}");
        assert!(!ended.stderr.contains("carries this out"), "{ended:#?}");
    }
    // Another configuration of the same store; its effect writes a file.
    let file = "effect = { kind = \"file\", path = \"out\" }\n";
    let config = site.text("semel.toml");
    let (before, _) = config.split_once("effect =").expect("an effect");
    site.write("file.toml", [before, file].concat());
    let ended = site
        .semel(&[
            "dead-letters",
            "replay",
            "--all",
            "--yes",
            "--config",
            "file.toml",
        ])
        .code(3)
        .says("only it may write out: stop it, say this again, and start it")
        .says("[target-in-use]");
    assert!(!ended.stderr.contains("carries this out"), "{ended:#?}");
    assert_eq!(
        site.state("dead-1").as_deref(),
        Some("dead"),
        "nothing was ordered"
    );
    ends_well(&site, worker);
}

#[test]
fn a_worker_that_was_killed_leaves_a_socket_that_is_in_nobodys_way() {
    let site = worked("embedded:data");
    let (mut child, stdin) = beside(&site);
    let is_done = || site.state("by-worker").as_deref() == Some("completed");
    wait_for("its end", is_done);
    let id = i32::try_from(child.id()).expect("a number");
    kill_process(Pid::from_raw(id).expect("a process"), Signal::KILL).expect("a signal");
    child.wait().expect("a child");
    drop(stdin);
    assert!(site.path(SOCKET).exists());
    let ended = site.semel(&["keys", "hold", "done-1", "--yes"]).done();
    assert!(!ended.stderr.contains("carries this out"), "{ended:#?}");
    std::fs::remove_file(site.path("ran-by-worker")).expect("a mark");
    site.semel(&["keys", "forget", "by-worker", "--yes"]).done();
    let worker = beside(&site);
    site.semel(&["keys", "hold", "--off", "done-1", "--yes"])
        .done()
        .says("carries this out");
    ends_well(&site, worker);
}

#[test]
fn what_a_verb_has_under_way_is_not_taken_over_by_a_worker_that_was_killed_and_started_again() {
    let site = worked("embedded:data");
    let config = site.text("semel.toml");
    let leased = config.replace("key = ", "lease = \"6s\"\nkey = ");
    site.write("semel.toml", leased);
    site.write(
        "handler.sh",
        "cat >/dev/null; touch \"ran-$SEMEL_KEY\"; case $SEMEL_KEY in dead-*) echo begun >> calls; \
         until [ -e go ]; do sleep 0.02; done;; esac",
    );
    let (mut worker, stdin) = beside(&site);
    let verb = site.start(&["dead-letters", "replay", "dead-1", "--yes"]);
    wait_for("its effect", || site.text("calls") == "begun\n");
    let id = i32::try_from(worker.id()).expect("a number");
    kill_process(Pid::from_raw(id).expect("a process"), Signal::KILL).expect("a signal");
    worker.wait().expect("a child");
    drop(stdin);

    site.write("in", "{\"id\":\"dead-1\"}\n");
    let arguments = ["run", "--output", "json", "--log", "json"];
    let mut again = site.start(&[&arguments[..], &["--log-level", "decisions"]].concat());
    wait_for("a decision about the key", || {
        let told = again.stderr();
        told.contains("\"busy\"") || told.contains("\"in_doubt\"")
    });
    let told = again.stderr();
    assert!(!told.contains("\"in_doubt\""), "it is under way: {told}");
    site.write("go", "");
    verb.wait()
        .code(3)
        .says("the worker that had the store open ended");
    // Nobody knows what became of it, and its record says so when its lease is over.
    let ended = again.wait().done();
    ended.summary().is(&[("in_doubt", 1)]);
    assert_eq!(site.text("calls"), "begun\n", "it was called once");
}

#[test]
fn whoever_sends_nonsense_to_the_socket_does_the_worker_no_harm() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    let site = worked("embedded:data");
    let worker = beside(&site);
    for sent in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"",
        b"\xff\xff\xff\xff",
        b"\x02\x00\x00\x00{}",
    ] {
        let mut stream = UnixStream::connect(site.path(SOCKET)).expect("a connection");
        stream.write_all(sent).expect("a write");
        stream.shutdown(std::net::Shutdown::Write).expect("an end");
        let mut told = Vec::new();
        // The worker hangs up, and leaves what the test sent unread.
        let _ = stream.read_to_end(&mut told);
    }
    site.semel(&["keys", "hold", "done-1", "--yes"])
        .done()
        .says("carries this out");
    ends_well(&site, worker);
}
