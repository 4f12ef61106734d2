//! Batches of which a part cannot be written: the error is the part's own, since it is not true of the rest.
//!
//! A role that may write some columns and not others stands for any failure between two statements of one call.

use std::time::Duration;

use semel_core::{
    Admission, Certainty, ClaimId, ErrorKind, Renewal, Renewed, Settled, StateKind, Step, Store,
    Window,
};
use semel_store_postgres::{Options, PostgresStore};
use tokio_postgres::Client;

use crate::lab::{Lab, completion, connect, gated, operation, report, request, state, take};

#[tokio::test]
async fn a_claim_that_cannot_be_taken_over_fails_beside_those_that_were_granted() {
    let part = Part::new("").await;
    let mut short = request("old", 1);
    short.lease = Duration::ZERO;
    take(&part.owner, &short).await;
    let batch = [
        request("new-1", 2),
        request("old", 2),
        request("new-2", 2),
        request("new-1", 3),
    ];
    let answers = part.store.claim(batch.into()).await.expect("answers");
    let [
        Admission::Granted(_),
        Admission::Failed(error),
        Admission::Granted(_),
        Admission::Busy { .. },
    ] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::InvalidConfig, Certainty::NotApplied),
        "{error:?}"
    );
    assert_eq!(state(&part.owner, "new-1").await, Some(StateKind::Claimed));
    assert_eq!(state(&part.owner, "new-2").await, Some(StateKind::Claimed));
    // Where all of a call failed, it is the call that failed.
    let whole = part.store.claim([request("old", 2)].into()).await;
    assert_eq!(
        whole.expect_err("no right").kind(),
        ErrorKind::InvalidConfig
    );
    part.end().await;
}

#[tokio::test]
async fn a_settlement_that_cannot_be_written_fails_beside_those_that_were() {
    let part = Part::new(COMPLETING).await;
    for key in ["done", "released"] {
        take(&part.owner, &request(key, 1)).await;
    }
    take(&part.owner, &gated("gated", 1, "cart", 1)).await;
    let released = Step::Release {
        error: "503".into(),
        certainty: Certainty::NotApplied,
        after: Duration::ZERO,
        counted: true,
        limits: semel_core::AttemptLimits::default(),
        window: Window::DEFAULT,
    };
    let batch = [
        report("released", 1, released),
        completion("done", 1, b"paid"),
        completion("nobody's", 1, b"paid"),
    ];
    let answers = part.store.settle(batch.into()).await.expect("answers");
    assert!(
        matches!(
            &answers[..],
            [
                Settled::Failed(_),
                Settled::Now(StateKind::Completed),
                Settled::Fenced { found: None }
            ]
        ),
        "{answers:?}"
    );
    assert_eq!(state(&part.owner, "done").await, Some(StateKind::Completed));
    assert_eq!(
        state(&part.owner, "released").await,
        Some(StateKind::Claimed)
    );
    part.end().await;
}

#[tokio::test]
async fn gated_items_that_cannot_be_written_fail_beside_the_others() {
    let part = Part::new(COMPLETING).await;
    take(&part.owner, &request("plain", 1)).await;
    take(&part.owner, &gated("gated", 1, "cart", 1)).await;
    let renewal = |key: &str| Renewal {
        operation: operation(key),
        claim_id: ClaimId::from_u128(1),
        lease: Duration::from_secs(60),
    };
    // The gated items of a batch are decided with the rest of it that is still open.
    let answers = part
        .store
        .renew([renewal("plain"), renewal("gated")].into())
        .await;
    let answers = answers.expect("answers");
    assert!(
        matches!(&answers[..], [Renewed::Until(_), Renewed::Failed(_)]),
        "{answers:?}"
    );
    let batch = [
        completion("plain", 1, b"paid"),
        completion("gated", 1, b"paid"),
    ];
    let answers = part.store.settle(batch.into()).await.expect("answers");
    assert!(
        matches!(
            &answers[..],
            [Settled::Now(StateKind::Completed), Settled::Failed(_)]
        ),
        "{answers:?}"
    );
    assert_eq!(
        state(&part.owner, "plain").await,
        Some(StateKind::Completed)
    );
    assert_eq!(state(&part.owner, "gated").await, Some(StateKind::Claimed));
    let whole = part
        .store
        .settle([completion("gated", 1, b"paid")].into())
        .await;
    assert_eq!(
        whole.expect_err("no right").kind(),
        ErrorKind::InvalidConfig
    );
    part.end().await;
}

/// A store whose role may insert records, read everything, and update only some columns.
struct Part {
    owner: PostgresStore,
    store: PostgresStore,
    role: String,
    user: Client,
    _lab: Lab,
}

impl Part {
    async fn new(columns: &str) -> Self {
        let lab = Lab::new();
        let owner = lab.store().await;
        take(&owner, &request("first", 1)).await;
        let user = lab.client().await;
        let schema = lab.schema();
        let role = format!("{schema}_part");
        let updates = match columns {
            "" => String::new(),
            columns => format!("GRANT UPDATE ({columns}) ON {schema}.records TO {role};"),
        };
        user.batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}; \
             GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}; \
             GRANT INSERT ON {schema}.records, {schema}.scopes TO {role}; {updates} \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
        ))
        .await
        .expect("a role");
        let url = lab.site.url().replace("semel@", &format!("{role}@"));
        Self {
            owner,
            store: connect(&url, Options::default()).await,
            role,
            user,
            _lab: lab,
        }
    }
}

impl Part {
    /// Removes the role.
    async fn end(self) {
        drop(self.store);
        let role = self.role;
        let dropped = format!("DROP OWNED BY {role}; DROP ROLE {role}");
        self.user.batch_execute(&dropped).await.expect("no role");
    }
}

/// Columns that `complete.sql` and `renew.sql` write.
const COMPLETING: &str =
    "state, at, kept, margin, recovery, due, codec, outcome, error, doubt, revision";
