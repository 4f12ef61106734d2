//! Bugs of the store, as seen from the server: the packets of a store that had them. Each is caught by the test that is
//! named beside it; without a bug, the same tests pass.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::port::transactional::TransactionalStore;
use semel_core::{Admission, Settled, Store};
use semel_store_mysql::MysqlStore;

use crate::lab::{
    Lab, claim, complete, forget, grant, message, number, record, request, statements, text,
};
use crate::proxy::{Proxy, holds, replace};
use crate::tokens::overtaken_by_a_removal;

/// A statement that loses its guard.
#[derive(Clone, Copy, Debug)]
enum Bug {
    None,
    /// A record is written whatever its revision is.
    CompareNothing,
    /// Every record begins at the same revision, so that one may be mistaken for another life of its key.
    RevisionsRepeat,
    /// An insertion overwrites a claim of another worker.
    StealsClaims,
    /// A completion is accepted from any worker.
    CompletesForAnybody,
    /// The age gate of an insertion never closes, neither before it nor behind it. Each of the two alone makes up for
    /// the other.
    GateOpen,
    /// A removal does not note the token that it removes.
    FloorForgotten,
    /// A message that failed is not undone.
    SavepointIgnored,
    /// Calls that are answered as done are not committed.
    NeverCommits,
    /// Tokens are not drawn.
    TokensRepeat,
}

impl Bug {
    fn plant(self, packet: &mut [u8]) {
        match self {
            Self::None => {}
            Self::CompareNothing => replace(packet, "AND revision = ", "AND revision>= "),
            Self::RevisionsRepeat => replace(packet, ")<<20,", ")*0+1,"),
            Self::StealsClaims => replace(packet, "id = semel_records.id", "claim = VALUES(claim)"),
            Self::CompletesForAnybody => {
                replace(packet, "CONCAT(id, claim) IN (", "CONCAT(id,claim) <>  (");
            }
            Self::GateOpen => {
                replace(packet, "NULL,1)", "1,1)");
                replace(packet, "name IN ('import'", "name IN ('impart'");
            }
            Self::FloorForgotten => replace(packet, "'floor' AND number", "'flour' AND number"),
            Self::SavepointIgnored => {
                replace(packet, "ROLLBACK TO SAVEPOINT semel$message", "SELECT 1");
            }
            Self::NeverCommits => {
                // Not the COMMIT of READ COMMITTED.
                if !holds(packet, "COMMITTED") {
                    replace(packet, "COMMIT", "DO 1");
                }
            }
            Self::TokensRepeat => replace(packet, "LAST_INSERT_ID() * 1024", "4096"),
        }
    }

    /// Opens a store that has this bug.
    async fn store(self, lab: &Lab) -> (Arc<MysqlStore>, Proxy) {
        let url = lab.database.url();
        drop(lab.store().await);
        let proxy = Proxy::before(&url, move |packet| self.plant(packet));
        (Arc::new(lab.store_at(&proxy.url(&url)).await), proxy)
    }
}

