//! The inboxes over sqlx: effect and record in a transaction of a user's own pool.

mod laws;
mod mysql;
mod postgres;
mod sqlite;

use semel::{
    Admission, Advice, Certainty, Claim, ClaimId, ClaimRequest, Error, ErrorKind, Key, Operation,
    Scope, Settled, StateKind, Store,
};

fn request(key: &str, claim_id: u128) -> ClaimRequest {
    let Operation { scope, key } = operation(key);
    ClaimRequest::new(scope, key, ClaimId::from_u128(claim_id))
}

fn operation(key: &str) -> Operation {
    let scope = Scope::new("", "payments").expect("a scope");
    Operation::new(scope, Key::parse(key).expect("a key"))
}

fn granted(admission: Admission) -> Claim {
    match admission {
        Admission::Granted(claim) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

fn is_complete(settled: &Settled) -> bool {
    matches!(settled, Settled::Now(StateKind::Completed))
}

async fn state(store: &impl Store, key: &str) -> Option<StateKind> {
    let found = store.get([operation(key)].into()).await.expect("an answer");
    found[0].as_ref().map(|record| record.state.kind())
}

/// Checks that others were in the way: nothing was applied, and the whole transaction may be begun
/// again.
fn overtaken(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Throttled, "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
}
