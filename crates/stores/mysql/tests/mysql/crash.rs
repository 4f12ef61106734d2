//! `kill -9` of the server, and of a session while it commits: no answered call is lost, and no error claims more than
//! is known.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::port::transactional::{
    Application, Applied, Statements, TransactionalStore, Value,
};
use semel_core::{
    Admission, Backoff, Certainty, ClaimId, ClaimRequest, FencingToken, Key, Outcome, Scope,
    Settled, Settlement, StateKind, Step, Store, VersionGate, Window,
};
use semel_store_mysql::{MysqlStore, Options};

use crate::database::Database;
use crate::own::Server;
use crate::proxy::{Proxy, holds};

fn request(key: &str, claim_id: u128) -> ClaimRequest {
    let scope = Scope::new("", "payments").expect("a scope");
    ClaimRequest::new(
        scope,
        Key::parse(key).expect("a key"),
        ClaimId::from_u128(claim_id),
    )
}

fn complete(request: &ClaimRequest) -> Settlement {
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::raw(request.operation.key.to_string().into(), 100),
            window: Window::DEFAULT,
        },
    }
}

/// Calls that were answered before the server died.
#[derive(Default)]
struct Answered {
    granted: BTreeMap<String, FencingToken>,
    completed: Vec<String>,
    applied: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_of_the_server_loses_nothing_that_was_answered() {
    let mut server = Server::with(&["--log-bin=binlog", "--sync-binlog=1"]).await;
    let database = Database::on(&server.url("mysql")).await;
    database
        .run("CREATE TABLE payments (id VARCHAR(40) NOT NULL) ENGINE=InnoDB")
        .await;
    let mut options = Options::default();
    options.patience = Duration::from_secs(2);
    let store = MysqlStore::connect(&database.url(), options)
        .await
        .expect("a store");
    let store = Arc::new(store);
    let answered = Arc::new(Mutex::new(Answered::default()));
    for round in 0..4_u32 {
        let mut workers = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let (store, answered) = (Arc::clone(&store), Arc::clone(&answered));
            workers.spawn(async move { work(&store, &answered, round, worker).await });
        }
        let before = answered.lock().expect("answers").completed.len();
        while answered.lock().expect("answers").completed.len() < before + 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.kill();
        // Each of them meets it, and stops.
        workers.join_all().await;
        let error = store
            .claim([request("while it is gone", 1)].into())
            .await
            .expect_err("no server");
        assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
        server.start().await;
        check(&store, &database, &answered, round).await;
    }
}

/// Claims, completes and applies until the server is gone.
async fn work(store: &MysqlStore, answered: &Mutex<Answered>, round: u32, worker: u32) {
    let statements = Statements {
        sql: [Box::from("INSERT INTO payments VALUES (:id)")].into(),
        params: [Box::from("id")].into(),
    };
    for turn in 0.. {
        let name = |kind: &str, number: u32| format!("{kind}-{round}-{worker}-{turn}-{number}");
        let batch: Vec<_> = (0..5)
            .map(|number| request(&name("claim", number), turn + 1))
            .collect();
        let Ok(answers) = store.claim(batch.clone().into()).await else {
            return;
        };
        for answer in answers {
            let Admission::Granted(claim) = answer else {
                panic!("not granted: {answer:?}")
            };
            let key = claim.operation.key.to_string();
            answered
                .lock()
                .expect("answers")
                .granted
                .insert(key, claim.token);
        }
        let settlements: Vec<_> = batch.iter().take(3).map(complete).collect();
        let Ok(answers) = store.settle(settlements.clone().into()).await else {
            return;
        };
        for (answer, it) in answers.iter().zip(&settlements) {
            assert!(
                matches!(answer, Settled::Now(StateKind::Completed)),
                "{answer:?}"
            );
            answered
                .lock()
                .expect("answers")
                .completed
                .push(it.operation.key.to_string());
        }
        let messages: Vec<_> = (0..5)
            .map(|number| Application {
                claim: request(&name("apply", number), turn + 1),
                values: vec![Value::Text(name("apply", number).into())].into(),
                window: Window::DEFAULT,
                backoff: Backoff {
                    first: Duration::ZERO,
                    most: Duration::ZERO,
                },
                gives_back: false,
            })
            .collect();
        let Ok(answers) = store.apply(&statements, messages.clone().into()).await else {
            return;
        };
        for (answer, it) in answers.iter().zip(&messages) {
            assert!(matches!(answer, Applied::Completed { .. }), "{answer:?}");
            answered
                .lock()
                .expect("answers")
                .applied
                .push(it.claim.operation.key.to_string());
        }
    }
}

