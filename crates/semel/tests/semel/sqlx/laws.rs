//! Laws of every inbox over sqlx, for any database, and laws of those on servers.

#![expect(
    clippy::future_not_send,
    reason = "a bank and its transactions stay on the thread of their test"
)]

use std::net::SocketAddr;
use std::time::Duration;

use semel::{
    Admission, Certainty, Claim, ClaimId, ClaimRequest, Error, ErrorKind, Key, OnceError, Outcome,
    Receipt, Settled, StateKind, Store, VersionGate,
};
use semel_conformance::proxy::Proxy;
use sqlx::{Connection, Database, Pool, Transaction};

use super::{granted, is_complete, operation, overtaken, request, state};
use crate::server::Place;

/// A store, its inbox, and a user's pool beside a table of payments.
pub(crate) trait Bank: Sized {
    type Db: Database;
    type Store: Store;

    async fn new() -> Self;
    fn store(&self) -> &Self::Store;
    fn pool(&self) -> &Pool<Self::Db>;
    async fn ask(
        &self,
        tx: &mut Transaction<'_, Self::Db>,
        request: &ClaimRequest,
    ) -> Result<Admission, Error>;
    async fn report(
        &self,
        tx: &mut Transaction<'_, Self::Db>,
        claim: &Claim,
        outcome: Outcome,
    ) -> Result<Settled, Error>;
    async fn try_pay(&self, tx: &mut Transaction<'_, Self::Db>, key: &str) -> sqlx::Result<()>;
    async fn payments(&self) -> Vec<String>;
    /// Pays and records it in one call; the value is the key's length. With `fail`, the database
    /// refuses a statement after the payment.
    async fn once(
        &self,
        tx: &mut Transaction<'_, Self::Db>,
        key: &str,
        fail: bool,
    ) -> Result<Receipt<usize>, OnceError>;
    /// Changes a setting that could make the text of a statement fail.
    async fn disturb(&self, _tx: &mut Transaction<'_, Self::Db>) {}

    async fn begin(&self) -> Transaction<'static, Self::Db> {
        self.pool().begin().await.expect("a transaction")
    }

    async fn admit(&self, tx: &mut Transaction<'_, Self::Db>, key: &str, claim: u128) -> Claim {
        let answer = self.ask(tx, &request(key, claim)).await;
        granted(answer.expect("an answer"))
    }

    async fn pay(&self, tx: &mut Transaction<'_, Self::Db>, key: &str) {
        self.try_pay(tx, key).await.expect("a payment");
    }

    async fn complete(&self, tx: &mut Transaction<'_, Self::Db>, claim: &Claim) -> Settled {
        let settled = self.report(tx, claim, Outcome::empty()).await;
        settled.expect("an answer")
    }

    async fn effect(&self, tx: &mut Transaction<'_, Self::Db>, key: &str) {
        let claim = self.admit(tx, key, 1).await;
        self.pay(tx, key).await;
        assert!(is_complete(&self.complete(tx, &claim).await));
    }
}

/// A bank whose database is a server.
pub(crate) trait Served: Bank {
    fn place(&self) -> &Place;
    /// A pool of the server at this url.
    async fn pool_at(&self, server: &str) -> Pool<Self::Db>;

    fn address(&self) -> SocketAddr {
        let url = self.place().url();
        let (_, rest) = url.split_once('@').expect("a user");
        let (address, _) = rest.split_once('/').expect("a database");
        address.parse().expect("an address in numbers")
    }

