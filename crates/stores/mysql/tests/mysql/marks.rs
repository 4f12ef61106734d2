//! A mark is read only after every session that was about to set it has done so, or has not.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::port::checkpoint::CheckpointStore;
use semel_core::{Admission, Mark};
use tokio::time::timeout;

use crate::lab::{Lab, request};
use crate::proxy::{Proxy, holds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_a_mark_waits_for_a_commit_that_is_under_way() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let mut other = lab.database.connect().await;
    // The first as well as any other.
    for (value, set) in [
        (1, "INSERT INTO semel_marks (name, value) VALUES ('out', 1)"),
        (2, "UPDATE semel_marks SET value = 2 WHERE name = 'out'"),
    ] {
        other
            .query_drop("START TRANSACTION")
            .await
            .expect("a transaction");
        other.query_drop(set).await.expect("a mark");
        let (found, ()) = tokio::join!(store.mark("out"), async {
            // It does not wait where it reads without a lock.
            let _ = timeout(Duration::from_secs(5), lab.waiting_session()).await;
            other.query_drop("COMMIT").await.expect("a commit");
        });
        assert_eq!(found.expect("a mark"), Some(value));
    }
}

/// A worker that is killed may have sent its commit already, without the server having received it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_a_mark_waits_for_a_commit_that_has_not_arrived() {
    let lab = Lab::new().await;
    let other = lab.store().await;
    let url = lab.database.url();
    let commits = Arc::new(Commits::default());
    let seen = Arc::clone(&commits);
    let proxy = Proxy::before(&url, move |packet| seen.stop_at(packet));
    let store = Arc::new(lab.store_at(&proxy.url(&url)).await);
    for value in 1..=3 {
        let mark = Mark {
            name: "out".into(),
            value,
        };
        commits.stop();
        let store = Arc::clone(&store);
        let asked = tokio::spawn(async move {
            let batch = [request("a", value.into())];
            if value == 3 {
                let write = Box::new(move |_: &[Admission]| Ok(mark));
                return store.admit_with(batch.into(), write).await.map(drop);
            }
            store.settle_with([].into(), &mark).await.map(drop)
        });
        commits.until_one_is_stopped().await;
        let (found, ()) = tokio::join!(other.mark("out"), async {
            // It does not wait where nobody holds the mark.
            let _ = timeout(Duration::from_secs(5), lab.waiting_session()).await;
            commits.let_pass();
        });
        assert_eq!(found.expect("a mark"), Some(value));
        let answer = asked.await.expect("no panic");
        answer.expect("a commit, in the end");
    }
}

/// Gate at which a proxy stops commits.
#[derive(Default)]
struct Commits {
    road: Mutex<Road>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Road {
    #[default]
    Free,
    Closed,
    /// A commit waits before it.
    Wanted,
}

impl Commits {
    fn stop(&self) {
        *self.road.lock().expect("a road") = Road::Closed;
    }

    fn let_pass(&self) {
        *self.road.lock().expect("a road") = Road::Free;
        self.changed.notify_all();
    }

    async fn until_one_is_stopped(&self) {
        while *self.road.lock().expect("a road") != Road::Wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn stop_at(&self, packet: &[u8]) {
        let mut road = self.road.lock().expect("a road");
        if *road == Road::Closed && holds(packet, "COMMIT") {
            *road = Road::Wanted;
            let is_wanted = |road: &mut Road| *road == Road::Wanted;
            drop(self.changed.wait_while(road, is_wanted).expect("a road"));
        }
    }
}
