//! Servers without memory left.

use semel_core::{
    Admission, Certainty, Code, Outcome, Parked, Settled, StateKind, Step, Store, Timestamp,
};

use crate::index::check;
use crate::lab::{completion, connect, grant, request};
use crate::server::Server;

/// A full server refuses whole calls, and nothing of them is left behind.
#[tokio::test]
async fn a_full_server_takes_nothing_and_keeps_everything() {
    let server = Server::start(&["--appendonly", "yes", "--maxmemory-policy", "noeviction"]);
    let store = connect(&server).await;
    let kept = request("kept", 1);
    let _ = grant(&store, &kept).await;
    let used = server.ask(&["INFO", "memory"]).concat();
    let used = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used
        .and_then(|text| text.trim().parse().ok())
        .expect("a number");
    server.ask(&[
        "CONFIG",
        "SET",
        "maxmemory",
        &(used + (4 << 20)).to_string(),
    ]);

    let mut large = completion(&kept);
    if let Step::Complete { outcome, .. } = &mut large.step {
        *outcome = Outcome::Kept {
            codec: 0,
            bytes: vec![7; 256 << 10].into(),
        };
    }
    let mut granted = 1;
    let full = loop {
        let batch: Vec<_> = (0..50)
            .map(|number| request(&format!("{granted}-{number}"), 1))
            .collect();
        match store.claim(batch.clone().into()).await {
            Ok(answers) => {
                assert!(answers.iter().all(|it| matches!(it, Admission::Granted(_))));
                granted += answers.len();
            }
            Err(error) => break (error, batch),
        }
        assert!(granted < 200_000, "the server is never full");
    };
    let (error, batch) = full;
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreFull, Certainty::NotApplied)
    );
    assert!(error.to_string().contains("memory"), "{error}");
    for failed in [
        store
            .settle([large.clone()].into())
            .await
            .map(drop)
            .expect_err("full"),
        store
            .park([message()].into())
            .await
            .map(drop)
            .expect_err("full"),
        store
            .renew([renewal(&kept)].into())
            .await
            .map(drop)
            .expect_err("full"),
    ] {
        assert_eq!(
            (failed.code(), failed.certainty()),
            (Code::StoreFull, Certainty::NotApplied),
            "{failed:?}"
        );
    }
    // Nothing of the failed calls is there, and everything that is there can be read.
    let operations: Vec<_> = batch
        .iter()
        .map(|request| request.operation.clone())
        .collect();
    assert!(
        store
            .get(operations.into())
            .await
            .expect("records")
            .iter()
            .all(Option::is_none)
    );
    assert_eq!(
        store.stats().await.expect("counts").records[0],
        granted as u64
    );
    check(&server, &store).await;

    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let settled = store.settle([large].into()).await.expect("settled");
    assert!(
        matches!(settled[..], [Settled::Now(StateKind::Completed)]),
        "{settled:?}"
    );
    for request in &batch {
        assert!(!grant(&store, request).await.resumed);
    }
    check(&server, &store).await;
}

fn renewal(request: &semel_core::ClaimRequest) -> semel_core::Renewal {
    semel_core::Renewal {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        lease: request.lease,
    }
}

fn message() -> Parked {
    Parked {
        scope: request("x", 1).operation.scope,
        key: None,
        reason: "not-json".into(),
        detail: "".into(),
        transport: None,
        coordinates: "file:1".into(),
        headers: Vec::new(),
        payload: "{".into(),
        since: Timestamp::EPOCH,
    }
}