    /// A pool of the server behind a proxy.
    async fn pool_behind(&self, proxy: &Proxy) -> Pool<Self::Db> {
        let (there, here) = (self.address().to_string(), proxy.address().to_string());
        let url = self.place().url();
        self.pool_at(&server_of(&url).replace(&there, &here)).await
    }
}

/// The url without the part that is only the store's.
pub(crate) fn server_of(url: &str) -> &str {
    url.split_once('?').map_or(url, |(server, _)| server)
}

/// Tests of a bank: each law that is named.
macro_rules! keeps {
    ($bank:ty: $($law:ident,)+) => {$(
        #[tokio::test]
        async fn $law() {
            crate::sqlx::laws::$law(<$bank as crate::sqlx::laws::Bank>::new().await).await;
        }
    )+};
}
pub(crate) use keeps;

pub(crate) async fn effect_and_record_commit_together_and_a_duplicate_replays(bank: impl Bank) {
    let mut tx = bank.begin().await;
    let claim = bank.admit(&mut tx, "pay-1", 1).await;
    bank.pay(&mut tx, "pay-1").await;
    let outcome = Outcome::raw("paid".into(), 100);
    let settled = bank.report(&mut tx, &claim, outcome.clone()).await;
    assert!(is_complete(&settled.expect("an answer")));
    tx.commit().await.expect("a commit");

    // To the store and to another transaction it is the same record.
    let answers = bank.store().claim([request("pay-1", 2)].into()).await;
    let answers = answers.expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Replay { outcome: Some(it), .. }] if *it == outcome),
        "{answers:?}"
    );
    let mut tx = bank.begin().await;
    let again = bank.ask(&mut tx, &request("pay-1", 3)).await;
    let again = again.expect("an answer");
    assert!(
        matches!(&again, Admission::Replay { outcome: Some(it), .. } if *it == outcome),
        "{again:?}"
    );
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-1"]);
}

pub(crate) async fn one_call_has_one_effect_and_a_failure_leaves_nothing(bank: impl Bank) {
    for time in 0..2 {
        let mut tx = bank.begin().await;
        let receipt = bank.once(&mut tx, "pay-1", false).await.expect("a value");
        assert_eq!((*receipt.value(), receipt.is_replay()), (5, time > 0));
        let error = bank.once(&mut tx, "pay-2", true).await;
        let error = error.expect_err("it failed");
        assert!(
            matches!(&error, OnceError::Failed { attempt: 1, .. }),
            "{error:?}"
        );
        // The transaction is as good as before.
        tx.commit().await.expect("a commit");
    }
    assert_eq!(bank.payments().await, ["pay-1"]);
    assert_eq!(
        state(bank.store(), "pay-1").await,
        Some(StateKind::Completed)
    );
    assert_eq!(state(bank.store(), "pay-2").await, None);

    let mut tx = bank.begin().await;
    let receipt = bank.once(&mut tx, "pay-3", false).await.expect("a value");
    assert_eq!(receipt.attempt(), Some(1));
    tx.rollback().await.expect("a rollback");
    assert_eq!(bank.payments().await, ["pay-1"]);
}

pub(crate) async fn nobody_sees_a_record_before_the_commit(bank: impl Bank) {
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    assert_eq!(state(bank.store(), "pay-1").await, None);
    tx.commit().await.expect("a commit");
    assert_eq!(
        state(bank.store(), "pay-1").await,
        Some(StateKind::Completed)
    );
}