/// Runs a check against a store without and with a bug: it passes, and it panics.
macro_rules! caught {
    ($($(#[doc = $what:literal])+ $test:ident: $bug:ident by $check:ident;)+) => {$(
        $(#[doc = $what])+
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            for bug in [Bug::None, Bug::$bug] {
                let lab = Lab::new().await;
                let (store, _proxy) = bug.store(&lab).await;
                let checked = tokio::spawn(AssertUnwindSafe($check(lab, store)).0).await;
                assert_eq!(checked.is_err(), matches!(bug, Bug::$bug), "{bug:?}");
            }
        }
    )+};
}

caught! {
    /// Also `history_laws::races_are_explained_by_the_decisions`.
    a_write_that_compares_nothing_is_caught: CompareNothing by takeovers_at_once_grant_one;
    /// Also `history_laws::races_are_explained_by_the_decisions`, by luck.
    revisions_that_repeat_are_caught: RevisionsRepeat by no_two_lives_of_a_key_share_a_revision;
    /// Also CLM-1 of the laws.
    an_insertion_that_steals_is_caught: StealsClaims by a_live_claim_is_busy;
    /// Also CLM-3 of the laws.
    a_completion_for_anybody_is_caught: CompletesForAnybody by a_stale_completion_is_fenced;
    /// Also WIN-2 of the laws.
    an_open_age_gate_is_caught: GateOpen by an_old_message_is_too_old;
    /// `tokens::a_token_drawn_before_a_removal_is_not_given_out_after_it`.
    a_forgotten_floor_is_caught: FloorForgotten by tokens_rise_over_removals;
    /// Also INB-2 of the laws.
    an_ignored_savepoint_is_caught: SavepointIgnored by a_failed_message_leaves_nothing;
    /// Also DUR-1 of the laws.
    a_missing_commit_is_caught: NeverCommits by what_is_answered_is_there_for_others;
    /// Also CLM-2 of the laws.
    tokens_that_repeat_are_caught: TokensRepeat by tokens_differ;
}

async fn takeovers_at_once_grant_one(lab: Lab, store: Arc<MysqlStore>) {
    for round in 0..10_u32 {
        let key = format!("k{round}");
        let _ = grant(&store, &request(&key, 99)).await;
        lab.clock.advance(Duration::from_secs(31));
        let together = Arc::new(tokio::sync::Barrier::new(4));
        let granted = Arc::new(AtomicUsize::new(0));
        let mut claimants = tokio::task::JoinSet::new();
        for claimant in 0..4_u128 {
            let (store, key) = (Arc::clone(&store), key.clone());
            let (together, granted) = (Arc::clone(&together), Arc::clone(&granted));
            claimants.spawn(async move {
                together.wait().await;
                if let Admission::Granted(_) = claim(&store, &request(&key, claimant)).await {
                    granted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        claimants.join_all().await;
        assert_eq!(granted.load(Ordering::SeqCst), 1, "round {round}");
    }
}

/// Otherwise a write that depends on the revision of a record that was removed meanwhile overwrites another one.
async fn no_two_lives_of_a_key_share_a_revision(lab: Lab, store: Arc<MysqlStore>) {
    let mut user = lab.database.connect().await;
    let mut last = 0;
    for life in 1..4_u128 {
        let _ = grant(&store, &request("a", life)).await;
        let settled = store
            .settle([complete("a", life)].into())
            .await
            .expect("answers");
        assert!(matches!(settled[..], [Settled::Now(_)]), "{settled:?}");
        let revision: Option<u64> = user
            .query_first("SELECT revision FROM semel_records")
            .await
            .expect("an answer");
        let revision = revision.expect("a record");
        assert!(revision > last + 1, "life {life}: {revision} after {last}");
        last = revision;
        forget(&store, "a").await;
    }
}

async fn a_live_claim_is_busy(_lab: Lab, store: Arc<MysqlStore>) {
    let _ = grant(&store, &request("a", 1)).await;
    let answer = claim(&store, &request("a", 2)).await;
    assert!(matches!(answer, Admission::Busy { .. }), "{answer:?}");
}

async fn a_stale_completion_is_fenced(_lab: Lab, store: Arc<MysqlStore>) {
    let _ = grant(&store, &request("a", 1)).await;
    let settled = store
        .settle([complete("a", 2)].into())
        .await
        .expect("answers");
    assert!(
        matches!(settled[..], [Settled::Fenced { .. }]),
        "{settled:?}"
    );
}

async fn an_old_message_is_too_old(lab: Lab, store: Arc<MysqlStore>) {
    let mut old = request("a", 1);
    old.birth = Some(semel_core::Clock::now(&lab.clock).minus(Duration::from_secs(8 * 86_400)));
    let answer = claim(&store, &old).await;
    assert!(matches!(answer, Admission::TooOld), "{answer:?}");
    assert_eq!(record(&store, "a").await, None);
}

async fn tokens_rise_over_removals(lab: Lab, store: Arc<MysqlStore>) {
    overtaken_by_a_removal(&lab, &store).await;
}

async fn a_failed_message_leaves_nothing(lab: Lab, store: Arc<MysqlStore>) {
    lab.database
        .run("CREATE TABLE payments (id VARCHAR(40), amount INT NOT NULL) ENGINE=InnoDB")
        .await;
    let both = statements(
        &[
            "INSERT INTO payments VALUES (:id, 1)",
            "INSERT INTO payments VALUES (:id, :amount)",
        ],
        &["id", "amount"],
    );
    let batch = [
        message("good", 1, vec![text("good"), number(1)]),
        message(
            "bad",
            2,
            vec![text("bad"), semel_core::port::transactional::Value::Null],
        ),
    ];
    assert_eq!(
        store
            .apply(&both, batch.into())
            .await
            .expect("answers")
            .len(),
        2
    );
    let mut connection = lab.database.connect().await;
    let count: Option<u64> = connection
        .query_first("SELECT COUNT(*) FROM payments")
        .await
        .expect("a count");
    assert_eq!(count, Some(2));
}

async fn what_is_answered_is_there_for_others(lab: Lab, store: Arc<MysqlStore>) {
    let _ = grant(&store, &request("a", 1)).await;
    let found = record(&lab.store().await, "a").await;
    assert!(found.is_some());
}

async fn tokens_differ(_lab: Lab, store: Arc<MysqlStore>) {
    let first = grant(&store, &request("a", 1)).await;
    let second = grant(&store, &request("b", 1)).await;
    assert!(second.token > first.token);
}