async fn check(store: &MysqlStore, database: &Database, answered: &Mutex<Answered>, round: u32) {
    let (granted, completed, applied) = {
        let answered = answered.lock().expect("answers");
        (
            answered.granted.clone(),
            answered.completed.clone(),
            answered.applied.clone(),
        )
    };
    let operations: Vec<_> = granted
        .keys()
        .map(|key| request(key, 1).operation)
        .collect();
    let records = store.get(operations.clone().into()).await.expect("answers");
    let mut highest = FencingToken::new(0);
    for ((key, token), record) in granted.iter().zip(records) {
        let record = record.unwrap_or_else(|| panic!("round {round}: the grant of {key} is lost"));
        assert_eq!(record.token, *token, "round {round}: {key}");
        highest = highest.max(*token);
    }
    for key in &completed {
        let answer = store
            .claim([request(key, 999)].into())
            .await
            .expect("answers")
            .remove(0);
        let expected = Outcome::raw(key.clone().into(), 100);
        assert!(
            matches!(&answer, Admission::Replay { outcome: Some(it), .. } if *it == expected),
            "round {round}: {key} is {answer:?}"
        );
    }
    let mut connection = database.connect().await;
    let paid: Vec<String> = connection
        .query("SELECT id FROM payments")
        .await
        .expect("payments");
    for key in &applied {
        assert_eq!(
            paid.iter().filter(|id| *id == key).count(),
            1,
            "round {round}: {key}"
        );
    }
    // Effect and record are of the same age, also those of unanswered calls.
    let operations: Vec<_> = paid.iter().map(|key| request(key, 1).operation).collect();
    let records = store.get(operations.into()).await.expect("answers");
    let is_completed = |it: &Option<semel_core::Record>| {
        it.as_ref()
            .is_some_and(|record| record.state.kind() == StateKind::Completed)
    };
    assert!(
        records.iter().all(is_completed),
        "round {round}: an effect without its record"
    );
    let fresh = store
        .claim([request(&format!("after round {round}"), 1)].into())
        .await;
    let Admission::Granted(claim) = fresh.expect("answers").remove(0) else {
        panic!("not granted")
    };
    assert!(
        claim.token > highest,
        "round {round}: {:?} after {highest:?}",
        claim.token
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_while_it_commits_is_maybe_applied() {
    let server = Server::with(&[]).await;
    let database = Database::on(&server.url("mysql")).await;
    let url = database.url();
    let armed = Arc::new(AtomicBool::new(false));
    let ((arrived, arrival), (go, gone)) =
        (mpsc::sync_channel::<()>(1), mpsc::sync_channel::<()>(1));
    let (trap, gone) = (Arc::clone(&armed), Mutex::new(gone));
    let proxy = Proxy::before(&url, move |packet| {
        if packet.ends_with(b"COMMIT")
            && !holds(packet, "SET @")
            && trap.swap(false, Ordering::SeqCst)
        {
            arrived.send(()).expect("a test");
            gone.lock().expect("a test").recv().expect("a test");
        }
    });
    let store = MysqlStore::connect(&proxy.url(&url), Options::default())
        .await
        .expect("a store");
    let store = Arc::new(store);
    let mut gated = request("pay-1", 1);
    gated.gate = Some(VersionGate {
        entity: Key::parse("cart").expect("an entity"),
        version: 1,
    });
    armed.store(true, Ordering::SeqCst);
    let (calling, batch) = (Arc::clone(&store), [gated.clone()]);
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    tokio::task::block_in_place(|| arrival.recv()).expect("a commit is on its way");
    // No session commits while everything is locked; then the session that tries to is ended.
    let mut other = database.connect().await;
    other
        .query_drop("FLUSH TABLES WITH READ LOCK")
        .await
        .expect("a lock");
    go.send(()).expect("a proxy");
    let select =
        "SELECT id FROM information_schema.processlist WHERE info = 'COMMIT' AND command = 'Query'";
    let session: u64 = loop {
        if let Some(id) = other.query_first(select).await.expect("sessions") {
            break id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    other
        .query_drop(format!("KILL {session}"))
        .await
        .expect("a kill");
    let error = call.await.expect("a task").expect_err("no answer");
    assert_eq!(error.certainty(), Certainty::MaybeApplied, "{error:?}");
    other
        .query_drop("UNLOCK TABLES")
        .await
        .expect("the lock back");
    // Asking again finds out which of the two it was.
    let answer = store
        .claim([gated].into())
        .await
        .expect("answers")
        .remove(0);
    assert!(matches!(answer, Admission::Granted(_)), "{answer:?}");
}