pub(crate) async fn every_column_of_a_record_is_written_and_read(bank: impl Bank) {
    let mut asked = request("pay-1", 1);
    asked.gate = Some(VersionGate {
        entity: Key::parse("cart").expect("an entity"),
        version: 7,
    });
    asked.transport = Some("partition 3, offset 5".into());
    asked.fingerprint = Some(semel::Fingerprint::from_bytes([9; 20]));
    let mut tx = bank.begin().await;
    let claim = granted(bank.ask(&mut tx, &asked).await.expect("an answer"));
    tx.commit().await.expect("a commit");
    let found = bank
        .store()
        .get([operation("pay-1")].into())
        .await
        .expect("it");
    let [Some(record)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(record.claim_id, ClaimId::from_u128(1));
    assert_eq!(record.token, claim.token);
    assert_eq!(record.gate, asked.gate);
    assert_eq!(record.transport, asked.transport);
    assert_eq!(record.fingerprint, asked.fingerprint);

    let mut tx = bank.begin().await;
    let settled = bank.complete(&mut tx, &claim).await;
    assert!(is_complete(&settled));
    tx.commit().await.expect("a commit");
    // The entity knows which version was applied.
    let mut late = request("late", 2);
    late.gate = asked.gate;
    let mut tx = bank.begin().await;
    let answer = bank.ask(&mut tx, &late).await.expect("an answer");
    assert!(
        matches!(answer, Admission::Stale { applied: 7 }),
        "{answer:?}"
    );
    tx.commit().await.expect("a commit");
}

pub(crate) async fn rolling_back_leaves_neither(bank: impl Bank) {
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    tx.rollback().await.expect("a rollback");
    // Dropped, as by a `?` or a crash.
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    drop(tx);
    assert_eq!(state(bank.store(), "pay-1").await, None);
    assert!(bank.payments().await.is_empty());
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-1"]);
}

pub(crate) async fn a_savepoint_takes_back_what_was_admitted_behind_it(bank: impl Bank) {
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "kept").await;
    let mut savepoint = Connection::begin(&mut *tx).await.expect("a savepoint");
    bank.effect(&mut savepoint, "undone").await;
    savepoint.rollback().await.expect("a rollback");
    let mut savepoint = Connection::begin(&mut *tx).await.expect("a savepoint");
    let mut gated = request("gated", 1);
    gated.gate = Some(VersionGate {
        entity: Key::parse("cart").expect("an entity"),
        version: 1,
    });
    let answer = bank.ask(&mut savepoint, &gated).await;
    let _ = granted(answer.expect("an answer"));
    savepoint.rollback().await.expect("a rollback");
    tx.commit().await.expect("a commit");
    let store = bank.store();
    assert_eq!(state(store, "kept").await, Some(StateKind::Completed));
    assert_eq!(state(store, "undone").await, None);
    assert_eq!(state(store, "gated").await, None);
    assert_eq!(bank.payments().await, ["kept"]);
}

pub(crate) async fn a_completion_whose_claim_was_lost_is_fenced(bank: impl Bank) {
    let mut short = request("pay-1", 1);
    short.lease = Duration::ZERO;
    let mut tx = bank.begin().await;
    let slow = granted(bank.ask(&mut tx, &short).await.expect("an answer"));
    tx.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    let fast = bank.admit(&mut tx, "pay-1", 2).await;
    assert!(fast.takeover && fast.token > slow.token, "{fast:?}");
    tx.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    bank.pay(&mut tx, "pay-1").await;
    let settled = bank.complete(&mut tx, &slow).await;
    assert!(matches!(settled, Settled::Fenced { .. }), "{settled:?}");
    tx.rollback().await.expect("a rollback");
    assert!(bank.payments().await.is_empty());
}

pub(crate) async fn whatever_bytes_there_are_come_back_as_they_were(bank: impl Bank) {
    let mut tx = bank.begin().await;
    bank.disturb(&mut tx).await;
    let key = "p'ay\\\"?$1ü; \u{0301}";
    let mut asked = request(key, 1);
    asked.transport = Some((0..=255).collect::<Vec<u8>>().repeat(20).into());
    let outcome = Outcome::raw(b"\\'?\0\xff".repeat(10_000).into(), 1_000_000);
    let claim = granted(bank.ask(&mut tx, &asked).await.expect("an answer"));
    let settled = bank.report(&mut tx, &claim, outcome.clone()).await;
    assert!(is_complete(&settled.expect("an answer")));
    let again = bank.ask(&mut tx, &request(key, 2)).await;
    let again = again.expect("an answer");
    assert!(
        matches!(&again, Admission::Replay { outcome: Some(it), .. } if *it == outcome),
        "{again:?}"
    );
    tx.commit().await.expect("a commit");
    let found = bank.store().get([operation(key)].into()).await.expect("it");
    let [Some(record)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(record.transport, asked.transport);
    assert_eq!(record.outcome, Some(outcome));
}

pub(crate) async fn of_two_in_a_deadlock_one_is_told_to_begin_again(bank: impl Served) {
    let (mut one, mut other) = (bank.begin().await, bank.begin().await);
    let _ = bank.admit(&mut one, "a", 1).await;
    let _ = bank.admit(&mut other, "b", 2).await;
    let forward = async {
        let second = bank.ask(&mut one, &request("b", 1)).await;
        end(one, second.is_ok()).await;
        second
    };
    let backward = async {
        let second = bank.ask(&mut other, &request("a", 2)).await;
        end(other, second.is_ok()).await;
        second
    };
    let answers: [_; 2] = tokio::join!(forward, backward).into();
    let (granted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (1, 1));
    overtaken(refused[0].as_ref().expect_err("an error"));
    // The winner has both keys, the loser none.
    let found = bank
        .store()
        .get([operation("a"), operation("b")].into())
        .await;
    let found = found.expect("records");
    let [Some(a), Some(b)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(a.claim_id, b.claim_id);
}

async fn end<D: Database>(tx: Transaction<'_, D>, is_well: bool) {
    let ended = if is_well {
        tx.commit().await
    } else {
        tx.rollback().await
    };
    ended.expect("an end");
}

pub(crate) async fn a_commit_whose_answer_is_lost_is_asked_for_again_and_has_one_effect(
    bank: impl Served,
) {
    let (mut was_lost, mut replayed) = (0, 0);
    for nth in 1..100 {
        let proxy = Proxy::start(bank.address());
        let pool = bank.pool_behind(&proxy).await;
        let key = format!("pay-{nth}");
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries <= 3, "{key}: it never ends");
            // Each answer of a transaction in turn, the one to its COMMIT among them.
            if tries == 1 {
                let mut warm = pool.acquire().await.expect("a connection");
                warm.ping().await.expect("an answer");
                drop(warm);
                proxy.cut_before_answer(nth);
            }
            match deliver(&bank, &pool, &key).await {
                Ok(Delivered::Paid) => break,
                Ok(Delivered::Replayed) => {
                    replayed += 1;
                    break;
                }
                Err(Lost::Before(certainty)) => assert_eq!(certainty, Certainty::NotApplied),
                Err(Lost::AtCommit) => was_lost += 1,
            }
        }
        let is_cut = proxy.seen().cuts > 0;
        proxy.heal();
        let paid = bank.payments().await;
        let times = paid.iter().filter(|it| **it == key).count();
        assert_eq!(times, 1, "{key} was paid {times} times");
        assert_eq!(state(bank.store(), &key).await, Some(StateKind::Completed));
        if !is_cut {
            break;
        }
    }
    assert!(was_lost == 1 && replayed == 1, "{was_lost} {replayed}");
}

enum Delivered {
    Paid,
    Replayed,
}

enum Lost {
    Before(Certainty),
    AtCommit,
}

/// Handles one delivery of a message as a consumer would.
async fn deliver<B: Bank>(bank: &B, pool: &Pool<B::Db>, key: &str) -> Result<Delivered, Lost> {
    let broken = |_| Lost::Before(Certainty::NotApplied);
    let told = |error: Error| Lost::Before(error.certainty());
    let mut tx = pool.begin().await.map_err(broken)?;
    let answer = bank.ask(&mut tx, &request(key, 1)).await;
    let claim = match answer.map_err(told)? {
        Admission::Granted(claim) => claim,
        Admission::Replay { .. } => return Ok(Delivered::Replayed),
        other => panic!("{other:?}"),
    };
    bank.try_pay(&mut tx, key).await.map_err(broken)?;
    let settled = bank.report(&mut tx, &claim, Outcome::empty()).await;
    assert!(is_complete(&settled.map_err(told)?));
    tx.commit().await.map_err(|_| Lost::AtCommit)?;
    Ok(Delivered::Paid)
}

pub(crate) async fn a_lost_connection_is_told(bank: impl Served) {
    let proxy = Proxy::start(bank.address());
    let pool = bank.pool_behind(&proxy).await;
    let mut tx = pool.begin().await.expect("a transaction");
    proxy.cut_before_answer(1);
    let error = bank.ask(&mut tx, &request("a", 1)).await;
    let error = error.expect_err("a cut");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Unavailable, Certainty::NotApplied),
        "{error:?}"
    );
}
